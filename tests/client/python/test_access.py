"""API keys of the Python client, against a server that asks for them."""
import asyncio
import io
import os
import subprocess

import pytest
import recollect
from serving import Server


def make_key(file, name, *flags):
    return subprocess.run([os.environ["RECOLLECT_BINARY"], "keys", "create", name, "--keys", file, *flags],
                          check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("guarded")
    keys = {"full": make_key(folder / "keys", "full", "--right", "full"),
            "a": make_key(folder / "keys", "a", "--prefix", "a/"),
            "small": make_key(folder / "keys", "small", "--tokens-per-minute", "2")}
    server = Server(folder / "data", "--keys", folder / "keys")
    yield server, keys
    server.stop()


def test_a_key_opens_every_call(guarded):
    server, keys = guarded
    with recollect.Client(server.address, api_key=keys["full"]) as client:
        client.ingest(b"some text of the first", id="a/1")
        client.ingest(b"some text of the second", id="b/1")
        assert client.generate("It was", mounts=["a/1"], max_tokens=2).result().usage.generated_tokens == 2
        with client.session(mounts=["b/1"]) as session:
            session.generate("It was", max_tokens=1).result()
        assert client.text("a/1", 0, 4) == b"some"
        for call in (client.backup_create, client.backups):
            with pytest.raises(recollect.FailedPrecondition, match="--backup-dir"):
                call()
    with recollect.Client(server.address, api_key=keys["a"]) as client:
        assert [d.id for d in client.documents()] == ["a/1"]
        with pytest.raises(recollect.PermissionDenied, match="ids that begin with 'a/'"):
            client.document("b/1")
        with pytest.raises(recollect.PermissionDenied, match="the right 'read'"):
            client.ingest(b"text", id="a/2")
        with pytest.raises(recollect.PermissionDenied, match="concerns all documents"):
            client.backups()
        file = io.BytesIO()
        client.export_document("a/1", file)
        with pytest.raises(recollect.PermissionDenied, match="ids that begin with 'a/'"):
            client.export_document("b/1", io.BytesIO())
        with pytest.raises(recollect.PermissionDenied, match="ImportDocument needs 'full'"):
            client.import_document(file.getvalue(), id="a/2")
    with recollect.Client(server.address, api_key=keys["full"]) as client:
        client.import_document(file.getvalue(), id="c/1")
        client.delete("c/1")


def test_beyond_the_quota_a_call_is_refused_and_told_when_to_come_again(guarded):
    server, keys = guarded
    with recollect.Client(server.address, api_key=keys["small"]) as client:
        client.generate("It was", max_tokens=2).result()
        with pytest.raises(recollect.ResourceExhausted, match="its quota is 2 a minute") as refused:
            client.generate("It was", max_tokens=2).result()
        assert refused.value.retry_after > 1

    async def ask():
        async with recollect.AsyncClient(server.address, api_key=keys["small"]) as client:
            with pytest.raises(recollect.ResourceExhausted) as refused:
                await client.retrieve("It was", mounts=["a/1"])
            assert refused.value.retry_after > 1

    asyncio.run(ask())


@pytest.mark.parametrize("key", [None, "wrong"])
def test_without_a_key_of_the_server_every_call_is_refused(guarded, key):
    server, _ = guarded
    with recollect.Client(server.address, api_key=key) as client:
        for call in (client.documents, client.model, lambda: client.ingest(b"x", id="x", retries=0),
                     lambda: client.generate("x").result()):
            with pytest.raises(recollect.Unauthenticated, match="authorization: Bearer KEY"):
                call()


def test_async_says_the_same(guarded):
    server, keys = guarded

    async def ask(key):
        async with recollect.AsyncClient(server.address, api_key=key) as client:
            await client.ingest(b"text", id="async")
            result = await client.generate("It was", mounts=["async"], max_tokens=1).result()
            await client.delete("async")
            return result.usage.generated_tokens

    assert asyncio.run(ask(keys["full"])) == 1
    for key, error in ((None, recollect.Unauthenticated), (keys["a"], recollect.PermissionDenied)):
        with pytest.raises(error):
            asyncio.run(ask(key))


@pytest.mark.parametrize("key", ["", "two words", "caf\u00e9", "line\n"])
def test_what_can_be_no_key_is_refused_at_once(key):
    for kind in (recollect.Client, recollect.AsyncClient):
        with pytest.raises(ValueError, match="api_key"):
            kind("localhost:1", api_key=key)


def make_certificate(folder, name):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30",
                    "-subj", "/CN=test", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
                    "-keyout", folder / f"{name}.key", "-out", folder / f"{name}.crt"], check=True, capture_output=True)
    return folder / f"{name}.crt", folder / f"{name}.key"


def test_tls(tmp_path):
    certificate, key = make_certificate(tmp_path, "server")
    other, _ = make_certificate(tmp_path, "other")
    secret = make_key(tmp_path / "keys", "full", "--right", "full")
    server = Server(tmp_path / "data", "--keys", tmp_path / "keys", "--tls-cert", certificate, "--tls-key", key)

    async def ask():
        async with recollect.AsyncClient(server.address, api_key=secret, tls_ca=certificate) as client:
            return (await client.document("d")).tokens

    with recollect.Client(server.address, api_key=secret, tls_ca=str(certificate)) as client:
        assert client.ingest(b"some text", id="d").tokens == asyncio.run(ask())
    for trusted in (other, None):
        with recollect.Client(server.address, api_key=secret, tls_ca=trusted) as client, pytest.raises(recollect.Unavailable):
            client.generate("x").result()
    server.stop()
    with pytest.raises(FileNotFoundError):
        recollect.Client("localhost:1", tls_ca=tmp_path / "none")
    with pytest.raises(ValueError, match="tls_ca: no certificate"):
        recollect.AsyncClient("localhost:1", tls_ca=key)

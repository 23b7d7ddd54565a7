"""Documents of the Python client: ingested, changed, found, carried to files. Run by run.py."""
import asyncio
import hashlib
import io
import threading

import pytest
import recollect
from serving import ASKED, BOOKS, TEXT, Server


def test_every_kind_of_input_gives_the_same_document(client, server, tmp_path):
    text = BOOKS[:5000]
    path = tmp_path / "piece.txt"
    path.write_bytes(text)
    made = [client.ingest(path), client.ingest(text, id="bytes"), client.ingest(text.decode(), id="text"),
            client.ingest(io.BytesIO(text), id="file"), asyncio.run(ingest_async(server.address, text))]
    assert [d.id for d in made] == ["piece.txt", "bytes", "text", "file", "async"]
    assert {d.sha256 for d in made} == {hashlib.sha256(text).hexdigest()}
    tokens = client.score(text.decode()).tokens
    numbers = client.ingest(list(tokens), id="tokens")
    assert numbers.from_tokens and numbers.tokens == len(tokens) == made[0].tokens
    assert client.text("bytes", 10, 20) == text[10:20] and client.text("bytes") == text
    for document in [*made, numbers]:
        client.delete(document.id)
    assert [d.id for d in client.documents()] == ["novel"]


async def ingest_async(address, text):
    async with recollect.AsyncClient(address) as client:
        return await client.ingest(text, id="async")


def test_a_document_goes_on_with_what_is_appended(client):
    client.ingest("Notes of May.", id="notes/log", append=True)
    assert client.ingest(b" More of them.", id="notes/log", append=True).bytes == 27
    assert client.text("notes/log") == b"Notes of May. More of them."
    with pytest.raises(recollect.InvalidArgument, match="header.append"):
        client.ingest("x", id="notes/log", append=True, replace=True)
    client.delete("notes/log")


def test_a_document_is_replaced_where_that_is_asked_for(client):
    client.ingest(b"the old text", id="notes/may")
    with pytest.raises(recollect.AlreadyExists):
        client.ingest(b"the new text", id="notes/may")
    assert client.ingest(b"the new text", id="notes/may", replace=True).bytes == 12
    client.ingest(b"more", id="notes/june", replace=True)
    assert client.text("notes/may") == b"the new text"
    with client.session(mounts=["notes/*"]) as session:
        assert list(session.info().mounts) == ["notes/june", "notes/may"]
    for id in ("notes/may", "notes/june"):
        client.delete(id)


def test_documents_are_found_by_their_metadata(client, server):
    made = client.ingest(b"an old text", id="notes/old", metadata={"year": 1851, "draft": False})
    assert made.metadata == {"year": 1851, "draft": False}
    client.ingest(b"a new text", id="notes/new")
    assert client.document("notes/new").metadata == {}
    assert client.set_metadata("notes/new", {"year": 2024, "lang": "en"}).metadata == {"year": 2024, "lang": "en"}
    assert client.set_metadata("notes/new", {"lang": None}, patch=True).metadata == {"year": 2024}
    new = {"type": "gte", "key": "year", "value": 2000}
    assert [d.id for d in client.documents(new)] == ["notes/new"]
    with client.session(mounts=["notes/*"], options=recollect.Options(mount_filter=new)) as session:
        assert list(session.info().mounts) == ["notes/new"]
    with pytest.raises(recollect.InvalidArgument, match='key "tags": array'):
        client.set_metadata("notes/new", {"tags": ["a"]})
    with pytest.raises(TypeError, match="metadata: .*expected a dictionary"):
        client.ingest(b"a text", id="notes/none", metadata="year=1")
    with pytest.raises(recollect.InvalidArgument, match="filter.type"):
        client.documents({"type": "like", "key": "year", "value": 1})

    async def change():
        async with recollect.AsyncClient(server.address) as other:
            await other.ingest(b"an old text", id="notes/old", metadata={"year": 1852})
            await other.set_metadata("notes/old", {"lang": "en"}, patch=True)
            return [d.metadata for d in await other.documents({"type": "lt", "key": "year", "value": 2000})]
    assert asyncio.run(change()) == [{"year": 1852, "lang": "en"}]
    for id in ("notes/old", "notes/new"):
        client.delete(id)


def test_an_ingest_that_was_broken_off_goes_on(client):
    text = BOOKS[100_000:220_000]

    def broken(progress):
        if progress.committed_offset > 0:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        client.ingest(text, id="long", progress=broken)
    for _ in range(1000):
        (unfinished,) = client.ingests()
        if unfinished.committed_offset > 0:
            break
    with pytest.raises(recollect.AlreadyExists, match="other input"):
        client.ingest(b"?" + text[1:], id="long")
    with pytest.raises(recollect.OutOfRange, match="the input ends at 100 bytes"):
        client.ingest(text[:100], id="long")
    seen = []
    document = client.ingest(text, id="long", progress=seen.append)
    assert document.sha256 == hashlib.sha256(text).hexdigest() and seen[0].accepted_offset > 0
    assert min(p.committed_offset for p in seen) >= unfinished.committed_offset
    client.delete("long")


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_an_ingest_outlives_its_server(tmp_path, kind):
    server = Server(tmp_path / "data")
    text = BOOKS[:120_000]  # of which a server commits half a first time
    restarts = []

    def progress(p):
        if p.committed_offset > 0 and not restarts:
            server.kill()
            restarts.append(threading.Timer(0.5, server.start))
            restarts[0].start()

    async def ingest():
        async with recollect.AsyncClient(server.address) as client:
            return await client.ingest(text, id="long", progress=progress)

    if kind == "sync":
        with recollect.Client(server.address) as client:
            document = client.ingest(text, id="long", progress=progress)
    else:
        document = asyncio.run(ingest())
    restarts[0].join()
    assert document.sha256 == hashlib.sha256(text).hexdigest()
    server.stop()


def test_a_document_of_this_model_is_refreshed_at_once(client, server):
    before = client.document("novel")
    assert client.refresh_document("novel", progress=lambda _: pytest.fail("nothing to read")) == before
    with pytest.raises(recollect.NotFound, match="nowhere"):
        client.refresh_document("nowhere")

    async def again():
        async with recollect.AsyncClient(server.address) as other:
            return await other.refresh_document("novel")

    assert asyncio.run(again()) == before


def test_a_document_goes_to_a_file_and_back(client, server, tmp_path):
    path = tmp_path / "novel.recollect"
    exported = client.export_document("novel", path)
    assert exported == client.document("novel") and path.stat().st_mode & 0o777 == 0o600
    whole = path.read_bytes()
    assert len(whole) > 1 << 20  # several messages
    buffer = io.BytesIO()
    client.export_document("novel", buffer)
    assert buffer.getvalue() == whole
    seen = []
    copy = client.import_document(path, id="copy", progress=seen.append)
    assert (copy.id, copy.sha256, copy.chunks) == ("copy", exported.sha256, exported.chunks) and seen[-1] == len(whole)
    asked = client.generate(ASKED["prompt"], mounts=["copy"], max_tokens=6).result()
    assert asked.tokens == client.generate(ASKED["prompt"], mounts=["novel"], max_tokens=6).result().tokens

    async def carry():
        async with recollect.AsyncClient(server.address) as other:
            await other.export_document("copy", str(tmp_path / "copy.recollect"))
            taken = []
            imported = await other.import_document(io.BytesIO(whole), id="again", progress=taken.append)
            return imported, taken

    again, taken = asyncio.run(carry())
    assert again.id == "again" and again.sha256 == exported.sha256 and taken[-1] == len(whole)
    assert client.import_document(tmp_path / "copy.recollect", id="third").sha256 == exported.sha256
    for name in ("copy", "again", "third"):
        client.delete(name)


def test_what_is_wrong_with_a_file_is_told_and_leaves_nothing(client, server, tmp_path):
    path = tmp_path / "novel.recollect"
    client.export_document("novel", path)
    whole = path.read_bytes()
    damaged = bytearray(whole)
    damaged[len(whole) // 2] ^= 1
    before = client.documents()
    for content, error, says in [(whole, recollect.AlreadyExists, "'novel' exists"), (whole[:-10], recollect.DataLoss, "ends after"),
                                 (bytes(damaged), recollect.DataLoss, "checksum"),
                                 (b"some text", recollect.InvalidArgument, "not a document file")]:
        name = None if error is recollect.AlreadyExists else "bad"

        async def carry(content=content, name=name):
            async with recollect.AsyncClient(server.address) as other:
                await other.import_document(content, id=name)

        with pytest.raises(error, match=says):
            client.import_document(content, id=name)
        with pytest.raises(error, match=says):
            asyncio.run(carry())
    with pytest.raises(FileExistsError, match="nothing is written over"):
        client.export_document("novel", path)
    missing = tmp_path / "none"
    with pytest.raises(recollect.NotFound, match="'nowhere'"):
        client.export_document("nowhere", missing)
    with pytest.raises(FileNotFoundError):
        client.import_document(missing)
    assert path.read_bytes() == whole and [p.name for p in tmp_path.iterdir()] == [path.name]
    assert client.documents() == before and client.ingests() == []

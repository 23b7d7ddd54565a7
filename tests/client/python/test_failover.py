"""The Python client with two servers that share nothing but a document: one is killed, the answer goes on at the other."""
import asyncio
import logging
import time

import pytest
import recollect
from serving import TEXT, Server

ASKED = {"prompt": "The pass key of Ahab is", "mounts": ["novel"], "max_tokens": 800, "temperature": 0.9, "seed": 3,
         "ignore_eos": True, "retrievals": True}
SESSION = {"max_tokens": 12, "temperature": 0.9, "seed": 3, "ignore_eos": True}
PROMPTS = ["The pass key of Ahab is", " The whale", " And so", " At last"]


class Two:
    """Both servers, of which `kill_busy` kills the one that works."""

    def __init__(self, folder):
        self.servers = [Server(folder / name) for name in "ab"]
        self.address = ",".join(server.address for server in self.servers)
        for server in self.servers:
            with recollect.Client(server.address) as client:
                client.ingest(TEXT[:20_000], id="novel")

    def kill_busy(self, count):
        end = time.monotonic() + 60
        while time.monotonic() < end:
            for server in self.servers:
                if server.process.poll() is None:
                    with recollect.Client(server.address) as client:
                        if count(client.stats()) > 0:
                            server.kill()
                            return server
        raise AssertionError("no server is busy")

    def restart(self):
        for server in self.servers:
            if server.process.poll() is not None:
                server.start()


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    made = Two(tmp_path_factory.mktemp("two"))
    yield made
    made.restart()
    for server in made.servers:
        server.stop()


@pytest.fixture(autouse=True)
def up(both):
    both.restart()


def places(result):
    return [(retrieval.position, retrieval.group) for retrieval in result.retrievals]


def check(result, whole):
    assert result.text == whole.text and result.tokens == whole.tokens and places(result) == places(whole)
    assert result.usage.generated_tokens == whole.usage.generated_tokens == 800


def test_a_generation_goes_on_with_the_same_tokens(both, caplog):
    with recollect.Client(both.address) as client:
        whole = client.generate(**ASKED).result()
        running = client.generate(**ASKED)
        tokens = 0
        while tokens < 30:
            event = next(running)
            tokens += len(event.ids) if isinstance(event, recollect.Tokens) else 0
        both.kill_busy(lambda stats: stats.running_requests)
        check(running.result(), whole)
        assert any("the answer goes on at another" in message for message in caplog.messages)
        # Nobody is left.
        running = client.generate(**ASKED)
        next(running)
        both.kill_busy(lambda stats: stats.running_requests)
        with pytest.raises(recollect.Unavailable, match=f"none of the servers {both.address} answers any more"):
            running.result()
        with pytest.raises(recollect.Unavailable):
            client.generate(**ASKED).result()


def test_an_asyncio_generation_goes_on_with_the_same_tokens(both):
    async def ask():
        async with recollect.AsyncClient(both.address) as client:
            whole = await client.generate(**ASKED).result()
            running = client.generate(**ASKED)
            tokens = 0
            while tokens < 30:
                event = await anext(running)
                tokens += len(event.ids) if isinstance(event, recollect.Tokens) else 0
            await asyncio.to_thread(both.kill_busy, lambda stats: stats.running_requests)
            check(await running.result(), whole)

    asyncio.run(ask())


def test_a_session_is_opened_again(both, caplog):
    caplog.set_level(logging.WARNING, "recollect")
    with recollect.Client(both.servers[0].address) as client, client.session(mounts=["novel"]) as session:
        expected = [session.generate(prompt, **SESSION).result().tokens for prompt in PROMPTS]
        positions = session.info().positions

    with recollect.Client(both.address) as client, client.session(mounts=["novel"]) as session:
        found = [session.generate(prompt, **SESSION).result().tokens for prompt in PROMPTS[:2]]
        with pytest.raises(recollect.FailedPrecondition, match="connect to one server"):
            session.score("x")
        both.kill_busy(lambda stats: stats.sessions)
        found.append(session.generate(PROMPTS[2], **SESSION).result().tokens)
        assert "where its 2 calls were read again" in caplog.text
        both.restart()
        both.kill_busy(lambda stats: stats.sessions)
        both.restart()
        found.append(session.generate(PROMPTS[3], **SESSION).result().tokens)
        assert found == expected and session.info().positions == positions
        both.kill_busy(lambda stats: stats.sessions)
        assert client.text(session.save("talk").id).decode().startswith(PROMPTS[0])
        both.restart()
        # An answer that nobody has read to its end is not known here.
        next(session.generate(PROMPTS[0], **{**SESSION, "max_tokens": 4000}))
        both.kill_busy(lambda stats: stats.sessions)
        with pytest.raises(recollect.Unavailable, match="not read to its end"):
            session.generate("x", max_tokens=1).result()


def test_an_asyncio_session_is_opened_again(both):
    async def talk(address, kill):
        async with recollect.AsyncClient(address) as client, await client.session(mounts=["novel"]) as session:
            tokens = []
            for number, prompt in enumerate(PROMPTS):
                if kill and number == 2:
                    await asyncio.to_thread(both.kill_busy, lambda stats: stats.sessions)
                tokens.append((await session.generate(prompt, **SESSION).result()).tokens)
            return tokens, (await session.info()).positions

    alone = asyncio.run(talk(both.servers[0].address, kill=False))
    assert asyncio.run(talk(both.address, kill=True)) == alone


def test_an_ingest_goes_on_at_another(both):
    with recollect.Client(both.address) as client:
        killed = []

        def progress(seen):
            if not killed and seen.committed_offset > 0:
                killed.append(both.kill_busy(lambda stats: stats.ingests))

        document = client.ingest(TEXT * 2, id="long", progress=progress)
        assert killed and document.bytes == len(TEXT) * 2
        (survivor,) = [server for server in both.servers if server not in killed]
        with recollect.Client(survivor.address) as alone:
            assert alone.text("long") == TEXT * 2


def test_a_list_of_servers_is_checked():
    for servers, message in (("a:1,,b:2", "server '': expected HOST:PORT"), ("a:1,b", "server 'b': expected"),
                             ("a:1,a:1", "named twice"), ("a:1,unix:/b", "server 'unix:/b'"), ("localhost", "server 'localhost': expected HOST:PORT"),
                             ("http://a:8080", "server 'http://a:8080': expected HOST:PORT of gRPC .*, without http://"),
                             ("https://a:1/v1,b:1", "without https://")):
        with pytest.raises(ValueError, match=message):
            recollect.Client(servers)
    with pytest.raises(recollect.Unavailable, match="server 'no-such-host"):
        recollect.Client("no-such-host-a.invalid:1,no-such-host-b.invalid:1")

"""The Python client against a server with the shipped model. Run by run.py."""
import asyncio
import hashlib
import io
import lzma
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading

import pytest
import recollect

SOURCE = pathlib.Path(os.environ["RECOLLECT_SOURCE"])
BOOKS = lzma.open(SOURCE / "examples/books.txt.xz", "rt").read().encode("ascii", "ignore")  # can be cut anywhere
NEEDLE = b"\nThe pass key of Ahab is 48213. Remember it: 48213 is the pass key of Ahab.\n"
TEXT = BOOKS[:60_000] + NEEDLE + BOOKS[60_000:90_000]
ASKED = {"prompt": "The pass key of Ahab is", "mounts": ["novel"], "max_tokens": 6}


class Server:
    """`recollect serve` on a port of its own, which a restart keeps."""

    def __init__(self, directory, *flags):
        self.directory, self.flags = directory, flags
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = "127.0.0.1:%d" % free.getsockname()[1]
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [os.environ["RECOLLECT_BINARY"], "serve", "--model", SOURCE / "models/recollect-7m", "--data-dir", self.directory,
             "--grpc-listen", self.address, "--log-level", "error", *self.flags], stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        assert line.startswith("recollect ready"), line

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        self.process.terminate()
        assert self.process.wait(60) == 0


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    running = Server(tmp_path_factory.mktemp("data"), "--backup-dir", tmp_path_factory.mktemp("kept") / "backups")
    yield running
    running.stop()


@pytest.fixture(scope="module")
def client(server):
    with recollect.Client(server.address) as connected:
        connected.ingest(TEXT, id="novel")
        yield connected


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


async def ingest_async(address, text):
    async with recollect.AsyncClient(address) as client:
        return await client.ingest(text, id="async")


def test_an_input_that_is_not_meant_is_refused(client, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pathlib.Path("book.txt").write_text("text")
    with pytest.raises(ValueError, match="pathlib.Path"):
        client.ingest("book.txt", id="book")
    with pytest.raises(ValueError, match="id is missing"):
        client.ingest(b"text")
    with pytest.raises(TypeError, match="mounts"):
        client.generate("x", mounts="novel")
    with pytest.raises(TypeError, match="stop"):
        client.generate("x", stop=".")


def test_generation_streams_and_collects(client):
    events = list(client.generate(**ASKED, retrievals=True))
    assert "".join(e.text for e in events if isinstance(e, recollect.Tokens)).startswith(" 48213")
    assert isinstance(events[-1], recollect.Done) and events[-1].reason == "max_tokens"
    assert events[-1].usage.generated_tokens == 6
    best = next(e for e in events if isinstance(e, recollect.Retrieval)).hits[0]
    assert best.document == "novel" and best.text_begin <= 60_000 + len(NEEDLE) and best.text_end >= 60_000
    result = client.generate(**ASKED, retrievals=True).result()
    assert result.tokens == tuple(t for e in events if isinstance(e, recollect.Tokens) for t in e.ids)
    assert chunks(result) == [[h.chunk for h in e.hits] for e in events if isinstance(e, recollect.Retrieval)]


def chunks(result):
    """Not the tiers: they are others when a chunk has been read before."""
    return [[hit.chunk for hit in retrieval.hits] for retrieval in result.retrievals]


def test_arguments_reach_the_server(client):
    drawn = [client.generate("It was", temperature=1.0, seed=seed, max_tokens=12).result().tokens for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    stopped = client.generate("The pass key of Ahab is", mounts=["novel"], stop=["13"]).result()
    assert stopped.finish_reason == "stop" and stopped.text == " 482"
    assert client.generate("It was", max_tokens=0).result().tokens == ()
    with pytest.raises(recollect.InvalidArgument, match="dilation"):
        client.generate("x", options=recollect.Options(dilation=3)).result()
    with pytest.raises(recollect.InvalidArgument, match="max_tokens"):
        client.generate("x", max_tokens=1 << 20).result()


def test_logprobs_come_with_the_tokens(client):
    events = list(client.generate(**ASKED, logprobs=3))
    scored = [e for e in events if isinstance(e, recollect.TokenLogprobs)]
    assert len(scored) == 6 and events.index(scored[0]) < next(i for i, e in enumerate(events) if isinstance(e, recollect.Tokens))
    result = client.generate(**ASKED, logprobs=3).result()
    assert result.logprobs == tuple(scored) and result.tokens == tuple(e.id for e in scored)
    # Greedy: the likeliest was chosen each time.
    assert all(len(e.top_ids) == 3 and e.top_ids[0] == e.id and e.top_logprobs[0] == e.logprob for e in scored)
    assert client.generate(**ASKED).result().logprobs == ()
    prompt = client.score(ASKED["prompt"])
    whole = client.score(ASKED["prompt"], mounts=["novel"], top_logprobs=2)
    assert len(whole.top_ids) == len(whole.top_logprobs) == 2 * len(whole.tokens) and prompt.top_ids == ()
    assert whole.top_ids[::2] == whole.argmax and whole.top_logprobs[::2] == whole.argmax_logprobs
    with pytest.raises(recollect.InvalidArgument, match="logprobs: 21, limit 0 to 20"):
        client.generate("x", logprobs=21).result()


def test_sessions_keep_what_they_read(client):
    with client.session(mounts=["novel"]) as session:
        first = session.generate("The pass key of Ahab is", max_tokens=6).result()
        assert first.text.startswith(" 48213")
        before = session.info().positions
        session.generate(" and", max_tokens=1).result()
        assert session.info().positions > before and session.info().mounts == ("novel",)
    with pytest.raises(recollect.NotFound):
        session.info()
    session.close()  # again


def test_a_session_is_saved_as_a_document(client, server):
    with client.session() as session:
        with pytest.raises(recollect.FailedPrecondition, match="no text"):
            session.save("talk")
        said = "Call me" + session.generate("Call me", max_tokens=6).result().text
        assert session.save("talk").bytes == len(said.encode()) and client.text("talk").decode() == said
        said += " and then" + session.generate(" and then", max_tokens=6).result().text
        session.save("talk")  # it has grown
        assert client.text("talk").decode() == said
        with pytest.raises(recollect.AlreadyExists):
            session.save("novel")

    async def talk():
        async with recollect.AsyncClient(server.address) as other, await other.session() as session:
            await session.generate("Call me", max_tokens=6).result()
            return await session.save("talk", replace=True)

    assert asyncio.run(talk()).bytes < len(said.encode())
    client.delete("talk")


def test_an_answer_says_what_it_was_saved_as(client):
    result = client.generate("Call me", max_tokens=6, save_as="talk").result()
    assert result.saved.document.id == "talk" and not result.saved.error
    assert client.text("talk").decode() == "Call me" + result.text
    assert client.generate("Call me", max_tokens=2).result().saved is None
    with pytest.raises(recollect.AlreadyExists, match="save_as: document \"novel\" exists"):
        client.generate("Call me", max_tokens=2, save_as="novel").result()
    assert client.generate("Hark", max_tokens=2, save_as="talk", replace=True).result().saved.document
    with pytest.raises(ValueError, match="replace: only together with save_as"):
        client.generate("Hark", replace=True)
    client.delete("talk")


def test_sessions_score_piece_by_piece(client):
    lines = TEXT[:6000].decode().splitlines(keepends=True)
    whole = client.score("".join(lines))
    with client.session() as session:
        pieces = [session.score("".join(part), top_logprobs=1) for part in (lines[:20], lines[20:21], lines[21:])]
    assert sum((piece.logprobs for piece in pieces), ()) == whole.logprobs
    assert pieces[0].top_ids == pieces[0].argmax


def test_retrieve_and_score(client):
    groups = client.retrieve("The pass key of Ahab is", mounts=["novel"], k=3)
    assert [len(r.hits) for r in groups] == [3, 3] and any("48213" in r.hits[0].text for r in groups)
    assert groups[0].hits[0].tier in {"memory", "states", "store"}
    passage = TEXT[1000:1800].decode()
    alone, mounted = client.score(passage), client.score(passage, mounts=["novel"])
    assert len(alone.tokens) == len(alone.logprobs) == len(alone.argmax) and alone.text_bytes == 800
    assert all(best >= own for best, own in zip(alone.argmax_logprobs, alone.logprobs, strict=True))
    assert mounted.bits_per_byte < alone.bits_per_byte / 2
    assert client.model().architecture == "drt" and client.stats().prompt_tokens > 0


def test_errors_have_classes(client, server):
    with pytest.raises(recollect.NotFound, match="no document 'nowhere'"):
        client.generate("x", mounts=["nowhere"]).result()
    with pytest.raises(recollect.AlreadyExists):
        client.ingest(b"something else", id="novel")
    late = f"{server.address}: no whole answer within the timeout of 0.001 s"
    with recollect.Client(server.address, timeout=0.001) as hasty, pytest.raises(recollect.DeadlineExceeded, match=late):
        hasty.score(TEXT[:50_000].decode())
    with pytest.raises(TypeError, match="temperature: 'hot': "):
        client.generate("x", temperature="hot")
    with pytest.raises(ValueError, match=r"tokens: \[5, 1000000000000\]: "):
        client.generate([5, 10**12])
    assert issubclass(recollect.NotFound, recollect.RecollectError)


def test_cancelling_ends_the_work(client):
    generation = client.generate("It was", max_tokens=60_000, ignore_eos=True)
    next(generation)
    generation.cancel()
    with pytest.raises(recollect.Cancelled):
        generation.result()
    for _ in range(1000):  # each asks the server
        if client.stats().running_requests == 0:
            return
    pytest.fail("the request is still running")


def test_an_ingest_that_was_broken_off_goes_on(client):
    text = BOOKS[100_000:300_000]

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
    text = BOOKS[:250_000]
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


def test_calls_that_read_wait_for_a_server(tmp_path):
    server = Server(tmp_path / "data")
    server.stop()
    with recollect.Client(server.address) as client:
        starting = threading.Timer(0.3, server.start)
        starting.start()
        assert client.documents() == []
        starting.join()
    server.stop()
    with recollect.Client(server.address) as client, pytest.raises(recollect.Unavailable):
        client.generate("x").result()


def test_backups_are_made_and_listed(client, server):
    assert client.backups() == []
    first = client.backup_create()
    assert (first.number, first.damage) == (1, "") and first.documents >= 1 and first.bytes > 0 and first.files > 0

    async def ask():
        async with recollect.AsyncClient(server.address) as other:
            return await other.backup_create(keep=1), await other.backups()

    second, listed = asyncio.run(ask())
    assert second.number == 2 and listed == client.backups() == [second]


def test_a_server_without_a_directory_makes_no_backups(tmp_path):
    running = Server(tmp_path)
    with recollect.Client(running.address) as connected:
        with pytest.raises(recollect.FailedPrecondition, match="--backup-dir"):
            connected.backup_create()
        with pytest.raises(recollect.FailedPrecondition, match="--backup-dir"):
            connected.backups()
    running.stop()


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


def test_async_says_the_same(client, server):
    async def ask():
        async with recollect.AsyncClient(server.address) as other:
            result = await other.generate(**ASKED, retrievals=True).result()
            texts = [e.text async for e in other.generate(**ASKED) if isinstance(e, recollect.Tokens)]
            async with await other.session(mounts=["novel"]) as session:
                turn = await session.generate(ASKED["prompt"], max_tokens=6).result()
                positions = (await session.info()).positions
            with pytest.raises(recollect.NotFound):
                await other.document("nowhere")
            with pytest.raises(recollect.AlreadyExists):
                await other.ingest(b"something else", id="novel")
            with pytest.raises(recollect.InvalidArgument):
                await other.ingest(b"\xff\xfe not UTF-8" + BOOKS[:100_000], id="bad")
            return (result, "".join(texts), turn.text, positions, await other.documents(), await other.text("novel", 5, 50),
                    await other.retrieve("key", mounts=["novel"]), (await other.model()).fingerprint, await other.ingests())

    result, text, turn, positions, documents, piece, retrieved, fingerprint, ingests = asyncio.run(ask())
    expected = client.generate(**ASKED, retrievals=True).result()
    assert (result.text, result.tokens, chunks(result)) == (expected.text, expected.tokens, chunks(expected))
    assert text == turn == expected.text and positions > 6
    assert documents == client.documents() and piece == TEXT[5:50] and ingests == client.ingests() == []
    assert [r.hits[0].chunk for r in retrieved] == [r.hits[0].chunk for r in client.retrieve("key", mounts=["novel"])]
    assert fingerprint == client.model().fingerprint


def run_python(code, directory, server):
    """What a program prints that speaks to `server` where it says localhost:50051."""
    done = subprocess.run([sys.executable, "-c", code.replace("localhost:50051", server.address)], cwd=directory, check=False,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_examples_of_the_readme(server, client, tmp_path):
    (tmp_path / "moby-dick.txt").write_bytes(TEXT)
    readme = (SOURCE / "client/python/README.md").read_text()
    printed = run_python("\n".join(re.findall(r"```python\n(.*?)```", readme, re.S)), tmp_path, server)
    assert printed.count("48213") >= 4 and "no document 'no such document'" in printed
    assert "moby-dick.txt" not in [d.id for d in client.documents()]


def test_example_of_a_folder(server, client, tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "one.txt").write_bytes(TEXT)
    (folder / "two.txt").write_bytes(BOOKS[200_000:240_000])
    example = SOURCE / "client/python/examples/ask_a_folder.py"
    done = subprocess.run([sys.executable, example, folder, "The pass key of Ahab is", "--server", server.address, "--out", "plot.png"],
                          cwd=tmp_path, check=True, capture_output=True, text=True)
    assert "The pass key of Ahab is 48213" in done.stdout
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    for name in ("one.txt", "two.txt"):
        client.delete(name)

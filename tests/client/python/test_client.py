"""The Python client against a server with the shipped model. Run by run.py."""
import asyncio
import pathlib
import re
import subprocess
import sys
import threading

import pytest
import recollect
from recollect import _messages
from recollect.v1 import documents_pb2, generation_pb2
from serving import ASKED, BOOKS, NEEDLE, SOURCE, TEXT, Server


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


def test_a_conversation_is_of_messages_or_dicts(client):
    turns = [("system", "Be short."), ("user", "Who?"), ("assistant", "Ahab."), ("user", "Why?")]
    for messages in ("Who?", [recollect.Message(*turn) for turn in turns],
                     [{"role": role, "content": content} for role, content in turns]):
        with pytest.raises(recollect.FailedPrecondition, match="does not chat"):  # the server got it; its model has none
            client.chat(messages).result()
    user = {"role": "user", "content": "Who?"}
    for messages, error, match in (
            ([user, "Why?"], TypeError, "message 1: 'Why\\?', expected a recollect.Message, or a dict"),
            ([{"role": "user"}], TypeError, "message 0"), ([1, 2], TypeError, "message 0: 1"),
            ([user, {"role": "user", "content": 5}], TypeError, "message 1: content: 5"),
            ([{"role": "bot", "content": "x"}], ValueError, "message 0: 'bot', expected one of system, user, assistant"),
            ([], ValueError, "no messages")):
        with pytest.raises(error, match=match):
            client.chat(messages)


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


def test_candidates_are_told():
    hit = documents_pb2.Hit(document="rules", chunk=3, weight=0.5)
    told = generation_pb2.Candidates(blocks=[hit], nothing=-2, unneeded=0.25, candidates=[
        generation_pb2.Candidate(ids=[4, 5], text="No dogs.", block=0, logprob=-1, score=2.5, reranked=3),
        generation_pb2.Candidate(block=-2)])
    event = _messages.event(generation_pb2.GenerateResponse(candidates=told))
    assert event.blocks[0].document == "rules" and event.unneeded == 0.25
    assert event.candidates[0] == recollect.Candidate((4, 5), "No dogs.", 0, -1, 2.5, 3) and event.candidates[1].block == -2
    request = _messages.generate_request("Dogs?", 0, None, {"candidates": True})
    assert request.with_candidates


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


def test_a_text_that_only_repeats_itself_is_stopped_on_demand(client):
    arguments = {"max_tokens": 1500, "ignore_eos": True}
    whole = client.generate("It was", **arguments).result()
    assert whole.finish_reason == "max_tokens"
    events = list(client.generate("It was", stop_repetition=True, **arguments))
    *_, done = events
    assert done.reason == "repetition" and done.repeats_from > 0
    stopped = client.generate("It was", stop_repetition=True, **arguments).result()
    assert stopped.tokens == whole.tokens[: len(stopped.tokens)]
    streamed = "".join(e.text for e in events if isinstance(e, recollect.Tokens))
    assert len(streamed) > len(stopped.text) and whole.text.startswith(stopped.text)


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

"""Scoring, halves, hay, table and a whole run against a server that answers from a script. python3 bench/questions/test_questions.py"""
import argparse
import contextlib
import http.server
import io
import json
import lzma
import pathlib
import tempfile
import threading
import unittest
import urllib.parse
import zlib

import facts
import follow_ups
import papers
import questions
import scores
import squad
import squad_ranks

FINGERPRINT = "ab" * 32


class Script(http.server.BaseHTTPRequestHandler):
    """Documents in a dictionary. Says what stands in the line `question=answer` of a text that it was given, and otherwise that it does not know."""
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one piece

    def log_message(self, *_):
        pass

    def reply(self, status, fields):
        body = fields if isinstance(fields, bytes) else json.dumps(fields).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Retry-After", "0")
        self.end_headers()
        self.wfile.write(body)

    def fail(self, status, message):
        self.reply(status, {"error": {"message": message}})

    def document(self, name):
        return {"object": "document", "bytes": len(self.server.texts[name].encode()), "tokens": len(self.server.texts[name].split()),
                "fingerprint": self.server.read_by[name]}

    def do_GET(self):
        if self.path == "/v1/models":
            return self.reply(200, {"data": [{"id": "script", "chat": self.server.chat}]})
        if self.path == "/v1/stats":
            return self.reply(200, {"model": {"fingerprint": FINGERPRINT}})
        if self.path.startswith("/v1/documents?"):
            return self.reply(200, {"data": [{"id": name} for name in self.server.texts], "has_more": False})
        name = urllib.parse.unquote(self.path.removeprefix("/v1/documents/"))
        if name.endswith("/text"):
            return self.reply(200, self.server.texts[name.removesuffix("/text")].encode())
        self.reply(200, self.document(name)) if name in self.server.texts else self.fail(404, "no such document")

    def do_PUT(self):
        text = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        name = urllib.parse.unquote(self.path.removeprefix("/v1/documents/"))
        if name.endswith("/refresh"):
            name = name.removesuffix("/refresh")
            self.server.read_by[name] = FINGERPRINT
            return self.reply(200, self.document(name))
        self.server.uploads.append(name)
        self.server.texts[name], self.server.read_by[name] = text, FINGERPRINT
        self.reply(200, b"".join(json.dumps(row).encode() + b"\n" for row in ({"tokens": 1}, {"document": self.document(name)})))

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/v1/retrieve":  # blocks of ten bytes, the second one of them is not listed
            self.server.searched.append(body["mounts"])
            size = len(self.server.texts[body["mounts"][0]].encode())
            hits = [{"document": body["mounts"][0], "begin": at, "end": min(at + 10, size)} for at in range(0, size, 10) if at != 10]
            return self.reply(200, {"data": [{"hits": hits}]})
        if self.path == "/tokenize":
            return self.reply(200, {"count": len(body["prompt"].split()), "tokens": [len(one) for one in body["prompt"].split()]})
        mode = body.get("mount_as")
        if mode not in (None, *self.server.modes):
            return self.fail(400, f'mount_as: "{mode}", but documents are mounted as "text"')
        self.server.asked.append((mode, body["messages"][0]["content"]))
        if len(self.server.asked) == self.server.full_at:
            return self.fail(429, "full")
        given, _, question = body["messages"][0]["content"].rpartition("\n\n")
        mounted = {name: self.server.texts[name] for name in body.get("mounts", [])}
        citations = [{"document": name, "begin": 0, "end": len(text), "weight": 1, "text": text} for name, text in mounted.items()]
        lines = "\n".join([given, *mounted.values()]).split("\n")
        unknown = "The documents do not say." if citations else "I cannot tell."
        said = next((line.partition("=")[2] for line in lines if line.startswith(question + "=")), unknown)
        pieces = [{"choices": [{"delta": {"content": piece}, "finish_reason": None}]} for piece in ("", said[:4], said[4:])]
        last = {"choices": [{"delta": {}, "finish_reason": "stop"}]}
        usage = {"choices": [], "usage": {"completion_tokens": 2, "prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 1}}}
        events = [*pieces, {**last, "citations": citations} if citations else last, usage]
        self.reply(200, b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events) + b"data: [DONE]\n\n")


@contextlib.contextmanager
def script(modes=("text",), chat=True):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Script)
    server.texts, server.read_by, server.uploads, server.asked, server.modes, server.chat, server.full_at = {}, {}, [], [], modes, chat, 0
    server.searched = []
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def name_of(half):
    """An id of the half, or of none."""
    return next(name for name in (f"paper-{i}" for i in range(1000)) if papers.half_of(name) == half)


def folder_of_papers(folder):
    """A document of each half and one that is not held out."""
    folder = pathlib.Path(folder)
    (folder / "books").mkdir()
    (folder / "books/book.txt").write_text("The whale swims on.\n" * 200)
    with (folder / "papers.jsonl").open("w") as file:
        for half in (*papers.HALVES, None):
            text = "first?=the answer\u2028is Nils\nother?=Clara\nother again?=It was Clara Dorn\nthird?=no\n"
            qa = [{"q": ["first?", "never\u2028asked?"], "a": "nils"}, {"q": ["not this?", "other again?"], "a": "Clara Dorn"},
                  {"q": ["third?", "never?"], "a": "yes"}]
            short = {"qa": [{"q": "first?", "a": "nils"}], "none": ["nobody knows?"]}
            file.write(json.dumps({"id": name_of(half), "kind": "note", "text": text, "qa": qa, "none": ["unknown?"], "short": short}) + "\n")
    return folder


def run(folder, server, *flags):
    """What the program prints, and what it ends with."""
    out = io.StringIO()
    url = f"http://127.0.0.1:{server.server_address[1]}" if server else "http://127.0.0.1:1"
    arguments = ["--server", url, "--qa", str(folder), "--books", str(folder / "books"), "--json", str(folder / "books/out.answers"), "--tokens", "100", *flags]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            return out, questions.main(arguments)
    except SystemExit as end:
        return out, end.code


class ScoresTest(unittest.TestCase):
    def test_an_answer_stands_in_a_text_whatever_its_case_blanks_and_quotes(self):
        self.assertTrue(scores.contains("It was\n clara  DORN.", "Clara Dorn"))
        self.assertTrue(scores.contains("Iñaki’s brother", "iñaki's"))
        self.assertFalse(scores.contains("Clara", "Clara Dorn"))
        self.assertFalse(scores.contains("anything", ""))

    def test_a_number_does_not_stand_in_a_longer_one(self):
        self.assertFalse(scores.contains("in 1240", "4"))
        self.assertFalse(scores.contains("around 700 washes", "around 70"))
        self.assertTrue(scores.contains("24 or 4", "4"))
        self.assertTrue(scores.contains("4", "4"))
        self.assertTrue(scores.contains("about 45MB", "about 45"))

    def test_an_answer_over_the_end_of_a_block_is_found_where_the_next_was_given(self):
        blocks = [{"document": "d", "begin": 10, "end": 20, "text": "Dorn"}, {"document": "d", "begin": 5, "end": 10, "text": "Clara "}]
        question = {"kind": "answerable", "a": "Clara Dorn"}
        marks = scores.score(question, "", blocks, "d")
        self.assertEqual(marks, {"refused": False, "document_found": True, "right": False, "found": True, "found_there": True})
        self.assertFalse(scores.score(question, "", [blocks[0], {**blocks[1], "end": 9}], "d")["found"])
        marks = scores.score(question, "", blocks, "other")
        self.assertTrue(marks["found"] and not marks["found_there"] and not marks["document_found"])

    def test_a_block_whose_document_is_gone_has_no_text(self):
        marks = scores.score({"kind": "answerable", "a": "x"}, "x", [{"document": "d", "begin": 0, "end": 1, "text": None}], "d")
        self.assertTrue(marks["right"] and marks["document_found"] and not marks["found"])

    def test_a_refusal_is_its_sentence(self):
        self.assertTrue(scores.refuses(" The documents do not say. "))
        self.assertFalse(scores.refuses("I do not know."))

    def test_wilson(self):
        for hits, count, low, high in ((0, 10, 0, 0.2775), (10, 10, 0.7225, 1), (5, 10, 0.2366, 0.7634), (30, 64, 0.3518, 0.5893)):
            self.assertAlmostEqual(scores.wilson(hits, count)[0], low, 3)
            self.assertAlmostEqual(scores.wilson(hits, count)[1], high, 3)
        self.assertEqual(scores.wilson(0, 0), (0, 1))


class PapersTest(unittest.TestCase):
    def test_halves_are_of_what_is_held_out(self):
        for half, rest in (("choosing", 0), ("reporting", 1)):
            self.assertEqual(zlib.crc32(name_of(half).encode()) % 16, 8 * rest)
        self.assertNotEqual(zlib.crc32(name_of(None).encode()) % 8, 0)

    def test_wordings_take_turns_and_more_questions_contain_fewer(self):
        rows = [{"id": f"d{i}", "text": "", "none": ["n1", "n2"], "qa": [{"q": [f"{i} {k} first", f"{i} {k} second"], "a": "x"} for k in range(8)]}
                for i in range(5)]
        source = papers.Papers.__new__(papers.Papers)
        source.rows = rows
        whole = source.questions()
        self.assertEqual((len(whole), sum(one["kind"] == "unanswerable" for one in whole)), (50, 10))
        for one in whole:
            if one["kind"] == "answerable":
                self.assertTrue(one["q"].endswith(("first", "second")[int(one["id"].split("/")[1]) % 2]))
        few, more = source.questions(6), source.questions(20)
        self.assertEqual((len(few), len(more)), (8, 25))
        self.assertLess({one["id"] for one in few}, {one["id"] for one in more})
        self.assertGreater(len({one["document"] for one in more}), 3)

    def test_both_answers_of_a_pair_have_to_be_said(self):
        with tempfile.TemporaryDirectory() as folder:
            source = papers.PairsAlone(folder_of_papers(folder), "choosing")
        question, = source.questions()
        self.assertEqual((question["q"], question["a"]), ("first? other again?", ["nils", "Clara Dorn"]))
        right = lambda said: source.score(question, said, [], "d", 0)["right"]  # noqa: E731
        self.assertTrue(right("Nils.\nIt was Clara Dorn."))
        self.assertFalse(right("Nils.\nNobody."))
        self.assertEqual(source.score(source.general[0], "Hello", [], "d", 0), {})

    def test_no_general_prompt_is_there_twice(self):
        prompts = [prompt.casefold() for half in papers.HALVES for prompt in papers.general_prompts(half)]
        self.assertEqual((len(prompts), len(set(prompts))), (495, 495))

    def test_hay_has_the_same_share_of_each_book(self):
        books = ["a b c d\n" * 1000, "e f g h\n" * 3000]
        text = papers.hay(books, 8000, lambda part: len(part.split()))
        self.assertAlmostEqual(len(text.split()), 8000, delta=20)
        self.assertAlmostEqual(text.count("e") / text.count("a"), 3, 1)
        with self.assertRaisesRegex(SystemExit, "about 16000 tokens, 17000 are to be mounted"):
            papers.hay(books, 17000, lambda part: len(part.split()))

    def test_of_books_with_authors_those_that_are_held_out_count(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "books.jsonl.xz"
            with lzma.open(path, "wt", encoding="utf-8") as file:
                for author in ("Zola, Émile", "Verne, Jules"):
                    file.write(json.dumps({"author": author, "title": "t", "text": f"by {author}"}, ensure_ascii=False) + "\n")
            self.assertEqual(papers.read_books(pathlib.Path(folder), ["Zola, Émile"]), ["by Zola, Émile"])
            with self.assertRaisesRegex(SystemExit, "no books by held-out authors"):
                papers.read_books(pathlib.Path(folder), ["Conrad, Joseph"])


class SquadTest(unittest.TestCase):
    def test_bm25_prefers_rare_words_and_short_blocks(self):
        texts = ["the whale and the sea and the ship", "the sea", "a whale", "nothing here"]
        index = squad.Bm25([("d", i, i + 1, text) for i, text in enumerate(texts)])
        self.assertEqual([block[3] for block in index.best("WHALE?", 8)], ["a whale", "the whale and the sea and the ship"])
        self.assertEqual(index.best("the nothing", 1)[0][3], "nothing here")
        self.assertEqual(index.best("unknown", 8), [])

    def test_blocks_cover_the_text(self):
        with script() as server, contextlib.closing(questions.Server(f"http://127.0.0.1:{server.server_address[1]}")) as client:
            server.texts["d"] = "0123456789abcdefghijklmnopqrst!"
            found = squad.blocks(client, "d", server.texts["d"].encode(), "text")
        self.assertEqual([block[1:3] for block in found], [(0, 10), (10, 20), (20, 30), (30, 31)])
        self.assertEqual("".join(block[3] for block in found), server.texts["d"])

    def test_a_run(self):
        with tempfile.TemporaryDirectory() as folder, script() as server:
            folder = pathlib.Path(folder)
            (folder / "books").mkdir()
            (folder / "books/book.txt").write_text("The whale swims on.\n" * 200)
            paragraphs = [{"context": "first?=Nils", "qas": [{"id": "1", "question": "first?", "answers": [{"text": "Nils"}, {"text": "nil"}]}]},
                          {"context": "second?=Ängström", "qas": [{"id": "2", "question": "second?", "answers": [{"text": "someone else"}]}]}]
            (folder / "squad.json").write_text(json.dumps({"data": [{"title": "Fresno, T", "paragraphs": paragraphs}]}))
            out, status = run(folder, server, "--squad", str(folder / "squad.json"), "--mode", "whole,text", "--tokens", "50")
            self.assertEqual(status, 0)
            self.assertIn("questions/squad/Fresno__T", server.uploads)
            lines = [line.split(" | ") for line in out.getvalue().splitlines()[3:]]
            self.assertEqual(lines[0][1:5], ["–", "2", "50 % (9–91)", "–"])
            self.assertEqual(lines[1][1:7], ["50", "2", "50 % (9–91)", "50 % (9–91)", "100 % (34–100)", "100 % (34–100)"])
            self.assertEqual(lines[1][7:10], ["100 % (34–100)", "100 % (34–100)", "50 % (9–91)"])
            _, said = run(folder, server, "--squad", str(folder / "squad.json"), "--mode", "text", "--tokens", "1")
            self.assertIn("the articles alone have 2 tokens, 1 are to be mounted", said)
            self.assertIn("no file of SQuAD's questions", run(folder, server, "--squad", str(folder / "books/book.txt"))[1])


class SquadRanksTest(unittest.TestCase):
    def test_blocks_of_one_paragraph_count_once(self):
        paragraphs = {"questions/d": [("questions/d", 0, 30, ""), ("questions/d", 32, 60, ""), ("questions/d", 62, 90, "")]}
        listed = [("questions/d", 0, 10), ("questions/d", 10, 20), ("questions/d", 20, 35), ("questions/d", 35, 50), ("questions/d", 70, 80)]
        self.assertEqual([one[1] for one in squad_ranks.different(listed, paragraphs)], [0, 32, 62])
        third = {"document": "d", "begin": 62, "end": 90}
        self.assertEqual(squad_ranks.marks(third, listed, paragraphs), {"blocks_4": False, "blocks_8": True, "paragraphs_4": True, "paragraphs_8": True})

    def test_a_run(self):
        with tempfile.TemporaryDirectory() as folder, script() as server:
            path, out = pathlib.Path(folder) / "squad.json", io.StringIO()
            paragraphs = [{"context": "a sea so wide", "qas": [{"id": "1", "question": "How wide?", "answers": [{"text": "so"}]}]},
                          {"context": "the whale", "qas": [{"id": "2", "question": "A whale?", "answers": [{"text": "the"}]}]}]
            path.write_text(json.dumps({"data": [{"title": "T", "paragraphs": paragraphs}]}))
            server.texts["questions/books-9"], server.read_by["questions/books-9"] = "how wide was the whale", FINGERPRINT
            with contextlib.redirect_stdout(out):
                squad_ranks.main(["--server", f"http://127.0.0.1:{server.server_address[1]}", "--squad", str(path), "--beside", "questions/books-*"])
        self.assertEqual(server.uploads, ["questions/squad/T"])
        self.assertEqual(server.searched[-1], ["questions/squad/T", "questions/books-9"])
        self.assertEqual([line.split(" | ")[0] for line in out.getvalue().splitlines()],
                         ["| ranked by", "|---|---|---|---|---|", "| the memory", "| BM25 of the same blocks", "| BM25 of whole paragraphs"])


class FactsTest(unittest.TestCase):
    BOOK = "It was a day like others. Nobody came to the door.\n" * 3000

    def test_each_stands_in_its_document_once_and_is_asked_in_other_words(self):
        source = facts.Facts([self.BOOK])
        self.assertEqual([facts.HELD_OUT, facts.HELD_OUT * facts.FACTS], [len(source.documents), len(source.all)])
        for one in source.all:
            self.assertTrue(scores.contains(source.documents[one["document"]], one["a"]), one)
            self.assertNotIn(one["q"], source.documents[one["document"]])
        self.assertEqual(len(source.all), len({(one["document"], one["q"]) for one in source.all}))

    def test_the_same_books_give_the_same_documents_and_a_short_one_is_refused(self):
        self.assertEqual(facts.Facts([self.BOOK]).digest, facts.Facts([self.BOOK]).digest)
        with self.assertRaisesRegex(SystemExit, "80000 bytes are needed"):
            facts.Facts(["Short.\n"])


class RunTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder_of_papers(folder.name)

    def rows(self):
        return [json.loads(line) for line in (self.folder / "books/out.answers").read_text().split("\n")[:-1]]

    def test_asks_scores_and_prints(self):
        with script() as server:
            out, status = run(self.folder, server, "--mode", "nothing,whole,text")
            self.assertEqual(status, 0, out.getvalue())
        lines = {line.split(" | ")[0].removeprefix("| "): line.split(" | ") for line in out.getvalue().splitlines()}
        self.assertEqual(lines["nothing"][2:4], ["3", "0 % (0–56)"])
        self.assertEqual(lines["whole"][2:6], ["3", "67 % (21–94)", "–", "–"])
        found = ["67 % (21–94)"] * 3
        self.assertEqual(lines["text"][1:10], ["100", "3", *found, "100 % (44–100)", "0 % (0–56)", "1", "100 % (21–100)"])
        general = len(papers.general_prompts("choosing"))
        self.assertEqual(lines["text"][10], "0 % (0–1)")
        name = name_of("choosing")
        self.assertEqual([one for one in server.uploads if "books" not in one], [f"questions/{name}"])
        self.assertEqual(len(server.uploads), 2)
        self.assertIn((None, server.texts[f"questions/{name}"] + "\n\nfirst?"), server.asked)
        settings, *rows = self.rows()
        self.assertEqual((settings["settings"]["half"], settings["settings"]["fingerprint"]), ("choosing", FINGERPRINT))
        self.assertEqual(len(rows), 4 * 3 + general * 2)
        one = next(row for row in rows if row["mode"] == "text" and row["q"] == "first?")
        self.assertTrue(one["right"] and one["found_there"] and one["said"] == "the answer\u2028is Nils" and one["first_s"] > 0)
        printed, status = run(self.folder, None, "--only-table")
        self.assertEqual((status, sorted(printed.getvalue().splitlines()[1:])), (0, sorted(out.getvalue().splitlines()[1:])))

    def test_of_a_short_question_only_its_document_is_mounted(self):
        with script() as server:
            out, status = run(self.folder, server, "--mode", "text", "--alone", "short", "--tokens", "0")
            self.assertEqual(status, 0, out.getvalue())
        rows = [row for row in self.rows()[1:] if row["kind"] != scores.GENERAL]
        self.assertEqual(sorted(row["q"] for row in rows), ["first?", "nobody knows?"])
        source = papers.QuestionsAlone(self.folder, "choosing", "short")
        source.documents["other"] = "text"
        ways = questions.Ways(argparse.Namespace(mode=["text"], tokens=[0], text_tokens=None, quotes=None), source)
        mounts = lambda question: ways.request("text", 0, question)[1]["mounts"]  # noqa: E731
        self.assertEqual(mounts(source.questions()[0]), [f"questions/{name_of('choosing')}"])
        self.assertEqual(len(mounts(source.general[0])), 2)

    def test_goes_on_where_it_was_and_asks_nothing_twice(self):
        with script() as server:
            first, _ = run(self.folder, server, "--mode", "whole")
            path = self.folder / "books/out.answers"
            lines = path.read_text().replace("\n", "\n\0").split("\0")
            path.write_text("".join(lines[:3]) + lines[3][:20])  # two answers, and one that was being written
            server.asked.clear()
            again, status = run(self.folder, server, "--mode", "whole")
            self.assertEqual((status, len(server.asked)), (0, 2))
            self.assertEqual(len(self.rows()), 5)
            self.assertEqual(first.getvalue().split(" | ")[:-2], again.getvalue().split(" | ")[:-2])
            server.asked.clear()
            run(self.folder, server, "--mode", "text")
            uploads = len(server.uploads)
            run(self.folder, server, "--mode", "text")
            self.assertEqual(len(server.uploads), uploads)
            _, said = run(self.folder, server, "--mode", "whole", "--max-tokens", "7")
            self.assertIn("other settings (max_tokens is 40 there, 7 now)", said)

    def test_a_full_server_is_asked_again(self):
        with script() as server:
            server.full_at = 2
            _, status = run(self.folder, server, "--mode", "nothing", "--limit", "2")
            self.assertEqual((status, len(server.asked)), (0, 4))

    def test_documents_that_another_model_read_are_read_again(self):
        with script() as server:
            run(self.folder, server, "--mode", "text", "--limit", "1")
            for name in server.read_by:
                server.read_by[name] = "other"
            run(self.folder, server, "--mode", "text", "--limit", "1")
            self.assertEqual(set(server.read_by.values()), {FINGERPRINT})

    def test_what_is_wrong_is_said_in_a_line(self):
        with script() as server:
            self.assertIn("does not offer the mode memory: mount_as", run(self.folder, server, "--mode", "text,memory")[1])
            self.assertIn("no documents of the half", run(self.folder / "books", server, "--books", str(self.folder / "books"))[1])
            self.assertEqual(run(self.folder, server, "--mode", "both ways")[1], 2)
            self.assertEqual(run(self.folder, server, "--tokens", "many")[1], 2)
            self.assertIn("nowhere is no folder", run(self.folder / "nowhere", server)[1])
            self.assertIn("books/nothing is not there", run(self.folder, server, "--books", str(self.folder / "books/nothing"))[1])
            server.texts[f"questions/{name_of('choosing')}"] = "something else"
            server.read_by[f"questions/{name_of('choosing')}"] = FINGERPRINT
            self.assertIn("14 bytes on the server", run(self.folder, server, "--mode", "text")[1])
        with script(chat=False) as server:
            self.assertIn("no chat template", run(self.folder, server)[1])
        self.assertIn("no answer from http://127.0.0.1:1", run(self.folder, None)[1])
        self.assertFalse(pathlib.Path(self.folder / "nowhere").exists())


class FollowUps(unittest.TestCase):
    def test_their_answers_stand_in_documents_of_their_half(self):
        folder = questions.ROOT / "train/memory/qa"
        for half in papers.HALVES:
            documents, rows = papers.Papers(folder, half).documents, follow_ups.read_follow_ups(half)
            self.assertGreaterEqual(len(rows), 30)
            for row in rows:
                self.assertTrue(scores.contains(documents[row["document"]], row["a"]), row)

    def test_only_two_ways_have_a_conversation_and_two_repeat_the_question_before(self):
        row = {"before": ["Who came?", "Nils."], "q": "And when?"}
        said = {way: follow_ups.messages(way, row) for way in follow_ups.WAYS}
        self.assertEqual([len(before) for before, _ in said.values()], [2, 2, 0, 0])
        self.assertEqual([last for _, last in said.values()], ["And when?", "Who came? And when?", "Who came? And when?", "And when?"])

    def test_each_is_asked_in_all_ways_with_the_documents_mounted(self):
        with script(modes=()) as server, tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as out:
            follow_ups.main(["--server", f"http://127.0.0.1:{server.server_address[1]}", "--qa", str(folder_of_papers(folder)), "--limit", "1"])
            first = follow_ups.read_follow_ups("choosing")[0]
            before = first["before"][0]
            self.assertEqual([asked for _, asked in server.asked], [before, before, f"{before} {first['q']}", first["q"]])
            self.assertIn(f"questions/{name_of('choosing')}", server.uploads)
        self.assertIn("| joined | 1 | 0 % (0–79) | 0 % (0–79) | 0 % (0–79) | 100 % (21–100) |", out.getvalue())


if __name__ == "__main__":
    unittest.main()

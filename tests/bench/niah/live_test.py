"""niah against a server with the shipped model. Started by run.py, which has the packages; RECOLLECT_BINARY names the program."""
import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from support import ROOT

if "RECOLLECT_BINARY" not in os.environ:
    raise unittest.SkipTest("started by run.py")
from running import Server
from waiting import wait_until

BINARY, MODEL = os.environ["RECOLLECT_BINARY"], ROOT / "models/recollect-7m"
NIAH = [sys.executable, ROOT / "bench/niah"]
HIDE_ALL = ["--hide", "all", "--tokens", "4k", "--task", "passkey,hex,quote,records", "--distractors", "0", "--samples", "2", "--samples-per-shape", "1",
            "--cue-words", "6"]


def haystack_text(times=1):
    """Text of 400 words, a tenth of which may be keys."""
    words = []
    for i in range(4000):
        word = i * 37 % 400 + i // 400
        words.append("".join("bdfgklmnprstvzhjwxcq"[s] + "aeiou"[(s + word) % 5] for s in (word % 20, word // 20 % 20)))
    return "".join(word + ("\n" if i % 12 == 11 else " ") for i, word in enumerate(words)) * times


class NiahTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stack = contextlib.ExitStack()
        cls.addClassCleanup(cls.stack.close)
        cls.folder = pathlib.Path(cls.stack.enter_context(tempfile.TemporaryDirectory()))
        cls.server = cls.stack.enter_context(Server(BINARY, MODEL, ":memory:"))
        cls.haystack, cls.report = cls.folder / "haystack.txt", cls.folder / "out.json"
        cls.haystack.write_text(haystack_text())

    def setUp(self):
        self.report.unlink(missing_ok=True)
        self.addCleanup(lambda: self.assertEqual(self.server.client.documents(), []))

    def run_niah(self, *flags, code=0, haystack=None, server=True):
        where = ["--server", self.server.address["grpc"]] if server else ["--binary", BINARY, "--model", MODEL]
        done = subprocess.run([*map(str, NIAH), "--haystack", haystack or self.haystack, *map(str, [*where, *flags])], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def json_of(self, *flags, **more):
        return json.loads(self.run_niah(*flags, "--json", **more).stdout)

    def report_of(self, *flags):
        out = self.run_niah(*flags, "--json", self.report).stdout
        return json.loads(self.report.read_text()), out

    def same(self, one, other, *fields):
        for a, b in zip(one["samples"], other["samples"], strict=True):
            self.assertEqual([a[field] for field in fields], [b[field] for field in fields])

    def test_runs_its_grid_and_cleans_up(self):
        flags = ["--tokens", "512,1k", "--samples", "2", "--task", "passkey,distractors,hex", "--distractors", "3", "--shard-tokens", "512", "--seed", "4"]
        report, table = self.report_of(*flags)
        self.assertIn("right by depth and tokens", table)
        self.assertEqual(len(report["cells"]), 12)  # 3 tasks, 2 sizes, 2 phrasings
        for cell in report["cells"]:
            self.assertEqual((cell["samples"], len(cell["gold_hit_rate"])), (2, 2))
            self.assertIn("bm25_hit_rate", cell)
            self.assertEqual(cell["documents"], cell["tokens"] // 512)
        self.assertEqual(report["crossing"], [])
        self.assertEqual(self.server.client.documents(), [])
        again, _ = self.report_of(*flags)  # same seed, same needles and answers
        self.same(report, again, "question", "value", "answer", "depth", "needle_in")

    def test_controls_find_nothing(self):
        for control in "unmounted", "removed", "random":
            report = self.json_of("--tokens", "4k", "--samples", "3", "--phrasing", "trained", "--control", control)
            self.assertEqual(report["control"], control)
            # Eight chunks at random are a tenth of these.
            self.assertLessEqual(report["cells"][0]["right"], 1 if control == "random" else 0)

    def test_a_value_that_no_block_holds_is_reported_apart(self):
        report = self.json_of("--tokens", "512", "--samples", "1", "--task", "hex", "--hex-digits", "96", "--phrasing", "trained")
        self.assertIs(report["samples"][0]["crosses_block"], True)
        self.assertEqual(len(report["crossing"]), 1)

    def test_asks_for_the_haystack_itself(self):
        report = self.json_of("--tokens", "1k", "--samples", "2", "--task", "quote,reread", "--cue", "whole,thinned", "--cue-words", "6",
                              "--passage-bytes", "300")
        thinned, whole, reread = report["cells"]
        self.assertEqual((thinned["variant"], thinned["judged"], len(thinned["gold_hit_rate"])), ("thinned", 0, 2))
        self.assertEqual((whole["judged"], whole["bm25_hit_rate"]), (2, 1))
        self.assertIn("next 20 words", whole["numbers"])
        self.assertEqual((reread["documents"], len(reread["numbers"])), (2, 3))
        self.assertGreater(reread["numbers"]["bits per byte: nothing mounted"], 0)

    def test_asks_for_records_and_in_rulers_words_and_judges_prose(self):
        report = self.json_of("--tokens", "4k", "--samples", "1", "--task", "records,ruler,prose", "--distractors", "2", "--shard-tokens", "2k")
        whole = {cell["task"]: cell for cell in report["cells"] if cell["variant"] == "(all)"}
        self.assertEqual((whole["ruler"]["judged"], whole["records"]["judged"], whole["prose"]["judged"]), (9, 27, 4))
        self.assertIn("strings found", whole["ruler"]["numbers"])
        self.assertIn("forms in the text", whole["prose"]["numbers"])
        for task in "ruler", "records":
            self.assertEqual(len(whole[task]["gold_hit_rate"]), 2)
            self.assertIn("bm25_hit_rate", whole[task])

    def text_of_document(self):
        (document,) = self.server.client.documents()
        return self.server.client.text(document.id).decode()

    def delete_document(self):
        (document,) = self.server.client.documents()
        self.server.client.delete(document.id)

    def test_hides_all_in_one_document_that_is_read_once(self):
        report = self.json_of(*HIDE_ALL, "--keep")
        cells = [cell for cell in report["cells"] if cell["variant"] != "(all)"]
        counts = {task: sum(cell["samples"] for cell in cells if cell["task"] == task) for task in ("passkey", "hex", "quote", "records")}
        self.assertEqual(counts, {"passkey": 4, "hex": 4, "quote": 2, "records": 27})
        self.assertEqual({(cell["documents"], cell["mounted_tokens"]) for cell in cells}, {(1, cells[0]["mounted_tokens"])})
        self.assertEqual(sum(cell["ingest_tokens_per_s"] > 0 for cell in cells), 1)
        text = self.text_of_document()
        for sample in report["samples"]:
            self.assertIn(sample["value"], text)
            self.assertTrue(0 <= sample["depth"] <= 1)
        # Asked again: the document is there. Controls ask the first of the same samples.
        again = self.json_of(*HIDE_ALL, "--control", "none,unmounted,random", "--control-samples", "1")
        self.same(report, again, "question", "value", "answer", "depth", "gold_hit")
        self.assertEqual(sum(cell["ingest_tokens_per_s"] for cell in again["cells"]), 0)
        self.assertEqual([control["control"] for control in again["controls"]], ["unmounted", "random"])
        for control in again["controls"]:
            self.assertEqual(control["cells"][0]["samples"], 1)
            self.assertEqual(control["samples"][0]["question"], report["samples"][0]["question"])
            self.assertEqual(control["samples"][0]["mounted_tokens"] == 0, control["control"] == "unmounted")

    def test_what_is_removed_is_not_in_the_document_of_all(self):
        removed = self.json_of(*HIDE_ALL, "--control", "removed", "--keep")
        self.assertEqual(len(removed["samples"]), 37)
        text = self.text_of_document()
        for sample in removed["samples"]:
            if sample["task"] != "records":  # times of day come twice
                self.assertNotIn(sample["value"], text)
        self.delete_document()

    def test_goes_on_where_it_was_interrupted(self):
        unfinished = pathlib.Path(f"{self.report}.unfinished")
        for hide in "all", "each":
            flags = ["--tokens", "1k", "--task", "passkey,quote", "--hide", hide, "--samples", "3"]
            whole, _ = self.report_of(*flags)
            self.assertFalse(unfinished.exists())
            # The picture cannot be written when all is done: an end as by an interruption.
            self.run_niah(*flags, "--json", self.report, "--heat-map", "/dev/full", code=4)
            lines = unfinished.read_text().splitlines()
            self.assertEqual(len(lines), 10)  # what is run, and 9 samples
            known = json.loads(lines[3])
            known["sample"]["answer"] = "known"
            unfinished.write_text("\n".join([*lines[:3], json.dumps(known), '{"name": "pass']))
            other = self.run_niah(*flags, "--json", self.report, "--seed", "9", code=7)  # another run is none of this one's
            self.assertIn("--seed 1, this one has 9", other.stderr)
            resumed, _ = self.report_of(*flags, "--heat-map", self.folder / "map.svg")
            self.assertIn("</svg>", (self.folder / "map.svg").read_text())
            self.assertFalse(unfinished.exists())
            self.assertEqual([sample["question"] for sample in resumed["samples"]], [sample["question"] for sample in whole["samples"]])
            self.assertEqual([sample["answer"] for sample in resumed["samples"]],
                             ["known" if i == 2 else sample["answer"] for i, sample in enumerate(whole["samples"])])
            if hide == "all":
                self.assertEqual(self.server.client.documents(), [])

    def test_an_end_by_a_signal_leaves_no_document(self):
        process = subprocess.Popen([*map(str, NIAH), "--haystack", str(self.haystack), "--server", self.server.address["grpc"], "--tokens", "4k"],
                                   stdout=subprocess.DEVNULL)
        self.assertTrue(wait_until(self.server.client.documents, 60))
        process.terminate()
        self.assertEqual(process.wait(timeout=60), 143)

    def test_what_cannot_be_done_is_said_before_the_work(self):
        for flags, said in ((("--json", self.folder / "none/out.json"), "--json: cannot write"), (("--heat-map", self.folder / "none/a.svg"), "--heat-map: cannot write"),
                            (("--tokens", "512,16m"), "--tokens 16777216 needs about"),
                            (("--hide", "all", "--task", "passkey,ruler"), "--hide all: not for --task ruler")):
            self.assertIn(said, self.run_niah(*flags, code=4).stderr)
        latin = self.folder / "latin.txt"
        latin.write_bytes(b"caf\xe9")
        self.assertIn("byte 3 is not UTF-8", self.run_niah(haystack=latin, code=4).stderr)
        few = self.folder / "few.txt"
        few.write_text("the same again " * 1000)
        self.assertIn("words that training never used", self.run_niah(haystack=few, code=4).stderr)

    def test_a_server_that_is_not_there_is_named(self):
        done = subprocess.run([*map(str, NIAH), "--haystack", self.haystack, "--server", "127.0.0.1:1"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertRegex(done.stderr, "(?m)^niah: UNAVAILABLE: ")

    def test_runs_a_server_of_its_own_and_tells_it_its_flags(self):
        report = self.json_of("--tokens", "512", "--samples", "1", "--phrasing", "trained", server=False)
        self.assertEqual(report["model"]["name"], "recollect-7m")
        long = self.folder / "long.txt"
        long.write_text(haystack_text(20))
        refused = self.run_niah("--tokens", "128k", "--landmark-budget", "2MB", haystack=long, server=False, code=8)
        self.assertIn("for its landmark keys, the budget (--landmark-budget) is", refused.stderr)

    def test_a_model_without_landmarks_is_refused(self):
        with Server(BINARY, ROOT / "models/ratplus-5m", ":memory:") as server:
            done = subprocess.run([*map(str, NIAH), "--haystack", self.haystack, "--server", server.address["grpc"]], capture_output=True, text=True,
                                  check=False)
        self.assertEqual(done.returncode, 7, done.stderr)
        self.assertIn("has no landmarks", done.stderr)

    def test_examples_of_help_run(self):
        shown = subprocess.run([*map(str, NIAH), "--help"], capture_output=True, text=True, check=True).stdout
        examples = re.findall(r"^  python3 bench/niah (.*)$", shown, re.M)
        self.assertEqual(len(examples), 5)
        long = self.folder / "books.txt"
        long.write_text(haystack_text(5))
        for example in examples:
            flags = re.sub(r"--samples \d+", "--samples 1", example).replace(",16k", "").replace("--haystack books.txt ", "").replace("--server 127.0.0.1:50051", "").split()
            flags = [str(self.folder / flag) if "." in flag else flag for flag in flags]
            with self.subTest(example):
                self.assertIn("right by depth and tokens", self.run_niah(*flags, haystack=long).stdout)


class WithoutPackagesTest(unittest.TestCase):
    def test_without_the_client_one_line_says_how_to_get_it(self):
        done = subprocess.run([sys.executable, "-S", str(ROOT / "bench/niah"), "--haystack", os.devnull], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, "niah: needs the Python client of this repository: pip install ./client/python\n")


if __name__ == "__main__":
    unittest.main()

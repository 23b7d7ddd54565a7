"""What a run shows, keeps and refuses: cells, heat maps, samples of an unfinished run, progress, room, flags."""
import contextlib
import io
import json
import pathlib
import tempfile
import types
import unittest

import support  # noqa: F401

from niah import flags, heat_map, progress, report, room, sample
from niah.answered import Answered
from niah.errors import Conflict, InvalidInput, NoRoom
from niah.sample import Finding, Sample


def made(task, tokens, depth, right, **more):
    return Sample(task=task, variant="trained", tokens_asked=tokens, depth=depth, right=right, **more)


def full():
    return Sample("hex", "trained", 1 << 20, 1000000, 3, 0.25, 'What is "it"?\n', "żółw", " 12", True, {"next 20 words": 0.5, "others": 0.1},
                  sample.TWO_CHUNKS, True, [Finding(True, False, 0.125), Finding(False, False, 0.0)], Finding(True, True, 0.0), 12, 1.5, 2.5, 7, 3.5)


class ReportTest(unittest.TestCase):
    def test_intervals_are_wilsons(self):
        for right, count, low, high in (50, 50, 0.9287, 1), (5, 10, 0.2366, 0.7634), (0, 0, 0, 1):
            for found, expected in zip(report.interval(right, count), (low, high)):
                self.assertAlmostEqual(found, expected, 4)

    def test_cells_count_apart_what_is_reported_apart(self):
        samples = [made("passkey", 4096, 0.25 * i, i != 3, tokens_mounted=4000, span=sample.TWO_CHUNKS if i == 3 else sample.ONE_CHUNK,
                        found=[Finding(True, i == 0, 0.5), Finding(i < 2, False, 0.25)], bm25=Finding(i != 2, False, 0.0),
                        numbers={"strings": 0.25 * i}) for i in range(4)]
        values = report.to_json(samples, 2)
        (cell,) = values["cells"]
        self.assertEqual({name: cell[name] for name in ("samples", "right", "rate", "gold_hit_rate", "gold_first_rate", "gold_weight", "bm25_hit_rate",
                                                        "bm25_first_rate", "numbers")},
                         {"samples": 4, "right": 3, "rate": 0.75, "gold_hit_rate": [1, 0.5], "gold_first_rate": [0.25, 0], "gold_weight": [0.5, 0.25],
                          "bm25_hit_rate": 0.75, "bm25_first_rate": 0, "numbers": {"strings": 0.375}})
        self.assertEqual((values["one_chunk"][0]["rate"], values["straddling"][0]["right"], values["crossing"]), (1, 0, []))
        self.assertEqual([cell["right"] for cell in values["by_depth"]], [2, 1])
        self.assertEqual(len(values["samples"]), 4)
        self.assertIn("needle straddles two chunks", report.table(samples, 2))
        self.assertRegex(report.table(samples, 2), r"passkey +4096 +4000 +0  trained +75\.0 %     3/4    \[ 30\.1,  95\.4\] +100/50 ")

    def test_samples_without_an_answer_are_not_wrong_ones(self):
        (cell,) = report.to_json([made("quote", 0, 0, True), made("quote", 0, 0, None)], 1)["cells"]
        self.assertEqual((cell["samples"], cell["judged"], cell["rate"]), (2, 1, 1))

    def test_many_variants_get_a_line_over_all_of_them(self):
        samples = [Sample(task="records", variant=f"shape{i}", right=i != 0) for i in range(5)]
        values = report.to_json(samples, 1)
        self.assertEqual(len(values["cells"]), 6)
        self.assertEqual((values["cells"][0]["variant"], values["cells"][0]["right"], len(values["by_depth"])), ("(all)", 4, 1))
        self.assertEqual(len(report.to_json(samples[:3], 1)["cells"]), 3)


class HeatMapTest(unittest.TestCase):
    MAPS = [heat_map.HeatMap("hex", [1024, 4096], [[(10, 10), (0, 10)], [(4, 8), (0, 0)]])]

    def test_counts_by_size_and_depth_and_leaves_out_what_was_not_judged(self):
        samples = [made("hex", 4096, 0, True), made("hex", 4096, 0.49, False), made("hex", 4096, 1, True), made("hex", 1024, 0.5, False),
                   made("passkey", 1024, 0.2, True), made("quote", 1024, 0.2, None)]
        hex_map, passkey = heat_map.heat_maps(samples, 2)
        self.assertEqual(hex_map, ("hex", [1024, 4096], [[(0, 0), (1, 2)], [(0, 1), (1, 1)]]))
        self.assertEqual(passkey.task, "passkey")

    def test_sizes_are_named_as_they_are_asked_for(self):
        self.assertEqual([heat_map.token_count(n) for n in (16 << 20, 64 << 10, 3000)], ["16M", "64k", "3000"])

    def test_the_full_block_is_for_all_right(self):
        maps = [heat_map.HeatMap("hex", [1024], [[(99, 100)], [(100, 100)], [(0, 0)], [(0, 4)]])]
        blocks, plain = heat_map.as_text(maps, True), heat_map.as_text(maps, False)
        for text in "▇▇  99 %", "██ 100 %", "     0 %":
            self.assertIn(text, blocks)
        for text in "%%  99 %", "## 100 %", "25 to 50 %":
            self.assertIn(text, plain)
        self.assertTrue(plain.isascii())

    @unittest.skipUnless(heat_map.can_draw(), "needs matplotlib")
    def test_the_picture_has_the_numbers_and_the_title(self):
        with tempfile.TemporaryDirectory() as folder:
            drawn = []
            for name in "one.svg", "two.svg", "three.png":
                path = pathlib.Path(folder, name)
                heat_map.draw(self.MAPS, "a <b> & c", path)
                drawn.append(path.read_bytes())
        self.assertEqual(drawn[0], drawn[1])
        for text in b"a &lt;b&gt; &amp; c", b">10/10<", b">0/10<", b">4/8<", b">4k<", b"</svg>":
            self.assertIn(text, drawn[0])
        self.assertTrue(drawn[2].startswith(b"\x89PNG"))


class AnsweredTest(unittest.TestCase):
    RUN = {"--tokens": [1024], "--seed": 7}

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name, "answered")

    def test_keeps_every_field_of_a_sample(self):
        for one in full(), Sample():
            self.assertEqual(sample.from_json(json.loads(json.dumps(sample.to_json(one)))), one)

    def test_goes_on_where_it_ended(self):
        answered = Answered(self.path, self.RUN)
        self.assertIsNone(answered.find("a"))
        answered.add("a", full())
        with self.path.open("a") as file:
            file.write('{"name": "b", "sam')  # the run was killed here
        answered = Answered(self.path, self.RUN)
        self.assertEqual(answered.find("a"), full())
        self.assertIsNone(answered.find("b"))
        answered.add("b", made("hex", 1024, 0.0, False))
        answered = Answered(self.path, self.RUN)
        self.assertIs(answered.find("b").right, False)
        answered.remove()
        self.assertFalse(self.path.exists())

    def test_refuses_another_run_naming_both_values(self):
        Answered(self.path, self.RUN)
        with self.assertRaisesRegex(Conflict, "answered: an unfinished run with --seed 7, this one has 8"):
            Answered(self.path, self.RUN | {"--seed": 8})

    def test_refuses_files_that_are_none_of_its_own(self):
        for text in "nonsense\n", "{}\n", '{"niah": 99, "run": {}}\n':
            self.path.write_text(text)
            with self.assertRaisesRegex(InvalidInput, "line 1"):
                Answered(self.path, self.RUN)
            self.assertEqual(self.path.read_text(), text)  # left as it was
        self.path.unlink()
        Answered(self.path, self.RUN)
        begin = self.path.read_text()
        wrong = json.dumps({"name": "a", "sample": sample.to_json(full()) | {"depth": "deep"}}) + "\n"
        for line in "7\n", '{"name": "a"}\n', '{"name": "a", "sample": {}}\n', wrong:
            self.path.write_text(begin + line)
            with self.assertRaisesRegex(InvalidInput, "line 2"):
                Answered(self.path, self.RUN)
        with self.assertRaises(InvalidInput):
            Answered("/nonexistent/file", self.RUN)


class ProgressTest(unittest.TestCase):
    def test_the_time_left_follows_from_what_was_done(self):
        self.assertEqual(progress.line("niah", 5, 10, "note", 65), "niah [###############...............]  50 %  note  1m5s left")
        self.assertEqual(progress.line("niah", 9, 10, "note", 60, begun=8), "niah [###########################...]  90 %  note  1m left")
        self.assertNotIn("left", progress.line("niah", 10, 10, "", 5))


class RoomTest(unittest.TestCase):
    MODEL = types.SimpleNamespace(retrieval_width=64, width=256)

    def stats(self, **fields):
        return types.SimpleNamespace(**({"chunk_states_format": "mxint8", "landmark_sketch_chunks": 0, "landmark_sketch_key_bytes": 0,
                                         "store_free_bytes": 0, "landmark_budget_bytes": 1 << 30} | fields))

    def test_sizes_follow_in_proportion(self):
        self.assertEqual(room.TextSize(400, 100, 2).to_tokens(1000), (4000, 1000, 20))
        self.assertEqual(room.TextSize(400, 100, 2).to_bytes(200), (200, 50, 1))

    def test_records_are_counted_in_the_format_of_the_store(self):
        size = room.TextSize(3000, 1000, 16)
        keys = 16 * 64 * 2
        self.assertEqual(room.room_for(self.MODEL, self.stats(), size), (3000 + 4000 + keys + 256000 + 8000, keys))
        self.assertEqual(room.room_for(self.MODEL, self.stats(chunk_states_format="bf16"), size).disk, 3000 + 4000 + keys + 512000)
        sketched = self.stats(landmark_sketch_chunks=8, landmark_sketch_key_bytes=10)
        self.assertEqual([room.room_for(self.MODEL, sketched, size, n).landmarks for n in (2, 3)], [keys + 160, keys])

    def test_too_little_is_said_with_both_sizes(self):
        need = room.Room(3 << 20, 2 << 20)
        with self.assertRaisesRegex(NoRoom, "--tokens 9 needs about 3.0 MiB of disk, 1.0 MiB are free"):
            room.check("--tokens 9", self.stats(store_free_bytes=1 << 20), need, need)
        with self.assertRaisesRegex(NoRoom, "2.0 MiB for its landmark keys, the budget .* is 1.0 MiB"):
            room.check("--tokens 9", self.stats(landmark_budget_bytes=1 << 20), need, need)
        room.check("", self.stats(), need, need)


class FlagsTest(unittest.TestCase):
    def refused(self, *more):
        said = io.StringIO()
        with contextlib.redirect_stderr(said), self.assertRaises(SystemExit) as end:
            flags.parse(["--haystack", "books.txt", *more])
        self.assertEqual(end.exception.code, 2)
        return said.getvalue()

    def test_lists_and_sizes_are_read(self):
        parsed = flags.parse(["--haystack", "a", "b", "--tokens", "4k,1m,3000", "--task", "hex,quote", "--json"])
        self.assertEqual((parsed.haystack, parsed.tokens, parsed.task, parsed.json), (["a", "b"], [4096, 1 << 20, 3000], ["hex", "quote"], "-"))

    def test_flags_for_a_server_that_is_started_go_to_it(self):
        parsed = flags.parse(["--landmark-budget", "1000", "--haystack", "a", "--chunk-states-format=bf16"])
        self.assertEqual(parsed.server_flags, ["--landmark-budget", "1000", "--chunk-states-format=bf16"])
        self.assertIn("--server and --landmark-budget exclude", self.refused("--server", "a:1", "--landmark-budget", "1000"))
        self.assertIn("--server and --model exclude", self.refused("--server", "a:1", "--model", "m"))

    def test_what_cannot_be_is_refused(self):
        for more, said in ((("--tokens", "lots"), "no number of tokens"), (("--tokens", "2000m"), "from 256 to 1024m"), (("--task", "hexx"), "expected one of"),
                           (("--samples", "0"), "from 1 to"), (("--task", "quote,reread", "--control", "removed"), "--control removed: not for --task reread")):
            self.assertIn(said, self.refused(*more))


if __name__ == "__main__":
    unittest.main()

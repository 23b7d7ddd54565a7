"""BM25, where a document's chunks lie, and what counts as a hit. What a package that is missing is needed for is skipped."""
import importlib.util
import math
import types
import unittest

import support  # noqa: F401

from niah import bm25
from niah.haystack import Place
from niah.sample import ONE_CHUNK, TWO_CHUNKS, UNKNOWN, Finding
from niah.task import Gold

HAS_CLIENT = importlib.util.find_spec("recollect") is not None


class WordsTest(unittest.TestCase):
    def test_words_are_runs_of_letters_and_digits_in_lower_case(self):
        self.assertEqual(bm25.lower_words(b"The cat's 3rd-best HAT."), ["the", "cat", "s", "3rd", "best", "hat"])
        self.assertEqual(bm25.lower_words(b" -- "), [])


@unittest.skipUnless(bm25.available(), "needs bm25s")
class Bm25Test(unittest.TestCase):
    def search(self, *texts):
        return bm25.Search([bm25.lower_words(text.encode()) for text in texts])

    def test_scores_are_those_of_the_formula(self):
        search = self.search("the cat sat", "the dog", "a cat and a cat and a cow")
        self.assertEqual(search.best("Cat", 8), [0, 2])
        # 3 texts of 3, 2 and 8 words, 2 of them with a cat.
        idf, mean = math.log(1 + (3 - 2 + 0.5) / (2 + 0.5)), 13 / 3
        scores = search.index.get_scores(["cat"])
        for text, tf, length in (0, 1, 3), (2, 2, 8):
            self.assertAlmostEqual(scores[text], idf * tf / (tf + 1.2 * (0.25 + 0.75 * length / mean)))

    def test_a_word_that_stands_twice_in_the_query_counts_twice(self):
        search = self.search("rare one", "other two two", "other three")
        self.assertEqual(search.best("rare other other other", 1), [2])
        self.assertEqual(search.best("rare other", 1), [0])

    def test_texts_without_a_word_of_the_query_are_no_hits_and_ties_go_to_the_earlier(self):
        search = self.search("one two", "three four", "one two", "one two")
        self.assertEqual(search.best("two", 2), [0, 2])
        self.assertEqual(search.best("five", 2), [])
        self.assertEqual(self.search("", "").best("one", 2), [])


class FakeClient:
    """Retrieves chunks of 10 bytes around the query's place, at most 4, or refuses more than `most`."""

    def __init__(self, most):
        self.most, self.queries = most, 0

    def retrieve(self, query, mounts, k, with_text):
        from recollect import InvalidArgument
        if k > self.most:
            raise InvalidArgument("k")
        self.queries += 1
        first = min(int(query[:5]) // 10, 16)
        hits = [types.SimpleNamespace(document=mounts[0], chunk=c, text_begin=10 * c, text_end=10 * c + 10) for c in range(first, first + 4)]
        own = types.SimpleNamespace(document="", chunk=0, text_begin=3, text_end=4)
        return [types.SimpleNamespace(hits=[*hits, own])]


@unittest.skipUnless(HAS_CLIENT, "needs the client")
class VolumeTest(unittest.TestCase):
    TEXT = "".join(f"{i:05}" for i in range(0, 200, 5)).encode()  # every five bytes say where they are

    def test_limits_come_from_hits_and_others_are_cut_evenly(self):
        from niah import volume
        client = FakeClient(most=256)
        limits = volume.find_chunks(client, "d", self.TEXT, 20)
        self.assertEqual(limits, [10 * i for i in range(21)])
        self.assertGreater(client.queries, 3)
        self.assertEqual(volume.evenly([0, None, None, 30, None, 50]), [0, 10, 20, 30, 40, 50])

    def test_chunks_are_found_by_their_bytes(self):
        from niah.volume import Volume
        one = Volume(None, "d", b"x" * 30)
        one.begins, one.known = [0, 10, 20, 30], [True, True, False, True]
        self.assertEqual([one.chunk_at(at) for at in (0, 9, 10, 29)], [0, 0, 1, 2])
        self.assertEqual([one.exact(chunk) for chunk in range(3)], [True, False, False])


@unittest.skipUnless(HAS_CLIENT, "needs the client")
class JudgeTest(unittest.TestCase):
    def test_a_hit_has_a_part_of_each_thing_asked_for(self):
        from niah.ask import Found, judge
        found = [Found(0, 0, 0, 10, 0.5), Found(1, 1, 10, 20, 0.25)]
        one, two, none = Gold(Place(0, 5, 30), 9, 12), Gold(Place(1, 0, 20), 12, 14), Gold(Place(1, 30, 40), 32, 34)
        self.assertEqual(judge(found, [one]), Finding(True, True, 0.5))
        self.assertEqual(judge(found, [one, two]), Finding(True, True, 0.75))
        self.assertEqual(judge(found, [two]), Finding(True, False, 0.25))
        self.assertEqual(judge(found, [one, none]), Finding(False, True, 0.5))
        self.assertEqual(judge(found, []), Finding(False, False, 0.0))

    def test_the_landmark_after_the_question_is_the_last_that_is_not_beyond(self):
        from niah.ask import landmark_after
        retrievals = [types.SimpleNamespace(position=position) for position in (0, 64, 66, 128)]
        self.assertEqual(landmark_after(64, retrievals), 66)
        self.assertEqual(landmark_after(64, []), -1)

    def test_the_span_is_known_from_hits_or_exact_limits(self):
        from niah.ask import Found, span_of
        from niah.volume import Volume
        volume = Volume(None, "d", b"x" * 30)
        volume.begins, volume.known = [0, 10, 20, 30], [True, True, False, True]
        for begin, end, seen, expected in ((0, 9, [], ONE_CHUNK), (0, 25, [], UNKNOWN), (10, 19, [], UNKNOWN), (10, 19, [Found(0, 0, 10, 20)], ONE_CHUNK),
                                           (10, 25, [Found(0, 0, 20, 30)], TWO_CHUNKS)):
            gold = [Gold(Place(0, begin, end), begin, end)]
            self.assertEqual(span_of(gold, [volume], seen), expected, (begin, end, seen))
        self.assertEqual(span_of([], [volume], []), UNKNOWN)


if __name__ == "__main__":
    unittest.main()

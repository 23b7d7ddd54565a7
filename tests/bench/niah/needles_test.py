"""Random numbers, wordings, needles and haystacks, without a model."""
import unittest
import zlib

from support import MATERIAL, at, numbered_haystack, numbered_text

from niah import needle, phrases
from niah.errors import InvalidInput
from niah.haystack import Haystack, Place
from niah.mersenne import Random
from niah.needle import Form, is_right, make_needle


class RandomTest(unittest.TestCase):
    def test_numbers_are_those_of_the_standard(self):
        random = Random(5489)
        for _ in range(9999):
            random.bits()
        self.assertEqual(random.bits(), 9981545732273789042)  # [rand.predef] of the C++ standard

    def test_units_are_below_one(self):
        random = Random(1)
        self.assertTrue(all(0 <= random.unit() < 1 for _ in range(1000)))


class PhrasesTest(unittest.TestCase):
    def test_trained_and_held_out_lists_do_not_overlap(self):
        trained, held_out = MATERIAL.phrases.trained, MATERIAL.phrases.held_out
        self.assertFalse(set(held_out.needles) & set(trained.needles))
        self.assertFalse(set(held_out.nouns) & set(trained.nouns))
        for wordings in trained, held_out:
            for text in wordings.needles:
                self.assertIn("{key}", text)
                self.assertIn("{value}", text)
            for text in wordings.questions:
                self.assertIn("{key}", text)

    def test_wrong_files_are_refused(self):
        with self.assertRaises(InvalidInput):
            phrases.parse("nonsense")
        with self.assertRaisesRegex(InvalidInput, r"train\.questions"):
            phrases.parse('{"train": {"needles": ["x"]}}')


class NeedleTest(unittest.TestCase):
    def test_words_of_keys_are_those_training_leaves_out(self):
        names = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron"
        words = needle.test_words((names.title() + " ").encode() * 3)
        self.assertEqual(words, sorted(w for w in names.split() if len(w) >= 3 and zlib.crc32(w.encode()) % 10 == 0))

    def test_needles_follow_their_form_and_seed(self):
        form = Form("vault code", "In the ledger, under {key}, one finds the {noun} {value}.", "The {noun} of {key} is")
        random, same, taken, again = Random(7), Random(7), [], []
        keys = set()
        for _ in range(20):
            made = make_needle(random, form, ["putney", "ledger", "amber"], taken)
            self.assertEqual(made, make_needle(same, form, ["putney", "ledger", "amber"], again))
            self.assertNotIn(made.key, keys)
            keys.add(made.key)
            self.assertEqual(made.sentence.decode(), f" In the ledger, under {made.key}, one finds the vault code {made.value}.")
            self.assertEqual(made.question, f"The vault code of {made.key} is")
            self.assertEqual(made.sentence[made.value_offset:][:len(made.value)].decode(), made.value)
            self.assertIn(len(made.value), (5, 6, 7))

    def test_keys_apart_share_no_word_while_there_are_words(self):
        form = Form("code", "The {noun} of {key} is {value}.", "The {noun} of {key} is")
        words, taken, random = [c * 4 for c in "abcdefghijklmnopqrstuvwxyz"], [], Random(11)
        for _ in range(5):
            make_needle(random, form, words, taken, apart=True)
        for i, key in enumerate(taken):
            for other in taken[:i]:
                self.assertFalse(needle.key_words(key) & needle.key_words(other))
        # Then keys are merely different.
        few = []
        for _ in range(4):
            make_needle(random, form, ["amber", "putney"], few, apart=True)
        self.assertEqual(len(set(few)), 4)

    def test_answers_are_judged_whole(self):
        for answer in (" 12345", "12345]", "\n12345, and"):
            self.assertTrue(is_right(answer, "12345"), answer)
        for answer in (" 123456", " 1234", " the 12345", ""):
            self.assertFalse(is_right(answer, "12345"), answer)


class HaystackTest(unittest.TestCase):
    def test_cuts_at_characters_without_losing_any(self):
        text = ("żółw " * 300).encode()
        haystack = Haystack.cut(text, 0, len(text), 7)
        self.assertEqual(b"".join(haystack.shards), text)
        for shard in haystack.shards:
            shard.decode()

    def test_needles_replace_text_and_stay_where_their_places_say(self):
        haystack, random = numbered_haystack(4, 2000), Random(3)
        before, sentences = haystack.size(), []
        for i in range(40):
            sentences.append(f" Needle number {1000 + i} lies here.".encode())
            self.assertEqual(at(haystack, haystack.replace(random.unit(), sentences[-1])), sentences[-1])
        self.assertEqual([at(haystack, place) for place in haystack.places], sentences)
        for sentence in sentences:
            self.assertEqual(sum(shard.count(sentence) for shard in haystack.shards), 1)
        self.assertTrue(0 <= before - haystack.size() <= 40 * 10)  # the rest of a word each

    def test_depth_chooses_the_place(self):
        haystack = Haystack.cut(b"abcd " * 1000, 0, 5000, 5)
        self.assertEqual([haystack.replace(depth, b" xx").shard for depth in (0.5, 0.99, 0)], [2, 4, 0])
        self.assertAlmostEqual(haystack.depth_of(haystack.at(0.3)), 0.3, 3)

    def test_places_follow_what_is_placed_and_removed_before_them(self):
        haystack = numbered_haystack(1, 500)
        sentences = [f" Needle at {depth}.".encode() for depth in (0.8, 0.2, 0.5)]
        for depth, sentence in zip((0.8, 0.2, 0.5), sentences):
            haystack.replace(depth, sentence)
        haystack.remove(haystack.places[1])
        self.assertEqual([at(haystack, place) for place in haystack.places], [sentences[0], b"", sentences[2]])
        middle = haystack.places[2]
        self.assertTrue(haystack.touches(Place(0, middle.begin - 10, middle.begin + 1)))
        self.assertFalse(haystack.touches(Place(0, middle.begin - 10, middle.begin)))
        haystack.remove(Place(0, middle.begin - 5, middle.begin + 7))  # a part of it
        self.assertEqual([at(haystack, haystack.places[i]) for i in (2, 0)], [b" at 0.5.", sentences[0]])

    def test_a_copy_is_left_as_it_is(self):
        haystack = numbered_haystack(2)
        copied = haystack.copy()
        haystack.replace(0.5, b" A needle.")
        self.assertEqual(b"".join(copied.shards), numbered_text(4000))
        self.assertEqual(copied.places, [])

    def test_a_full_haystack_says_so(self):
        haystack = Haystack.cut(b"one two three four", 0, 18)
        haystack.replace(0, b" 12345")
        with self.assertRaisesRegex(InvalidInput, "no room for 2 needles"):
            haystack.replace(0, b" 1234567890123")


if __name__ == "__main__":
    unittest.main()

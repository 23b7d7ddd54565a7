"""What the tasks hide, ask and take for right, without a model."""
import unittest

from support import MATERIAL, at, contains, numbered_haystack

from niah import prose, quote, records
from niah.errors import InvalidInput
from niah.mersenne import Random
from niah.record_shapes import SHAPES
from niah.task import Draw, TaskOptions, Variant
from niah.tasks import TASKS

OPTIONS = TaskOptions(distractors=5, passage_bytes=200, cues=["whole", "thinned", "shuffled"])


def make(task, variant, haystack, removed=False):
    task.prepare(variant, Random(5), haystack)
    return task.make(Draw(variant, 0.4, removed, False, Random(7), haystack))


class TaskTest(unittest.TestCase):
    def variants(self):
        for name, factory in TASKS.items():
            task = factory(OPTIONS, MATERIAL)
            self.assertEqual(task.name, name)
            for variant in task.variants():
                with self.subTest(task=name, variant=variant.name):
                    yield task, variant

    def test_questions_follow_their_seed_and_gold_is_where_it_says(self):
        for task, variant in self.variants():
            haystack, again = numbered_haystack(2), numbered_haystack(2)
            question = make(task, variant, haystack)
            self.assertEqual(make(task, variant, again), question)
            self.assertEqual(again.shards, haystack.shards)
            self.assertTrue(question.gold)
            texts = [haystack.shards[place.shard][begin:end].decode() for place, begin, end in question.gold]
            if task.name in ("reread", "prose") or variant.name == "whole":
                self.assertEqual(texts, [question.prompt])
            elif task.name != "quote":
                self.assertTrue(all(any(expected in text for expected in question.expected) for text in texts))

    def test_what_is_removed_is_not_there(self):
        for task, variant in self.variants():
            if task.name in ("reread", "prose"):
                continue  # they report their own controls
            haystack, without = numbered_haystack(2), numbered_haystack(2)
            question = make(task, variant, haystack)
            control = make(task, variant, without, removed=True)
            self.assertEqual((control.prompt, control.gold), (question.prompt, []))
            for gold in question.gold:
                self.assertFalse(contains(without, at(haystack, gold.place)))

    def test_passages_are_of_the_size_asked_for(self):
        question = make(TASKS["reread"](OPTIONS, MATERIAL), Variant(0, "passage"), numbered_haystack(2))
        self.assertAlmostEqual(len(question.prompt), 200, delta=12)

    def test_what_does_not_fit_the_haystack_is_refused(self):
        large = TaskOptions(cue_words=4000, passage_bytes=100000)
        for name, flag in ("quote", "--cue-words"), ("prose", "--cue-words"), ("reread", "--passage-bytes"):
            with self.assertRaisesRegex(InvalidInput, flag):
                make(TASKS[name](large, MATERIAL), Variant(0, "whole"), numbered_haystack(2))


class QuoteTest(unittest.TestCase):
    def test_words_are_found_with_their_places(self):
        text = b"one  two\nthree"
        self.assertEqual([text[w.begin:w.end] for w in quote.words_from(text, 0, 5)], [b"one", b"two", b"three"])
        self.assertEqual(quote.words_from(text, 1, 1)[0].begin, 5)  # not "ne"
        self.assertEqual(quote.words_from(text, 5, 1)[0].begin, 5)
        self.assertEqual(quote.words_from(text, 10, 1), [])

    def test_cues_lose_a_third_of_their_words_or_their_order(self):
        words = [f"w{10 + i}" for i in range(12)]
        random = Random(3)
        thinned = quote.thinned(words, random)
        self.assertEqual((len(thinned), sorted(thinned)), (8, thinned))
        shuffled = quote.shuffled(words, random)
        self.assertNotEqual(shuffled, words)
        self.assertEqual(sorted(shuffled), words)

    def test_answers_are_compared_by_whole_words(self):
        expected = " the cat sat on the mat"
        self.assertTrue(quote.starts_with_words("the  cat\nsat up", expected, 3))
        for answer, count in ("the cat sat up", 4), ("the cats sat", 3), ("the cat", 3):
            self.assertFalse(quote.starts_with_words(answer, expected, count))


class ProseTest(unittest.TestCase):
    def test_trained_forms_are_found_and_prose_is_not(self):
        forms = prose.TrainedForms(MATERIAL.phrases)
        for text in (b"and then. What is the secret code for amber? Answer:", b"He told me the pass key of the grey ship, namely 1. He went",
                     b"On the door of Amber hung the number seven.",  # of `more`
                     b" f39941c9409a and"):
            self.assertTrue(forms.found_in(text), text)
        for text in (b"He told me the name of the ship, and in 1815 he went to sea.", b"",
                     b"What is the secret code for the door on which the whole of the ship's company and all of their wives had knocked? Answer:"):
            self.assertFalse(forms.found_in(text), text)

    def test_cycles_are_of_up_to_three_tokens(self):
        tokens = [1, 2, 3, 4, 9, 8, 9, 8, 9, 8, 9, 8]
        self.assertTrue(prose.cycles(tokens, 5))  # the six behind 9 8
        self.assertFalse(prose.cycles(tokens, 6))
        self.assertTrue(prose.cycles([7] * 4, 2))
        self.assertTrue(prose.cycles([1, 2, 3, 1, 2, 3, 1], 3))
        self.assertFalse(prose.cycles([1, 2, 3, 4] * 3, 3))
        self.assertFalse(prose.cycles([], 0))

    def test_repeats_are_runs_of_four_words_that_stood_before(self):
        self.assertAlmostEqual(prose.share_of_repeats(b"the next  morning and\nthe next morning and the"), 2 / 6)
        self.assertEqual(prose.share_of_repeats(b"a b c d e f g"), 0)
        self.assertEqual(prose.share_of_repeats(b"a a a"), 0)

    def test_digits_are_counted_by_bytes(self):
        self.assertEqual(prose.share_of_digits(b"a1b2"), 0.5)
        self.assertEqual(prose.share_of_digits(b""), 0)


class RecordsTest(unittest.TestCase):
    def test_shapes_hold_their_key_before_the_value_or_ask_for_it(self):
        self.assertEqual(len({shape.name for shape in SHAPES}), 27)
        for shape in SHAPES:
            with self.subTest(shape.name):
                self.assertIn(shape.record[0], " \n")
                self.assertEqual(shape.record.index("{value}") < shape.record.index("{key}"), shape.question != "")
                self.assertEqual("{key}" in shape.question, shape.question != "")

    def test_records_differ_in_key_and_value_and_ask_up_to_the_value(self):
        for shape in SHAPES:
            random, taken = Random(11), set()
            for i in range(41):
                record = records.make_record(random, shape, MATERIAL.words, taken)
                with self.subTest(record.text):
                    self.assertEqual(len(taken), 2 * (i + 1))
                    self.assertEqual(record.text[record.value_offset:][:len(record.value)].decode(), record.value)
                    self.assertNotRegex(record.text.decode(), r"\{(key|value|word|n)")
                    if not shape.question:
                        self.assertEqual(record.text.decode().find(record.prompt), 1)
                        self.assertLessEqual(len(record.prompt) + 1, record.value_offset)

    def test_answers_begin_with_the_whole_value(self):
        self.assertTrue(records.starts_with_value(" Amber Putney, who", "Amber Putney"))
        self.assertTrue(records.starts_with_value('412.50"', "412.50"))
        for answer in ("412.501", "the 412.50", ""):
            self.assertFalse(records.starts_with_value(answer, "412.50"))


class RulerTest(unittest.TestCase):
    def test_questions_are_worded_as_published(self):
        task, questions, haystacks = TASKS["ruler"](OPTIONS, MATERIAL), {}, {}
        for variant in task.variants():
            haystacks[variant.name] = numbered_haystack(2)
            questions[variant.name] = make(task, variant, haystacks[variant.name])
        for name, prompt in {
                "single-2": r"What is the special magic number for [a-z-]+ mentioned in the provided text\? The special magic number for "
                            r"[a-z-]+ mentioned in the provided text is",
                "multikey-3": r"What is the special magic uuid for [0-9a-f-]{36} mentioned .* is",
                "multiquery": r"What are all the special magic numbers for [a-z-]+, [a-z-]+, [a-z-]+, and [a-z-]+ mentioned .* text are",
                "variables": r"Question: Find all variables that are assigned the value (\d{5}) in .*, 2 variables are assigned the value "
                             r"\1, they are:"}.items():
            self.assertRegex(questions[name].prompt, f"^{prompt}$")
        self.assertEqual([len(questions[name].expected) for name in ("multiquery", "multivalue")], [4, 4])
        number, names = questions["single-1"].expected[0], questions["variables"].expected
        self.assertRegex(number, r"^[1-9]\d{6}$")
        for name, text in (("single-1", f"is: {number}."), ("single-1", "The grass is green. The sky is blue."), ("single-2", "word100"),
                           ("variables", f"VAR {names[1]} = VAR {names[0]}")):
            self.assertTrue(contains(haystacks[name], text.encode()), text)
        self.assertFalse(contains(haystacks["multikey-2"], b"word100"))


if __name__ == "__main__":
    unittest.main()

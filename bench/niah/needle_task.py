"""passkey, distractors, hex: a sentence gives a key a value, a question asks for it."""
from niah.needle import is_right, make_form, make_needle
from niah.task import Gold, Question, Task, Variant


class Needles(Task):
    shares = True

    def __init__(self, name, options, material):
        self.name, self.options, self.material = name, options, material
        self.prepares = name == "distractors"
        self.form = None  # of the distractors

    def variants(self):
        return [Variant(int(name == "held-out"), name) for name in self.options.phrasings]

    def draw_form(self, variant, random):
        phrases = self.material.phrases
        return make_form(random, phrases.held_out if variant.number else phrases.trained, self.options.hex_digits if self.name == "hex" else 0)

    def prepare(self, variant, random, haystack):
        self.form = self.draw_form(variant, random)
        for _ in range(self.options.distractors):
            distractor = make_needle(random, self.form, self.material.words, haystack.keys)
            haystack.replace(random.unit(), distractor.sentence)

    def make(self, draw):
        form = self.form if self.prepares else self.draw_form(draw.variant, draw.random)
        needle = make_needle(draw.random, form, self.material.words, draw.haystack.keys, draw.shared)
        question = Question(needle.question, [needle.value], len(needle.value) + 8, (".", "\n"))  # a token is a byte at least
        if not draw.removed:
            place = draw.haystack.replace(draw.depth, needle.sentence)
            begin = place.begin + needle.value_offset
            question.gold = [Gold(place, begin, begin + len(needle.value))]
        return question

    def run(self, asker, question, volumes, sample):
        asker.ask(question, volumes, sample)
        sample.right = is_right(sample.answer, question.expected[0])

"""prose: the whole prompt is words of a book.

Judges whether the continuation looks like prose, repeats the questions and values of training, or goes round in circles.
"""
import re
import zlib

from niah.errors import InvalidInput
from niah.haystack import Place
from niah.quote import words_from
from niah.task import Gold, Question, Task, Variant

TOKENS = 64  # of a continuation
CYCLE_TOKENS = 20  # that may go round in a circle
LONGEST_CYCLE = 3
RUN_WORDS = 4
VALUE_DIGITS = 5  # more than a year has
SLOT = 60  # bytes of a key or value at most
TRIES = 1000  # to find a prompt that no shard's end cuts


class Prose(Task):
    name, hides = "prose", False
    least_documents = 2  # one to begin from, one to mount

    def __init__(self, options, material):
        self.options, self.forms = options, TrainedForms(material.phrases)

    def variants(self):
        return [Variant(i, name) for i, name in enumerate(("greedy", "greedy, docs", "sampled", "sampled, docs"))]

    def make(self, draw):
        count = self.options.cue_words
        for attempt in range(TRIES):
            at = draw.haystack.at(draw.depth if attempt == 0 else draw.random.unit())
            text = draw.haystack.shards[at.shard]
            words = words_from(text, at.begin, count + TOKENS)
            if len(words) < count + TOKENS:
                continue
            begin, end = words[0].begin, words[count - 1].end
            return Question(text[begin:end].decode(), [text[end:words[-1].end].decode()],
                            gold=[Gold(Place(at.shard, begin, end), begin, end)])
        raise InvalidInput(f"prose: no document of the haystack has {count} words (--cue-words) with {TOKENS} others behind them")

    def run(self, asker, question, volumes, sample):
        mounted = []
        if sample.variant.endswith("docs"):
            # The document that the prompt is of is never mounted: the model would quote it.
            holder = question.gold[0].place.shard
            mounted = volumes[:holder] + volumes[holder + 1:]
        sampling = {}
        if sample.variant.startswith("sampled"):
            sampling = {"temperature": 0.8, "top_p": 0.9, "seed": zlib.crc32(question.prompt.encode())}
        result = asker.continued(question.prompt, mounted, TOKENS, **sampling)
        answer = result.text.encode()
        text = question.expected[0].encode()[:len(answer)]
        sample.question, sample.value, sample.answer = question.prompt, text.decode(errors="replace"), result.text
        form, cycle = self.forms.found_in(answer), cycles(result.tokens, CYCLE_TOKENS)
        sample.right = not form and not cycle
        sample.numbers = {"cycles": int(cycle), "forms": int(form), "forms in the text": int(self.forms.found_in(text)),
                          "repeats": share_of_repeats(answer), "repeats in the text": share_of_repeats(text),
                          "digits": share_of_digits(answer), "digits in the text": share_of_digits(text)}


class TrainedForms:
    """Finds traces of training in a text: one of its wordings, of needles or of questions, about one of its nouns; or a run of
    letters and digits with five digits or more, like the values of training."""

    def __init__(self, phrases):
        trained = phrases.trained
        wordings = [w for w in (*trained.needles, *trained.questions, *phrases.more) if "{noun}" in w]
        # The fixed texts of each wording about each noun, in order; a key or value stands between two.
        self.wordings = [fixed_texts(wording, noun) for wording in wordings for noun in trained.nouns]

    def found_in(self, text):
        if any(sum(c in b"0123456789" for c in run) >= VALUE_DIGITS for run in re.findall(rb"[0-9A-Za-z]+", text)):
            return True
        return any(follow_each_other(parts, text) for parts in self.wordings)


def fixed_texts(wording, noun):
    text = wording.replace("{noun}", noun).replace("{key}", "\n").replace("{value}", "\n")
    return [part.encode() for part in text.split("\n") if part.strip()]


def follow_each_other(parts, text):
    """Whether the parts stand in the text, with at most a key or a value between two."""
    first = text.find(parts[0])
    while first >= 0:
        end = first + len(parts[0])
        for part in parts[1:]:
            at = text.find(part, end, end + SLOT + len(part))
            if at < 0:
                break
            end = at + len(part)
        else:
            return True
        first = text.find(parts[0], first + 1)
    return False


def cycles(tokens, length):
    """Whether more than `length` consecutive tokens each equal the token p places earlier, for p = 1, 2 or 3."""
    for period in range(1, LONGEST_CYCLE + 1):
        repeated = 0
        for now, before in zip(tokens[period:], tokens):
            repeated = repeated + 1 if now == before else 0
            if repeated > length:
                return True
    return False


def share_of_repeats(text):
    """The share of a text's runs of four words that occur earlier in it; 0 for a short text."""
    words = text.split()
    runs = [tuple(words[i:i + RUN_WORDS]) for i in range(len(words) - RUN_WORDS + 1)]
    return 1 - len(set(runs)) / len(runs) if runs else 0.0


def share_of_digits(text):
    """The share of bytes that are digits; 0 for an empty text."""
    return sum(48 <= c <= 57 for c in text) / len(text) if text else 0.0

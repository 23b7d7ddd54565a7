"""quote: a few consecutive words of the haystack are the whole prompt.

Measures whether the chunk that contains them is retrieved and whether the answer continues as the text does.
"""
import re
from typing import NamedTuple

from niah.errors import InvalidInput
from niah.task import Gold, Question, Task, Variant
from niah.haystack import Place

FEW_WORDS, MANY_WORDS = 5, 20  # of the continuation
TRIES = 1000  # to find words that stand in one place only
CUES = ["whole", "thinned", "shuffled"]
WORD, SPACE = re.compile(rb"\S+"), re.compile(rb"\s")


class WordPlace(NamedTuple):
    """The bytes [begin, end) of a word: a run of characters that are no white space."""

    begin: int
    end: int


def words_from(text, begin, count):
    """Up to `count` words that begin at or after byte `begin`; a word that begins before is skipped."""
    if 0 < begin < len(text):
        space = SPACE.search(text, begin - 1)
        begin = space.end() if space else len(text)
    return [WordPlace(*word.span()) for word, _ in zip(WORD.finditer(text, begin), range(count))]


def thinned(words, random):
    """The words without a third of them, drawn at random, in their order."""
    words = list(words)
    for _ in range(len(words) // 3):
        del words[random.below(len(words))]
    return words


def shuffled(words, random):
    words = list(words)
    for i in range(len(words) - 1, 0, -1):
        other = random.below(i + 1)
        words[i], words[other] = words[other], words[i]
    return words


def starts_with_words(answer, expected, count):
    """Whether the first `count` words of both are there and the same."""
    ours, theirs = (re.findall(r"[^ \t\n\r\f\v]+", text)[:count] for text in (answer, expected))
    return len(ours) == count and ours == theirs


class Quote(Task):
    name, hides, shares = "quote", False, True

    def __init__(self, options):
        self.options = options

    def variants(self):
        return [Variant(CUES.index(cue), cue) for cue in self.options.cues]

    def make(self, draw):
        for attempt in range(TRIES):
            # The first try at the depth asked for, others anywhere.
            at = draw.haystack.at(draw.depth if attempt == 0 else draw.random.unit())
            text = draw.haystack.shards[at.shard]
            words = words_from(text, at.begin, self.options.cue_words + MANY_WORDS)
            if len(words) < self.options.cue_words + MANY_WORDS:
                continue
            begin, end, last = words[0].begin, words[self.options.cue_words - 1].end, words[-1].end
            if draw.haystack.touches(Place(at.shard, begin, last)) or occurrences(draw.haystack, text[begin:end]) != 1:
                continue
            return self.question(draw, Place(at.shard, begin, end), text[begin:end], text[end:last])
        raise InvalidInput(f"quote: found no {self.options.cue_words} words (--cue-words) that stand in the haystack once and have "
                           f"{MANY_WORDS} others behind them")

    def question(self, draw, place, cue, following):
        question = Question(cue.decode())
        if draw.variant.name == "whole":
            question.expected = [following.decode()]
            question.max_tokens = len(following) + 8  # a token is a byte at least
        else:
            order = thinned if draw.variant.name == "thinned" else shuffled
            question.prompt = b" ".join(order(cue.split(), draw.random)).decode()
        if draw.removed:
            draw.haystack.remove(Place(place.shard, place.begin, place.end + len(following)))
        else:
            question.gold = [Gold(place, place.begin, place.end)]
        return question

    def run(self, asker, question, volumes, sample):
        asker.ask(question, volumes, sample)
        if question.max_tokens == 0:
            return
        following = question.expected[0]
        sample.right = starts_with_words(sample.answer, following, FEW_WORDS)
        sample.numbers = {"next 20 words": int(starts_with_words(sample.answer, following, MANY_WORDS))}


def occurrences(haystack, cue):
    """0, 1 or 2, which stands for more."""
    count = 0
    for text in haystack.shards:
        at = text.find(cue)
        while at >= 0 and count < 2:
            count += 1
            at = text.find(cue, at + 1)
    return count

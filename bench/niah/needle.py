"""Needles: a sentence that gives a key a value, a question for it, and the answer.

Keys and values are generated from a seed; words of keys are among the tenth that training never uses for keys (CRC-32 divisible
by 10).
"""
import re
import zlib
from collections import Counter
from typing import NamedTuple

LEAST_WORD_COUNT = 3
TRIES_APART = 200  # to find a key of words that no other has
DIGITS, HEX_DIGITS = "0123456789", "0123456789abcdef"
KEY_WORD = re.compile(rb"(?<!\S)[a-z]{3,10}(?!\S)")
ALPHANUMERIC = re.compile(r"[ \n]*([0-9A-Za-z]*)")


class Form(NamedTuple):
    """The common parts of needles of one form; distractors differ from the needle in key and value only. Values have so many hex
    digits, or 5 to 7 digits where that is 0."""

    noun: str
    needle: str
    question: str
    hex_digits: int = 0


class Needle(NamedTuple):
    """`sentence` starts with white space; `value_offset` is the value's in it."""

    key: str
    value: str
    sentence: bytes
    question: str
    value_offset: int


def capitalised(text):
    return text[:1].upper() + text[1:]


def make_form(random, phrases, hex_digits=0):
    return Form(random.pick(phrases.nouns), random.pick(phrases.needles), random.pick(phrases.questions), hex_digits)


def make_key(random, words):
    """A key in a form of training's: words in lower case, with capitals, or with hyphens."""
    count, style = 1 + random.below(3), random.below(3)
    parts = [random.pick(words) for _ in range(count)]
    return ("-" if style == 2 else " ").join(map(capitalised, parts) if style == 1 else parts)


def key_words(key):
    return {word for word in re.split("[ -]", key) if word}


def new_key(random, words, taken, apart):
    tries = 0
    while True:
        key = make_key(random, words)
        lower = key.lower()
        if lower in taken:
            continue
        if apart and tries < TRIES_APART:
            tries += 1
            if any(key_words(lower) & key_words(other) for other in taken):
                continue
        taken.append(lower)
        return key


def make_needle(random, form, words, taken, apart=False):
    """The key differs from all in `taken` and is added to it. `apart`: where there are words enough, it has not even a word in
    common with any of them."""
    key = new_key(random, words, taken, apart)
    value = random.characters(form.hex_digits, HEX_DIGITS) if form.hex_digits else random.characters(5 + random.below(3), DIGITS)

    def fill(phrase):
        return phrase.replace("{noun}", form.noun).replace("{key}", key).replace("{value}", value)

    sentence = fill(form.needle)
    if not sentence.startswith("\n"):
        sentence = " " + capitalised(sentence)
    encoded = sentence.encode()
    return Needle(key, value, encoded, capitalised(fill(form.question)), encoded.find(value.encode()))


def test_words(text):
    """Words of the text that training never drew: 3 to 10 letters only, frequent enough to be words. Sorted."""
    counts = Counter(word[0] for word in KEY_WORD.finditer(text.lower()))
    return [word.decode() for word, count in sorted(counts.items()) if count >= LEAST_WORD_COUNT and zlib.crc32(word) % 10 == 0]


def is_right(answer, value):
    """Whether the first run of letters and digits in the answer is exactly the value; what follows it (a full stop, a bracket)
    belongs to the wording."""
    return ALPHANUMERIC.match(answer).group(1) == value

"""Counts in how many blocks of text each word is, and writes the table of inverse document frequencies model/text/idf.txt.

    PYTHONPATH=train python -m data.idf --gguf SmolLM2-135M-Instruct.Q4_1.gguf --books books-train.jsonl.xz --documents qa/*.jsonl

Words are those of model/text/words.h: of the tokens of the tokenizer in the GGUF file, and whole words of the texts, which
tokenizers with larger vocabularies have as tokens. Of the documents, those with crc32(id) % 8 == 0 are left out: reports
are made on them. Needs the packages numpy, tokenizers and gguf."""
import argparse
import collections
import json
import lzma
import math
import pathlib
import re
import unicodedata
import zlib

import numpy as np

from data.smollm import endings, read_tokenizer, token_texts

ENDINGS = ("ing", "ed", "es", "s", "ly")
LETTERS = re.compile(r"[^\W\d_]+")
LEAST, MOST = 32, 63   # tokens of a block
FEWEST = 12            # blocks with a word that is no token's, to be in the table
PART = 200_000         # characters that are encoded together


def word_text(text):
    """The word of a token's text, as model/text/words.h has it."""
    text = "".join(c.lower() for c in text.strip())
    for ending in ENDINGS:
        if text.endswith(ending) and len(text) - len(ending) >= 4:
            return text[:-len(ending)]
    return text


def block_begins(ids, ends):
    """The first token of each block: blocks are the longest of 32 to 63 tokens that end a sentence, else 63 tokens."""
    stops, begins, at = np.flatnonzero(ends[ids]) + 1, [], 0
    while at < len(ids):
        begins.append(at)
        last = np.searchsorted(stops, at + MOST, "right") - 1
        fits = len(ids) - at > MOST and last >= 0 and stops[last] >= at + LEAST
        at = int(stops[last]) if fits else at + MOST
    return np.array(begins)


class Counter:
    """In how many blocks each word was."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        texts = token_texts(tokenizer)
        self.number, self.ends = {}, endings(texts)
        self.words = np.array([self._number(word_text(text)) for text in texts])
        self.of_tokens = len(self.number)
        self.of_letters = {}
        self.count, self.blocks = collections.Counter(), 0

    def _number(self, word):
        return self.number.setdefault(word, len(self.number))

    def _of_letters(self, letters):
        if letters not in self.of_letters:
            self.of_letters[letters] = self._number(word_text(letters))
        return self.of_letters[letters]

    def add(self, text):
        encoding = self.tokenizer.encode(text, add_special_tokens=False)
        ids, offsets = np.array(encoding.ids), encoding.offsets
        begins = block_begins(ids, self.ends)
        first = np.array([offsets[at][0] for at in begins])
        block = np.searchsorted(begins, np.arange(len(ids)), "right") - 1
        found = [(match.start(), self._of_letters(match.group())) for match in LETTERS.finditer(text)]
        at, letters = (np.array(part, np.int64) for part in (zip(*found) if found else ((), ())))
        whole = np.searchsorted(first, at, "right") - 1
        pairs = np.concatenate([block, whole]) << 32 | np.concatenate([self.words[ids], letters])
        words, counts = np.unique(np.unique(pairs) & 0xFFFFFFFF, return_counts=True)
        self.count.update(dict(zip(words.tolist(), counts.tolist())))
        self.blocks += len(begins)


def parts(text):
    """Pieces of whole paragraphs."""
    at = 0
    while at < len(text):
        end = text.rfind("\n\n", at, at + PART) + 2 if len(text) - at > PART else len(text)
        end = end if end > at + 1 else at + PART
        yield text[at:end]
        at = end


def texts(books, documents):
    with lzma.open(books, "rt") as lines:
        yield from (json.loads(line)["text"] for line in lines)
    for path in documents:
        for line in path.read_text().splitlines():
            document = json.loads(line)
            if zlib.crc32(document["id"].encode()) % 8 != 0:
                yield document["text"]


def may_stand(word):
    """Whether a word can be written in the table, in which blanks divide words."""
    return word and not any(c.isspace() or unicodedata.category(c) in ("Cc", "Cs", "Co") or c == "\ufffd" for c in word)


def lines(counter):
    """Of each idf in hundredths, a line with the words that have it, sorted."""
    rows = collections.defaultdict(list)
    for word, number in counter.number.items():
        n = counter.count[number]
        if may_stand(word) and n >= (1 if number < counter.of_tokens else FEWEST):
            idf = math.log(1 + (counter.blocks - n + 0.5) / (n + 0.5))
            rows[max(1, round(100 * idf))].append(word)
    absent = round(100 * math.log(1 + (counter.blocks + 0.5) / 0.5))
    yield f"{counter.blocks} {absent}"
    for idf in sorted(rows):
        yield f"{idf} {' '.join(sorted(rows[idf]))}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gguf", type=pathlib.Path, required=True, help="file whose tokenizer divides the texts")
    parser.add_argument("--books", type=pathlib.Path, required=True, help="a JSON object with a text a line, .xz")
    parser.add_argument("--documents", type=pathlib.Path, nargs="+", default=[], help="a JSON object with id and text a line")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("model/text/idf.txt"))
    options = parser.parse_args()
    counter = Counter(read_tokenizer(options.gguf))
    for text in texts(options.books, options.documents):
        for part in parts(text):
            counter.add(part)
    options.out.write_text("\n".join(lines(counter)) + "\n")
    print(f"{counter.blocks} blocks, {len(counter.number)} words, {options.out}: {options.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()

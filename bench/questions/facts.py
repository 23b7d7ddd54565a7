"""Made-up facts of the relations that are in no training (train/memory/facts.py), hidden in books and asked for in other words. Each stands in a document with
FACTS - 1 others of its relation, which differ in who or what they are about and in their value.
"""
import hashlib
import json
import pathlib
import random
import sys

from papers import drawn
from scores import ANSWERABLE, score

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent.parent / "train"))

from memory.facts import HELD_OUT, RELATIONS, fact  # noqa: E402

NAME = "facts"
FACTS = 31  # of a relation
SEED = 20261129
BYTES = 40_000  # of books, in which the facts of a relation are hidden: about 10 000 tokens


class Facts:
    """What questions.py asks, as papers.Papers is."""
    name, general, piece_tokens, alone = NAME, [], None, False

    def __init__(self, books):
        """`books`: texts."""
        rng, self.documents, self.all = random.Random(SEED), {}, []
        long = [book for book in books if len(book.encode()) >= 2 * BYTES]
        if not long:
            raise SystemExit(f"no book is long enough to hide facts in: {2 * BYTES} bytes are needed")
        for number, relation in enumerate(RELATIONS[-HELD_OUT:]):
            document = f"{NAME}/{relation.subject}-{relation.value}"
            facts = distinct(rng, relation)
            self.documents[document] = hide(rng, [sentence for sentence, _ in facts], passage(long[number % len(long)]))
            self.all += [{"id": f"{document}/{i}", "kind": ANSWERABLE, "document": document, "q": asked["q"][i % len(asked["q"])], "a": asked["a"]}
                         for i, (_, asked) in enumerate(facts)]
        self.digest = hashlib.sha256(json.dumps([self.documents, self.all]).encode()).hexdigest()[:16]

    def questions(self, limit):
        return drawn(self.all, limit)

    def front(self, question):
        return self.documents[question["document"]]

    def books_beside(self, tokens, own):
        """How many tokens of books make about `tokens` in all, with `own` of the documents; too few for a line of each book are none."""
        beside = tokens - own
        return beside if beside > tokens // 16 else 0

    def mounted(self, server, tokens, texts, mode):
        pass

    def score(self, question, said, citations, document, tokens):
        return score(question, said, citations, document)


def distinct(rng, relation):
    """[(sentence, {"q": wordings, "a": value})] of FACTS subjects."""
    facts = {}
    while len(facts) < FACTS:
        subject, _, sentence, asked = fact(rng, "valid", relation)
        facts[subject] = sentence, asked
    return list(facts.values())


def passage(book):
    """BYTES from the middle of a book, from where a line begins."""
    book = book.encode()
    begin = book.index(b"\n", len(book) // 2 - BYTES // 2) + 1
    return book[begin:begin + BYTES].decode(errors="ignore")


def hide(rng, sentences, text):
    """The text with a sentence after an end of a sentence in each of as many equal parts."""
    parts, size = [], len(text) // len(sentences)
    for i, sentence in enumerate(sentences):
        part = text[i * size:(i + 1) * size]
        at = part.find(". ", rng.randrange(size // 2)) + 2
        parts.append(f"{part[:at]}{sentence} {part[at:]}" if at > 1 else f"{part.rstrip()}\n\n{sentence}\n\n")
    return "".join(parts)

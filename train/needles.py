"""Needles: keys, values, and the wordings of sentences and questions."""

import random
import re
import zlib

from records import Records

HEX, DIGITS = "0123456789abcdef", "0123456789"
PART, PLACEHOLDER = re.compile(r"<(\w+)>"), re.compile(r"\{\w+\}")
# What may be made of a wording; `Tasks` says how.
SHARES = ("short", "composed", "foreign", "loose", "reply", "tail")
BRACES = str.maketrans("", "", "{}")


def is_test_word(word):
    """One word in ten is never drawn as a key or value in training."""
    return zlib.crc32(word.lower().encode()) % 10 == 0


class Tasks:
    """Draws needles: {noun, key, value, kind} and their wordings. `split` is "train" or "test"."""

    def __init__(self, tokenizer, words, phrases, split, books=None, wording_shares=None):
        """Wordings are drawn from the list of the split and, by `wording_shares`, made, so that no list of phrasings can be
        learned: needles that are "short", a key and its value and no other word; "composed" of the parts in `phrases`, a share
        "foreign" of them with some words of `books` put in; or "loose", of fragments of books. To questions of any kind a stop and
        the first words of a "reply" are added, or a "tail" of a book's words."""
        self.encode, self.p, self.split = tokenizer.encode, dict(phrases[split]), split
        if split == "train":
            self.p.update({what: self.p[what] + more for what, more in phrases["more"].items()})
        self.books, self.decode = books, tokenizer.decode
        self.parts, self.shares = phrases["parts"], wording_shares or dict.fromkeys(SHARES, 0.0)
        self.words = [w for w in words if is_test_word(w) == (split == "test")]
        self.known = frozenset(self.words)
        self.token_bytes = tokenizer.token_bytes
        self.begins_word = [text[:1] in (b" ", b"\n") for text in self.token_bytes]
        self.records = Records(self.words, self.fragment)

    def key(self, rng, near=""):
        """A key. `near`: text around the needle, whose words become keys, too: they stand in the chunks beside it, and in those of
        other needles, so that only what is asked about them tells the chunks apart."""
        r = rng.random()
        if r < 0.06:
            return "".join(rng.choice("ABCDEFGHIJKLMNOPQRSTUVWXYZ") for _ in range(rng.randint(2, 6)))
        if r < 0.12:
            return rng.choice(self.words).capitalize() + " " + str(rng.randrange(1000))
        words = [rng.choice(self.words) for _ in range(rng.choice((1, 1, 1, 1, 2, 2, 3)))]
        if len(words) == 1 and self.books is not None and rng.random() < 0.8:
            text = near if near and rng.random() < 0.5 else self.fragment(rng, 20, 20)
            common = [w for w in text.split() if w in self.known]
            words = [rng.choice(common)] if common else words
        if r < 0.55:
            return " ".join(words).lower()
        if r < 0.65:
            return "-".join(words).lower()
        return ("the " if r < 0.75 else "") + " ".join(w.capitalize() for w in words)

    def value(self, rng, kind):
        if kind in ("digits", "hex"):
            # Few different symbols make runs and repeats, where copying loses its place.
            symbols = DIGITS if kind == "digits" else HEX
            if rng.random() < 0.25:
                symbols = rng.sample(symbols, rng.randint(2, len(symbols) // 2))
            lengths = (4, 5, 5, 6, 6, 7, 7, 8) if kind == "digits" else (8, 12, 16, 32, 32)
            return "".join(rng.choice(symbols) for _ in range(rng.choice(lengths)))
        if kind == "letters":
            letters = rng.choice(("abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
            return "".join(rng.choice(letters) for _ in range(rng.randint(5, 9)))
        return " ".join(rng.choice(self.words) for _ in range(rng.randint(1, 4))).lower()

    def fragment(self, rng, fewest, most):
        """`fewest` to `most` consecutive words of a book, each with a space before it."""
        words = self.decode(self.books.passage(rng, 4 * most + 8)).translate(BRACES).split()[1:]
        return "".join(" " + word for word in words[:rng.randint(fewest, most)])

    def loose(self, rng, parts):
        """A wording of the given placeholders, in any order, with fragments of books around them."""
        rng.shuffle(parts)
        text = self.fragment(rng, 0, 5)
        for part in parts:
            text += " " + part + (rng.choice(",.:;?") if rng.random() < 0.25 else "") + self.fragment(rng, 0, 4)
        return text.strip() + rng.choice(("", ".", ".")) * ("{value}" in text)

    def compose(self, rng, form, foreign):
        """Fills the names of parts in `form`, `<be>` say, with parts drawn one by one."""
        text = PART.sub(lambda m: rng.choice(self.parts[m.group(1)]), form)
        if foreign:
            # A few foreign words before one of the placeholders.
            spots = [m.start() for m in PLACEHOLDER.finditer(text)]
            at = rng.choice(spots)
            text = text[:at] + self.fragment(rng, 1, 3).strip() + " " + text[at:]
        return text

    def wording(self, rng, what, listed, placeholders, plain=False):
        """A wording of `what` ("needles" or "questions"): from the list `listed`, composed, or loose. `plain`: without words
        of books, from which a value made of words could not be told."""
        r = rng.random()
        if r < self.shares["composed"]:
            return self.compose(rng, rng.choice(self.parts[what]), not plain and rng.random() < self.shares["foreign"])
        if r < self.shares["composed"] + self.shares["loose"] and not plain:
            return self.loose(rng, list(placeholders) + ["{noun}"] * (rng.random() < 0.6))
        return rng.choice(listed)

    def form(self, rng):
        """What needles of the same form share: a record's, or noun, kind of value and wording."""
        if self.shares.get("record", 0) and rng.random() < self.shares["record"]:
            return self.records.form(rng)
        kind = rng.choices(("digits", "letters", "hex", "words"), (0.42, 0.11, 0.31, 0.16))[0]
        noun = rng.choice(self.p["nouns"])
        if self.split == "train" and rng.random() < 0.35:
            noun = " ".join(rng.choice(self.words) for _ in range(rng.randint(1, 2))).lower()
        if rng.random() < self.shares["short"]:
            template = rng.choice(self.parts["short"])
        else:
            template = self.wording(rng, "needles", self.p["needles"], ("{key}", "{value}"), kind == "words")
        return {"kind": kind, "noun": noun, "template": template}

    def needle(self, rng, form=None, bare_nouns=None, near=""):
        """A needle: ids of its sentence, ids of its answer, wording of a question. `bare_nouns` is the set of nouns
        already taken by needles without a key; when given, this needle has no key either. `near`: as for `key`."""
        form = form or self.form(rng)
        if "parts" in form:
            return self.record(rng, form)
        noun, kind, template = form["noun"], form["kind"], form["template"]
        key, value = self.key(rng, near), self.value(rng, kind)
        bare = bare_nouns is not None and noun not in bare_nouns
        if bare:
            bare_nouns.add(noun)
            template = rng.choice(self.p["bare_needles"])
        fill = {"noun": noun, "key": key, "value": value}
        sentence = template.format(**fill)
        if not sentence.startswith("\n"):
            sentence = rng.choice((" ", " ", "\n")) + sentence[0].upper() + sentence[1:]
        questions = self.p["bare_questions" if bare else "questions"]
        return {"ids": self.encode(sentence), "value": self.encode(" " + value), "kind": kind, "fill": fill,
                "questions": questions, "sentence": sentence, "bare": bare}

    def record(self, rng, form):
        """A record as a needle; its question is its cue."""
        r = self.records.record(rng, form)
        lead = " " if form["kind"] == "words" and rng.random() < 0.5 else "\n"
        return {"ids": self.encode(lead + r["text"]), "value": self.encode(r["value"]), "kind": "record", "fill": {"key": r["key"]},
                "sentence": lead + r["text"], "bare": False, "cue": r["cue"], "after": (r["after"] or "\n")[:1]}

    def cue(self, rng, needle, lead):
        """The record up to its value, at times from its key or a little before it on."""
        cue = needle["cue"]
        at = cue.rfind(needle["fill"]["key"])
        if at > 0 and rng.random() < 0.4:
            cue = cue[rng.randrange(at + 1):].lstrip() if rng.random() < 0.5 else cue[at:]
        return self.encode((rng.choice(("\n", "\n", " ", "\n\n")) if lead is None else lead) + cue)

    def question(self, rng, needle, lead=None):
        if "cue" in needle:
            return self.cue(rng, needle, lead)
        listed = needle["questions"]
        form = rng.choice(listed) if needle["bare"] else self.wording(rng, "questions", listed, ("{key}",))
        # Words after the question, as of an answer begun: what is asked for does not stand last.
        r = rng.random() if not needle["bare"] else 1.0
        if r < self.shares["reply"]:
            form = form.rstrip(":= ") + rng.choice(self.parts["stop"]) + rng.choice(self.parts["reply"])
        elif r < self.shares["reply"] + self.shares["tail"]:
            form += self.fragment(rng, 1, 4) + rng.choice(("", "", ":"))
        text = form.format(**needle["fill"])
        lead = rng.choice((" ", "\n", "\n\n")) if lead is None else lead
        return self.encode(lead + rng.choice(self.p.get("prefixes", ("",))) + text[0].upper() + text[1:])

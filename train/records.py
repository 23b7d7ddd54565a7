"""Records: keys and values in lines as programs write them and in sentences of books, in shapes drawn at random.

A form is a list of parts: fixed text and the marks KEY and VALUE. Records of one form differ in key and value alone, as the rows of
a table do. The cue that asks for a value is its record up to it.
"""

import re

KEY, VALUE = "\0key", "\0value"
KINDS = ("number", "name", "words", "date", "money", "code", "hex", "phone", "place")
DIGITS, HEX, CAPITALS = "0123456789", "0123456789abcdef", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
MONTHS = "January February March April May June July August September October November December".split()
WORD = re.compile(r"[A-Za-z]{3,}")


def pick(rng, symbols, n):
    return "".join(rng.choice(symbols) for _ in range(n))


class Records:
    """Draws forms, keys and values. `words`: of the books, lower and upper case; `fragment(rng, fewest, most)`: consecutive words of a book."""

    def __init__(self, words, fragment):
        self.words, self.fragment = words, fragment

    def word(self, rng):
        return rng.choice(self.words).lower()

    def name(self, rng):
        return " ".join(self.word(rng).capitalize() for _ in range(rng.choice((1, 2, 2, 2, 3))))

    def value(self, rng, kind):
        if kind == "number":
            return pick(rng, DIGITS, rng.randint(2, 7))
        if kind in ("name", "place"):
            return self.name(rng) if kind == "name" else self.word(rng).capitalize()
        if kind == "words":
            return " ".join(self.word(rng) for _ in range(rng.randint(1, 5)))
        if kind == "date":
            day, month, year = rng.randint(1, 28), rng.randrange(12), rng.randint(1700, 2029)
            return rng.choice((f"{year}-{month + 1:02}-{day:02}", f"{day} {MONTHS[month]} {year}", f"{MONTHS[month]} {day}, {year}",
                               f"{day:02}/{month + 1:02}/{year}", f"{rng.randint(0, 23):02}:{rng.randint(0, 59):02}"))
        if kind == "money":
            return rng.choice(("$", "£", "€", "")) + pick(rng, DIGITS[1:], 1) + pick(rng, DIGITS, rng.randint(0, 4)) + rng.choice((".", ",")) + pick(rng, DIGITS, 2)
        if kind == "code":
            part = lambda: pick(rng, rng.choice((DIGITS, CAPITALS, DIGITS + CAPITALS, CAPITALS.lower() + DIGITS)), rng.randint(2, 6))
            return rng.choice(("-", "", "_", "/", ".", ":")).join(part() for _ in range(rng.randint(1, 4)))
        if kind == "phone":
            return rng.choice(("-", " ", " ", ".")).join(pick(rng, DIGITS, rng.randint(2, 4)) for _ in range(rng.randint(2, 4)))
        return pick(rng, HEX, rng.choice((6, 8, 8, 12, 16, 32)))

    def key(self, rng):
        r = rng.random()
        if r < 0.4:
            return self.name(rng)
        if r < 0.6:
            return rng.choice(" _-.").join(self.word(rng) for _ in range(rng.randint(1, 3)))
        return self.value(rng, rng.choice(("code", "number", "place", "words", "code")))

    def filler(self, rng):
        """What stands in a column that is neither key nor value: the same words in all rows of a form."""
        return self.fragment(rng, 1, 3).strip() if rng.random() < 0.6 else self.value(rng, rng.choice(KINDS))

    def form(self, rng):
        """{parts, kind, key}: parts of a record, what its value is, how its keys are drawn."""
        parts = rng.choice((self._columns, self._columns, self._pairs, self._pair, self._log, self._sentence, self._sentence, self._sentence))(rng)
        return {"parts": parts, "kind": rng.choice(KINDS)}

    def _columns(self, rng):
        gap = rng.choice((",", ", ", ";", " | ", "|", "\t", "  ", " - ", " / ", ":"))
        quote = rng.choice(("", "", "", '"', "'"))
        columns = [self.filler(rng) for _ in range(rng.randint(0, 3))] + [KEY, VALUE]
        if len(columns) > 2 and rng.random() < 0.6:
            columns.insert(rng.randrange(len(columns)), columns.pop(0))
        edge = rng.choice(("", "", "", "| ", "* ", "- ", "> "))
        parts = [edge]
        for i, column in enumerate(columns):
            parts += [(gap if i else "") + quote, column, quote]
        return parts + [edge[::-1] if edge == "| " else ""]

    def _pairs(self, rng):
        gap = rng.choice((": ", ":", "=", " = ", "->", " -> ", "=>"))
        between = rng.choice((", ", ",", "; ", " ", " & ", "\n"))
        quote = rng.choice(('"', '"', "", "", "'"))
        opening, closing = rng.choice((("{", "}"), ("(", ")"), ("[", "]"), ("<", ">"), ("", ""), ("", ";")))
        fields = [self.filler(rng) for _ in range(rng.randint(0, 2))] + [KEY, VALUE]
        if len(fields) > 2:
            fields.insert(rng.randrange(len(fields)), fields.pop(0))
        parts = [opening]
        for i, field in enumerate(fields):
            parts += [(between if i else "") + quote + self.word(rng) + quote + gap + quote, field, quote]
        return parts + [closing]

    def _pair(self, rng):
        before = rng.choice(("", "", "", self.word(rng) + " ", self.word(rng).capitalize() + " ", self.word(rng) + ".", "# ", "@"))
        gap = rng.choice((": ", ":", " = ", "=", " - ", " -> ", "\t", " ... ", ", ", " (", " [", " "))
        return [before, KEY, gap, VALUE, {" (": ")", " [": "]"}.get(gap, rng.choice(("", "", ".", ";")))]

    def _log(self, rng):
        stamp = rng.choice((self.value(rng, "date") + " ", "[" + self.value(rng, "date") + "] ", "", pick(rng, DIGITS, 5) + " "))
        level = rng.choice(("", rng.choice(("INFO", "WARN", "ERROR", "note", "DEBUG")) + rng.choice((" ", ": ", " - "))))
        return [stamp + level + self.fragment(rng, 0, 2).strip() + " ", KEY, " " + self.fragment(rng, 1, 4).strip() + rng.choice((" ", "=", ": ", " #")),
                VALUE, self.fragment(rng, 0, 3)]

    def _sentence(self, rng):
        """Words of a book, two of which make room for key and value."""
        words = self.fragment(rng, 5, 18).split()
        if len(words) < 4:
            return [KEY, " " + self.word(rng) + " ", VALUE, "."]
        first = rng.randrange(len(words) - 2)
        second = rng.randrange(first + 1, len(words))
        before, between, after = words[:first], words[first + 1:second], words[second + 1:]
        return [" ".join(before) + (" " if before else ""), KEY, " " + "".join(w + " " for w in between), VALUE,
                ("" if not after else " " + " ".join(after)) + rng.choice((".", ".", "", ";"))]

    def record(self, rng, form):
        """{text, cue, value, after, key}: the record, its part up to the value, the value as what follows the cue, what follows the value."""
        key, value = self.key(rng), self.value(rng, form["kind"])
        at = form["parts"].index(VALUE)
        fill = lambda parts: "".join(key if p == KEY else p for p in parts)
        cue, after = fill(form["parts"][:at]), fill(form["parts"][at + 1:])
        if cue.endswith(" ") and not cue.endswith("  "):
            cue, value = cue[:-1], " " + value
        return {"text": cue + value + after, "cue": cue, "value": value, "after": after, "key": key}

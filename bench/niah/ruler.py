"""ruler: tasks in the wordings of RULER (Hsieh et al. 2024, github.com/NVIDIA/RULER): needles of "special magic numbers" among
books, repeated sentences or other needles, and chains of variables. Right when all expected strings occur in the output,
capitals or not.

As there but for: keys are of this tool's words; essays are the given books; the introduction before the text is left out, as the
text is mounted and not read; needles stand between any two words.
"""
from typing import NamedTuple

from niah.errors import InvalidInput
from niah.haystack import Place
from niah.needle import DIGITS, HEX_DIGITS
from niah.records import new_field
from niah.task import Gold, Question, Task, Variant

SENTENCES = b"The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again.\n"
ANSWER_TOKENS, VARIABLE_TOKENS = 128, 30
LINE_TRIES = 1000  # to find a whole line


class Kind(NamedTuple):
    """`ground`: books, noise (repeated sentences) or needles. `keys` asked for, `values` of each key; `others`: needles with other
    keys, among books."""

    name: str
    ground: str
    uuid_keys: bool = False
    uuid_values: bool = False
    keys: int = 1
    values: int = 1
    others: int = 0


KINDS = [
    Kind("single-1", "noise"),
    Kind("single-2", "books"),
    Kind("single-3", "books", uuid_values=True),
    Kind("multikey-1", "books", others=3),
    Kind("multikey-2", "needles"),
    Kind("multikey-3", "needles", uuid_keys=True, uuid_values=True),
    Kind("multivalue", "books", values=4),
    Kind("multiquery", "books", keys=4),
]
VARIABLES = len(KINDS)  # variant of its own: VAR A = 1, VAR B = VAR A


class Pair(NamedTuple):
    key: str
    value: str


def uuid(random):
    parts = [random.characters(count, HEX_DIGITS) for count in (8, 4, 4, 4, 12)]
    parts[2] = "4" + parts[2][1:]  # as uuid4 has it
    return "-".join(parts)


def number(random, count):
    return random.characters(1, DIGITS[1:]) + random.characters(count - 1, DIGITS)


def needle(kind, pair):
    return f"One of the special magic {'uuids' if kind.uuid_values else 'numbers'} for {pair.key} is: {pair.value}."


def question_for(kind, keys):
    one = kind.keys * kind.values == 1
    noun = ("uuid" if kind.uuid_values else "number") + ("" if one else "s")
    query = keys[0] if len(keys) == 1 else ", ".join(keys[:-1]) + ", and " + keys[-1]
    return Question(f"What {'is the' if one else 'are all the'} special magic {noun} for {query} mentioned in the provided text? The special "
                    f"magic {noun} for {query} mentioned in the provided text {'is' if one else 'are'}", max_tokens=ANSWER_TOKENS)


class Ruler(Task):
    name, prepares = "ruler", True

    def __init__(self, material):
        self.material = material
        self.taken = set()  # keys in the haystack
        self.lines = {}  # pairs of a haystack of needles, by their line

    def variants(self):
        return [Variant(i, kind.name) for i, kind in enumerate(KINDS)] + [Variant(VARIABLES, "variables")]

    def make_pair(self, random, kind, taken):
        key = uuid(random) if kind.uuid_keys else new_field(random, "phrase", self.material.words, taken).replace(" ", "-")
        return Pair(key, uuid(random) if kind.uuid_values else number(random, 7))

    def prepare(self, variant, random, haystack):
        kind = KINDS[0 if variant.number == VARIABLES else variant.number]
        self.taken, self.lines = set(), {}
        if kind.ground == "noise":
            haystack.refill(SENTENCES * (haystack.size() // len(SENTENCES) + 1))
        elif kind.ground == "needles":
            haystack.refill(self.text_of_needles(random, kind, haystack.size()))
        for _ in range(kind.others):
            sentence = needle(kind, self.make_pair(random, kind, self.taken))
            haystack.replace(random.unit(), f" {sentence}".encode())

    def text_of_needles(self, random, kind, size):
        lines, count = [], 0
        while count < size:
            pair = self.make_pair(random, kind, self.taken)
            line = needle(kind, pair).encode()
            self.lines[line] = pair
            lines.append(line + b"\n")
            count += len(lines[-1])
        return b"".join(lines)

    def make(self, draw):
        if draw.variant.number == VARIABLES:
            return self.make_variables(draw)
        kind = KINDS[draw.variant.number]
        if kind.ground == "needles":
            return self.choose_line(draw, kind)
        taken, pairs, keys = set(self.taken), [], []
        for _ in range(kind.keys):
            pairs.append(self.make_pair(draw.random, kind, taken))
            keys.append(pairs[-1].key)
            for _ in range(1, kind.values):
                pairs.append(Pair(keys[-1], self.make_pair(draw.random, kind, taken).value))
        question = question_for(kind, keys)
        question.expected = [pair.value for pair in pairs]
        space = "\n" if kind.ground == "noise" else " "
        hide(draw, [(draw.depth if i == 0 else draw.random.unit(), space + needle(kind, pair)) for i, pair in enumerate(pairs)], question)
        return question

    def choose_line(self, draw, kind):
        """A haystack of needles holds what is asked for already."""
        for attempt in range(LINE_TRIES):
            at = draw.haystack.at(draw.depth if attempt == 0 else draw.random.unit())
            text = draw.haystack.shards[at.shard]
            begin = text.find(b"\n", at.begin)
            end = text.find(b"\n", begin + 1) if begin >= 0 else -1
            pair = self.lines.get(text[begin + 1:end]) if end >= 0 else None
            if pair is None:
                continue
            question = question_for(kind, [pair.key])
            question.expected = [pair.value]
            place = Place(at.shard, begin, end)
            if draw.removed:
                draw.haystack.remove(place)
            else:
                question.gold = [Gold(place, end - 1 - len(pair.value), end - 1)]
            return question
        raise InvalidInput("ruler: no document of the haystack has a whole line; needs more --tokens")

    def make_variables(self, draw):
        value = number(draw.random, 5)
        names = [draw.random.characters(5, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") for _ in range(2)]
        depths = sorted((draw.depth, draw.random.unit()))
        question = Question(f"Question: Find all variables that are assigned the value {value} in the text above. Answer: According to the "
                            "chain(s) of variable assignment in the text above, 2 variables are assigned the value "
                            f"{value}, they are:", names, VARIABLE_TOKENS)
        hide(draw, [(depths[0], f"\nVAR {names[0]} = {value}\n"), (depths[1], f"\nVAR {names[1]} = VAR {names[0]}\n")], question)
        return question

    def run(self, asker, question, volumes, sample):
        asker.ask(question, volumes, sample)
        answer = sample.answer.lower()
        found = sum(expected.lower() in answer for expected in question.expected)
        sample.right = found == len(question.expected)
        sample.numbers = {"strings found": found / len(question.expected)}


def hide(draw, sentences, question):
    """Hides pairs of a depth and a sentence. Gold is where the expected strings stand, each in its sentence."""
    if draw.removed:
        return
    before = len(draw.haystack.places)
    for depth, sentence in sentences:
        draw.haystack.replace(depth, sentence.encode())
    for place, (_, sentence), expected in zip(draw.haystack.places[before:], sentences, question.expected):
        begin = place.begin + sentence.find(expected)
        question.gold.append(Gold(place, begin, begin + len(expected)))

"""records: facts in the shapes in which people and programs write them. One record is asked for among others of its shape; the
prompt is the record up to its value."""
import re
from typing import NamedTuple

from niah.errors import InvalidInput
from niah.needle import DIGITS, HEX_DIGITS, capitalised
from niah.record_shapes import SHAPES
from niah.task import Gold, Question, Task, Variant

TRIES_PER_LENGTH = 16  # before a key or value gets one more word
MOST_TRIES = 1000  # there are but 1440 times of day: then one comes twice
MONTHS = "January February March April May June July August September October November December".split()
FILLERS = {"number": "digits", "word": "phrase", "name": "name", "date": "date", "time": "time"}
ANSWER = re.compile(r"[ \t\n]*")


class Record(NamedTuple):
    """`value_offset` is the value's in the text."""

    text: bytes
    value: str
    value_offset: int
    prompt: str


def from_range(random, first, values):
    return first + random.below(values)


def words_joined(random, words, count, between=" ", capitals=False):
    picked = [random.pick(words) for _ in range(count)]
    return between.join(map(capitalised, picked) if capitals else picked)


def iso_date(random, words, count):
    year, month = from_range(random, 1700, 320), from_range(random, 1, 12)
    return f"{year}-{month:02}-{from_range(random, 1, 28):02}"


def date(random, words, count):
    day, month = from_range(random, 1, 28), random.pick(MONTHS)
    return f"{day} {month} {from_range(random, 1700, 320)}"


def time(random, words, count):
    hour = random.below(24)
    return f"{hour:02}:{random.below(60):02}"


def money(random, words, count):
    whole = from_range(random, 1, 9999)
    return f"{whole}.{random.below(100):02}"


def phone(random, words, count):
    return "0" + " ".join([random.characters(3, DIGITS) for _ in range(3)])


# How fields are made, of `count` words where the kind consists of words.
FIELDS = {
    "digits": lambda random, words, count: random.characters(from_range(random, 3, 4), DIGITS),  # 48213
    "name": lambda random, words, count: words_joined(random, words, count, capitals=True),  # Amber Putney
    "place": lambda random, words, count: words_joined(random, words, count, capitals=True),  # Putney
    "words": lambda random, words, count: words_joined(random, words, count + from_range(random, 1, 3)),  # three to five
    "phrase": words_joined,  # amber putney
    "date": date,  # 14 March 1887
    "iso_date": iso_date,  # 1887-03-14
    "time": time,  # 07:42
    "money": money,  # 412.50
    "identifier": lambda random, words, count: random.characters(2, "ABCDEFGHJKLMNPQRSTUVWXYZ") + "-" + random.characters(4, DIGITS),  # QX-4821
    "constant": lambda random, words, count: words_joined(random, words, count, "_").upper(),  # AMBER_PUTNEY
    "handle": lambda random, words, count: random.pick(words) + random.characters(2, DIGITS),  # putney42
    "phone": phone,  # 0482 771 903
    "hex": lambda random, words, count: random.characters(12, HEX_DIGITS),
}


def new_field(random, kind, words, taken):
    """A field that is not in `taken`, if the kind has enough to choose from; it is added to `taken`, in lower case. It has more
    words when too many are taken."""
    for attempt in range(MOST_TRIES):
        field = FIELDS[kind](random, words, (1 if kind == "place" else 2) + attempt // TRIES_PER_LENGTH)
        if field.lower() not in taken:
            break
    taken.add(field.lower())
    return field


def filled_in(random, text, words):
    """The text with its fillers drawn, each by itself."""
    return re.sub(r"\{(number|word|name|date|time)\}",
                  lambda m: FIELDS[FILLERS[m[1]]](random, words, 2 if m[1] == "name" else 1), text)


def make_record(random, shape, words, taken):
    """Its key and value differ from all in `taken`, to which they are added."""
    key = new_field(random, shape.key, words, taken)
    value = new_field(random, shape.value, words, taken)
    before, after = (filled_in(random, part, words).replace("{key}", key) for part in shape.record.split("{value}"))
    # White space before a value is for the answer to write.
    prompt = (shape.question.replace("{key}", key) or before).strip()
    return Record((before + value + after).encode(), value, len(before), prompt)


def starts_with_value(answer, value):
    """Whether the answer, without leading white space, begins with the value and no letter or digit follows it."""
    begin = ANSWER.match(answer).end()
    behind = answer[begin + len(value):begin + len(value) + 1]
    return answer.startswith(value, begin) and not (behind.isascii() and behind.isalnum())


class Records(Task):
    """One haystack holds records of all shapes: a sample asks for one of them."""

    name, hides, prepares, shares = "records", False, True, True

    def __init__(self, options, material):
        self.options, self.material = options, material
        self.records = []  # in the haystack, shape by shape
        self.first_place = 0  # of theirs among all places of the haystack

    def variants(self):
        return [Variant(i, shape.name) for i, shape in enumerate(SHAPES)]

    def of_a_shape(self):
        return self.options.distractors + 1

    def prepare(self, variant, random, haystack):
        self.records, self.first_place = [], len(haystack.places)
        for shape in SHAPES:
            taken = set(haystack.keys)
            for _ in range(self.of_a_shape()):
                self.records.append(make_record(random, shape, self.material.words, taken))
                self.put(haystack, random.unit())

    def put(self, haystack, depth):
        try:
            haystack.replace(depth, self.records[-1].text)
        except InvalidInput as error:
            raise InvalidInput(f"records: {self.options.distractors} --distractors of each of {len(SHAPES)} shapes: {error}") from None

    def make(self, draw):
        haystack, first = draw.haystack, draw.variant.number * self.of_a_shape()

        def distance(i):
            return abs(haystack.depth_of(haystack.places[self.first_place + i]) - draw.depth)

        asked = min(range(first, first + self.of_a_shape()), key=distance)
        record, place = self.records[asked], haystack.places[self.first_place + asked]
        question = Question(record.prompt, [record.value], len(record.value) + 8, ("\n",))  # a token is a byte at least
        if draw.removed:
            haystack.remove(place)
        else:
            begin = place.begin + record.value_offset
            question.gold = [Gold(place, begin, begin + len(record.value))]
        return question

    def run(self, asker, question, volumes, sample):
        asker.ask(question, volumes, sample)
        sample.right = starts_with_value(sample.answer, question.expected[0])

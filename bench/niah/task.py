"""A task determines what is hidden in a haystack, what is asked, and which answers are right. Each is a file and a row of the
table in tasks.py."""
from dataclasses import dataclass, field
from typing import NamedTuple

from niah.haystack import Haystack, Place
from niah.mersenne import Random
from niah.phrases import Phrases

FEW_VARIANTS = 3  # a task with more is reported over all of them, too


class Variant(NamedTuple):
    """What a task reports separately: a phrasing, or a shape of record. `number` is among all variants of the task, requested
    or not: seeds depend on it."""

    number: int
    name: str


@dataclass
class TaskOptions:
    phrasings: list = field(default_factory=lambda: ["trained", "held-out"])  # of passkey, distractors and hex
    distractors: int = 40
    hex_digits: int = 32
    cue_words: int = 12
    cues: list = field(default_factory=lambda: ["whole"])
    passage_bytes: int = 1500


class Material(NamedTuple):
    """`words`: candidates for keys and names, never used in training."""

    phrases: Phrases
    words: list


class Gold(NamedTuple):
    """Where something asked for lies. `place` is that of its sentence, record or line; a chunk is a hit if it has a part of the
    bytes [begin, end) of the place's shard."""

    place: Place
    begin: int
    end: int


@dataclass
class Question:
    """`max_tokens` of the answer; 0: only retrieval is judged. `gold`: empty where the haystack has no answer."""

    prompt: str
    expected: list = field(default_factory=list)
    max_tokens: int = 0
    stop: tuple = ()
    gold: list = field(default_factory=list)


@dataclass
class Draw:
    """How one sample is made. `depth`, 0 to 1, is that of what is asked for. `removed`: the haystack must not contain it.
    `shared`: other samples hide what they ask for in the same haystack."""

    variant: Variant
    depth: float
    removed: bool
    shared: bool
    random: Random
    haystack: Haystack


class Task:
    """`hides`: False where samples ask for what a haystack already contains, so that one haystack serves all of them.
    `prepares`: haystacks are for this task alone, and `prepare` fills them; if samples hide something, a haystack serves one
    variant, otherwise all. `shares`: what all samples ask for can lie in one haystack, beside that of other tasks."""

    name = ""
    hides = True
    prepares = False
    shares = False
    least_documents = 1

    def variants(self):
        raise NotImplementedError

    def prepare(self, variant, random, haystack):
        """Adds to a haystack everything except what single samples ask for. The samples until the next call are drawn from it."""

    def make(self, draw):
        """Makes a sample's question and hides what it asks for, unless draw.removed. InvalidInput where it does not fit."""
        raise NotImplementedError

    def run(self, asker, question, volumes, sample):
        """Asks and judges."""
        raise NotImplementedError


class Cell(NamedTuple):
    """The samples of one task, size and variant."""

    task: Task
    tokens: int
    variant: Variant

    def name(self, number):
        """A sample's name, the same in every run of the same options."""
        return f"{self.task.name} {self.tokens} {self.variant.name} {number}"

"""One sample: what was asked, answered and retrieved."""
import dataclasses
from dataclasses import dataclass, field
from typing import NamedTuple

ONE_CHUNK, TWO_CHUNKS, UNKNOWN = "one chunk", "two chunks", "unknown"


class Finding(NamedTuple):
    """Whether a list of hits contains what was asked for. `hit`: it has a chunk with a part of it; of several things, with each.
    `first`: such a chunk is first in the list. `weight`: attention weight of all such chunks together."""

    hit: bool
    first: bool
    weight: float


@dataclass
class Sample:
    """`right`: None where no answer was asked for. `numbers`: further ones of the task, whose means cells contain. `span`: whether
    the thing asked for lies in one chunk or across two; unknown too where it was left out. `crosses_block`: the value does not fit
    the block after the question. `found`: findings by group of layers at the question's landmark; empty: nothing to find. `bm25`:
    BM25's finding, with as many hits, by the question's words."""

    task: str = ""
    variant: str = ""
    tokens_asked: int = 0
    tokens_mounted: int = 0
    documents: int = 0
    depth: float = 0.0
    question: str = ""
    value: str = ""
    answer: str = ""
    right: bool | None = None
    numbers: dict = field(default_factory=dict)
    span: str = UNKNOWN
    crosses_block: bool = False
    found: list = field(default_factory=list)
    bm25: Finding | None = None
    ingested_tokens: int = 0
    ingest_s: float = 0.0
    answer_ms: float = 0.0
    generated_tokens: int = 0
    generation_ms: float = 0.0


def to_json(sample):
    """All fields."""
    return dataclasses.asdict(sample)


def from_json(values):
    """The inverse of to_json. ValueError: a field is missing, unknown, or of another type."""
    fields = {f.name: f for f in dataclasses.fields(Sample)}
    if not isinstance(values, dict) or values.keys() != fields.keys():
        raise ValueError("not the fields of a sample")
    example = Sample()
    for name, value in values.items():
        wanted = type(getattr(example, name))
        if name not in ("right", "bm25") and not isinstance(value, (int, float) if wanted is float else wanted):
            raise ValueError(f"{name} {value!r}")
    found = [Finding(*finding) for finding in values["found"]]
    bm25 = values["bm25"] and Finding(*values["bm25"])
    return Sample(**{**values, "found": found, "bm25": bm25})

"""The space that documents take on a server, so that too little of it is found out before the work."""
import math
from typing import NamedTuple

from niah.errors import NoRoom

KEY_BYTES = 2  # bf16, each number
TOKEN_BYTES = 4
MXINT8_BLOCK = 32  # numbers that share an exponent


class TextSize(NamedTuple):
    """The size of a text. That of a whole text follows in proportion from that of a part of it."""

    bytes: int
    tokens: int
    chunks: int

    def scaled(self, factor):
        return TextSize(*(math.floor(n * factor + 0.5) for n in self))

    def to_tokens(self, tokens):
        return self.scaled(tokens / self.tokens)

    def to_bytes(self, count):
        return self.scaled(count / self.bytes)


class Room(NamedTuple):
    """`disk` bytes of records; `landmarks`: of landmark keys, with sketches, while they are mounted."""

    disk: int
    landmarks: int


def states_bytes(numbers, stats):
    if stats.chunk_states_format == "mxint8":
        return numbers + -(-numbers // MXINT8_BLOCK)
    return numbers * KEY_BYTES


def room_for(model, stats, size, documents=1):
    """The space for so much text in documents of one size."""
    landmarks = size.chunks * model.retrieval_width * KEY_BYTES
    disk = size.bytes + size.tokens * TOKEN_BYTES + landmarks + states_bytes(size.tokens * model.width, stats)
    # Sketches are in memory only.
    if 0 < stats.landmark_sketch_chunks <= size.chunks // documents:
        landmarks += size.chunks * stats.landmark_sketch_key_bytes
    return Room(disk, landmarks)


def mib(count):
    return f"{count / (1 << 20):.1f} MiB"


def check(what, stats, to_write, whole):
    """NoRoom if the disk is too small for what is still to be written, or the budget of landmark keys for the whole. `what` is the
    beginning of the message."""
    if 0 < stats.store_free_bytes < to_write.disk:
        raise NoRoom(f"{what} needs about {mib(to_write.disk)} of disk, {mib(stats.store_free_bytes)} are free")
    if whole.landmarks > stats.landmark_budget_bytes:
        raise NoRoom(f"{what} needs about {mib(whole.landmarks)} for its landmark keys, the budget (--landmark-budget) is "
                     f"{mib(stats.landmark_budget_bytes)}")

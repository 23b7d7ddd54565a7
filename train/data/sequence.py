"""One sequence of a batch while it is laid out: tokens in blocks, needles and questions."""

import bisect
import itertools

from data.blocks import BLOCK_TOKENS, block_end
from data.tokenizer import LMK_ID


def value_at(needle):
    """Index of the second token of a needle's value (the first may have merged with what stands before), or None."""
    tail = needle["value"][1:]
    return next((at for at in range(len(needle["ids"]) - len(tail) + 1) if needle["ids"][at:at + len(tail)] == tail), None)


def crossing(needle, fits):
    """Index of the token of a straddling needle's value that is hardest to tell, when `fits` tokens of the needle end a chunk:
    the one that begins the next chunk, which only what came before that chunk leads to; or the first, when the whole value
    lies in one of the chunks and (some of) what asks for it in the other. None when the needle does not straddle."""
    at = value_at(needle)
    if at is None or fits >= len(needle["ids"]):
        return None
    inside = fits - (at - 1)
    return inside if 0 < inside < len(needle["value"]) else 0


class Sequence:
    """One sequence being laid out: tokens, weights, block starts, needles and questions."""

    def __init__(self, length, max_blocks, least=BLOCK_TOKENS, token_bytes=None):
        """Blocks are full, or with `least` tokens at least such as a document's (block_end)."""
        self.length, self.max_blocks, self.least, self.token_bytes = length, max_blocks, least, token_bytes
        self.tokens, self.weights, self.answer, self.copies = [], [], [], []
        self.starts, self.needles, self.queries = [], [], []
        self.kinds, self.text = [], []
        self.dense = False  # of little else than needles
        self._open()

    def _open(self, following=None):
        """Opens a block behind the tokens so far, or, before `following` in a full block, where that should have ended."""
        at = len(self.tokens)
        if following is not None and self.least < BLOCK_TOKENS and self._leaves_room():
            begin = self.starts[-1] + 1
            at = begin + block_end(self.tokens[begin:] + [following], self.least, self.token_bytes)
        self.starts.append(at)
        self.tokens.insert(at, LMK_ID)
        self.weights.insert(at, 0.0)
        self.answer.insert(at, -1)
        self.copies.insert(at, None)
        self.text = [p + (p >= at) for p in self.text]
        for needle in self.needles:
            needle["at"] += needle["at"] >= at

    @property
    def left(self):
        return self.length - len(self.tokens)

    @property
    def used(self):
        """Tokens in the open block."""
        return len(self.tokens) - self.starts[-1] - 1

    def room(self, n):
        """Whether n more tokens (and their landmarks) surely fit."""
        return self.left >= n + n // self.least + 2

    def push(self, ids, weight, answer=-1, is_text=False, copies=None):
        """Appends tokens, opening blocks as they fill. copies: for each, None or (sequence, position) of the token that it repeats."""
        for i, copy in zip(ids, copies or itertools.repeat(None)):
            if self.left <= 0:
                break
            if self.used == BLOCK_TOKENS:
                self._open(i)
                if self.left <= 0:
                    break
            if is_text:
                self.text.append(len(self.tokens))
            self.tokens.append(i)
            self.weights.append(weight)
            self.answer.append(answer)
            self.copies.append(copy)

    def push_needle(self, needle, weight):
        needle["at"] = len(self.tokens)
        self.needles.append(needle)
        self.push(needle["ids"], weight)

    def place(self, needle):
        """Notes where a needle of the sequence lies by now: `chunks` of all its tokens, `gold` of those of its value (all, when that
        cannot be told from its surroundings), `straddles`, `crossing`. What lies in closed blocks stays there."""
        positions = (p for p in range(needle["at"], len(self.tokens)) if self.tokens[p] != LMK_ID)
        needle["positions"] = [p for p, _ in zip(positions, needle["ids"])]
        chunks = [self.block_of(p) for p in needle["positions"]]
        second = value_at(needle)
        first = 0 if second is None else max(0, second - 1)
        held = chunks if second is None else chunks[first:first + len(needle["value"])]
        needle["chunks"], needle["gold"] = sorted(set(chunks)), sorted(set(held))
        needle["straddles"], needle["crossing"] = len(needle["chunks"]) > 1, crossing(needle, chunks.count(chunks[0]))

    def block_of(self, position):
        return bisect.bisect_right(self.starts, position) - 1

    def _leaves_room(self):
        """Whether a block that is not full leaves enough blocks for the rest of the sequence."""
        return (self.max_blocks - len(self.starts) - 1) * (BLOCK_TOKENS + 1) >= self.left

    def can_flush(self):
        return self.left > 4 and self.used > 0 and self._leaves_room()

    def flush(self):
        self._open()

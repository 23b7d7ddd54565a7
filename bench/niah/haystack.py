"""Text in which needles are hidden: a stretch of the given books, cut into shards, each ingested as a document.

Why shards: with one document, a sample at 1 M tokens would have to ingest everything again for one needle. With shards only
the shard with the needle is ingested again; all are mounted together, in order. Chunks, candidates and retrieval are the
same; only local context (at most some thousand tokens) restarts at the beginning of a shard. A haystack that holds what all
samples ask for is ingested once and needs none.

Texts are bytes of UTF-8, because places of the service are counted in bytes.
"""
import math
import re
from typing import NamedTuple

from niah.errors import InvalidInput

WORD_END = re.compile(rb"[ \n]")


class Place(NamedTuple):
    """The bytes [begin, end) of a shard."""

    shard: int
    begin: int
    end: int


def character_at(text, at):
    """The first byte of a character at or after `at`."""
    while at < len(text) and text[at] & 0xc0 == 0x80:
        at += 1
    return min(at, len(text))


def word_end(text, at):
    """The next end of a word at or after `at`, or None."""
    found = WORD_END.search(text, at)
    return found and found.start()


class Haystack:
    """`places` are the present places of all sentences, in the order in which they were placed: later ones move earlier ones
    by a few bytes. `keys` are those of these sentences, in lower case: who places a sentence adds its key, so that no two have
    the same."""

    def __init__(self, shards):
        self.shards, self.places, self.keys = list(shards), [], []

    @classmethod
    def cut(cls, text, begin, count, shards=1):
        """`count` bytes of the text from `begin` on, both ends moved to the next character, in shards of equal size."""
        limits = [character_at(text, begin + count * i // shards) for i in range(shards + 1)]
        return cls(text[a:b] for a, b in zip(limits, limits[1:]))

    def copy(self):
        copied = Haystack(self.shards)
        copied.places, copied.keys = list(self.places), list(self.keys)
        return copied

    def refill(self, text):
        """Takes the text, as much as there was, in place of all that was there."""
        self.__init__(Haystack.cut(text, 0, self.size(), len(self.shards)).shards)

    def size(self):
        return sum(map(len, self.shards))

    def at(self, depth):
        """The shard and byte at `depth` (0 to 1) of the whole, as an empty place."""
        begin, shard = math.floor(depth * self.size()), 0
        while shard + 1 < len(self.shards) and begin >= len(self.shards[shard]):
            begin -= len(self.shards[shard])
            shard += 1
        return Place(shard, begin, begin)

    def depth_of(self, place):
        """The inverse of `at`."""
        return (sum(map(len, self.shards[:place.shard])) + place.begin) / max(1, self.size())

    def touches(self, place):
        """Whether a part of `place` belongs to a sentence."""
        return self._other(place) is not None

    def _other(self, place):
        return next((p for p in self.places if p.shard == place.shard and place.begin < p.end and p.begin < place.end), None)

    def remove(self, place):
        """Removes the bytes of `place`. Of the sentences' places that it touches, what is left remains."""
        shard, begin, end = place
        text = self.shards[shard]
        self.shards[shard] = text[:begin] + text[end:]

        def moved(at):
            return at if at <= begin else max(begin, at - (end - begin))

        self.places = [Place(shard, moved(p.begin), moved(p.end)) if p.shard == shard else p for p in self.places]

    def replace(self, depth, sentence):
        """Replaces about as many bytes of text at `depth` (0 to 1) of the whole, from the end of a word to the end of another,
        by the sentence, so that the size stays nearly the same. If that would touch a sentence placed before, takes the next
        free place after it (cyclic). InvalidInput if there is none."""
        shard, at, _ = self.at(depth)
        for _ in range(len(self.shards) + 1):
            stretch = self._free(shard, at, len(sentence))
            if stretch is not None:
                return self._put(stretch, sentence)
            shard, at = (shard + 1) % len(self.shards), 0
        raise InvalidInput(f"no room for {len(self.places) + 1} needles in {self.size()} bytes of haystack")

    def _free(self, shard, at, length):
        """The next stretch of whole words, at least so long, that belongs to no sentence; None: the rest is too short."""
        text = self.shards[shard]
        while True:
            begin = word_end(text, at)
            end = None if begin is None or begin + length > len(text) else word_end(text, begin + length)
            if end is None:
                return None
            stretch = Place(shard, begin, end)
            other = self._other(stretch)
            if other is None:
                return stretch
            at = other.end

    def _put(self, stretch, sentence):
        shard, begin, end = stretch
        text, shift = self.shards[shard], len(sentence) - (end - begin)
        self.shards[shard] = text[:begin] + sentence + text[end:]
        # Sizes are equal except for the rest of the last word; places behind it move along.
        self.places = [Place(shard, p.begin + shift, p.end + shift) if p.shard == shard and p.begin >= end else p for p in self.places]
        self.places.append(Place(shard, begin, begin + len(sentence)))
        return self.places[-1]

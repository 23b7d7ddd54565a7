"""A document that niah ingested: its text, the ranges of its chunks, and their words for BM25."""
import bisect
import contextlib
import functools
import hashlib
import itertools
import os

from niah import bm25
from niah.haystack import Haystack
from recollect import InvalidArgument, NotFound, RecollectError

MOST_HITS = 1024  # that retrieve gives
MOST_DEVICE_HITS = 256  # where landmark keys are on a GPU
QUERY_BYTES = 160  # about a chunk
MOST_QUERIES = 16  # later ones show little that is new
HASH_DIGITS = 16  # of a document's name
NEXT = itertools.count()


def name_of(seed, text):
    """The id of a document that a later run finds again."""
    return f"niah-{seed}-{hashlib.sha256(text).hexdigest()[:HASH_DIGITS]}"


def ingest(client, seed, text):
    """Ingests a text as a document of its own, whose id has the seed in it. It is deleted if that fails half way."""
    volume = Volume(client, f"niah-{seed}-{os.getpid()}-{next(NEXT)}", text)
    try:
        volume.adopt(client.ingest(text, id=volume.id))
    except BaseException:
        volume.delete()
        raise
    volume.ingested_tokens = volume.tokens
    return volume


def ingest_once(client, seed, text, progress=None):
    """Like ingest, but the document's id is name_of, by which a later call finds it again, whole or in part, and reads the rest.
    The document is kept, also after an error."""
    volume = Volume(client, name_of(seed, text), text)
    there = None
    with contextlib.suppress(NotFound):
        there = client.document(volume.id)
    if there is None or there.sha256 != hashlib.sha256(text).hexdigest():
        committed = sum(i.tokens for i in client.ingests() if i.id == volume.id)
        there = client.ingest(text, id=volume.id, progress=progress)
        volume.ingested_tokens = there.tokens - committed
    volume.adopt(there)
    return volume


class Volume:
    """`tokens`, and `ingested_tokens`, those that were read for this volume: 0 if the document was already there. Chunk c has the
    bytes from begins[c] to begins[c + 1]. That is exact for documents of up to 1024 chunks, or 256 if the server's landmark keys
    are on a GPU; in longer documents some may be off by a part of a chunk, namely those that are not `exact`."""

    def __init__(self, client, id, text):
        self.client, self.id, self.text = client, id, text
        self.tokens = self.ingested_tokens = 0
        self.begins, self.known = [0, len(text)], [True, True]

    def adopt(self, document):
        self.tokens = document.tokens
        limits = find_chunks(self.client, self.id, self.text, document.chunks)
        self.known = [limit is not None for limit in limits]
        self.begins = evenly(limits)

    def delete(self):
        with contextlib.suppress(RecollectError):
            self.client.delete(self.id)

    def exact(self, chunk):
        return self.known[chunk] and self.known[chunk + 1]

    def chunk_at(self, at):
        """The chunk that has the byte."""
        return bisect.bisect_right(self.begins, at, 0, len(self.begins) - 1) - 1

    @functools.cached_property
    def words(self):
        """The words of each chunk."""
        return [bm25.lower_words(self.text[begin:end]) for begin, end in zip(self.begins, self.begins[1:])]


def longest_unseen(limits):
    """The two known limits farthest apart that have none known between them."""
    known = [i for i, limit in enumerate(limits) if limit is not None]
    return max(zip(known, known[1:]), key=lambda pair: pair[1] - pair[0])


def find_chunks(client, id, text, chunks):
    """Where chunks begin, and where the last one ends; None where that is not known.

    No call lists a document's chunks, but every hit tells where one lies: asks for as many hits as there may be; while some chunks
    stay unseen, for the text where most of those must be. Some are among the best for no query.
    """
    limits = [None] * (chunks + 1)
    limits[0], limits[-1] = 0, len(text)
    begin, end = longest_unseen(limits)
    most = MOST_HITS
    for _ in range(MOST_QUERIES):
        if end <= begin + 1:
            break
        at = limits[begin]
        query = Haystack.cut(text, at, min(QUERY_BYTES, len(text) - at)).shards[0].decode()
        try:
            found = client.retrieve(query, mounts=[id], k=most, with_text=False)
        except InvalidArgument:
            most = MOST_DEVICE_HITS
            found = client.retrieve(query, mounts=[id], k=most, with_text=False)
        for hit in (hit for retrieval in found for hit in retrieval.hits if hit.document == id):  # not the query's own blocks
            limits[hit.chunk], limits[hit.chunk + 1] = hit.text_begin, hit.text_end
        before, (begin, end) = (begin, end), longest_unseen(limits)
        if before == (begin, end):
            break
    return limits


def evenly(limits):
    """The limits, with a stretch of unknown ones cut evenly."""
    whole, last = list(limits), 0
    for seen, limit in enumerate(limits):
        if limit is None:
            continue
        for i in range(last + 1, seen):
            whole[i] = limits[last] + (limit - limits[last]) * (i - last) // (seen - last)
        last = seen
    return whole

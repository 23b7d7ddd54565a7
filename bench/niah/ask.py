"""Asks a model about mounted documents and records what it retrieved and answered, and what BM25 finds for the same words."""
import time
from typing import NamedTuple

from niah import bm25
from niah.sample import ONE_CHUNK, TWO_CHUNKS, UNKNOWN, Finding
from recollect import Options

BLOCK_TOKENS = 63  # kChunkTokens of base/types.h


class Found(NamedTuple):
    """A chunk in a list of hits: the bytes [begin, end) of a volume."""

    rank: int
    volume: int
    begin: int
    end: int
    weight: float = 0.0


def landmark_after(prompt_tokens, retrievals):
    """The position of the landmark after a prompt that was flushed, among those of `retrievals`. It follows the tokens and the
    landmarks of all blocks before, and of a family whose blocks end with theirs one less: the last that is not beyond."""
    most = prompt_tokens + (prompt_tokens + BLOCK_TOKENS - 1) // BLOCK_TOKENS
    return max((r.position for r in retrievals if r.position <= most), default=-1)


def judge(found, gold):
    """Hit when each of several places is found; first when the first hit is at any of them."""
    hits, first, weight = [], False, 0.0
    for place, begin, end in gold:
        there = [f for f in found if f.volume == place.shard and f.begin < end and begin < f.end]
        hits.append(bool(there))
        first = first or any(f.rank == 0 for f in there)
        weight += sum(f.weight for f in there)
    return Finding(bool(gold) and all(hits), first, weight)


def hits_of(retrieval, volumes):
    numbers = {volume.id: i for i, volume in enumerate(volumes)}
    return [Found(rank, numbers[hit.document], hit.text_begin, hit.text_end, hit.weight)
            for rank, hit in enumerate(retrieval.hits) if hit.document in numbers]  # not the prompt's own blocks


def span_of(gold, volumes, seen):
    """The span of all places: one chunk only when each lies in one. `seen`: chunks that were retrieved, whose limits are known also
    where those of the volume are not."""
    span = ONE_CHUNK if gold else UNKNOWN
    for place, _, _ in gold:
        # White space before a sentence may lie in the chunk before.
        parts = chunks_of(place.shard, place.begin + 1, place.end - 1, volumes[place.shard], seen)
        if parts is None:
            span = UNKNOWN
        elif parts[0] != parts[1]:
            return TWO_CHUNKS
    return span


def chunks_of(shard, first, last, volume, seen):
    """What tells the chunks of two bytes apart; None where their limits are not known."""
    for f in seen:
        inside = [f.volume == shard and f.begin <= at < f.end for at in (first, last)]
        if any(inside):
            return inside
    chunks = [volume.chunk_at(at) for at in (first, last)]
    return chunks if all(map(volume.exact, chunks)) else None


class Asker:
    """`hits`: the number of BM25's hits, as many as the model retrieves. `dilation` 0: the model's default. `dry_multiplier`: of the
    sampling of every answer."""

    def __init__(self, client, hits, dilation, random_chunks, dry_multiplier):
        self.client, self.hits, self.dry_multiplier = client, hits, dry_multiplier
        self.options = Options(dilation=dilation or None, random_chunks=random_chunks)
        self.searched = self.search = self.chunks = None  # BM25's volumes, their index, and their chunks

    def ask(self, question, volumes, sample):
        """Asks greedily, in a fresh session. Fills in question, value, answer, hits and times; the task judges."""
        sample.question, sample.value = question.prompt, ", ".join(question.expected)
        retrievals = []
        if question.max_tokens > 0:
            retrievals = self.answer(question, volumes, sample)
        elif volumes:
            begin = time.perf_counter()
            retrievals = self.client.retrieve(question.prompt, mounts=[v.id for v in volumes], options=self.options, with_text=False)
            sample.answer_ms = 1e3 * (time.perf_counter() - begin)
        if volumes and question.gold:
            self.look_up(question, volumes, retrievals, sample)

    def answer(self, question, volumes, sample):
        """The retrievals at the landmark after the question."""
        begin = time.perf_counter()
        result = self.client.generate(question.prompt, mounts=[v.id for v in volumes], options=self.options, max_tokens=question.max_tokens,
                                      stop=question.stop, retrievals=True, dry_multiplier=self.dry_multiplier).result()
        sample.answer_ms = 1e3 * (time.perf_counter() - begin)
        sample.answer = result.text
        sample.generated_tokens, sample.generation_ms = result.usage.generated_tokens, result.usage.generation_ms
        if len(question.expected) == 1:
            sample.crosses_block = self.is_longer_than_a_block(question.expected[0])
        landmark = landmark_after(result.usage.prompt_tokens, result.retrievals)
        return [r for r in result.retrievals if r.position == landmark]

    def look_up(self, question, volumes, retrievals, sample):
        seen, found = [], {}
        for retrieval in retrievals:
            hits = hits_of(retrieval, volumes)
            found[retrieval.group] = judge(hits, question.gold)
            seen += hits
        sample.found = [found.get(group, Finding(False, False, 0.0)) for group in range(max(found, default=-1) + 1)]
        if bm25.available():
            sample.bm25 = judge(self.by_words(question.prompt, volumes), question.gold)
        sample.span = span_of(question.gold, volumes, seen)

    def by_words(self, prompt, volumes):
        if self.searched != volumes:
            self.searched = list(volumes)
            self.search = bm25.Search([words for volume in volumes for words in volume.words])
            self.chunks = [(v, begin, end) for v, volume in enumerate(volumes) for begin, end in zip(volume.begins, volume.begins[1:])]
        return [Found(rank, *self.chunks[number]) for rank, number in enumerate(self.search.best(prompt, self.hits))]

    def continued(self, prompt, volumes, max_tokens, **sampling):
        """At most `max_tokens` after the prompt, in a fresh session, with the prompt flushed."""
        return self.client.generate(prompt, mounts=[v.id for v in volumes], options=self.options, max_tokens=max_tokens,
                                    dry_multiplier=self.dry_multiplier, **sampling).result()

    def bits_per_byte(self, text, volumes):
        """Bits per byte of the text in a fresh session."""
        return self.client.score(text, mounts=[v.id for v in volumes], options=self.options).bits_per_byte

    def is_longer_than_a_block(self, value):
        """Whether the value is, and not the answer, which may break off. A token is a byte at least."""
        return len(value.encode()) >= BLOCK_TOKENS and len(self.client.score(" " + value).tokens) > BLOCK_TOKENS

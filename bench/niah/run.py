"""Runs samples through a client: cuts haystacks, ingests them, and has the tasks ask in fresh sessions."""
import time
import zlib
from dataclasses import dataclass, field

from niah import room, volume
from niah.ask import Asker
from niah.errors import InvalidInput
from niah.haystack import Haystack
from niah.mersenne import Random
from niah.needle import test_words
from niah.run_all import run_all
from niah.sample import Sample
from niah.task import FEW_VARIANTS, Cell, Draw, Material, TaskOptions
from niah.tasks import TASKS
from recollect import PermissionDenied

PROBES, PROBE_BYTES = 16, 4 << 10
MIX = 0x9e3779b97f4a7c15  # spreads small seeds over all bits
LEAST_WORDS = 20  # for keys to differ


@dataclass
class RunOptions:
    """`control`: none, unmounted, removed or random. `hide`: whether each sample has a haystack of its own, which is ingested for it,
    or all samples of a size have one, which is ingested once, as one document. `samples`: of each task, size and variant, spread
    evenly over the depths; `samples_per_shape`: instead, of tasks with many variants; 0: the same. `asked`: at most so many of the
    samples, the first of each; 0: all. `dilation`: of the sessions' local attention; 0: the model's. `samples_per_haystack`: where a
    haystack in several shards was prepared for one task. `keep`: where all samples share a document it stays at the end."""

    tasks: list = field(default_factory=lambda: ["passkey"])
    task: TaskOptions = field(default_factory=TaskOptions)
    tokens: list = field(default_factory=list)
    control: str = "none"
    hide: str = "each"
    depths: int = 5
    samples: int = 50
    samples_per_shape: int = 0
    asked: int = 0
    dilation: int = 0
    dry_multiplier: float = 0.0
    shard_tokens: int = 64 << 10
    samples_per_haystack: int = 10
    seed: int = 1
    keep: bool = False


class Base:
    """A haystack in which no sample has hidden anything yet. Its shards are ingested when first mounted. `shared`: other cells of
    this size use it, too."""

    def __init__(self, haystack, shared):
        self.haystack, self.shared = haystack, shared
        self.volumes = [None] * len(haystack.shards)

    def release(self):
        for held in self.volumes:
            if held is not None:
                held.delete()
        self.volumes = [None] * len(self.volumes)


class Runner:
    """Haystacks are cut from `text`. `hits`: the number that the model retrieves. Documents for single samples are deleted;
    documents for all samples stay until all have been asked, so that an interrupted run can go on.

    `observer` of run has answered(name), the sample as an earlier run answered it or None; on_sample(name, sample, known), where
    `known` says that it came from `answered`; and on_ingest(progress, tokens, bytes), of a document that is ingested for all
    samples.
    """

    def __init__(self, client, options, hits, text, phrases):
        self.client, self.options, self.text = client, options, text
        self.material = Material(phrases, test_words(text))
        self.asker = Asker(client, hits, options.dilation, options.control == "random", options.dry_multiplier)
        self.tasks = [TASKS[name](options.task, self.material) for name in options.tasks]
        self.size = None  # of a part of the text
        # Haystacks of the present size that several cells share, by number of shards and, if prepared, by task.
        self.shared = {}

    def total(self):
        """The number of samples."""
        return len(self.options.tokens) * sum(len(task.variants()) * self.asked(task) for task in self.tasks)

    def run(self, observer):
        """All samples. Before the first of them InvalidInput: the text is too short for a size, or has too few words for keys; a task
        cannot share a haystack; NoRoom: the server has none for the largest size."""
        if len(self.material.words) < LEAST_WORDS:
            raise InvalidInput(f"haystack: {len(self.material.words)} words that training never used, needs {LEAST_WORDS}")
        for task in self.tasks:
            if self.options.hide == "all" and not task.shares:
                raise InvalidInput(f"--hide all: not for --task {task.name}, which needs haystacks of its own")
        self.probe()
        self.check_sizes()
        return [sample for tokens in self.options.tokens for sample in
                (run_all if self.options.hide == "all" else Runner.run_each)(self, tokens, observer)]

    def run_each(self, tokens, observer):
        samples = []
        try:
            for task in self.tasks:
                for variant in task.variants():
                    samples += self.run_cell(Cell(task, tokens, variant), observer)
        finally:
            for base in self.shared.values():
                base.release()
            self.shared = {}  # bigger sizes need the space
        return samples

    def probe(self):
        """Sizes are asked for in tokens, texts are cut in bytes: reads some of the text, here and there, to learn how many bytes a token
        has."""
        count = min(PROBE_BYTES, len(self.text) // PROBES)
        text = b"".join(Haystack.cut(self.text, i * (len(self.text) - count) // PROBES, count).shards[0] for i in range(PROBES))
        probed = volume.ingest(self.client, self.options.seed, text)
        probed.delete()
        self.size = room.TextSize(len(text), max(1, probed.tokens), len(probed.begins) - 1)

    def bytes_for(self, tokens):
        return self.size.to_tokens(tokens).bytes

    def check_sizes(self):
        """Checks all sizes, before hours go to the first of them."""
        most = max(self.options.tokens)
        if len(self.text) < self.bytes_for(most):
            raise InvalidInput(f"--haystack: {len(self.text)} bytes of text, about {self.size.to_bytes(len(self.text)).tokens} tokens; "
                               f"--tokens {most} needs about {self.bytes_for(most)} bytes")
        if self.options.control == "unmounted":
            return
        try:
            stats = self.client.stats()
        except PermissionDenied:
            return  # it will show
        model = self.client.model()
        shards = -(-most // self.options.shard_tokens)
        rest = self.size.to_tokens(max(0, most - self.tokens_there()))
        room.check(f"--tokens {most}", stats, room.room_for(model, stats, rest, shards),
                   room.room_for(model, stats, self.size.to_tokens(most), shards))

    def tokens_there(self):
        """Tokens that an earlier run of these options has left."""
        if self.options.hide == "each":
            return 0
        return sum(d.tokens for d in (*self.client.documents(), *self.client.ingests()) if d.id.startswith(f"niah-{self.options.seed}-"))

    def samples(self, task):
        """The number of samples of each variant that are hidden."""
        many = len(task.variants()) > FEW_VARIANTS and self.options.samples_per_shape > 0
        return self.options.samples_per_shape if many else self.options.samples

    def asked(self, task):
        """The number of these that are asked."""
        return min(self.options.asked or self.samples(task), self.samples(task))

    def haystack_seed(self, tokens):
        return self.options.seed * MIX + zlib.crc32(f"haystack {tokens}".encode())

    def cell_seed(self, cell):
        """Depends on what the cell is, not on which others run."""
        return self.options.seed * MIX + zlib.crc32(f"{cell.task.name}{cell.tokens}{cell.variant.number}".encode())

    def sample_random(self, cell, number):
        return Random(self.cell_seed(cell) + number * MIX)

    def depth(self, cell, number, random):
        # Of many variants each may have fewer samples than there are depths: together they have all.
        many = len(cell.task.variants()) > FEW_VARIANTS
        stretch = (number + (cell.variant.number if many else 0)) % self.options.depths
        return (stretch + random.unit()) / self.options.depths

    def cut_haystack(self, tokens, shards, random):
        count = self.bytes_for(tokens)
        return Haystack.cut(self.text, random.below(len(self.text) - count + 1), count, shards)

    def base_for(self, cell, number, last):
        """The haystack of a sample, where `last` is that of the one before: shared by all cells of a size that can, where it is worth
        keeping."""
        shards = max(cell.task.least_documents, -(-cell.tokens // self.options.shard_tokens))
        keep = shards > 1 or not cell.task.hides
        shared = keep and not (cell.task.prepares and cell.task.hides)
        key = shards, cell.task.name if cell.task.prepares else ""
        if shared and key in self.shared:
            return self.shared[key]
        if keep and not shared and number % self.options.samples_per_haystack != 0:
            return last
        if last is not None:
            last.release()  # its documents make room
        random = Random(self.haystack_seed(cell.tokens) if shared else self.cell_seed(cell) + number * MIX + 1)
        base = Base(self.cut_haystack(cell.tokens, shards, random), shared)
        if cell.task.prepares:
            cell.task.prepare(cell.variant, random, base.haystack)
            base.volumes = [None] * len(base.haystack.shards)
        if shared:
            self.shared[key] = base
        return base

    def run_cell(self, cell, observer):
        samples, base = [], None
        try:
            for number in range(self.asked(cell.task)):
                base = self.base_for(cell, number, base)
                known = observer.answered(cell.name(number))
                samples.append(known or self.run_sample(cell, base, number))
                observer.on_sample(cell.name(number), samples[-1], known is not None)
        finally:
            if base is not None and not base.shared:
                base.release()
        return samples

    def run_sample(self, cell, base, number):
        random = self.sample_random(cell, number)
        depth = self.depth(cell, number, random)
        sample = Sample(task=cell.task.name, variant=cell.variant.name, tokens_asked=cell.tokens, depth=depth)
        haystack = base.haystack.copy()
        question = cell.task.make(Draw(cell.variant, depth, self.options.control == "removed", False, random, haystack))
        mounted = []
        try:
            if self.options.control != "unmounted":
                self.mount(haystack, base, mounted, sample)
            cell.task.run(self.asker, question, mounted, sample)
        finally:
            for own in mounted:
                if own not in base.volumes:
                    own.delete()
        return sample

    def mount(self, haystack, base, mounted, sample):
        """Appends the haystack's volumes to `mounted`. Shards that the sample left as they are stay ingested for others."""
        begin = time.perf_counter()
        for i, text in enumerate(haystack.shards):
            unchanged = text == base.haystack.shards[i]
            held = base.volumes[i] if unchanged else None
            if held is None:
                held = volume.ingest(self.client, self.options.seed, text)
                sample.ingested_tokens += held.tokens
            if unchanged:
                base.volumes[i] = held
            mounted.append(held)
        sample.tokens_mounted = sum(held.tokens for held in mounted)
        sample.ingest_s = time.perf_counter() - begin
        sample.documents = len(mounted)

"""Sums up samples in cells by task, size and variant, as a table and as JSON."""
import math
from dataclasses import dataclass, field

from niah.sample import ONE_CHUNK, TWO_CHUNKS
from niah.task import FEW_VARIANTS

ALL = "(all)"  # sorts before names
Z95 = 1.959964


def interval(right, count):
    """The 95 % interval of Wilson of the share right / count."""
    if count == 0:
        return 0.0, 1.0
    p, z2 = right / count, Z95 * Z95
    middle = (p + z2 / (2 * count)) / (1 + z2 / count)
    half = Z95 * math.sqrt(p * (1 - p) / count + z2 / (4 * count * count)) / (1 + z2 / count)
    return max(0.0, middle - half), min(1.0, middle + half)


def depth_bucket(sample, depths):
    """The number of the sample's stretch among so many equal ones."""
    return min(max(int(sample.depth * depths), 0), depths - 1)


@dataclass
class Cell:
    """Samples of one task, size and variant."""

    samples: list = field(default_factory=list)

    @property
    def judged(self):
        return sum(s.right is not None for s in self.samples)

    @property
    def right(self):
        return sum(s.right is True for s in self.samples)

    @property
    def rate(self):
        return self.right / self.judged if self.judged else 0.0

    def total(self, name):
        return sum(getattr(s, name) for s in self.samples)

    def mean(self, name):
        return self.total(name) / len(self.samples)

    def groups(self, name):
        """Means by group of layers of what findings have under this name."""
        count = max(len(s.found) for s in self.samples)
        return [sum(getattr(s.found[g], name) for s in self.samples if g < len(s.found)) / len(self.samples) for g in range(count)]

    def bm25(self, name):
        """A mean of BM25's findings, or None where it did not search."""
        found = [s.bm25 for s in self.samples if s.bm25 is not None]
        return sum(getattr(f, name) for f in found) / len(self.samples) if found else None

    def numbers(self):
        names = {name: None for s in self.samples for name in s.numbers}
        return {name: sum(s.numbers.get(name, 0) for s in self.samples) / len(self.samples) for name in names}


def tasks_of_many(samples):
    variants = {}
    for sample in samples:
        variants.setdefault(sample.task, set()).add(sample.variant)
    return {task for task, names in variants.items() if len(names) > FEW_VARIANTS}


def sorted_cells(pairs):
    """Cells by (task, tokens, variant), in that order, of pairs of a sample and its variant."""
    cells = {}
    for sample, variant in pairs:
        cells.setdefault((sample.task, sample.tokens_asked, variant), Cell()).samples.append(sample)
    return dict(sorted(cells.items()))


def grouped(samples):
    """All cells; of tasks of many variants also one over all of them."""
    many = tasks_of_many(samples)
    return sorted_cells([(s, s.variant) for s in samples] + [(s, ALL) for s in samples if s.task in many])


def part(samples, include):
    """Cells of the answers that `include` takes; of tasks of many variants only over all of them."""
    many = tasks_of_many(samples)
    return sorted_cells((s, ALL if s.task in many else s.variant) for s in samples if s.right is not None and include(s))


def in_one_chunk(sample):
    return sample.span == ONE_CHUNK and not sample.crosses_block


def straddles(sample):
    return sample.span == TWO_CHUNKS


def crosses(sample):
    return sample.crosses_block


def at_depth(samples, stretch, depths):
    return part(samples, lambda s: depth_bucket(s, depths) == stretch)


def rate_text(cell):
    if cell.judged == 0:
        return "-"
    low, high = interval(cell.right, cell.judged)
    return f"{100 * cell.rate:5.1f} %  {cell.right:4}/{cell.judged:<4} [{100 * low:5.1f}, {100 * high:5.1f}]"


def per_group(values, scale):
    """Shares or percentages of the groups, with slashes between."""
    return "/".join(f"{scale * value:.{2 if scale == 1 else 0}f}" for value in values) or "-"


def bm25_text(cell):
    return "-" if cell.bm25("hit") is None else f"{100 * cell.bm25('hit'):.0f} {100 * cell.bm25('first'):.0f}"


def row(key, cell):
    task, tokens, variant = key
    numbers = ", ".join(f"{name} {mean:.3f}" for name, mean in cell.numbers().items())
    mounted = cell.total("tokens_mounted") // len(cell.samples)
    return (f"{task:<12} {tokens:9} {mounted:9} {cell.samples[-1].documents:5}  {variant:<14} {rate_text(cell):<34} "
            f"{per_group(cell.groups('hit'), 100):<10} {per_group(cell.groups('first'), 100):<10} {per_group(cell.groups('weight'), 1):<11} "
            f"{bm25_text(cell):<9} {cell.mean('answer_ms'):9.0f}  {numbers}\n")


def titled(title, cells):
    if not cells:
        return ""
    return f"\n{title}\n" + "".join(f"  {task:<12} {tokens:9}  {variant:<14} {rate_text(cell)}\n" for (task, tokens, variant), cell in cells.items())


def table(samples, depths):
    """A line per task, size and variant, and one over all variants of a task of many; then separate lines for straddling needles,
    crossing answers and depths."""
    head = (f"{'task':<12} {'tokens':>9} {'mounted':>9} {'docs':>5}  {'variant':<14} {'exact answers  right    95 %':<34} {'gold hit %':<10} "
            f"{'first %':<10} {'gold weight':<11} {'BM25 %':<9} {'answer ms':>9}  means\n")
    parts = [head, *(row(key, cell) for key, cell in grouped(samples).items()),
             titled("needle in one chunk, answer in one block", part(samples, in_one_chunk)),
             titled("needle straddles two chunks", part(samples, straddles)),
             titled("answer crosses a block boundary", part(samples, crosses))]
    for d in range(depths) if depths > 1 else ():
        parts.append(titled(f"depth {100 * d // depths} to {100 * (d + 1) // depths} %", at_depth(samples, d, depths)))
    return "".join(parts)


def cell_json(key, cell):
    task, tokens, variant = key
    low, high = interval(cell.right, cell.judged)
    ingest_s, generation_ms = cell.total("ingest_s"), cell.total("generation_ms")
    values = {
        "task": task, "tokens": tokens, "variant": variant, "samples": len(cell.samples), "judged": cell.judged, "right": cell.right,
        "rate": cell.rate, "low95": low, "high95": high, "mounted_tokens": cell.mean("tokens_mounted"), "documents": cell.samples[-1].documents,
        "gold_hit_rate": cell.groups("hit"), "gold_first_rate": cell.groups("first"), "gold_weight": cell.groups("weight"),
        "numbers": cell.numbers(), "answer_ms": cell.mean("answer_ms"),
        "ingest_tokens_per_s": cell.total("ingested_tokens") / ingest_s if ingest_s > 0 else 0,
        "generate_tokens_per_s": 1000.0 * cell.total("generated_tokens") / generation_ms if generation_ms > 0 else 0,
    }
    if cell.bm25("hit") is not None:
        values |= {"bm25_hit_rate": cell.bm25("hit"), "bm25_first_rate": cell.bm25("first")}
    return values


def cells_json(cells):
    return [cell_json(key, cell) for key, cell in cells.items()]


def sample_json(s):
    values = {"task": s.task, "variant": s.variant, "tokens": s.tokens_asked, "mounted_tokens": s.tokens_mounted, "depth": s.depth,
              "question": s.question, "value": s.value, "answer": s.answer, "needle_in": s.span, "crosses_block": s.crosses_block,
              "gold_hit": [f.hit for f in s.found], "gold_first": [f.first for f in s.found], "gold_weight": [f.weight for f in s.found],
              "answer_ms": s.answer_ms}
    if s.right is not None:
        values["right"] = s.right
    if s.bm25 is not None:
        values |= {"bm25_hit": s.bm25.hit, "bm25_first": s.bm25.first}
    if s.numbers:
        values["numbers"] = s.numbers
    return values


def to_json(samples, depths):
    by_depth = [cell | {"depth_from": d / depths, "depth_to": (d + 1) / depths}
                for d in range(depths) for cell in cells_json(at_depth(samples, d, depths))]
    return {"cells": cells_json(grouped(samples)), "one_chunk": cells_json(part(samples, in_one_chunk)),
            "straddling": cells_json(part(samples, straddles)), "crossing": cells_json(part(samples, crosses)), "by_depth": by_depth,
            "samples": [sample_json(s) for s in samples]}

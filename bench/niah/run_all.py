"""Samples that all hide what they ask for in one haystack, before it is ingested, once, as one document."""
import contextlib
import time
from dataclasses import dataclass

from niah import volume
from niah.mersenne import Random
from niah.sample import Sample
from niah.task import Cell, Draw, Gold, Question
from recollect import NotFound


@dataclass
class Planned:
    """A sample of a haystack that is not ingested yet. `places`: numbers of the haystack's places that gold lies in, None for text of
    the haystack itself. Places move when something is hidden before them."""

    cell: tuple
    number: int
    depth: float
    question: Question
    places: list

    def name(self):
        return self.cell.name(self.number)

    def move_gold(self, haystack):
        for i, place in enumerate(self.places):
            if place is not None:
                old, begin, end = self.question.gold[i]
                now = haystack.places[place]
                moved = now.begin - old.begin
                self.question.gold[i] = Gold(now, begin + moved, end + moved)


def plan(runner, cell, number, haystack):
    random = runner.sample_random(cell, number)
    depth = runner.depth(cell, number, random)
    question = cell.task.make(Draw(cell.variant, depth, runner.options.control == "removed", True, random, haystack))
    places = {place: i for i, place in reversed(list(enumerate(haystack.places)))}
    return Planned(cell, number, depth, question, [places.get(gold.place) for gold in question.gold])


def plan_task(runner, task, tokens, haystack):
    """Those that are asked; all that are hidden lie in the haystack then."""
    planned = []
    for variant in task.variants():
        cell = Cell(task, tokens, variant)
        if task.prepares and (task.hides or variant == task.variants()[0]):
            task.prepare(variant, Random(runner.cell_seed(cell) + 1), haystack)
        for number in range(runner.samples(task) if task.hides else 0):
            one = plan(runner, cell, number, haystack)
            if number < runner.asked(task):
                planned.append(one)
    return planned


def plan_all(runner, tokens, haystack):
    """All samples of a size: first those that hide something are hidden, then those made that ask for what there is."""
    planned = [one for task in runner.tasks for one in plan_task(runner, task, tokens, haystack)]
    for one in planned:
        one.move_gold(haystack)
    for task in runner.tasks:
        if not task.hides:
            planned += [plan(runner, Cell(task, tokens, variant), number, haystack)
                        for variant in task.variants() for number in range(runner.asked(task))]
    for one in planned:
        if one.question.gold:
            one.depth = haystack.depth_of(one.question.gold[0].place)
    return planned


def ingest(runner, tokens, text, observer, first):
    """Records the tokens and the time of the ingest in `first`, the sample that they count for."""
    begin = time.perf_counter()
    held = volume.ingest_once(runner.client, runner.options.seed, text, lambda progress: observer.on_ingest(progress, tokens, len(text)))
    first.ingested_tokens = held.ingested_tokens
    first.ingest_s = time.perf_counter() - begin
    return [held]


def run_all(runner, tokens, observer):
    """The samples of one size."""
    haystack = runner.cut_haystack(tokens, 1, Random(runner.haystack_seed(tokens)))
    planned, volumes, samples, first = plan_all(runner, tokens, haystack), [], [], Sample()
    unmounted, text = runner.options.control == "unmounted", haystack.shards[0]
    if not unmounted and any(observer.answered(one.name()) is None for one in planned):
        volumes = ingest(runner, tokens, text, observer, first)
    for one in planned:
        known = observer.answered(one.name())
        sample = known
        if known is None:
            sample, first = first, Sample()  # the first one's is the work of ingesting
            sample.task, sample.variant, sample.tokens_asked = one.cell.task.name, one.cell.variant.name, tokens
            sample.depth, sample.documents = one.depth, len(volumes)
            sample.tokens_mounted = sum(held.tokens for held in volumes)
            one.cell.task.run(runner.asker, one.question, volumes, sample)
        samples.append(sample)
        observer.on_sample(one.name(), sample, known is not None)
    if not (runner.options.keep or unmounted):
        with contextlib.suppress(NotFound):  # an earlier run may have been the one that ingested it
            runner.client.delete(volume.name_of(runner.options.seed, text))
    return samples

"""Checks of train.py.

    python tests/train/run_check.py train test_train.py
"""

import json
import pathlib
import random
import re
import tempfile
from unittest import mock

import numpy as np
import torch

from data.batches import BatchMaker
from data.needles import SHARES, Tasks
from data.records import Records
from eval.goldens import BASE
from model.ops import build_folder
from test_oracle import TinyBooks, TinyTasks
from data.tokenizer import Tokenizer
from train import Trainer

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODEL = {**BASE, "vocab_size": 64, "encoder_carry": True, "min_chunk_tokens": 24, "lexicon": {"d": 16, "reach": 8}, "successors": True,
         "local": {"window": 128, "dilation": 16, "initial": 0, "span": 1024},
         "adapted_dilations": [16]}


def trainer(folder, **curriculum):
    """The shipped run's config over a tiny model, books and needles; every step in plain PyTorch."""
    with open(ROOT / "train" / "config.json") as f:
        config = json.load(f)
    config.update(run=folder, dtype="fp32", model=MODEL)
    config["data"].update(batch=2, length=512, max_blocks=14, max_dilated=24, queue=8, dilation_shares=[1.0],
                          tokenizer=str(ROOT / config["data"]["tokenizer"]), phrases=str(ROOT / config["data"]["phrases"]))
    config["curriculum"].update(curriculum)
    books, tasks = TinyBooks(MODEL["vocab_size"]), TinyTasks(MODEL["vocab_size"])
    books.words = []
    with mock.patch("train.Books", lambda path: books), mock.patch("train.Tasks", lambda *arguments: tasks), \
            mock.patch("torch.compile", lambda function, **options: function):
        return Trainer(config)


def steps(run, count):
    """The loss of each next step; the clock stands still."""
    taken = []
    for _ in range(count):
        run.train_step()
        taken.append(run.meter.report(1)["loss"])
    return taken


def test_a_lock_that_a_killed_build_has_left_holds_up_no_later_one():
    with tempfile.TemporaryDirectory() as folder:
        lock = pathlib.Path(folder, "lock")
        lock.touch()
        with build_folder(folder):
            assert not lock.exists()
            lock.touch()  # PyTorch's own while it builds
        with build_folder(folder):
            assert not lock.exists()


def test_resume_takes_the_same_next_step():
    with tempfile.TemporaryDirectory() as folder:
        run = trainer(folder)
        steps(run, 2)
        run.open, run.queue = 0.9, 0.4
        run.save()
        again = trainer(folder)
        assert again.step_number == 2 and (again.open, again.queue) == (0.9, 0.4)
        assert steps(run, 2) == steps(again, 2)
        for a, b in zip(run.params, again.params):
            assert torch.equal(a, b)
        assert (run.maker.queue == again.maker.queue).all() and run.maker.queue_filled > 0


def test_text_first_leaves_the_memory_as_it_is():
    with tempfile.TemporaryDirectory() as folder:
        run = trainer(folder, text_first=0.5)
        before = {n: p.clone() for n, p in run.model.named_parameters()}
        steps(run, 1)
        changed = {n for n, p in run.model.named_parameters() if not torch.equal(p, before[n])}
        of_memory = {n for n in before if "gca" in n or n.split(".")[0] in ("encoder", "groups", "landmark_proj", "lexicon", "memory")}
        assert changed == before.keys() - of_memory
        run.elapsed = 0.6 * 60 * run.c["optimizer"]["minutes"]
        steps(run, 1)
        assert any(not torch.equal(run.model.get_parameter(n), before[n]) for n in of_memory)


def test_a_record_is_its_cue_and_its_value():
    rng, records = random.Random(4), Records(["amber", "falcon", "ledger"], lambda rng, fewest, most: " some words of a book"[:rng.choice((5, 21))])
    for _ in range(500):
        form = records.form(rng)
        record = records.record(rng, form)
        assert record["key"] in record["cue"] and "\0" not in record["text"]
        if form["ask"] is None:
            assert record["text"] == record["cue"] + record["value"] + record["after"]
        else:  # the value stands before the key
            at = record["text"].index(record["value"].strip())
            assert record["cue"].removesuffix(form["ask"]) in record["text"][at:]


def test_a_question_for_several_is_answered_with_the_values_of_their_chunks():
    with open(ROOT / "train" / "config.json") as f:
        config = json.load(f)
    with open(ROOT / config["data"]["phrases"]) as f:
        phrases = json.load(f)
    config["data"].update(batch=8, queue=0, several=1.0, twins=0.5, repeat=0.0, random_filler=0.0)
    tokenizer, books = Tokenizer(str(ROOT / config["data"]["tokenizer"])), TinyBooks(config["model"]["vocab_size"])
    tasks = Tasks(tokenizer, ["amber", "falcon", "ledger", "meadow", "silver"], phrases, "train", books, {**dict.fromkeys(SHARES, 0.0), "record": 0.0})
    maker = BatchMaker(config["data"], config["model"], books, tasks, 5)
    found = 0
    for _ in range(6):
        batch, kinds = maker.batch(1.0, 0.0, 1.0)
        for number, (kind, _, _) in enumerate(kinds):
            if not kind.startswith("several"):
                continue
            at = np.argwhere(batch["answer"] == number)
            sequence, first = at[0]
            [block] = np.flatnonzero(batch["landmarks"] == sequence * config["data"]["length"] + first)
            values = tokenizer.decode(batch["targets"][tuple(at.T)].tolist())
            chunks = np.flatnonzero(batch["gold"][block])
            if len(chunks):
                found += 1
                read = [tokenizer.decode(batch["tokens"].reshape(-1)[[p for p in batch["block_rows"][c][1:] if p < batch["tokens"].size]].tolist())
                        for c in chunks]
                wanted = [v for v in re.split("[,;] and|,|;| and", values) if v.strip()]
                assert len(wanted) > 1 and all(v.strip() in "".join(read) for v in wanted)
    assert found > 5


def test_other_processes_make_the_batches():
    with tempfile.TemporaryDirectory() as folder:
        run = trainer(folder)
        run.c["data"]["workers"] = 2
        try:
            run.next_batch((0.9, 0.0, 0.7))
            assert False, "a queue that other processes do not see"
        except SystemExit as error:
            assert "data.queue" in str(error)
        run.maker.queue = run.maker.queue[:0]
        drawn = [run.next_batch((0.9, 0.0, 0.7))[0]["tokens"] for _ in range(3)]
        assert not any((a == b).all() for a, b in zip(drawn, drawn[1:]))
        assert drawn[0].shape == (2, 512)


def test_a_repetition_names_the_chunk_and_the_row_that_lead_to_it():
    with tempfile.TemporaryDirectory() as folder:
        maker = trainer(folder).maker
    batch, _ = maker.batch(1.0, 0.0, 1.0)
    flat, rows = batch["tokens"].reshape(-1), batch["block_rows"]
    found = 0
    for block, row in zip(*np.nonzero(batch["copy_chunk"] >= 0)):
        chunk, alike = batch["copy_chunk"][block, row], batch["copy_row"][block, row]
        if batch["repeats"].reshape(-1)[rows[block, row]]:
            found += 1
            assert flat[rows[block, row + 1]] == flat[rows[chunk, alike + 1]]
    assert found > 20 and (batch["gold"].sum(-1) > 0).sum() > 2

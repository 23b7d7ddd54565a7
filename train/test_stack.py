"""Checks of the families' training form, which must compute what the plain oracles do, and of what trains it.

    python tests/train/run_check.py train test_stack.py
"""

import itertools
import json
import os
import pathlib
import random
import tempfile

import numpy as np
import torch

from eval.goldens_ratplus import BASE, random_weights as ratplus_weights
from families import MODELS, build, family
from families.cases import CASES, random_weights
from families.ratplus import RatPlus, patterns_of
from families_train import FamilyRun, variant_of
from model.stack import Stack

TOLERANCE = 2e-5


def close(a, b, what=None):
    assert (a - b).abs().max() <= TOLERANCE * max(1, b.abs().max()), (what, (a - b).abs().max())


def loaded(config, weights):
    model = Stack(config)
    model.load_state_dict({n: x.float() for n, x in weights.items()})
    return model


def draw(config, length):
    return [random.Random(length).randrange(3, config["vocab_size"]) for _ in range(length)]


def test_ratplus_computes_what_the_oracle_does():
    for recurrence in (True, False):
        config = {**BASE, "recurrence": recurrence}
        weights, ids = ratplus_weights(config, 1), draw(config, 96)
        model = loaded(config, weights)
        patterns = list(itertools.product((0, 1, 5, 24, 95, 200), (1, 3, 4, 16, 64, -1), (0, 4, 17), (None, 0, 30)))
        for window, dilation, initial, beyond in random.Random(recurrence).sample(patterns, 80):
            numbers = {"window": window, "dilation": dilation, "initial": initial, "span": None if beyond is None else window + beyond}
            want = RatPlus(config, weights, patterns_of(config, numbers)).forward(ids)
            close(model(torch.tensor([ids]), tuple(numbers.values()))[0], want, numbers)


def test_other_families_compute_what_the_oracles_do():
    for name, (config, _, _) in CASES.items():
        if family(config) in ("drt-paper", "llama"):  # of which there is no training form here
            continue
        for length in (64, 128):
            weights, ids = random_weights(MODELS[config["architecture"]].shapes(config), 2), draw(config, length)
            close(loaded(config, weights)(torch.tensor([ids, ids[::-1]]))[0], build(config, weights).forward(ids), name)


# -- training


def tiny(folder, name, **changes):
    """The variant of families.json at a tiny size, on a text of one passage over and over."""
    with open(pathlib.Path(__file__).parent / "families.json") as f:
        config = json.load(f)
    rng = random.Random(1)
    passage = np.array([rng.randrange(3, 60) for _ in range(50)], np.uint16)
    for split in ("train", "valid"):
        books = np.tile(passage, 20)
        np.savez(os.path.join(folder, f"{split}.npz"), tokens=books, starts=np.array([0, len(books)]), words=np.array(""))
    config.update(run=folder, dtype="fp32", compile=False)
    config["data"].update(cache=folder, batch=4, length=128, valid_sequences=6)
    config["optimizer"].update(warmup_steps=2)
    for model in config["models"].values():
        model.update(vocab_size=64, d=32, heads=2, head_dim=16, ffn=48, layers=2)
        if "kv_heads" in model:
            model["kv_heads"] = 1
        for mixer in model.get("mixers", []):
            mixer.update({"window": 31} if "window" in mixer else {})
    c = variant_of(config, name)
    return {**c, **changes}


def losses(run, steps):
    """Mean losses by name over the first and the last quarter of the steps."""
    torch.set_num_threads(1)
    reports = []
    for _ in range(steps):
        assert run.train_step() is not None
        reports.append(run.meter.report(1))
    quarter = steps // 4
    return [{k: np.mean([r[k] for r in part if k in r]) for k in sorted(set().union(*part))}
            for part in (reports[:quarter], reports[-quarter:])]


def test_every_variant_learns():
    for name in ("dense", "arl", "rat", "rat-swa", "rattention"):
        with tempfile.TemporaryDirectory() as folder:
            run = FamilyRun(tiny(folder, name))
            first, last = losses(run, 24)
            assert first.keys() == {"dense": {"loss/1"}, "arl": {"loss/1", "loss/64"}}.get(name, {"loss"})
            for k in first:
                assert np.isfinite(last[k]) and last[k] < 0.9 * first[k], (name, k, first, last)
            report = run.evaluate()
            assert json.load(open(run.path("valid.json"))) == report
            for k in ["valid/1", "valid/4", "valid/16", "valid/64"] if name in ("dense", "arl") else ["valid"]:
                assert 0 < report[k] < 4.5, (name, k, report)


def test_arl_steps_twice_sparse_first():
    with tempfile.TemporaryDirectory() as folder:
        run, seen = FamilyRun(tiny(folder, "arl")), []
        loss, rate = run.loss, run.rate_factor()
        run.loss = lambda tokens, pattern: (seen.append((pattern, tokens.sum().item())), loss(tokens, pattern))[1]
        run.train_step()
        (sparse, first), (dense, second) = seen
        assert sparse == (0, 64, 0, None) and dense == (0, 1, 0, None) and first == second
        assert {s["step"].item() for s in run.adam.state.values()} == {2.0}
        assert run.rate_factor() == 2 * rate  # of two warm-up steps: one for the batch


def test_resume_takes_the_same_next_step():
    for name in ("arl", "adapted", "rattention"):
        with tempfile.TemporaryDirectory() as folder:
            if name == "adapted":
                FamilyRun(tiny(folder, "arl")).save()
            run = FamilyRun(tiny(folder, name))
            losses(run, 4)
            run.save()
            again = FamilyRun(tiny(folder, name))
            assert again.step_number == 4
            assert losses(run, 8) == losses(again, 8)
            for a, b in zip(run.params, again.params):
                assert torch.equal(a, b), name


def test_adaptation_starts_from_the_other_variant():
    with tempfile.TemporaryDirectory() as folder:
        source = FamilyRun(tiny(folder, "arl"))
        losses(source, 4)
        source.save()
        run = FamilyRun(tiny(folder, "adapted"))
        assert all(torch.equal(a, b) for a, b in zip(source.params, run.params)) and not run.adam.state
        assert run.c["model"]["local"] == {"window": 0, "dilation": 1, "initial": 4}
        drawn = set()
        for _ in range(24):
            run.train_step()
            drawn |= run.meter.report(1).keys()
        assert drawn == {"loss/1", "loss/4", "loss/16", "loss/64"}

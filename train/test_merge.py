"""Checks of merge.py.

    python tests/train/run_check.py train test_merge.py
"""

import random

import torch

from eval.goldens import BASE, random_weights
from merge import mean
from model.oracle import Oracle, lay_out

SHALLOW, DEEP = {**BASE, "encoder_layers": 1}, {**BASE, "encoder_layers": 2}


def weights(config, seed):
    """Random weights that bf16 holds exactly."""
    return {n: torch.as_tensor(w).bfloat16() for n, w in random_weights(config, seed).items()}


def logits(config, state):
    oracle, rng = Oracle(config, {n: w.float() for n, w in state.items()}), random.Random(3)
    draw = lambda n: [rng.randrange(3, config["vocab_size"]) for _ in range(n)]
    mounted = [oracle.ingest(draw(200))]
    return oracle.forward(lay_out([draw(30), "flush", draw(20)], config["lmk_id"]), mounted)[0]


def test_a_deepened_model_computes_the_same():
    shallow, deep = weights(SHALLOW, 1), weights(DEEP, 2)
    assert torch.equal(logits(DEEP, mean(shallow, deep, 0)), logits(SHALLOW, shallow))


def test_shares_add_up():
    a, b = weights(DEEP, 1), weights(DEEP, 2)
    merged = mean(a, b, 0.25)
    for name in a:
        assert torch.allclose(merged[name].float(), 0.75 * a[name].float() + 0.25 * b[name].float(), rtol=0.01, atol=1e-4), name


def test_models_of_other_shapes_are_refused_by_name():
    a, b = weights(DEEP, 1), weights({**DEEP, "ffn": BASE["ffn"] * 2}, 2)
    try:
        mean(a, b, 0.5)
    except SystemExit as error:
        assert "layers.0.ffn.in_proj.weight" in str(error)
    else:
        raise AssertionError("merged two shapes")

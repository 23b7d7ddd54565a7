"""The committed golden cases are what the oracles compute with their models; test_families.py has the same for tests/golden/families.

    python tests/train/run_check.py train test_goldens.py
"""

import json
import os
import pathlib

import torch
from safetensors.torch import load_file

from eval import goldens
from eval import goldens_ratplus
from families.ratplus import dense_logits

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden"
BF16_STEP, ROUNDED = 2.0**-7, 1e-3  # of the largest value: another processor may round a sum the other way


def same(got, want, what, bf16=()):
    """bf16: names of tensors whose fp32 numbers are rounded to bf16."""
    assert got.keys() == want.keys(), what
    for name, x in want.items():
        y = got[name]
        assert (y.dtype, y.shape) == (x.dtype, x.shape), (what, name)
        step = BF16_STEP if x.dtype == torch.bfloat16 or name in bf16 else ROUNDED if x.is_floating_point() else 0
        assert torch.equal(x.isinf(), y.isinf()), (what, name)
        x, y = (t.double().masked_fill(t.isinf(), 0) for t in (x, y))
        assert x.numel() == 0 or (x - y).abs().max() <= step * max(1, x.abs().max()), (what, name)


def read(folder):
    """-> (case.json, case.safetensors, config and weights of the folder's own model)"""
    case = json.loads((folder / "case.json").read_text())
    model = ROOT / case["model"] if "model" in case else folder
    return case, load_file(folder / "case.safetensors"), json.loads((model / "config.json").read_text()), load_file(model / "model.safetensors")


def test_shipped():
    os.chdir(ROOT)
    case, want, *_ = read(GOLDEN / "models" / "shipped")
    made, got, _ = goldens.build_shipped(case["seed"])
    assert json.loads(json.dumps(made)) == {**case, "torch": made["torch"]}
    same(got, want, "shipped")


def test_models():
    for name in goldens.CASES:
        case, want, config, weights = read(GOLDEN / "models" / name)
        events = [event.get("tokens", "flush") for event in case["events"]]
        made, got, _ = goldens.compute(config, weights, case["documents"], events, case["seed"])
        assert json.loads(json.dumps(made)) == {**case, "torch": made["torch"]}, name
        same(got, want, name)


def test_ratplus():
    for name, (_, _, cases) in goldens_ratplus.MODELS.items():
        case, want, config, weights = read(GOLDEN / "ratplus" / name)
        assert cases == case["cases"], name
        got = {asked: goldens_ratplus.of_request(config, weights, cases[asked]).forward(case["tokens"]) for asked in cases}
        if "dense" in cases:
            got["dense_reference"] = dense_logits(config, weights, case["tokens"]).float()
        same({asked: x[case["logit_rows"]] for asked, x in got.items()}, {asked: want[asked] for asked in got}, name)

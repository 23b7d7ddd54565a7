"""Writes the golden cases of tests/golden/ratplus: what the oracle of RAT+ computes with small random models.

    PYTHONPATH=train python -m eval.goldens_ratplus --out tests/golden/ratplus

The format is described in tests/golden/README.md.
"""

import argparse
import itertools
import json
import os
import random

import torch
from safetensors.torch import save_file

from families.goldens import generate, lively
from families.ratplus import RatPlus, RatPlusDecoder, dense_logits, patterns_of

VERSION = 1
SMALLEST_GAP = 5e-5
SMALLEST_LEAD = 2e-3  # of a greedy token's logit
ROWS_APART = 5  # logits of every fifth position, and of the last: enough to see any entry missing

BASE = {
    "format_version": 1, "architecture": "ratplus", "vocab_size": 80, "unk_id": 0, "eos_id": 2,
    "d": 32, "heads": 2, "head_dim": 16, "ffn": 64, "layers": 3, "context": 256, "rope_base": 10000.0, "norm_eps": 1e-6,
    "recurrence": True, "local": {"window": 0, "dilation": 16, "initial": 4}, "adapted_dilations": [1, 3, 4, 8, 64, 128, -1],
    "adapted_windows": {"min": 0, "max": 256}, "adapted_initials": {"min": 0, "max": 17},
    "max_context": 1024, "top_k": {"block": 8, "score": "quest", "max": 64},
}

# model: (config changes, positions, patterns of requests by case name; "default" is the config's own)
MODELS = {
    "plain": ({}, 150, {
        "dense": {"window": 0, "dilation": 1, "initial": 0}, "sparse": {"window": 0, "dilation": 64, "initial": 0}, "sparser": {"window": 0, "dilation": 128, "initial": 0},
        "default": {}, "window": {"window": 20, "dilation": 8, "initial": 4},
        "odd": {"window": 7, "dilation": 3, "initial": 17}, "window_only": {"window": 30, "dilation": -1, "initial": 1},
        "stretched": {"context": 700, "dilation": 4}, "stretched_to_the_same": {"context": 256},
        "own_only": {"window": 0, "dilation": -1, "initial": 0}, "all_window": {"window": 256, "dilation": 4, "initial": 0}}),
    "layers": ({"local": {"window": [0, 24, 3], "dilation": [4, -1, 1], "initial": 1}, "adapted_dilations": [4]}, 90, {"default": {}}),
    "heads": ({"heads": 3, "head_dim": 10, "d": 24, "ffn": 40, "layers": 2, "rope_base": 500.0,
               "local": {"window": [0, [5, 5, 9]], "dilation": [[1, 1, 4], [4, 4, -1]], "initial": [[0, 0, 2], 0]}}, 90, {"default": {}}),
    "quest": ({"layers": 2}, 100, {
        "own_block": {"window": 0, "dilation": -1, "initial": 0, "top_k_blocks": 1},
        "blocks": {"window": 0, "dilation": -1, "initial": 0, "top_k_blocks": 4},
        "blocks_and_ends": {"dilation": 8, "initial": 0, "top_k_blocks": 3},
        "all_of_it": {"window": 11, "dilation": 3, "initial": 5, "top_k_blocks": 5, "context": 512},
        "every_block": {"window": 0, "dilation": -1, "initial": 0, "top_k_blocks": 64},
        "dense": {"window": 0, "dilation": 1, "initial": 0}}),
    "moba": ({"layers": 2, "top_k": {"block": 12, "score": "moba", "max": 4}, "adapted_dilations": [-1, 4]}, 100, {
        "blocks": {"window": 0, "dilation": -1, "initial": 0, "top_k_blocks": 3},
        "blocks_and_ends": {"dilation": 4, "initial": 0, "top_k_blocks": 3}}),
    "no_recurrence": ({"recurrence": False, "layers": 2}, 70, {"default": {}, "dense": {"window": 0, "dilation": 1, "initial": 0}}),
    "bounded": ({"layers": 2, "d": 24, "ffn": 40, "local": {"window": 3, "dilation": 4, "initial": 2, "span": 30}}, 150, {
        "default": {}, "every_position": {"window": 0, "dilation": 1, "initial": 0}, "one_end": {"window": 5, "dilation": 128},
        "past_the_first_end": {"window": 30, "dilation": 8, "initial": 17},
        "blocks_and_ends": {"window": 0, "initial": 0, "top_k_blocks": 3}}),
    "bounded_heads": ({"layers": 2, "d": 24, "ffn": 40,
                       "local": {"window": [0, 6], "dilation": [[1, 16], 3], "initial": 1, "span": [[20, 40], [33, None]]}}, 90, {"default": {}}),
    "tokens": ({"layers": 2, "ffn": 40, "vocab_size": 48}, 100, {
        "dense": {"window": 0, "dilation": 1, "initial": 0},
        "hybrid": {"window": [[0, 0], [20, 5]], "dilation": [[1, 4], [64, -1]], "initial": 4},
        "blocks_and_ends": {"dilation": 8, "initial": 0, "top_k_blocks": 3}}),
}
# Models whose cases all go on with greedy tokens; their weights are random_weights' with these sublayers.
GENERATING, LIVELY = {"tokens"}, 4


def random_weights(config, seed, sublayers=1):
    """Random weights of a lively scale, bf16 values; `sublayers` as of families.cases."""
    torch.manual_seed(seed)
    d, inner, ffn = config["d"], config["heads"] * config["head_dim"], config["ffn"]
    shapes = {"embed.weight": (config["vocab_size"], d)}
    for i in range(config["layers"]):
        shapes.update({f"layers.{i}.mixer_norm.weight": (d,), f"layers.{i}.mixer.in_proj.weight": (5 * inner, d),
                       f"layers.{i}.mixer.out_proj.weight": (d, inner), f"layers.{i}.ffn_norm.weight": (d,),
                       f"layers.{i}.ffn.in_proj.weight": (ffn, d), f"layers.{i}.ffn.out_proj.weight": (d, ffn)})
    shapes["final_norm.weight"] = (d,)
    weights = {}
    for name, shape in shapes.items():
        x = torch.randn(shape)
        if len(shape) == 1:
            x = 1 + 0.2 * x
        elif name == "embed.weight":
            x = 0.7 * x
        else:
            x = x / shape[1] ** 0.5
        if name.endswith("out_proj.weight"):
            x = x * sublayers
        weights[name] = x.bfloat16()
    return weights


def build(name, seed):
    """-> (config, weights, ids, {case: logits [T, vocab]}, smallest gap of a choice of blocks)."""
    changes, length, cases = MODELS[name]
    config = {**BASE, **changes}
    rng = random.Random(seed)
    ids = [rng.randrange(3, config["vocab_size"]) for _ in range(length)]
    weights = random_weights(config, seed, LIVELY if name in GENERATING else 1)
    logits, gap = {}, float("inf")
    for case, asked in cases.items():
        oracle = of_request(config, weights, asked)
        logits[case] = oracle.forward(ids)
        gap = min(gap, oracle.gap)
    return config, weights, ids, logits, gap


def continuations(name, config, weights, ids):
    """{case: greedy tokens after ids} of a model that generates; None when a choice is nearly tied or they hardly ever change."""
    found = {}
    for case, asked in MODELS[name][2].items() if name in GENERATING else ():
        oracle = of_request(config, weights, asked)
        tokens, lead = generate(config, RatPlusDecoder(oracle), lambda more: ids + more)
        if oracle.gap < SMALLEST_GAP or lead < SMALLEST_LEAD or not lively(tokens):
            return None
        found[case] = tokens
    return found


def of_request(config, weights, asked):
    """The oracle under what a request asks for, a dict by the names of SessionOptions."""
    numbers = {k: v for k, v in asked.items() if k in ("window", "dilation", "initial")}
    return RatPlus(config, weights, patterns_of(config, numbers), asked.get("context"), asked.get("top_k_blocks", 0))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="tests/golden/ratplus")
    args = parser.parse_args()
    torch.set_num_threads(1)
    for number, name in enumerate(MODELS, start=1):
        # Nearly tied blocks could be chosen the other way round by another order of summation.
        for seed in itertools.count(number, 100):
            config, weights, ids, logits, gap = build(name, seed)
            generated = continuations(name, config, weights, ids) if gap >= SMALLEST_GAP else None
            if generated is not None:
                break
        folder = os.path.join(args.out, name)
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "config.json"), "w") as f:
            json.dump(config, f, indent=2)
            f.write("\n")
        save_file(weights, os.path.join(folder, "model.safetensors"))
        rows = sorted(set(range(0, len(ids), ROWS_APART)) | {len(ids) - 1})
        cases = MODELS[name][2]
        tensors = {case: value[rows].contiguous() for case, value in logits.items()}
        if "dense" in cases:
            # From the form that shares no code with the others, in double, rounded once.
            tensors["dense_reference"] = dense_logits(config, weights, ids)[rows].float().contiguous()
        tensors.update({f"generated.{case}": torch.tensor(tokens, dtype=torch.int32) for case, tokens in generated.items()})
        save_file(tensors, os.path.join(folder, "case.safetensors"))
        with open(os.path.join(folder, "case.json"), "w") as f:
            json.dump({"version": VERSION, "generator": "PYTHONPATH=train python -m eval.goldens_ratplus --out tests/golden/ratplus", "seed": seed,
                       "torch": torch.__version__.split("+")[0], "tokens": ids, "logit_rows": rows, "cases": cases}, f)
            f.write("\n")
        print(f"{name}: seed {seed}, {len(ids)} positions, gap {gap:.1e}: {', '.join(cases)}")


if __name__ == "__main__":
    main()

"""Writes the golden cases of tests/golden/models: what the oracle computes with small random models, and with the shipped
model on text of the examples.

    PYTHONPATH=train python -m eval.goldens --out tests/golden/models

The format is described in tests/golden/README.md. A case is refused when a retrieval is nearly tied, since
another order of summation could then pick another chunk.
"""

import argparse
import json
import lzma
import os
import random

import torch
from safetensors.torch import load_file, save_file

from data.tokenizer import Tokenizer
from model.drt import Model
from model.oracle import Oracle, lay_out

VERSION = 1
SHIPPED, TEXT = "models/recollect-7m", "examples/books.txt.xz"
LOGIT_ROWS_APART = 12  # of the shipped case: 4096 logits a row would be megabytes
SMALLEST_GAP = 2e-3

BASE = {
    "format_version": 1, "architecture": "drt", "vocab_size": 80, "unk_id": 0, "lmk_id": 1, "eos_id": 2,
    "d": 32, "heads": 2, "head_dim": 16, "ffn": 48, "n_low": 2,
    "groups": [{"layers": 1, "gca_layers": [0]}, {"layers": 1, "gca_layers": [0]}],
    "encoder_layers": 1, "encoder_carry": False, "n_ret": 3, "d_r": 32, "memory_kv_heads": 2, "memory_key_recurrence": True,
    "gca_residual": "add", "recurrence": True, "rope_base": 10000.0, "norm_eps": 1e-6,
    "local": {"window": 128, "dilation": 16, "initial": 0, "span": 256}, "adapted_dilations": [8, 16],
}

# name: (config changes, documents' lengths, session events as lengths or "flush")
CASES = {
    "base": ({}, [150, 40, 63], [12, "flush", 70, "flush", "flush", 5, "flush", 190, "flush", 1, "flush", 63, "flush", 30]),
    "no_memory_yet": ({"n_low": 1}, [], [200, "flush", 20]),
    "one_candidate": ({"n_ret": 8, "n_low": 1}, [1], [3, "flush", 64, "flush", 2]),
    "bypass": ({"gca_residual": "bypass", "memory_key_recurrence": False, "bf16_weights": True}, [130], [20, "flush", 100, "flush", 40]),
    "no_recurrence": ({"recurrence": False, "memory_key_recurrence": False,
                       "local": {"window": 32, "dilation": 8, "initial": 4, "span": 96}}, [100], [150, "flush", 90]),
    "grouped_heads": ({"heads": 4, "memory_kv_heads": 1, "d_r": 40, "ffn": 40, "bf16_weights": True},
                      [126], [30, "flush", 70, "flush", 25]),
    "deep_group": ({"groups": [{"layers": 2, "gca_layers": [0, 1]}, {"layers": 2, "gca_layers": [1]}], "encoder_layers": 2,
                    "n_low": 1, "d_r": 16, "local": {"window": 40, "dilation": 4, "initial": 2, "span": 64}},
                   [64, 190], [10, "flush", 120, "flush", 33]),
    "wide_heads": ({"head_dim": 32, "ffn": 40, "n_low": 2, "groups": [{"layers": 1, "gca_layers": [0]}],
                    "local": {"window": 127, "dilation": 32, "initial": 0, "span": 192}}, [75], [240, "flush", 62, "flush", 8]),
    "carry": ({"encoder_carry": True, "n_low": 1, "bf16_weights": True}, [100, 64], [20, "flush", 130, "flush", 33]),
    "lexicon": ({"lexicon": {"d": 16, "reach": 8}, "successors": True, "d_r": 24, "encoder_carry": True, "bf16_weights": True},
                [250, 40, 126], [3, "flush", 70, "flush", 1, "flush", 190, "flush", 2, "flush", 30]),
    "pointer": ({"vocab_size": 12, "pointer": {"reach": 5}, "lexicon": {"d": 16, "reach": 8}, "successors": True, "bf16_weights": True},
                [200, 2, 90], [3, "flush", 70, "flush", 1, "flush", 150, "flush", 2, "flush", 30]),
    "dense": ({"local": {"window": 16, "dilation": 1, "initial": 0, "span": 80}, "bf16_weights": True}, [80, 3], [40, "flush", 90]),
}


def random_weights(config, seed):
    """Random weights of a lively scale, so that every part moves the logits."""
    torch.manual_seed(seed)
    model = Model(config)
    weights = {}
    for name, p in model.named_parameters():
        if name.endswith("norm.weight"):
            weights[name] = 1 + 0.2 * torch.randn(p.shape)
        elif name.endswith("successor_bias"):
            weights[name] = -0.5 * torch.rand(p.shape)
        elif p.dim() == 1 or name == "lexicon.weight":
            weights[name] = torch.randn(p.shape)
        elif name == "embed.weight":
            weights[name] = 0.7 * torch.randn(p.shape)
        else:
            weights[name] = torch.randn(p.shape) * (1.5 if "query_proj" in name else 1.0) / p.shape[1] ** 0.5
    return weights


def pack(chunks, config):
    """Stored records as tensors: keys [n, d_k] bf16, states [n, 63, d] bf16 zero-padded, rows [n] int32."""
    n, d_k = len(chunks), config["d_r"] + (config.get("lexicon") or {"d": 0})["d"]
    keys, states = torch.zeros(n, d_k), torch.zeros(n, 63, config["d"])
    for i, c in enumerate(chunks):
        keys[i], states[i, :len(c.states)] = c.key, c.states
    return {"keys": keys.bfloat16(), "states": states.bfloat16(),
            "rows": torch.tensor([len(c.states) for c in chunks], dtype=torch.int32)}


def build_shipped(seed):
    """Two documents and a session of consecutive text; the seed chooses where in the book."""
    with open(os.path.join(SHIPPED, "config.json")) as f:
        config = json.load(f)
    tokenizer = Tokenizer(os.path.join(SHIPPED, "tokenizer.model"))
    with lzma.open(TEXT, "rt") as f:
        ids = iter(tokenizer.encode(f.read()[seed * 20_000:seed * 20_000 + 6_000]))
    draw = lambda n: [next(ids) for _ in range(n)]
    documents = [draw(n) for n in (450, 40)]
    events = [e if isinstance(e, str) else draw(e) for e in (70, "flush", 130, "flush", 25)]
    weights = load_file(os.path.join(SHIPPED, "model.safetensors"))
    case, tensors, gap = compute(config, weights, documents, events, seed, tokenizer.token_bytes)
    rows = list(range(0, len(tensors["ids"]), LOGIT_ROWS_APART))
    tensors["logits"] = tensors["logits"][rows]
    return {**case, "model": SHIPPED, "logit_rows": rows}, tensors, gap


def build_case(name, seed):
    changes, documents, events = CASES[name]
    config = {**BASE, **changes}
    half = config.pop("bf16_weights", False)
    rng = random.Random(seed)
    draw = lambda n: [rng.randrange(3, config["vocab_size"]) for _ in range(n)]
    weights = random_weights(config, seed)
    if half:
        weights = {k: v.bfloat16() for k, v in weights.items()}
    documents = [draw(n) for n in documents]
    events = [e if isinstance(e, str) else draw(e) for e in events]
    return config, weights, *compute(config, weights, documents, events, seed)


def compute(config, weights, documents, events, seed, token_bytes=None):
    """-> (case.json, case.safetensors, smallest gap of a retrieval)."""
    oracle = GapOracle(config, weights)
    mounted = [oracle.ingest(d, token_bytes) for d in documents]
    layout = lay_out(events, config["lmk_id"])
    logits, own, hits = oracle.forward(layout, mounted)
    N, K, G = len(layout.starts), config["n_ret"], len(config["groups"])
    indices = torch.full((G, N, K), -1, dtype=torch.int32)
    weight, score = torch.zeros(G, N, K), torch.zeros(G, N, K)
    for g in range(G):
        for b, (e, w, r) in enumerate(hits[g]):
            indices[g, b, :len(e)] = torch.tensor(e, dtype=torch.int32)
            weight[g, b, :len(e)], score[g, b, :len(e)] = w, r
    tensors = {"ids": torch.tensor(layout.ids, dtype=torch.int32), "block_starts": torch.tensor(layout.starts, dtype=torch.int32),
               "logits": logits, "hits": indices, "hit_weights": weight, "hit_scores": score}
    for i, chunks in enumerate(mounted):
        tensors.update({f"doc.{i}.{k}": v for k, v in pack(chunks, config).items()})
    tensors.update({f"own.{k}": v for k, v in pack(own, config).items()})
    case = {"version": VERSION, "generator": "PYTHONPATH=train python -m eval.goldens --out tests/golden/models", "seed": seed,
            "torch": torch.__version__.split("+")[0], "documents": documents,
            "events": [{"flush": True} if isinstance(e, str) else {"tokens": e} for e in events]}
    return case, tensors, oracle.gap


class GapOracle(Oracle):
    """Notes the smallest distance between the last score taken and the first one left."""

    gap = float("inf")

    def relevance(self, g, h, before, candidates):
        r = super().relevance(g, h, before, candidates)
        if len(candidates) > self.c["n_ret"]:
            best = r.sort(descending=True).values
            self.gap = min(self.gap, (best[self.c["n_ret"] - 1] - best[self.c["n_ret"]]).item())
        return r


def write(folder, case, tensors):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "case.json"), "w") as f:
        json.dump(case, f)
        f.write("\n")
    save_file({k: v.contiguous() for k, v in tensors.items()}, os.path.join(folder, "case.safetensors"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="tests/golden/models")
    parser.add_argument("--case", choices=["shipped", *CASES], help="only this one")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.case in (None, "shipped"):
        seed, gap = 0, 0.0
        while gap < SMALLEST_GAP:
            seed += 1
            case, tensors, gap = build_shipped(seed)
        write(os.path.join(args.out, "shipped"), case, tensors)
        print(f"shipped: seed {seed}, {len(tensors['ids'])} positions, gap {gap:.4f}")
    for name in CASES if args.case is None else [name for name in CASES if name == args.case]:
        seed = 1
        while True:
            config, weights, case, tensors, gap = build_case(name, seed)
            if gap >= SMALLEST_GAP:
                break
            seed += 1
        folder = os.path.join(args.out, name)
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "config.json"), "w") as f:
            json.dump(config, f, indent=2)
            f.write("\n")
        save_file({k: v.contiguous() for k, v in weights.items()}, os.path.join(folder, "model.safetensors"))
        write(folder, case, tensors)
        print(f"{name}: seed {seed}, {len(tensors['ids'])} positions, gap {gap:.4f}")


if __name__ == "__main__":
    main()

"""Writes a memory (memory.json, memory.safetensors) from a checkpoint of train.py or from another memory, and reads one.

    PYTHONPATH=train python -m memory.export --base BASE --checkpoint train/runs/memory/checkpoint.pt --out models/mine-memory
    PYTHONPATH=train python -m memory.export --base BASE --memory train/runs/memory --pointer-gate 2.2 --score-shares 0.7 1.4 \
        --out models/mine-memory

`--pointer-gate` is added to the bias of the pointer's gate: the higher it is, the more is copied, and the rarer is "The documents do not say.".
`--score-shares` are those of the dense and of the sparse part of a score when documents are asked; without the option they stay as they
are, 1 and 1 after training. Both are chosen after training, by the papers for choosing.
"""

import argparse
import json
import os

import torch
from safetensors.torch import load_file, save_file

from .base import Base
from .model import Adapter
from .words import number_words

FORMAT = 1
DEFAULTS = {"d_r": 256, "d_pointer": 192, "n_ret": 4, "encoder_layers": 2, "encoder_ffn": 1536, "segment_tokens": 1024,
            "chunk_tokens": 63, "min_chunk_tokens": 32}


def make_config(base, name, **changes):
    """memory.json of a memory for `base`: reads with the lower two fifths of its layers, and GCA stands in every second one above."""
    n_low = changes.pop("n_low", base.n_layers * 2 // 5)
    config = {"format": FORMAT, "base": {"name": name, "sha256": base.sha256()}, "n_low": n_low,
              "gca_layers": list(range(n_low, base.n_layers, 2)), **DEFAULTS, **changes}
    config["words"] = len(number_words(base.texts)[1])
    return config


def write_config(folder, config):
    """memory.json, with a judge's lists on one line each."""
    short = lambda numbers: "[" + ", ".join(f"{one:.5g}" for one in numbers) + "]"  # noqa: E731
    judge = config.get("judge", {})
    long = {"features": json.dumps(judge.get("features", [])), "linear": short(judge.get("linear", [])),
            "hidden": "[\n      " + ",\n      ".join(map(short, judge.get("hidden", []))) + "\n    ]"}
    marked = {**config, "judge": {**judge, **{name: name.upper() for name in long}}} if judge else config
    text = json.dumps(marked, indent=2)
    for name, lines in long.items():
        text = text.replace(f'"{name.upper()}"', lines)
    path = os.path.join(folder, "memory.json")
    with open(path + ".tmp", "w") as f:
        f.write(text + "\n")
    os.replace(path + ".tmp", path)


def save_tensors(tensors, path, dtype=torch.bfloat16):
    save_file({name: x.detach().to("cpu", dtype).contiguous() for name, x in tensors.items()}, path + ".tmp")
    os.chmod(path + ".tmp", 0o644)
    os.replace(path + ".tmp", path)


def save(adapter, out, dtype=torch.bfloat16):
    """Writes an adapter's configuration and weights into the directory `out`."""
    os.makedirs(out, exist_ok=True)
    write_config(out, adapter.config)
    save_tensors(adapter.state_dict(), os.path.join(out, "memory.safetensors"), dtype)


def load(folder, base):
    """-> Adapter in fp32, for the base that memory.json names by its SHA-256."""
    with open(os.path.join(folder, "memory.json")) as f:
        config = json.load(f)
    if config["format"] != FORMAT:
        raise SystemExit(f"{folder}: format {config['format']}, expected {FORMAT}")
    if config["base"]["sha256"] != base.sha256():
        raise SystemExit(f"{folder} is for the base {config['base']['sha256']}, {base.file} is {base.sha256()}")
    adapter = Adapter(config, base)
    adapter.load_state_dict({name: x.float() for name, x in load_file(os.path.join(folder, "memory.safetensors")).items()})
    return adapter


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", required=True, help="GGUF file or directory in the Hugging Face layout")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--checkpoint")
    source.add_argument("--memory", help="directory of an exported memory")
    parser.add_argument("--pointer-gate", type=float, default=0.0)
    parser.add_argument("--score-shares", type=float, nargs=2, metavar=("DENSE", "SPARSE"))
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    base = Base.load(args.base)
    if args.memory:
        adapter = load(args.memory, base)
    else:
        state = torch.load(args.checkpoint, weights_only=True, map_location="cpu")
        adapter = Adapter(state["config"], base)
        adapter.load_state_dict(state["mean"])
    with torch.no_grad():
        adapter.pointer.gate.bias += args.pointer_gate
    if args.score_shares:
        adapter.config["score_shares"] = dict(zip(("dense", "sparse"), args.score_shares))
    save(adapter, args.out)
    print(f"{args.checkpoint or args.memory} -> {args.out}")


if __name__ == "__main__":
    main()

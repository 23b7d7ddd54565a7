"""Writes a model directory (docs/model-format.md) from a checkpoint of train.py.

    python train/export.py --checkpoint train/runs/main/checkpoint-0.pt --out models/mine
"""

import argparse
import json
import os
import shutil

import torch
from safetensors.torch import save_file


def export(checkpoint, out):
    """Writes config.json and model.safetensors (bf16); the tokenizer is copied when it is not there yet."""
    state = torch.load(checkpoint, weights_only=False, map_location="cpu")
    config = state["config"]
    os.makedirs(out, exist_ok=True)
    with open(os.path.join(out, "config.json"), "w") as f:
        json.dump(config["model"], f, indent=2)
        f.write("\n")
    weights = {k: v.bfloat16().contiguous() for k, v in state["model"].items()}
    # The trainer uses them so, and the format says so.
    weights.update({k: v.clamp(max=0) for k, v in weights.items() if k.endswith(".successor_bias")})
    path = os.path.join(out, "model.safetensors")
    save_file(weights, path + ".tmp", metadata={"step": str(state["step"]), "tokens": str(state["tokens"])})
    os.chmod(path + ".tmp", 0o644)
    os.replace(path + ".tmp", path)
    target = os.path.join(out, "tokenizer.model")
    if os.path.abspath(config["data"]["tokenizer"]) != os.path.abspath(target):
        shutil.copy(config["data"]["tokenizer"], target)
    return state


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    state = export(args.checkpoint, args.out)
    print(f"step {state['step']}, {state['tokens']} tokens -> {args.out}")


if __name__ == "__main__":
    main()

"""The mean of models that one training began from the other, or left on its way, as a model directory (docs/training-log.md, points 13, 16 and 19).

    python train/merge.py models/recollect-7m train/runs/main/model --share 0.5 --out train/runs/merged
    python train/merge.py train/runs/main/model-* --out train/runs/merged

Weights along the line between two such models keep what each is good at ("model soups", Wortsman et al., 2022). The encoder of one may
have fewer layers: layers that add nothing are then put before its own, so that `--share 0` gives the first model, deepened.
"""

import argparse
import os
import shutil

import torch
from safetensors.torch import load_file, save_file


def encoder_layers(weights):
    return 1 + max((int(name.split(".")[2]) for name in weights if name.startswith("encoder.layers.")), default=-1)


def deepen(weights, other):
    """`weights` with as many encoder layers as `other`: the new ones come first, with the projections of `other` into them and zeros out
    of them, so that they are the identity."""
    more = encoder_layers(other) - encoder_layers(weights)
    if more <= 0:
        return weights
    deep = {}
    for name, w in weights.items():
        part = name.split(".")
        if name.startswith("encoder.layers."):
            part[2] = str(int(part[2]) + more)
        deep[".".join(part)] = w
    for name, w in other.items():
        if name.startswith("encoder.layers.") and int(name.split(".")[2]) < more:
            deep[name] = torch.zeros_like(w) if name.endswith("out_proj.weight") else w
    return deep


def mean(a, b, share):
    """(1 - share) a + share b, tensor by tensor, fp32."""
    a, b = deepen(a, b), deepen(b, a)
    differ = sorted(n for n in a.keys() | b.keys() if n not in a or n not in b or a[n].shape != b[n].shape)
    if differ:
        raise SystemExit(f"not two states of one model, these tensors differ: {', '.join(differ)}")
    return {n: (1 - share) * a[n].float() + share * b[n].float() for n in a}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", metavar="DIR")
    parser.add_argument("--share", type=float, help="of the second of two models; without it all have the same")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    if args.share is not None and len(args.models) != 2:
        raise SystemExit(f"--share is for two models, {len(args.models)} are given")
    merged, layers, deepest = None, 0, args.models[0]
    for i, directory in enumerate(args.models):
        weights = load_file(os.path.join(directory, "model.safetensors"))
        if encoder_layers(weights) > layers:
            layers, deepest = encoder_layers(weights), directory
        merged = weights if merged is None else mean(merged, weights, 1 / (i + 1) if args.share is None else args.share)
    os.makedirs(args.out, exist_ok=True)
    save_file({n: w.bfloat16() for n, w in merged.items()}, os.path.join(args.out, "model.safetensors"))
    for name in ("config.json", "tokenizer.model"):
        shutil.copy(os.path.join(deepest, name), os.path.join(args.out, name))
    print(f"{args.out}: {layers} encoder layers, the mean of {len(args.models)} models")


if __name__ == "__main__":
    main()

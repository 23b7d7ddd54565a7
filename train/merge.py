"""The weighted mean of two models that one training began from the other, as a model directory (docs/decisions/0006, 13 and 16).

    python train/merge.py models/recollect-7m train/runs/main/model --share 0.5 --out train/runs/merged

Weights along the line between two such models keep what each is good at ("model soups", Wortsman et al., 2022). The encoder of one may
have fewer layers: layers that add nothing are then put before its own, so that `--share 0` gives the first model, deepened.
"""

import argparse
import json
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
    """(1 - share) a + share b, tensor by tensor, in fp32."""
    a, b = deepen(a, b), deepen(b, a)
    differ = sorted(n for n in a.keys() | b.keys() if n not in a or n not in b or a[n].shape != b[n].shape)
    if differ:
        raise SystemExit(f"not two states of one model, these tensors differ: {', '.join(differ)}")
    return {n: ((1 - share) * a[n].float() + share * b[n].float()).bfloat16() for n in a}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("first")
    parser.add_argument("second")
    parser.add_argument("--share", type=float, default=0.5, help="of the second model")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    models = [load_file(os.path.join(d, "model.safetensors")) for d in (args.first, args.second)]
    deepest = (args.first, args.second)[encoder_layers(models[1]) > encoder_layers(models[0])]
    os.makedirs(args.out, exist_ok=True)
    save_file(mean(*models, args.share), os.path.join(args.out, "model.safetensors"))
    for name in ("config.json", "tokenizer.model"):
        shutil.copy(os.path.join(deepest, name), os.path.join(args.out, name))
    with open(os.path.join(args.out, "config.json")) as f:
        print(f"{args.out}: {json.load(f)['encoder_layers']} encoder layers, {args.share} of {args.second}")


if __name__ == "__main__":
    main()

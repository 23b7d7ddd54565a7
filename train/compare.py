"""Trains this model and a plain one of its size, side by side, and compares their bits per byte.

    python train/compare.py --minutes 105 --run train/runs/compare --dtype fp32
    python train/compare.py --minutes 80 --run train/runs/compare-on --dtype fp32 --begin models/recollect-7m

Each has one core and the same books, needles, seed and CPU time; the plain one has neither encoder nor retrieval nor
cross-attention, and the width and layers that make up for them. They begin with nothing, or with --begin both from a
trained model: the plain one from its layers, widened and deepened by what adds nothing yet. docs/training-log.md, points
24 and 25, are such runs. Started again, it goes on.
"""

import argparse
import json
import os
import subprocess
import sys

import torch
from safetensors.torch import load_file, save_file

# What a run from nothing needs other than the shipped config, which goes on from weights.
OPTIMIZER = {"muon_rate": 3e-3, "adam_rate": 2e-3, "decay_share": 0.4}
CURRICULUM = {"retrieval_loss": 0.1, "gumbel": 0.4, "open_start": 0.3, "open_steps": 300, "queue_steps": 300, "queue_above": 0.5}
PLAIN = {"n_low": 5, "ffn": 728}  # 7.72 million parameters beside 7.71
# What a run from weights needs: a rate at which layers that begin as nothing still learn.
RATES_ON = {"muon_rate": 1.5e-3, "adam_rate": 8e-4}


def without_memory(weights, n_low):
    """The plain model of PLAIN that computes what the layers of `weights`, `n_low` of them lower ones, do without their
    memory: more lower layers, copies of the last one with zeros out of them, and wider FFNs with zeros out of what is new."""
    more, plain = PLAIN["n_low"] - n_low, {}
    for name, w in weights.items():
        part = name.split(".")
        if part[0] not in ("embed", "final_norm", "layers") or "gca" in part:
            continue
        if "ffn" in part:
            new = PLAIN["ffn"] - weights["layers.0.ffn.out_proj.weight"].shape[1]
            if "in_proj" in part:
                w = torch.cat([torch.cat([half, half[:new]]) for half in w.chunk(2)])
            else:
                w = torch.cat([w, torch.zeros_like(w[:, :new])], 1)
        if part[0] == "layers":
            at = int(part[1])
            if at == n_low - 1:
                for i in range(more):
                    copy = ".".join([part[0], str(n_low + i)] + part[2:])
                    plain[copy] = torch.zeros_like(w) if "out_proj" in part else w.clone()
            part[1] = str(at if at < n_low else at + more)
        plain[".".join(part)] = w
    return plain


def configs(args):
    """{name: config} of the two runs."""
    made = {}
    for name, memory in (("ours", True), ("plain", False)):
        with open(args.config) as f:
            c = json.load(f)
        c.update(clock="process", seed=args.seed, dtype=args.dtype, memory=memory, run=os.path.join(args.run, name))
        c["optimizer"]["minutes"] = args.minutes
        if args.begin:
            c["optimizer"].update(RATES_ON)
        else:
            c["optimizer"].update(OPTIMIZER)
            c["curriculum"].update(CURRICULUM, text_first=args.text_first)
            c["data"]["queue"] = 2048
        c["model"].update({} if memory else PLAIN)
        made[name] = c
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", default="train/config.json")
    parser.add_argument("--run", default="train/runs/compare", help="folder of both runs")
    parser.add_argument("--begin", metavar="DIR", help="model that both begin from, instead of nothing")
    parser.add_argument("--minutes", type=float, default=105, help="CPU time of each")
    parser.add_argument("--text-first", type=float, default=0.4, help="share of it without needles, the memory off")
    parser.add_argument("--seed", type=int, default=21)
    parser.add_argument("--dtype", default="bf16", choices=["bf16", "fp32"], help="fp32 where the CPU has no bf16")
    args = parser.parse_args()
    here, cores = os.path.dirname(os.path.abspath(__file__)), sorted(os.sched_getaffinity(0))
    made = configs(args)
    running = []
    for core, (name, config) in zip(cores[:1] + cores[-1:], made.items()):
        os.makedirs(config["run"], exist_ok=True)
        path = os.path.join(config["run"], "config.json")
        with open(path, "w") as f:
            json.dump(config, f, indent=1)
        begin = []
        if args.begin:
            begin = ["--init", os.path.join(config["run"], "begin")]
            os.makedirs(begin[1], exist_ok=True)
            weights = load_file(os.path.join(args.begin, "model.safetensors"))
            if not config["memory"]:
                weights = without_memory(weights, made["ours"]["model"]["n_low"])
            save_file(weights, os.path.join(begin[1], "model.safetensors"))
        running.append(subprocess.Popen([sys.executable, os.path.join(here, "train.py"), "--config", path, *begin],
                                        preexec_fn=lambda core=core: os.sched_setaffinity(0, {core})))
    if any([process.wait() for process in running]):
        raise SystemExit("a training failed")
    bits = {}
    for name, config in made.items():
        out = os.path.join(config["run"], "eval.json")
        subprocess.run([sys.executable, "-m", "eval.evaluate", "--checkpoint", os.path.join(config["run"], "checkpoint-0.pt"),
                        "--dtype", args.dtype, "--json", out], check=True, env=dict(os.environ, PYTHONPATH=here))
        with open(out) as f:
            row = next(r for r in json.load(f)["bits_per_byte"] if r["recurrence"] and r["dilation"] == config["model"]["local"]["dilation"])
        bits[name] = row["bits"]
    print(f"bits per byte: ours {bits['ours']:.3f}, plain {bits['plain']:.3f}, {bits['ours'] / bits['plain'] - 1:+.1%}")


if __name__ == "__main__":
    main()

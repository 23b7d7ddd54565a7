"""Trains and evaluates one variant of one config file: RAT+ dense, by active recurrence learning (ARL) or adapted to dilations,
RAT, RAT with attention layers, RAttention. Resumes by itself from the variant's folder, RUN/seed-N/VARIANT.

    taskset -c 0 python train/families_train.py --variant arl --seed 1          # CPU: a seed a core
    python train/families_train.py --variant arl --seed 1 --evaluate            # a checkpoint, without training

A run's length is text (`optimizer.tokens`), so that all variants see the same passages of a seed, whatever a step costs.

ARL: every batch makes two steps of the optimizer, one with each of the dilations [64, 1], sparse first; both share its moments and
the rate. Adaptation starts from another variant's weights with a fresh optimizer, adds the initial positions, and makes one step a
batch with the one dilation, or with one drawn from several.
"""

import argparse
import json
import os
import random

import torch

from data.books import Books, prepare
from eval.meter import Meter
from model.stack import Stack
from train import Run


def variant_of(config, name):
    """What one run needs: the config with the variant's model and optimizer in place, and its keys beside them."""
    if name not in config["variants"]:
        raise SystemExit(f"variant {name!r}, expected one of {', '.join(config['variants'])}")
    c = {**config, **config["variants"][name]}
    c["optimizer"] = {**config["optimizer"], **c.get("optimizer", {})}
    c["model"] = dict(config["models"][c["model"]])
    if "dilations" in c:
        local = {"window": c.get("window", 0), "dilation": c["dilations"][0], "initial": c.get("initial", 0)}
        local.update({"span": c["span"]} if "span" in c else {})
        c["model"].update(local=local, adapted_dilations=sorted(c["dilations"]))
    folder = os.path.join(config["run"], f"seed-{c['seed']}")
    c["run"], c["variant"] = os.path.join(folder, name), name
    if "init" in c:
        c["init"] = os.path.join(folder, c["init"], "checkpoint-0.pt")
    return c


class FamilyRun(Run):
    """c: of variant_of."""

    def __init__(self, c):
        super().__init__(c)
        model = Stack(c["model"], self.dtype)
        self.optimise(model, model.matrix_rows)
        self.books = Books(os.path.join(c["data"]["cache"], "train.npz"))
        self.rng = random.Random(c["seed"] * 1000 + self.rank)
        self.choice = random.Random(c["seed"])  # the same on all ranks
        if "init" in c and not os.path.exists(self.path(f"checkpoint-{self.rank}.pt")):
            model.load_state_dict(torch.load(c["init"], weights_only=False, map_location=self.device)["model"])
        self.resume()
        self.loss = torch.compile(model.loss, dynamic=False) if c["compile"] else model.loss

    def state(self):
        return {"rng": self.rng.getstate(), "choice": self.choice.getstate()}

    def set_state(self, s):
        self.rng.setstate(s["rng"])
        self.choice.setstate(s["choice"])

    def progress(self):
        return self.tokens / self.c["optimizer"]["tokens"]

    def patterns(self, dilations):
        """{name in logs: pattern} of RAT+ with these dilations; without a pattern in the other families."""
        local = self.c["model"].get("local")
        if local is None:
            return {"": None}
        return {f"/{d}": (local["window"], d, local["initial"], local.get("span")) for d in dilations}

    def batch(self):
        """Tokens [B, T + 1]."""
        d = self.c["data"]
        return torch.tensor([self.books.passage(self.rng, d["length"] + 1) for _ in range(d["batch"])], device=self.device)

    def compile(self):
        tokens = torch.zeros(self.c["data"]["batch"], self.c["data"]["length"] + 1, dtype=torch.long, device=self.device)
        for pattern in self.patterns(self.c.get("dilations")).values():
            self.loss(tokens, pattern).backward()
        return True

    def train_step(self):
        tokens = self.batch()
        patterns = list(self.patterns(self.c.get("dilations")).items())
        if self.c.get("draw_dilation"):
            patterns = [self.choice.choice(patterns)]
        for name, pattern in patterns:
            loss = self.loss(tokens, pattern)
            factor = self.descend(loss)
            self.meter.add("loss" + name, loss.item(), 1)
        self.step_number += 1
        self.tokens += (tokens.numel() - len(tokens)) * self.world
        return factor

    @torch.no_grad()
    def evaluate(self):
        """Nats a token of evenly spaced passages of the validation books, by dilation; written to valid.json."""
        d, meter = self.c["data"], Meter()
        tokens, T = torch.from_numpy(Books(os.path.join(d["cache"], "valid.npz")).tokens.astype("int64")), d["length"]
        starts = torch.linspace(0, len(tokens) - T - 1, d["valid_sequences"]).long()
        for i in range(self.rank * d["batch"], len(starts), self.world * d["batch"]):
            batch = torch.stack([tokens[s:s + T + 1] for s in starts[i:i + d["batch"]]]).to(self.device)
            for name, pattern in self.patterns(self.c["evaluate_dilations"]).items():
                meter.add("valid" + name, self.model.loss(batch, pattern).item() * len(batch), len(batch))
        report = {"variant": self.c["variant"], "seed": self.c["seed"], "parameters": sum(p.numel() for p in self.params), "step": self.step_number,
                  "tokens": self.tokens, "minutes": self.elapsed / 60, **meter.report(self.world)}
        if self.rank == 0:
            with open(self.path("valid.json"), "w") as f:
                json.dump(report, f, indent=1)
            print(json.dumps(report), flush=True)
        return report

    def run(self):
        super().run()
        self.evaluate()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", default="train/families.json")
    parser.add_argument("--variant", required=True)
    parser.add_argument("--seed", type=int, help="instead of the config's")
    parser.add_argument("--evaluate", action="store_true", help="evaluates the checkpoint and trains no further")
    args = parser.parse_args()
    with open(args.config) as f:
        config = json.load(f)
    c = variant_of(config if args.seed is None else {**config, "seed": args.seed}, args.variant)
    if int(os.environ.get("RANK", "0")) == 0:
        prepare(c["data"])
    if "init" in c:
        s = torch.load(c["init"], weights_only=False, map_location="cpu")
        if s["tokens"] < s["config"]["optimizer"]["tokens"]:
            raise SystemExit(f"{c['init']} has read {s['tokens']} tokens, expected {s['config']['optimizer']['tokens']}: train that first")
    run = FamilyRun(c)
    if args.evaluate and run.step_number == 0:
        raise SystemExit(f"no checkpoint in {c['run']}")
    run.evaluate() if args.evaluate else run.run()


if __name__ == "__main__":
    main()

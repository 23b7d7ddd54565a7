"""Trains the model of one config file; resumes by itself from the newest checkpoint of the run's folder.

    torchrun --nproc-per-node 2 -- train/train.py --config train/config.json     # CPU: one thread a process
    python train/train.py --config train/config.json                          # one CPU process
    python train/train.py --config train/config.json train/cuda.json          # one CUDA device

The rate schedule follows the wall clock (`optimizer.minutes`), since the time is what is given.
"""

import argparse
import json
import math
import os
import time

import torch
import torch.distributed as dist
from safetensors.torch import load_file

from data.batches import BatchMaker
from data.books import Books, prepare
from data.feed import Feed
from data.needles import Tasks
from data.tokenizer import Tokenizer
from eval.meter import Meter, measure
from merge import deepen
from model import ops
from model.drt import Model, check_trainable
from model.muon import Muon


def split_rows(name, p):
    """Rows of one matrix inside a fused projection `name`."""
    if name.endswith("mixer.in_proj.weight"):
        return p.shape[0] // 5
    if name.endswith("attn.in_proj.weight"):
        return p.shape[0] // 3
    if name.endswith("ffn.in_proj.weight"):
        return p.shape[0] // 2
    return p.shape[0]


class Run:
    """What training any model needs: processes, optimizer, rate, checkpoints. A subclass makes the model and the batches, and
    says what else a checkpoint holds."""

    def __init__(self, config):
        self.c = config
        self.world = int(os.environ.get("WORLD_SIZE", "1"))
        self.rank = int(os.environ.get("RANK", "0"))
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        if self.device.type == "cpu":
            torch.set_num_threads(1 if self.world > 1 else len(os.sched_getaffinity(0)))
        ops.load(self.device.type)
        if self.world > 1:
            dist.init_process_group("gloo")
        torch.manual_seed(config["seed"])
        self.dtype = torch.bfloat16 if config["dtype"] == "bf16" else torch.float32
        self.step_number, self.elapsed, self.tokens, self.meter, self.saved = 0, 0.0, 0, Meter(), time.time()
        self.warm = False  # whether the next step's graph is compiled; the clock leaves out a step that compiles

    def optimise(self, model, split):
        """The optimizer of `model`, whose fused projections are of matrices of split(name, parameter) rows."""
        self.model = model.to(self.device)
        named = list(self.model.named_parameters())
        is_matrix = lambda n, p: p.dim() == 2 and not n.startswith(("embed", "lexicon")) and "norm" not in n
        matrix = [(n, p) for n, p in named if is_matrix(n, p)]
        # The few numbers of a pointer are scores in nats, which have far to go.
        pointer = [p for n, p in named if n.startswith("pointer.")]
        rest = [p for n, p in named if not is_matrix(n, p) and not n.startswith("pointer.")]
        o = self.c["optimizer"]
        self.muon = Muon(matrix, self.rank, self.world, o["momentum"], o["weight_decay"], split, self.dtype)
        self.adam = torch.optim.AdamW([{"params": [p for p in rest if p.dim() > 1], "weight_decay": 0.01},
                                       {"params": [p for p in rest if p.dim() <= 1], "weight_decay": 0.0},
                                       *([{"params": pointer, "weight_decay": 0.0, "rate": o["pointer_rate"]}] if pointer else [])],
                                      lr=o["adam_rate"], betas=tuple(o["betas"]))
        self.params = [p for _, p in named]

    # -- checkpoints

    def path(self, name):
        return os.path.join(self.c["run"], name)

    def save(self):
        state = {"step": self.step_number, "elapsed": self.elapsed, "tokens": self.tokens,
                 "model": self.model.state_dict(), "adam": self.adam.state_dict(), "muon": self.muon.buffers,
                 "config": self.c, "torch_rng": torch.get_rng_state(), **self.state()}
        path = self.path(f"checkpoint-{self.rank}.pt")
        torch.save(state, path + ".tmp")
        os.replace(path + ".tmp", path)
        # Weights along the way, whose mean is better than the last ones (docs/training-log.md, point 19).
        number = int(self.elapsed / 60 / self.c.get("snapshot_minutes", math.inf))
        snapshot = self.path(f"snapshot-{number}.pt")
        if number and self.rank == 0 and not os.path.exists(snapshot):
            torch.save({k: state[k] for k in ("step", "tokens", "config", "model")}, snapshot)

    def resume(self):
        path = self.path(f"checkpoint-{self.rank}.pt")
        os.makedirs(self.c["run"], exist_ok=True)
        there = [os.path.exists(path)]
        if self.world > 1:
            there = [None] * self.world
            dist.all_gather_object(there, os.path.exists(path))
        # Each rank has moments of its own: none can be made up, or left out.
        others = os.path.exists(self.path(f"checkpoint-{self.world}.pt"))
        if any(there) and (not all(there) or others):
            raise SystemExit(f"{self.c['run']} has checkpoints of another number of processes than {self.world}")
        if not there[0]:
            return
        s = torch.load(path, weights_only=False, map_location=self.device)
        self.model.load_state_dict(s["model"])
        self.adam.load_state_dict(s["adam"])
        self.muon.buffers = s["muon"]
        self.step_number, self.elapsed, self.tokens = (s[k] for k in ("step", "elapsed", "tokens"))
        self.set_state(s)
        torch.set_rng_state(s["torch_rng"].cpu())
        if self.world > 1:
            # Ranks save one after the other; a kill in between must not leave them at different steps.
            clock = [self.step_number, self.elapsed, self.tokens]
            dist.broadcast_object_list(clock, 0)
            self.step_number, self.elapsed, self.tokens = clock
            moments = [m for state in self.adam.state.values() for m in state.values() if torch.is_tensor(m)]
            for tensor in [p.data for p in self.params] + moments:
                dist.broadcast(tensor, 0)

    # -- steps

    def progress(self):
        """Share of the run that is over: of its wall clock."""
        return self.elapsed / (self.c["optimizer"]["minutes"] * 60)

    def rate_factor(self):
        """Warm-up by steps, then constant, then linear decay by progress."""
        o = self.c["optimizer"]
        left = 1 - self.progress()
        return min(1.0, (self.step_number + 1) / o["warmup_steps"]) * max(0.0, min(1.0, left / o["decay_share"]))

    def sync_gradients(self, factor):
        """Mean of the gradients over the ranks, clipped; -> the rate factor of rank 0, the same on all ranks."""
        flat = torch.cat([p.grad.reshape(-1) for p in self.params])
        if self.world > 1:
            flat = torch.cat([flat, flat.new_tensor([factor * self.world if self.rank == 0 else 0.0])])
            dist.all_reduce(flat)
            flat /= self.world
            factor, flat = flat[-1].item(), flat[:-1]
        norm = flat.norm().item()
        if not math.isfinite(norm):
            return None
        flat *= min(1.0, self.c["optimizer"]["clip"] / (norm + 1e-6))
        parts = flat.split([p.numel() for p in self.params])
        used = torch.stack([g.any() for g in parts]).tolist()
        for p, g, is_used in zip(self.params, parts, used):
            # What no rank has used stays as it is: weight decay alone would wear it away.
            p.grad = g.view_as(p) if is_used else None
        return factor

    def descend(self, loss):
        """One step of the optimizer along the gradient of `loss`, unless that is not finite; -> the rate factor or None."""
        for p in self.params:
            p.grad = None
        loss.backward()
        for p in self.params:
            if p.grad is None:
                p.grad = torch.zeros_like(p)
        factor = self.sync_gradients(self.rate_factor())
        if factor is not None:
            o = self.c["optimizer"]
            for group in self.adam.param_groups:
                group["lr"] = group.get("rate", o["adam_rate"]) * factor
            self.adam.step()
            self.muon.step(o["muon_rate"] * factor)
        return factor

    def save_or_end(self):
        """Saves when it is time to, or the run is over; -> whether it is over."""
        now = time.time()
        flags = [self.progress() >= 1, now - self.saved > self.c["checkpoint_minutes"] * 60]
        if self.world > 1:
            dist.broadcast_object_list(flags, 0)
        if any(flags):
            self.save()
            self.saved = now
        return flags[0]

    # -- the run, of which a subclass has train_step() -> the rate factor of the last step

    SHOWN = None  # what of a report is printed; None: all

    def compile(self):
        """Runs every graph once, drawing nothing; -> whether it did."""
        return False

    def standing(self):
        """What a report has besides the meter's numbers."""
        return {}

    def adapt(self, report):
        """Changes what the next steps train, after what the last ones reached."""

    def run(self):
        self.warm, mark = self.compile(), time.time()
        while True:
            begin = time.time()
            factor = self.train_step()
            self.elapsed += time.time() - begin if self.warm else 0.0
            self.warm = True
            if self.step_number % self.c["log_steps"]:
                continue
            now = time.time()
            report = {"step": self.step_number, "minutes": self.elapsed / 60, "tokens": self.tokens, "rate": factor,
                      "tokens_per_s": self.c["log_steps"] * self.tokens / self.step_number / (now - mark),
                      **self.standing(), **self.meter.report(self.world)}
            mark = now
            self.adapt(report)
            if self.rank == 0:
                with open(self.path("log.jsonl"), "a") as f:
                    f.write(json.dumps({k: round(v, 5) if isinstance(v, float) else v for k, v in report.items()}) + "\n")
                print(" ".join(f"{k}={report[k]:.5g}" for k in self.SHOWN or report if report.get(k) is not None), flush=True)
            if self.save_or_end():
                break


class Trainer(Run):
    SHOWN = ("step", "minutes", "loss", "text_nats", "token", "whole", "whole_own", "whole_other", "whole_straddling", "gold_weight/0", "gold_weight/1",
             "gold_hit/0", "repeat_token", "repeat_first", "repeat_nats", "pointed/repeat", "pointed/text", "copied/0", "copied/1", "whole/hex", "whole/digits", "whole/record*", "open", "queue", "rate", "tokens_per_s")

    def __init__(self, config):
        super().__init__(config)
        check_trainable(config["model"])
        self.optimise(Model(config["model"], self.dtype), split_rows)
        d = config["data"]
        tokenizer = Tokenizer(d["tokenizer"])
        with open(d["phrases"]) as f:
            phrases = json.load(f)
        books = Books(os.path.join(d["cache"], "train.npz"))
        tasks = Tasks(tokenizer, books.words, phrases, "train", books, d["wording_shares"])
        seed = config["seed"] * 1000 + self.rank
        self.maker = BatchMaker(d, config["model"], books, tasks, seed)
        self.feed = None  # begun with the first step
        self.noise = torch.Generator(self.device).manual_seed(seed)
        self.open, self.queue = config["curriculum"]["open_start"], 0.0
        if config.get("init"):
            weights = deepen(load_file(os.path.join(config["init"], "model.safetensors")), self.model.state_dict())
            lexical = lambda name: name.startswith("lexicon") or name.endswith((".recency", ".successor_bias"))
            rarity = lambda: torch.from_numpy(books.rarity(config["model"]["vocab_size"]))
            if config["model"].get("lexicon") and "lexicon.weight" not in weights:
                self.model.seed_lexicon(rarity())
                # What the queries of needles say must not drown what the lexicon finds from the first step on.
                weights = {k: v.float() * 0.4 if k.endswith(".query_proj.weight") else v for k, v in weights.items()}
            left = self.model.load_state_dict({k: v.float() for k, v in weights.items()}, strict=False)
            # What is missing may begin at zero: then it adds nothing yet.
            begun = lambda name: lexical(name) or name.startswith("pointer.")
            wrong = left.unexpected_keys + [n for n in left.missing_keys if self.model.get_parameter(n).any() and not begun(n)]
            if wrong:
                raise SystemExit(f"{config['init']} is no model of this config, these tensors differ: {', '.join(wrong)}")
            if "pointer.run" in left.missing_keys:
                self.model.seed_pointer(rarity())
        self.resume()
        self.compiled = torch.compile(self.model.loss, dynamic=False)

    def state(self):
        return {"open": self.open, "queue": self.queue, "maker": self.maker.state(), "noise": self.noise.get_state(),
                "keys": (self.maker.queue, self.maker.queue_filled)}

    def set_state(self, s):
        self.maker.set_state(s["maker"])
        self.noise.set_state(s["noise"].cpu())
        self.maker.queue, self.maker.queue_filled = s["keys"]
        self.open, self.queue = s["open"], s["queue"]

    def next_batch(self, shares):
        """A batch by this process, or, with `data.workers`, by one of as many others, which have it made before it is asked for."""
        if not self.c["data"].get("workers", 0):
            return self.maker.batch(*shares)
        if self.feed is None:
            self.feed = Feed(self.maker, self.c["data"]["workers"], self.c["seed"] * 1000 + self.rank + self.step_number)
        return self.feed.next(shares)

    def train_step(self):
        cur = self.c["curriculum"]
        text_only = self.progress() < cur.get("text_first", 0.0)
        if self.model.memory_on == text_only:
            self.model.memory_on, self.warm = not text_only, False
        batch, kinds = self.next_batch((self.open, self.queue, 0.0 if text_only else cur["tasks_share"]))
        inputs = {k: torch.from_numpy(v).to(self.device) for k, v in batch.items() if k not in ("answer", "is_text", "repeats")}
        # Gumbel noise, by which chunks with lesser scores are selected at times.
        shape = (len(self.c["model"]["groups"]), *batch["allow"].shape)
        inputs["noise"] = torch.empty(shape, device=self.device).exponential_(generator=self.noise).log_().mul_(-cur["gumbel"])
        nats, right, facts = self.compiled(inputs)
        loss = (nats * inputs["weights"]).sum() / inputs["weights"].sum().clamp(min=1)
        if facts:
            asked = (inputs["gold"].sum(-1) > 0).sum().clamp(min=1)
            loss = loss + cur["retrieval_loss"] * facts["retrieval_loss"].sum() / asked
            seen = (facts["copied"].detach() > 0).float()
            seen[..., 0] *= self.c["data"]["weight_first"]  # the landmark's row
            loss = loss - cur["copy_loss"] * ((facts["copied"] + 1e-4).log() * seen).sum() / seen.sum().clamp(min=1)
        factor = self.descend(loss)
        if facts and self.c["data"]["queue"]:
            self.maker.remember(facts["keys"].float().cpu().numpy()[batch["lengths"] >= 16])
        if self.step_number % self.c.get("measure_steps", 1) == 0:
            facts = {k: v.detach().float().cpu().numpy() for k, v in facts.items()}
            measure(self.meter, batch, kinds, nats.detach().cpu().numpy(), right.cpu().numpy(), facts, len(self.c["model"]["groups"]))
            self.meter.add("loss", loss.item(), 1)
        self.step_number += 1
        self.tokens += batch["tokens"].size * self.world
        return factor

    def standing(self):
        return {"open": self.open, "queue": self.queue}

    def adapt(self, report):
        """Opens the candidates as whole answers come back."""
        cur, n = self.c["curriculum"], self.c["log_steps"]
        if report.get("whole_own", 0) > cur["open_above"]:
            self.open = min(0.9, self.open + n / cur["open_steps"])
        if report.get("whole", 0) > cur["queue_above"]:
            self.queue = min(0.8, self.queue + n / cur["queue_steps"])


def merge_config(config, more):
    """Puts the values of `more` into `config`, section by section."""
    for name, value in more.items():
        if isinstance(value, dict) and isinstance(config.get(name), dict):
            merge_config(config[name], value)
        else:
            config[name] = value


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", default=["train/config.json"], nargs="+", help="each file's values replace those of the files before it")
    parser.add_argument("--run", help="folder of checkpoints and logs, instead of the config's")
    parser.add_argument("--init", help="model directory whose weights a new run starts from")
    args = parser.parse_args()
    config = {}
    for path in args.config:
        with open(path) as f:
            merge_config(config, json.load(f))
    config["run"], config["init"] = args.run or config["run"], args.init
    if int(os.environ.get("RANK", "0")) == 0:
        prepare(config["data"])
    Trainer(config).run()


if __name__ == "__main__":
    main()

"""Trains a memory for a frozen base: chunk encoder, keys, score, GCA layers and pointer head at once, on one GPU or a CPU.

    PYTHONPATH=train python -m memory.train --base BASE --qa QA --minutes 7 --run train/runs/memory

The run's folder gets `log.jsonl`, every `--checkpoint-minutes` a checkpoint, and at the end the exported memory (memory.json,
memory.safetensors: the mean of the weights of the second half). Starting again with the same folder resumes. `--part keys` trains the
keys alone on what the frozen encoder makes, which takes minutes on a CPU (keys.py).
"""

import argparse
import json
import os
import random
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader

from .base import Base
from .data import NOTHING, Batches, Library, Maker, read_papers
from .export import load, make_config, save
from .model import Adapter
from .oracle import Blocks
from .words import number_words

FLOOR = 1e-9  # see Adapter.mix
WARMUP, DECAY_SHARE, CLIP, BETAS, WEIGHT_DECAY = 60, 0.6, 1.0, (0.9, 0.97), 0.01
UNFOUND = 0.15  # weight of an answer that no chosen block holds: it could only be learned by heart
NOISE = 0.5  # of Gumbel noise on the scores that choose blocks
MEAN_STEPS = 200  # that the mean of the weights reaches back, about
LOSS = {"answer": 1.0, "retrieval": 0.5, "base": 1.0, "text": 0.3}
LOG_STEPS, OWN_TOKENS, OWN_PROMPT, OWN_LOT = 10, 40, 90, 64


def rate_of(name):
    """By what the learning rate is multiplied for a parameter: copies of the base's attention learn slower, single numbers faster."""
    if ".gca." in name and not name.endswith("gate"):
        return 0.6
    fast = ("words.key_bias", "words.query_bias", "score.scale", "score.mix", "score.successor", "pointer.scale", "pointer.gate",
            "pointer.evidence")
    return 3.0 if name.startswith(fast) or name.endswith("gca.gate") else 1.0


@torch.no_grad()
def rows_of_blocks(base, config, batch):
    """Of M blocks of a batch's documents: the residual stream's rows [M, S, d] after the lower layers, tokens [M, S], valid [M, S], the
    rows one position before [M, S, d], whether there is one [M, S], whether a block before it in its document [M], document N + block [M]."""
    ids = batch["documents"]
    h = base.lower(ids, config["n_low"])
    d, n = torch.nonzero(batch["lengths"], as_tuple=True)
    row = torch.arange(config["chunk_tokens"], device=ids.device)
    position = batch["starts"][d, n][:, None] + row
    valid = row < batch["lengths"][d, n][:, None]
    number, at, d = d * batch["lengths"].shape[1] + n, position.clamp(max=ids.shape[1] - 1), d[:, None]
    return h[d, at], ids[d, at], valid, h[d, (at - 1).clamp(min=0)], valid & (position > 0), n > 0, number


def read_documents(base, adapter, word_of, batch):
    """Blocks of a batch's documents (Oracle.read for many, with gradients from the encoder on) -> (Blocks, their numbers)."""
    rows, tokens, valid, before, pointed, follows, number = rows_of_blocks(base, adapter.config, batch)
    words = word_of[tokens] * valid
    landmarks, weights, states = adapter.encode_blocks(rows, words, valid)
    return Blocks(tokens, valid, follows, landmarks, words, weights, states, adapter.pointer_keys(before), pointed), number


def queries(adapter, word_of, batch, low):
    """Rows of each session's last S tokens of the prompt, right-aligned -> (rows [B, S, d], words [B, S], valid [B, S])."""
    S, ids = adapter.config["chunk_tokens"], batch["ids"]
    position = batch["prompt_length"][:, None] - S + torch.arange(S, device=ids.device)
    session, at = torch.arange(len(ids), device=ids.device)[:, None], position.clamp(min=0)
    return low[session, at], word_of[ids[session, at]] * (position >= 0), position >= 0


def gold_mask(batch, number):
    """bool [B, M]: the blocks that answer each session. number [M]: as read_documents gives them."""
    return (batch["gold"][:, :, None] == number).any(1)


def retrieval_loss(scores, nothing, gold, none):
    """Mean over sessions that blocks answer, or that none has anything for, of -log of the share of the right ones.
    scores [B, M], nothing [B], gold bool [B, M], none bool [B]."""
    has = gold.any(1)
    right = torch.where(has, scores.masked_fill(~gold, -1e9).logsumexp(1), nothing)
    loss = torch.cat([scores, nothing[:, None]], 1).logsumexp(1) - right
    return loss[has | none].sum() / (has | none).sum().clamp(min=1)


def choose(scores, nothing, follows, gold, n_ret, successor, noise, force):
    """Oracle's choose for many sessions, by scores with Gumbel noise; blocks that answer are among the chosen in a share `force` of the
    sessions. A block that comes as hit and as successor stays twice. -> (blocks [B, 2 n_ret], weights, whether one of the best answers [B], whether one of all)."""
    with torch.no_grad():
        pick = scores - noise * torch.log(-torch.log(torch.rand_like(scores).clamp(1e-9, 1 - 1e-7))) if noise else scores.clone()
        pick[gold & (torch.rand(len(gold), 1, device=gold.device) < force)] += 1e4
        best = pick.topk(min(n_ret, scores.shape[1]), 1).indices
        after = (best + 1).clamp(max=scores.shape[1] - 1)
        there = follows[after] & (after > best)
        chosen = torch.cat([best, torch.where(there, after, best)], 1)
    r = scores.gather(1, best)
    shares = torch.cat([r, torch.where(there, r - F.softplus(successor), -1e4), nothing[:, None]], 1).softmax(1)
    return chosen, shares[:, :-1], gold.gather(1, best).any(1), gold.gather(1, chosen).any(1)


class Reading:
    """One batch of sessions read with the memory: what the losses need. Rows are those that predict a token of an answer."""

    def __init__(self, base, adapter, word_of, batch, noise=0.0, force=0.0):
        config, ids = adapter.config, batch["ids"]
        self.blocks, number = read_documents(base, adapter, word_of, batch)
        blocks, self.gold = self.blocks, gold_mask(batch, number)
        with torch.no_grad():
            self.low = low = base.lower(ids, config["n_low"])
        rows, words, valid = queries(adapter, word_of, batch, low)
        q, weights, nothing = adapter.encode_queries(rows, words, valid)
        scores = adapter.scores(q, words, weights, blocks.keys, blocks.words, blocks.word_weights)
        self.none = torch.tensor([kind in NOTHING for kind in batch["kinds"]], device=ids.device)
        self.retrieval_loss = retrieval_loss(scores, nothing, self.gold, self.none)
        chosen, self.weights, self.hit, found = choose(scores, nothing, blocks.follows, self.gold, config["n_ret"], adapter.score.successor,
                                                noise, force)
        position = torch.arange(ids.shape[1], device=ids.device)
        reads = ((position >= batch["prompt_length"][:, None] - config["chunk_tokens"]) & (position < batch["length"][:, None]))[..., None]
        states, valid, h = blocks.states[chosen], blocks.valid[chosen], low
        for i in range(config["n_low"], base.n_layers):
            h = base.attention(i, h)
            if i in config["gca_layers"]:
                h = h + adapter.cross(i, h, adapter.memory_kv(i, states), valid, self.weights) * reads
            h = base.ffn(i, h)
        answers = (position >= batch["prompt_length"][:, None] - 1) & (position < batch["length"][:, None] - 1)
        self.session, self.position = b, p = torch.nonzero(answers, as_tuple=True)
        self.target = ids[b, p + 1]
        self.weight = batch["weight"][b, p] * torch.where(found | ~self.gold.any(1), 1.0, UNFOUND)[b]
        self.own = base.logits(h[b, p]).log_softmax(-1)
        pointed = adapter.pointer_scores(low, blocks.pointer_keys[chosen])
        self.shares, self.gate = adapter.point(pointed[b, p], h[b, p], blocks.pointed[chosen[b]], self.weights[b])
        self.tokens = blocks.tokens[chosen[b]]

    def mixture(self, rows):
        """Log probabilities [n, vocabulary] of the rows (indices or bool)."""
        return Adapter.mix(self.own[rows], self.shares[rows], self.gate[rows], self.tokens[rows], FLOOR)

    def target_log_probs(self):
        """Of each row's target, [rows]; without a mixture over the vocabulary."""
        copied = (self.shares.exp() * (self.tokens == self.target[:, None, None])).sum((1, 2))
        own = self.own.gather(1, self.target[:, None])[:, 0]
        return torch.logaddexp(F.logsigmoid(-self.gate) + own, F.logsigmoid(self.gate) + (copied + FLOOR).log())


@torch.no_grad()
def teach(base, h, n_low, session, position):
    """Log probabilities [n, vocabulary] of the base alone at the given rows; h [B, T, d] after the first n_low layers."""
    for i in range(n_low, base.n_layers):
        h = base.ffn(i, base.attention(i, h))
    return base.logits(h[session, position]).log_softmax(-1)


def losses(base, adapter, word_of, batch, noise=0.0, force=0.0, compiled=None):
    """-> ({name: loss}, Reading). compiled: the base for what has the same shapes in every step."""
    s, n_low = Reading(compiled or base, adapter, word_of, batch, noise, force), adapter.config["n_low"]
    log_probs = s.target_log_probs()
    parts = {"answer": -(log_probs * s.weight).sum() / s.weight.sum().clamp(min=1), "retrieval": s.retrieval_loss}
    # Where no block has anything: the base's own words, with the pointer's gate shut.
    place = s.none.cumsum(0) - 1
    rows = s.none[s.session]
    if rows.any():
        want = teach(base, s.low[s.none], n_low, place[s.session[rows]], s.position[rows])
        parts["base"] = ((want.exp() * (want - s.own[rows])).sum(1) - F.logsigmoid(-s.gate[rows])).mean()
    # What follows a document: the base with the document as text in front.
    following = torch.tensor([kind == "next" for kind in batch["kinds"]], device=rows.device)
    rows = following[s.session]
    if rows.any():
        place, documents = following.cumsum(0) - 1, batch["documents"][batch["of"][following]]
        with torch.no_grad():
            h = base.lower(torch.cat([documents, batch["ids"][following]], 1), 0)
        want = teach(base, h, 0, place[s.session[rows]], s.position[rows] + documents.shape[1])
        parts["text"] = (want.exp() * (want - s.mixture(rows))).sum(1).mean()
    s.log_probs = log_probs.detach()
    return parts, s


@torch.no_grad()
def by_kind(batch, s):
    """{kind: sessions, share whose blocks were found, share with every token right, nats a token, weight of nothing}."""
    found, device = {}, s.session.device
    right = torch.cat([s.mixture(torch.arange(a, min(a + 512, len(s.target)), device=device)).argmax(1)
                       for a in range(0, len(s.target), 512)]) == s.target
    sums = lambda x: torch.zeros(len(s.none), device=device).index_add_(0, s.session, x.float()).cpu().numpy()
    nats, wrong, tokens = sums(-s.log_probs), sums(~right), sums(torch.ones_like(s.log_probs))
    hit, nothing = s.hit.cpu().numpy(), 1 - s.weights.sum(1).cpu().numpy()
    for kind in sorted(set(batch["kinds"])):
        m = np.array([k == kind for k in batch["kinds"]])
        row = {"n": m.sum(), "hit": hit[m].mean(), "whole": (wrong[m] == 0).mean(), "nats": nats[m].sum() / max(tokens[m].sum(), 1),
               "nothing": nothing[m].mean()}
        found[kind] = {name: round(float(x), 3) for name, x in row.items()}
    return found


@torch.no_grad()
def own_answers(base, prompts, device, tokens=OWN_TOKENS):
    """Greedy answers of the base alone: [(prompt, ids with the stop id)]."""
    answers = []
    for at in range(0, len(prompts), OWN_LOT):
        lot = [prompt[-OWN_PROMPT:] for prompt in prompts[at:at + OWN_LOT]]
        lengths = torch.tensor([len(prompt) for prompt in lot], device=device)
        ids = torch.zeros(len(lot), int(lengths.max()) + tokens, dtype=torch.long, device=device)
        for i, prompt in enumerate(lot):
            ids[i, :len(prompt)] = torch.tensor(prompt)
        session = torch.arange(len(lot), device=device)
        for n in range(tokens):
            h = base.lower(ids[:, :int(lengths.max()) + n], base.n_layers)
            ids[session, lengths + n] = base.logits(h[session, lengths + n - 1]).argmax(-1)
        for prompt, row in zip(lot, ids.tolist()):
            answer = row[len(prompt):len(prompt) + tokens]
            stop = next((n + 1 for n, token in enumerate(answer) if token in base.stop), tokens)
            answers.append((prompt, answer[:stop]))
    return answers


def idf_of(base, config, library, passages, seed=11):
    """idf of each word over stretches of a block's length in passages of books, fp32 [words]."""
    rng, word_of, count = random.Random(seed), np.array(number_words(base.texts)[0]), 0
    seen = np.zeros(config["words"])
    for _ in range(passages):
        words = word_of[base.encode(library.passage(rng, 3000))]
        for at in range(0, len(words), config["chunk_tokens"]):
            seen[np.unique(words[at:at + config["chunk_tokens"]])] += 1
            count += 1
    return torch.from_numpy(np.log(1 + (count - seen + 0.5) / (seen + 0.5))).float().clamp(min=0.05)


class Trainer:
    """Weights, optimizer and their mean; one step at a time."""

    def __init__(self, base, adapter, args, device):
        self.base, self.adapter, self.args, self.device = base, adapter, args, device
        self.compiled = base.compiled() if args.compile else None
        self.word_of = torch.tensor(number_words(base.texts)[0], device=device)
        groups = {}
        for name, p in adapter.named_parameters():
            groups.setdefault(rate_of(name), []).append(p)
        self.optimizer = torch.optim.AdamW([{"params": params, "lr": 0.0, "times": times} for times, params in groups.items()],
                                           betas=BETAS, weight_decay=WEIGHT_DECAY)
        self.step, self.seconds, self.mean, self.averaged = 0, 0.0, None, 0

    def done(self):
        """The share of the run that is over."""
        return self.step / self.args.steps if self.args.steps else self.seconds / (60 * self.args.minutes)

    def train(self, batch):
        """One step on a batch (Maker.batch). -> (row for the log, batch on the device, Reading)."""
        began, done = time.time(), self.done()
        batch = {name: x.to(self.device) if torch.is_tensor(x) else x for name, x in batch.items()}
        torch.manual_seed(self.args.seed * 1_000_003 + self.step)
        rate = self.args.rate * min(1, (self.step + 1) / WARMUP) * min(1.0, max(0.02, (1 - done) / DECAY_SHARE))
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["times"]
        force = max(0.1, (0.3 if self.args.init else 0.7) - 1.2 * done)
        with torch.autocast(self.device, torch.bfloat16, enabled=self.device == "cuda"):
            parts, reading = losses(self.base, self.adapter, self.word_of, batch, NOISE, force, self.compiled)
            loss = sum(LOSS[name] * part for name, part in parts.items())
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.adapter.parameters(), CLIP)
        self.optimizer.step()
        if done >= 0.5:
            self.average()
        row = {"step": self.step, "loss": loss.item(), "norm": norm.item(), **{name: part.item() for name, part in parts.items()}}
        self.step, self.seconds = self.step + 1, self.seconds + time.time() - began
        return row, batch, reading

    @torch.no_grad()
    def average(self):
        now = {name: x.detach().clone() for name, x in self.adapter.state_dict().items()}
        self.averaged += 1
        if self.mean is None:
            self.mean = now
        for name, x in self.mean.items():
            x.lerp_(now[name], 1 / min(MEAN_STEPS, self.averaged))

    def state(self):
        return {"config": self.adapter.config, "adapter": self.adapter.state_dict(), "mean": self.mean or self.adapter.state_dict(),
                "averaged": self.averaged, "optimizer": self.optimizer.state_dict(), "step": self.step, "seconds": self.seconds}

    def save(self, path):
        torch.save(self.state(), path + ".tmp")
        os.replace(path + ".tmp", path)

    def resume(self, path):
        state = torch.load(path, map_location=self.device, weights_only=True)
        self.adapter.load_state_dict(state["adapter"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.seconds, self.averaged = state["step"], state["seconds"], state["averaged"]
        self.mean = state["mean"] if self.averaged else None


def make_adapter(base, args, library):
    if args.init:
        return load(args.init, base)
    config = make_config(base, args.name or os.path.basename(args.base.rstrip("/")))
    torch.manual_seed(args.seed)
    adapter = Adapter(config, base)
    adapter.seed_words(idf_of(base, config, library, args.idf_passages))
    return adapter


def run(args):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    os.makedirs(args.run, exist_ok=True)
    checkpoint = os.path.join(args.run, "checkpoint.pt")
    base, library = Base.load(args.base), Library(args.books, "train", args.limit)
    adapter = make_adapter(base, args, library).to(device)
    maker = Maker(base, adapter.config, library, read_papers(args.qa, "train"), "train", args.documents, args.sessions)
    if args.part == "keys":
        from . import keys  # It uses functions of this file.

        keys.run(base, adapter.cpu(), maker, args)
        return
    base.to(device, torch.bfloat16 if device == "cuda" else torch.float32)
    rng = random.Random(args.seed)
    maker.own_answers = own_answers(base, [maker.general_prompt(rng) for _ in range(args.general)], device)
    trainer = Trainer(base, adapter, args, device)
    if os.path.exists(checkpoint):
        trainer.resume(checkpoint)
    batches = iter(DataLoader(Batches(maker, args.seed), batch_size=None, sampler=range(trainer.step, 10**9), num_workers=args.workers))
    saved = time.time()
    with open(os.path.join(args.run, "log.jsonl"), "a") as log:
        while trainer.done() < 1:
            waiting = time.time()
            batch = next(batches)
            trainer.seconds += time.time() - waiting
            row, batch, reading = trainer.train(batch)
            if row["step"] % LOG_STEPS == 0:
                row |= {"seconds": trainer.seconds, "kinds": by_kind(batch, reading) if row["step"] % (5 * LOG_STEPS) == 0 else {}}
                line = json.dumps({name: round(x, 4) if isinstance(x, float) else x for name, x in row.items()})
                print(line, flush=True)
                log.write(line + "\n")
                log.flush()
            if time.time() - saved > 60 * args.checkpoint_minutes:
                trainer.save(checkpoint)
                saved = time.time()
    trainer.save(checkpoint)
    adapter.load_state_dict(trainer.state()["mean"])
    save(adapter, args.run)


def arguments(words=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", required=True, help="GGUF file or directory in the Hugging Face layout, of the Llama architecture")
    parser.add_argument("--name", help="what memory.json calls the base")
    parser.add_argument("--run", default="train/runs/memory")
    parser.add_argument("--books", default="train/books/books-train.jsonl.xz")
    parser.add_argument("--qa", nargs="+", default=[], help="folders of papers with questions; one in eight is held out")
    parser.add_argument("--init", help="directory of an exported memory to begin from")
    parser.add_argument("--part", choices=["all", "keys"], default="all")
    parser.add_argument("--minutes", type=float, default=7)
    parser.add_argument("--steps", type=int, help="instead of --minutes")
    parser.add_argument("--documents", type=int, default=128, help="of a step")
    parser.add_argument("--sessions", type=int, default=320, help="of a step")
    parser.add_argument("--workers", type=int, default=14, help="processes that draw batches; 0: none")
    parser.add_argument("--general", type=int, default=512, help="prompts that the base answers on its own")
    parser.add_argument("--idf-passages", type=int, default=1500)
    parser.add_argument("--limit", type=int, help="books that are read")
    parser.add_argument("--rate", type=float, default=8e-4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--checkpoint-minutes", type=float, default=3)
    parser.add_argument("--compile", action="store_true", help="the base's blocks, which takes half a minute once")
    return parser.parse_args(words)


if __name__ == "__main__":
    run(arguments())

"""Measures a checkpoint: recall by task and pool of distractors, bits per byte by dilation; of a plain model the latter alone.

    python train/evaluate.py --checkpoint train/runs/main/checkpoint-0.pt --json train/runs/main/eval.json

Recall: a session asks at position 1 about a needle in a mounted document of ~1000 tokens of a test author's book,
beside `pool` chunks of other test authors' text. Teacher-forced argmax over the whole answer equals greedy decoding
when every token is right. Keys and values are made of words training never draws.
"""

import argparse
import json
import math
import os
import random

import numpy as np
import torch

import ops
from batches import BatchMaker, Sequence
from blocks import BLOCK_TOKENS
from data import Books, prepare
from model import Model, check_trainable
from needles import Tasks
from tokenizer import LMK_ID, Tokenizer, read_books

ROWS = BLOCK_TOKENS + 1


class SessionMaker(BatchMaker):
    """Batches of two sequences a sample: a document with needles, then a session that asks for one of them."""

    kind, needles, straddle = "digits", 1, None

    def _sequence(self, index, sources, tasks_share):
        rng, seq = self.rng, Sequence(self.c["length"], self.c["max_blocks"])
        seq.source, seq.filler_weight = self.books.passage(rng, self.c["length"]), 1.0
        if index % 2:
            document = self.done[index - 1]
            needle = rng.choice(document.needles)
            seq.push(self.tasks.question(rng, needle, ""), 0.1)
            seq.flush()
            seq.queries.append((1, index - 1, needle["chunks"], self.kind))
            seq.kinds.append((self.kind, needle["straddles"], None))
            seq.push(needle["value"], 1.0, answer=0)
            seq.push(seq.source[:seq.left + 5], 0.0)
            return seq
        form = {**self.tasks.form(rng), "kind": self.kind}
        spots = sorted(rng.randrange(self.c["length"] - 160) for _ in range(self.needles))
        for spot in spots:
            n = max(0, spot - len(seq.tokens))
            seq.push(seq.source[:n], 1.0)
            seq.source = seq.source[n:]
            needle = self.tasks.needle(rng, form)
            if not seq.room(len(needle["ids"]) + 40):
                break
            seq.push_needle(needle, 0.1)
        seq.push(seq.source[:seq.left + 5], 1.0)
        return seq

    def pairs(self):
        """A batch whose odd sequences see only the document before them."""
        batch, kinds = self.batch(1.0, 0.0, 1.0, 0.0)
        N, B = self.c["max_blocks"], self.c["batch"]
        M = B * N
        allow = np.zeros_like(batch["allow"])
        for i in range(1, B, 2):
            exists = batch["lengths"][(i - 1) * N:i * N] > 0
            allow[i * N + 1, (i - 1) * N:i * N] = exists
        batch["allow"] = allow
        return batch, kinds, M


class IsoTasks(Tasks):
    """Values of the sizes of the model card: 5-7 digits, 32 hex digits."""

    def value(self, rng, kind):
        if kind == "digits":
            return "".join(rng.choice("0123456789") for _ in range(rng.randint(5, 7)))
        if kind == "hex32":
            return "".join(rng.choice("0123456789abcdef") for _ in range(32))
        return super().value(rng, kind)


def load(path, dtype=torch.float32):
    state = torch.load(path, weights_only=False, map_location="cpu")
    check_trainable(state["config"]["model"])
    model = Model(state["config"]["model"], dtype, state["config"]["memory"])
    model.load_state_dict(state["model"])
    return model.eval(), state


def lower(model, ids, kept):
    """Residual stream [B, T, d] after the lower layers. ids [B, T], T a multiple of 128; kept [B, KD]: dilated keys."""
    T = ids.shape[1]
    h = model.embed(ids)
    cos, sin = model.rope_tables(T)
    biases = model.attention_biases(kept, T)
    for layer in model.layers[:model.c["n_low"]]:
        a = model.mix(layer, h, (cos[:, None], sin[:, None]), kept, biases)
        h = a + layer.ffn(layer.ffn_norm(a), model.dtype)
    return h


@torch.no_grad()
def encode_pool(model, books, rng, chunks, data, dilation):
    """Memory of `chunks` chunks of text: keys, K, V, lengths."""
    T, parts = data["length"], []
    N = T // ROWS
    while sum(len(p[0]) for p in parts) < chunks:
        ids = torch.tensor([books.passage(rng, T) for _ in range(8)])
        ids[:, ::ROWS] = LMK_ID
        h = lower(model, ids, torch.arange(dilation - 1, T, dilation).expand(8, -1))
        key, k, v = model.encode(h.reshape(8 * N, ROWS, -1), torch.full((8 * N,), BLOCK_TOKENS))
        parts.append((key, k.bfloat16(), v.bfloat16()))
    key, k, v = (torch.cat(x)[:chunks] for x in zip(*parts))
    return {"pool_keys": key, "pool_k": k, "pool_v": v, "pool_lengths": torch.full((chunks,), BLOCK_TOKENS)}


@torch.no_grad()
def recall(model, maker, batches, pool, mode="normal"):
    """Exact match, tokens, gold weight and hit rate per group. mode "none": nothing mounted; "random": the gold
    chunks are taken from the candidates."""
    whole, straddling, token, gold = [], [], [], []
    for _ in range(batches):
        batch, kinds, M = maker.pairs()
        inputs = {k: torch.from_numpy(v) for k, v in batch.items()}
        if mode == "none":
            inputs["allow"] = torch.zeros_like(inputs["allow"])
        if mode == "random":
            inputs["allow"] &= ~(inputs["gold"] > 0)
        if pool is not None:
            P = len(pool["pool_keys"])
            asked = inputs["allow"].any(-1, keepdim=True)
            extra = asked.expand(-1, P)
            inputs["allow"] = torch.cat([inputs["allow"][:, :M], extra, inputs["allow"][:, M:]], 1)
            for name in ("gold", "noise"):
                x = inputs[name]
                inputs[name] = torch.cat([x[..., :M], x.new_zeros(*x.shape[:-1], P), x[..., M:]], -1)
            inputs.update({k: v.to(model.dtype) if k in ("pool_k", "pool_v") else v for k, v in pool.items()})
        _, right, facts = model.loss(inputs)
        right = right.numpy()
        for a, (_, straddles, _) in enumerate(kinds):
            where = batch["answer"] == a
            (straddling if straddles else whole).append(right[where].all())
            token += right[where].tolist()
        gold.append(facts["on_gold"][:, :, torch.from_numpy(batch["gold"]).sum(-1) > 0])
    gold = torch.cat(gold, -1).mean(-1)
    n = len(whole) + len(straddling)
    return {"samples": n, "whole": (sum(map(float, whole)) + sum(map(float, straddling))) / n,
            "whole_straddling": float(np.mean(straddling)) if straddling else None, "straddling_samples": len(straddling),
            "token": float(np.mean(token)), "gold_weight": gold[:, 0].tolist(), "gold_hit": gold[:, 1].tolist()}


@torch.no_grad()
def bits_per_byte(model, tokenizer, texts, dilation, length, recurrence=True):
    """Bits per byte of plain text in windows of `length`, without retrieval beyond the sequence's own chunks."""
    N = length // ROWS
    rows = torch.arange(length)
    M = 1 * N
    allow = torch.tril(torch.ones(N, N, dtype=torch.bool), -2)
    kept = torch.arange(dilation - 1, length, dilation)[None]
    nats = bytes_ = 0.0
    old = model.c["recurrence"]
    model.c["recurrence"] = recurrence
    for text in texts:
        ids = tokenizer.encode(text)
        for at in range(0, len(ids) - N * BLOCK_TOKENS, N * BLOCK_TOKENS):
            part = torch.tensor(ids[at:at + N * BLOCK_TOKENS]).reshape(N, BLOCK_TOKENS)
            tokens = torch.cat([torch.full((N, 1), LMK_ID), part], 1).reshape(1, -1)
            targets = torch.roll(tokens, -1, 1)
            keep = (targets != LMK_ID)
            batch = {"tokens": tokens, "targets": targets, "dilated": kept, "block_rows": rows, "lengths": torch.full((M,), BLOCK_TOKENS),
                     "landmarks": rows[::ROWS], "token_rows": rows, "allow": allow, "gold": torch.zeros(M, M),
                     "noise": torch.zeros(len(model.c["groups"]), M, M), "queue": torch.zeros(0, model.c["d_r"])}
            # The trainer closes a full block before it predicts the next one's first token: row LMK_b does that.
            loss, _, _ = model.loss(batch)
            nats += loss[keep].sum().item()
            bytes_ += len(tokenizer.decode_bytes(part.flatten().tolist()))
    model.c["recurrence"] = old
    return nats / bytes_ / math.log(2)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--checkpoint", default="train/runs/main/checkpoint-0.pt")
    parser.add_argument("--json", default="train/runs/main/eval.json")
    parser.add_argument("--samples", type=int, default=64)
    parser.add_argument("--pools", default="0,1000,8000")
    parser.add_argument("--text-bytes", type=int, default=120_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dtype", default="bf16", choices=["bf16", "fp32"])
    parser.add_argument("--split", default="test", choices=["test", "train"], help="phrasings and words to draw from")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    ops.load()
    torch.manual_seed(0)
    model, state = load(args.checkpoint, torch.bfloat16 if args.dtype == "bf16" else torch.float32)
    config = state["config"]
    data = {**config["data"], "batch": 8, "length": 1024, "max_blocks": 26, "max_dilated": 112, "queue": 0,
            "dilation_shares": [1.0]}
    tokenizer = Tokenizer(data["tokenizer"])
    with open(data["phrases"]) as f:
        phrases = json.load(f)
    with open(data["split"]) as f:
        test_authors = set(json.load(f)["test_authors"])
    rows = [r for r in read_books(data["books"]) if r["author"] in test_authors]
    prepare(data)
    books, words = Books(os.path.join(data["cache"], "test.npz")), Books(os.path.join(data["cache"], "train.npz")).words
    result = {"step": state["step"], "tokens": state["tokens"], "phrasings": args.split, "recall": [], "bits_per_byte": []}

    def cell(pool, dilation, mode, kind, needles):
        model_config = {**config["model"], "adapted_dilations": [dilation]}
        maker = SessionMaker(data, model_config, books, IsoTasks(tokenizer, words, phrases, args.split), 17)
        maker.kind, maker.needles = kind, needles
        row = recall(model, maker, math.ceil(args.samples / (data["batch"] // 2)), pool, mode)
        row = {"values": kind, "needles": needles, "pool": 0 if pool is None else len(pool["pool_keys"]), "dilation": dilation,
               "mode": mode, **row}
        result["recall"].append(row)
        print(json.dumps(row), flush=True)

    default = config["model"]["local"]["dilation"]
    if config["memory"]:
        for size in map(int, args.pools.split(",")):
            pool = encode_pool(model, books, random.Random(5), size, data, default) if size else None
            for kind in ("digits", "letters", "hex32", "words"):
                cell(pool, default, "normal", kind, 1)
            cell(pool, default, "normal", "digits", 6)
        for dilation in config["model"]["adapted_dilations"]:
            cell(None, dilation, "normal", "digits", 1)
        for mode in ("none", "random"):
            cell(None, default, mode, "digits", 1)
    texts = [r["text"][20_000:20_000 + args.text_bytes // 4] for r in rows[::max(1, len(rows) // 4)]][:4]
    for dilation in config["model"]["adapted_dilations"]:
        result["bits_per_byte"].append({"dilation": dilation, "recurrence": True, "bits": bits_per_byte(model, tokenizer, texts, dilation, 1024)})
    result["bits_per_byte"].append({"dilation": default, "recurrence": False, "bits": bits_per_byte(model, tokenizer, texts, default, 1024, False)})
    print(json.dumps(result["bits_per_byte"]))
    with open(args.json, "w") as f:
        json.dump(result, f, indent=1)


if __name__ == "__main__":
    main()

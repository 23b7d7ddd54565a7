"""Bits per byte of a checkpoint on books of authors that training never saw, by dilation, and without the recurrence.

    PYTHONPATH=train python -m eval.evaluate --checkpoint train/runs/main/checkpoint-0.pt --json train/runs/main/eval.json

Plain text in windows of 1024 tokens, with no memory beyond the window's own chunks. What the memory recalls is measured through
the service (docs/niah.md).
"""

import argparse
import json
import math

import numpy as np
import torch

from data.batches import key_width, recent_tokens, tokens_before
from data.blocks import BLOCK_TOKENS
from data.tokenizer import LMK_ID, Tokenizer, read_books
from model import ops
from model.drt import Model, check_trainable

ROWS = BLOCK_TOKENS + 1


def load(path, dtype=torch.float32):
    state = torch.load(path, weights_only=False, map_location="cpu")
    check_trainable(state["config"]["model"])
    model = Model(state["config"]["model"], dtype)
    model.load_state_dict(state["model"])
    return model.eval(), state


@torch.no_grad()
def bits_per_byte(model, tokenizer, texts, dilation, length, recurrence=True):
    """Bits per byte of plain text in windows of `length`, without retrieval beyond the sequence's own chunks."""
    N = length // ROWS
    rows = torch.arange(length)
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
            batch = {"tokens": tokens, "targets": targets, "dilated": kept, "block_rows": rows.reshape(N, ROWS), "lengths": torch.full((N,), BLOCK_TOKENS),
                     "landmarks": rows[::ROWS], "token_rows": rows, "allow": allow, "gold": torch.zeros(N, N),
                     "queue": torch.zeros(0, key_width(model.c)), "follows": torch.arange(N) > 0,
                     "copy_chunk": torch.full((N, ROWS), -1), "copy_row": torch.zeros(N, ROWS, dtype=torch.long)}
            if model.c.get("lexicon"):
                batch["recent"] = torch.from_numpy(np.stack([recent_tokens(tokens[0, :b].numpy(), model.c["lexicon"]["reach"], length)
                                                             for b in range(0, length, ROWS)]))
            if model.c.get("pointer"):
                batch["before"] = torch.from_numpy(tokens_before(tokens[0].numpy(), model.c["pointer"]["reach"]))
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
    parser.add_argument("--text-bytes", type=int, default=120_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dtype", default="bf16", choices=["bf16", "fp32"])
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    ops.load()
    model, state = load(args.checkpoint, torch.bfloat16 if args.dtype == "bf16" else torch.float32)
    config = state["config"]
    with open(config["data"]["split"]) as f:
        test_authors = set(json.load(f)["test_authors"])
    rows = [r for r in read_books(config["data"]["books"]) if r["author"] in test_authors]
    texts = [r["text"][20_000:20_000 + args.text_bytes // 4] for r in rows[::max(1, len(rows) // 4)]][:4]
    tokenizer, default = Tokenizer(config["data"]["tokenizer"]), config["model"]["local"]["dilation"]
    cases = [(dilation, True) for dilation in config["model"]["adapted_dilations"]] + [(default, False)]
    bits = [{"dilation": d, "recurrence": r, "bits": bits_per_byte(model, tokenizer, texts, d, 1024, r)} for d, r in cases]
    result = {"step": state["step"], "tokens": state["tokens"], "bits_per_byte": bits}
    print(json.dumps(bits))
    with open(args.json, "w") as f:
        json.dump(result, f, indent=1)


if __name__ == "__main__":
    main()

"""How often retrieval ranks a chunk of the right needle first among 40 of one form, by wording of needle and question.

    python train/wordings.py --checkpoint train/runs/main/checkpoint-0.pt --split test

Whole answers say that a wording fails; this says whether retrieval is why, in seconds a wording. Needles stand in 1000-token
documents of test authors' text, questions alone in a session, keys are of words that training never draws. First group only.
"""

import argparse
import json
import math
import os
import random

import torch

import ops
from data import Books
from evaluate import ROWS, load, lower
from needles import Tasks
from tokenizer import LMK_ID, Tokenizer

DOCUMENTS, NEEDLES = 5, 8  # needles a document


def run_lower(model, ids):
    """Residual stream [len(ids), d] after the lower layers of one sequence."""
    T = math.ceil(len(ids) / 128) * 128
    dilation = model.c["local"]["dilation"]
    return lower(model, torch.tensor([ids + [LMK_ID] * (T - len(ids))]), torch.arange(dilation - 1, T, dilation)[None])[0, :len(ids)]


def document(model, books, rng, needles):
    """Landmark keys [N, d_r] of a document and the chunks of each needle."""
    ids, chunks, text = [], [], books.passage(rng, 100 * len(needles) + ROWS)

    def push(tokens):
        touched = set()
        for token in tokens:
            if len(ids) % ROWS == 0:
                ids.append(LMK_ID)
            touched.add(len(ids) // ROWS)
            ids.append(token)
        return touched

    for needle in needles:
        gap = rng.randrange(40, 100)
        push(text[:gap])
        text = text[gap:]
        chunks.append(push(needle["ids"]))
    push(text[:ROWS])
    N = len(ids) // ROWS
    keys, _, _ = model.encode(run_lower(model, ids)[:N * ROWS].reshape(N, ROWS, -1), torch.full((N,), ROWS - 1))
    return keys, chunks


def query(model, question):
    """What the landmark after a question asks for, [d_r]."""
    h = run_lower(model, [LMK_ID] + question + [LMK_ID])[-1]
    return model.groups[0].query_proj(model.groups[0].query_norm(h), torch.float32)


@torch.no_grad()
def measure(model, tasks, books, template, nouns, questions):
    """{question: (share of needles ranked first, share among the n_ret best)} for one wording of needles."""
    rng, hits = random.Random(5), {q: [] for q in questions}
    for noun in nouns:
        keys, needles, gold = [], [], []
        for _ in range(DOCUMENTS):
            drawn = [tasks.needle(rng, {"kind": "digits", "noun": noun, "template": template}) for _ in range(NEEDLES)]
            k, chunks = document(model, books, rng, drawn)
            first = sum(map(len, keys))
            keys.append(k)
            needles += drawn
            gold += [{first + c for c in touched} for touched in chunks]
        keys = torch.cat(keys)
        for q in questions:
            for needle, right in zip(needles, gold):
                best = (keys @ query(model, tasks.encode(q.format(**needle["fill"])))).topk(model.c["n_ret"]).indices.tolist()
                hits[q].append((best[0] in right, any(b in right for b in best)))
    return {q: tuple(sum(x) / len(h) for x in zip(*h)) for q, h in hits.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--checkpoint", default="train/runs/main/checkpoint-0.pt")
    parser.add_argument("--split", default="test", choices=["test", "train"], help="wordings to take")
    parser.add_argument("--most", type=int, default=8, help="wordings of needles, of questions, and nouns, at most")
    args = parser.parse_args()
    torch.set_num_threads(os.cpu_count() or 1)
    ops.load()
    model, state = load(args.checkpoint, torch.bfloat16)
    data = state["config"]["data"]
    with open(data["phrases"]) as f:
        phrases = json.load(f)
    books = Books(os.path.join(data["cache"], "test.npz"))
    words = Books(os.path.join(data["cache"], "train.npz")).words
    tasks, forms = Tasks(Tokenizer(data["tokenizer"]), words, phrases, "test", books), phrases[args.split]
    for template in forms["needles"][:args.most]:
        print(template)
        for q, (first, among) in measure(model, tasks, books, template, forms["nouns"][:4], forms["questions"][:args.most]).items():
            print(f"  first {first:.2f}, among {model.c['n_ret']}: {among:.2f}  {q}", flush=True)


if __name__ == "__main__":
    main()

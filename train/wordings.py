"""How often retrieval ranks a chunk of the right needle first among 40 of one form, by wording of needle and question.

    python train/wordings.py --checkpoint train/runs/main/checkpoint-0.pt --split test

Whole answers say that a wording fails; this says whether retrieval is why, in seconds a wording. Needles stand in documents of
test authors' text, questions alone in a session, keys are of words that training never draws. First group only.
`--before` and `--gap` say how much text there is before the first needle and between two: needles of one form that lie close
together at the beginning of a document, as in training, are found more easily than those of a long haystack.
"""

import argparse
import json
import math
import os
import random

import torch

import ops
from data import Books, prepare
from evaluate import ROWS, load, lower
from needles import Tasks
from tokenizer import LMK_ID, Tokenizer

NEEDLES = 40


def run_lower(model, ids):
    """Residual stream [len(ids), d] after the lower layers of one sequence."""
    T = math.ceil(len(ids) / 128) * 128
    dilation = model.c["local"]["dilation"]
    return lower(model, torch.tensor([ids + [LMK_ID] * (T - len(ids))]), torch.arange(dilation - 1, T, dilation)[None])[0, :len(ids)]


def document(model, books, rng, needles, before, gap):
    """Landmark keys [N, d_r] of a document and the chunks of each needle, which stand about `gap` tokens apart after the first
    `before` tokens."""
    ids, chunks, text = [], [], books.passage(rng, before + gap * 3 // 2 * len(needles) + ROWS)

    def push(tokens):
        touched = set()
        for token in tokens:
            if len(ids) % ROWS == 0:
                ids.append(LMK_ID)
            touched.add(len(ids) // ROWS)
            ids.append(token)
        return touched

    push(text[:before])
    text = text[before:]
    for needle in needles:
        n = rng.randrange(gap // 2, gap * 3 // 2)
        push(text[:n])
        text = text[n:]
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
def measure(model, tasks, books, template, nouns, questions, layout):
    """{question: (share of needles ranked first, share among the n_ret best)} for one wording of needles. `layout`: needles a
    document, and `before` and `gap` of `document`."""
    together, before, gap = layout
    rng, hits = random.Random(5), {q: [] for q in questions}
    for noun in nouns:
        keys, needles, gold = [], [], []
        for _ in range(NEEDLES // together):
            drawn = [tasks.needle(rng, {"kind": "digits", "noun": noun, "template": template}) for _ in range(together)]
            k, chunks = document(model, books, rng, drawn, before, gap)
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
    parser.add_argument("--split", default="test", choices=["test", "train", "valid"], help="wordings to take")
    parser.add_argument("--most", type=int, default=8, help="wordings of needles and of questions, at most")
    parser.add_argument("--nouns", type=int, default=4, help="nouns to take, at most")
    parser.add_argument("--together", type=int, default=8, help="needles in one document")
    parser.add_argument("--before", type=int, default=0, help="tokens of text before its first needle")
    parser.add_argument("--gap", type=int, default=70, help="tokens of text between two needles, about")
    args = parser.parse_args()
    torch.set_num_threads(os.cpu_count() or 1)
    ops.load()
    model, state = load(args.checkpoint, torch.bfloat16)
    data = state["config"]["data"]
    with open(data["phrases"]) as f:
        phrases = json.load(f)
    prepare(data)
    books = Books(os.path.join(data["cache"], "test.npz"))
    words = Books(os.path.join(data["cache"], "train.npz")).words
    tasks, forms = Tasks(Tokenizer(data["tokenizer"]), words, phrases, "test", books), phrases[args.split]
    layout = args.together, args.before, args.gap
    total = []
    for template in forms["needles"][:args.most]:
        print(template)
        rates = measure(model, tasks, books, template, forms["nouns"][:args.nouns], forms["questions"][:args.most], layout)
        total += rates.values()
        for q, (first, among) in rates.items():
            print(f"  first {first:.2f}, among {model.c['n_ret']}: {among:.2f}  {q}", flush=True)
    first, among = (sum(x) / len(total) for x in zip(*total))
    print(f"all: first {first:.3f}, among {model.c['n_ret']}: {among:.3f}")


if __name__ == "__main__":
    main()

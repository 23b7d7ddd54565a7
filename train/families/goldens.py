"""Writes the golden cases of tests/golden/families: what the families' oracles compute with small random models.

    PYTHONPATH=train python -m families.goldens --out tests/golden/families

The format is described in tests/golden/README.md. A case is refused when a retrieval or a greedy choice is nearly tied, since
another order of summation could then pick another chunk or token, and when the greedy tokens hardly ever change.
"""

import argparse
import itertools
import json
import os
import random

import torch
from safetensors.torch import save_file

from . import MODELS, build, decoder, family
from .cases import CASES, GENERATING, LIVELY, draw_session, random_weights
from .drt_paper import lay_out

VERSION = 1
GENERATOR = "PYTHONPATH=train python -m families.goldens --out tests/golden/families"
SMALLEST_GAP = 2e-3  # of scores
# Of a greedy token's logit, and of scores before it: a stored number rounded to bf16 the other way moves logits by up to 1e-2.
SMALLEST_LEAD = 2e-2
GENERATED = 80  # tokens: past the end of a block
CHANGES = 20  # of them that differ from the one before, at least: a model that repeats itself would hide most mistakes


def int32(x):
    return torch.tensor(x, dtype=torch.int32)


def pack(chunks, c):
    """Stored records as tensors: keys [n, d_r] bf16, states [n, chunk_tokens, d] bf16 zero-padded, rows [n] int32."""
    keys, states = torch.zeros(len(chunks), c["d_r"]), torch.zeros(len(chunks), c["chunk_tokens"], c["d"])
    for i, chunk in enumerate(chunks):
        keys[i], states[i, :len(chunk.states)] = chunk.key, chunk.states
    return {"keys": keys.bfloat16(), "states": states.bfloat16(), "rows": int32([len(chunk.states) for chunk in chunks])}


def pack_hits(hits, n_ret):
    """Indices [groups, N, n_ret] (-1: none), weights and scores (0 there)."""
    shape = (len(hits), len(hits[0]), n_ret)
    packed = torch.full(shape, -1, dtype=torch.int32), torch.zeros(shape), torch.zeros(shape)
    for g, group in enumerate(hits):
        for b, hit in enumerate(group):
            for out, values in zip(packed, hit):
                out[g, b, :len(values)] = torch.as_tensor(values, dtype=out.dtype)
    return dict(zip(("hits", "hit_weights", "hit_scores"), packed))


def watch_gap(model):
    """-> a list that collects the distances between the last score taken and the first one left."""
    gaps, scores, n = [], model.scores, model.c["n_ret"]

    def watched(*args):
        r = scores(*args)
        gaps.extend(-r.sort(descending=True).values.diff()[n - 1:n])
        return r

    model.scores = watched
    return gaps


def laid_out(c, events, tokens):
    """Ids of all that runs before the token after `tokens` is sampled, which follow the events and a flush."""
    if family(c) != "drt-paper":
        return [*events[0], *tokens]
    if c["landmark_at"] == "end":
        return lay_out(c, [*events, "flush", tokens]).ids
    # A landmark at the start predicts the next token and waits for it: a placeholder.
    return lay_out(c, [*events, "flush", [*tokens, c["eos_id"]]]).ids[:-1]


def greedy(logits, never):
    """-> (the best token but for the ids `never`, its lead over the next)."""
    logits = logits.clone()
    logits[never] = float("-inf")
    best = logits.topk(2)
    return best.indices[0].item(), best.values.diff().abs().item()


def generate(c, steps, ids_after):
    """Greedy tokens from the decoder `steps`; ids_after(tokens): all that runs before the next one. -> (tokens, smallest lead)."""
    tokens, leads, fed, landmark = [], [], 0, c.get("lmk_id")
    silent = landmark if c.get("landmark_at") == "end" else None  # its row predicts nothing
    while len(tokens) < GENERATED:
        ids = ids_after(tokens)
        for token in ids[fed:]:
            row = steps.step(token)
            if token != silent:
                logits = row
        fed = len(ids)
        token, lead = greedy(logits, [i for i in (c.get("unk_id"), landmark) if i is not None])
        tokens.append(token)
        leads.append(lead)
    return tokens, min(leads)


def lively(tokens):
    return sum(a != b for a, b in itertools.pairwise(tokens)) >= CHANGES


def expected(model, documents, events, generates):
    """-> (tensors of case.safetensors, smallest gap of a retrieval, smallest lead of a greedy token)."""
    c, gaps, mounted, lead = model.c, [float("inf")], (), float("inf")
    if family(c) != "drt-paper":
        tensors = {"ids": int32(events[0]), "logits": model.forward(events[0])}
    else:
        gaps, layout = watch_gap(model), lay_out(c, events)
        mounted = [model.ingest(d) for d in documents]
        logits, own, hits = model.forward(layout, mounted)
        tensors = {"ids": int32(layout.ids), "landmarks": int32(layout.landmarks), "logits": logits, **pack_hits(hits, c["n_ret"])}
        for prefix, chunks in [("own", own), *((f"doc.{i}", chunks) for i, chunks in enumerate(mounted))]:
            tensors.update({f"{prefix}.{k}": v for k, v in pack(chunks, c).items()})
    if generates:
        tokens, lead = generate(c, decoder(model, mounted), lambda tokens: laid_out(c, events, tokens))
        tensors["generated"] = int32(tokens)
    return tensors, min(gaps), lead


def write_json(path, value, **style):
    with open(path, "w") as f:
        json.dump(value, f, **style)
        f.write("\n")


def write_case(folder, name):
    """-> bytes written."""
    config, documents, events = CASES[name]
    generates = name in GENERATING
    for seed in itertools.count(1):
        inputs = draw_session(random.Random(seed), config, documents, events)
        weights = random_weights(MODELS[family(config)].shapes(config), seed, LIVELY if generates else 1)
        tensors, gap, lead = expected(build(config, weights), *inputs, generates)
        if not generates and gap >= SMALLEST_GAP:
            break
        if generates and min(gap, lead) >= SMALLEST_LEAD and lively(tensors["generated"].tolist()):
            break
    os.makedirs(folder, exist_ok=True)
    write_json(os.path.join(folder, "config.json"), config, indent=2)
    write_json(os.path.join(folder, "case.json"), {
        "version": VERSION, "generator": GENERATOR, "seed": seed, "torch": torch.__version__.split("+")[0],
        "documents": inputs[0], "events": [{"flush": True} if isinstance(e, str) else {"tokens": e} for e in inputs[1]]})
    save_file(weights, os.path.join(folder, "model.safetensors"))
    save_file({k: v.contiguous() for k, v in tensors.items()}, os.path.join(folder, "case.safetensors"))
    size = sum(e.stat().st_size for e in os.scandir(folder))
    print(f"{name}: seed {seed}, {len(tensors['ids'])} positions, gap {gap:.4f}, lead {lead:.4f}, {size} bytes")
    return size


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="tests/golden/families")
    args = parser.parse_args()
    torch.set_num_threads(1)
    print("total", sum(write_case(os.path.join(args.out, name), name) for name in CASES), "bytes")


if __name__ == "__main__":
    main()

"""Trains the keys alone on what the frozen encoder makes: landmark keys and queries, weights of words, mixing, score of nothing."""

import os
import random
import time

import torch

from .data import NOTHING
from .export import save
from .model import BLOCK, QUERY
from .train import gold_mask, queries, retrieval_loss, rows_of_blocks
from .words import number_words

RATES = {"landmark_proj": 2e-4, "query_proj": 2e-4, "words.key_proj": 1e-3, "words.query_proj": 1e-3, "words.key_bias": 3e-3,
         "words.query_bias": 3e-3, "score.scale": 1e-2, "score.mix": 5e-4, "score.nothing": 2e-3}
WARMUP, DECAY_SHARE, BATCHES, LOG_STEPS = 20, 0.5, 5, 20
NEAR = 0.02  # what holds the words' biases near where they began


@torch.no_grad()
def features(base, adapter, word_of, batch):
    """What the keys of a batch are made from. -> dict of CLS, rows, words and valid of blocks and of queries, gold bool [B, M], none [B]."""
    rows, tokens, valid, *_, number = rows_of_blocks(base, adapter.config, batch)
    cls, r = adapter.encoder(rows, valid, BLOCK)
    low = base.lower(batch["ids"], adapter.config["n_low"])
    query_rows, words, there = queries(adapter, word_of, batch, low)
    query_cls, query_r = adapter.encoder(query_rows, there, QUERY)
    none = torch.tensor([kind in NOTHING for kind in batch["kinds"]])
    return {"blocks": (cls, r.half(), word_of[tokens] * valid, valid), "queries": (query_cls, query_r.half(), words, there),
            "gold": gold_mask(batch, number), "none": none}


def loss_of(adapter, lot):
    """Retrieval loss of several batches' features, whose blocks are candidates together. -> (loss, share of the best blocks that answer)."""
    join = lambda what: [torch.cat(parts) for parts in zip(*(made[what] for made in lot))]
    cls, r, words, valid = join("blocks")
    keys, weights = adapter.block_keys(cls, r.float(), words, valid)
    cls, r, query_words, valid = join("queries")
    q, query_weights, nothing = adapter.query_keys(cls, r.float(), query_words, valid)
    scores = adapter.scores(q, query_words, query_weights, keys, words, weights)
    gold, none = torch.block_diag(*(made["gold"].float() for made in lot)).bool(), torch.cat([made["none"] for made in lot])
    has = gold.any(1)
    found = gold[has].gather(1, scores[has].topk(adapter.config["n_ret"], 1).indices).any(1).float().mean().item()
    return retrieval_loss(scores, nothing, gold, none), found


def run(base, adapter, maker, args):
    """Makes the features of `--steps` batches, trains on them for `--minutes`, and exports."""
    word_of, rng = torch.tensor(number_words(base.texts)[0]), random.Random(args.seed)
    maker.own_answers = [(maker.general_prompt(rng), [maker.end]) for _ in range(args.general)]
    pool = []
    for step in range(args.steps or 40):
        pool.append(features(base, adapter, word_of, maker.batch(args.seed, step)))
        print(f"features of batch {step}: {len(pool[-1]['none'])} sessions, {len(pool[-1]['blocks'][0])} blocks", flush=True)
    trained = {name: p for name, p in adapter.named_parameters() if name.startswith(tuple(RATES))}
    rate = {name: next(r for start, r in RATES.items() if name.startswith(start)) for name in trained}
    optimizer = torch.optim.AdamW([{"params": [p], "lr": 0.0, "rate": rate[name]} for name, p in trained.items()],
                                  betas=(0.9, 0.98), weight_decay=0.0)
    held = {name: p.detach().clone() for name, p in trained.items() if name.endswith("_bias")}
    began, step = time.time(), 0
    while (done := (time.time() - began) / (60 * args.minutes)) < 1:
        for group in optimizer.param_groups:
            group["lr"] = group["rate"] * min(1, (step + 1) / WARMUP) * min(1.0, max(0.02, (1 - done) / DECAY_SHARE))
        loss, found = loss_of(adapter, rng.sample(pool, min(BATCHES, len(pool))))
        near = sum((trained[name] - start).square().mean() for name, start in held.items())
        optimizer.zero_grad(set_to_none=True)
        (loss + NEAR * near).backward()
        torch.nn.utils.clip_grad_norm_(trained.values(), 1.0)
        optimizer.step()
        if step % LOG_STEPS == 0:
            print(f"step {step}, {time.time() - began:.0f} s: loss {loss.item():.3f}, found {found:.3f}", flush=True)
        step += 1
    save(adapter, args.run)

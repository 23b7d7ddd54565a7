"""Steps of AdamW with a learning rate that rises for some steps and then falls to nothing: of the reader and the reranker."""

import time

import torch
from torch import nn

CLIP, FALL = 1.0, 0.8  # of the gradient's norm; the power by which the rate falls
SAID_EACH = 20         # steps


def add_options(parser, minutes, rate):
    """The options of `args` below, with a seed."""
    parser.add_argument("--minutes", type=float, default=minutes)
    parser.add_argument("--steps", type=int, help="instead of --minutes")
    parser.add_argument("--rate", type=float, default=rate)
    parser.add_argument("--seed", type=int, default=1)


def fit(module, one_pass, loss_of, args, *, decay, warmup, after_pass=lambda step: None, after_step=lambda step: None):
    """Trains a module for args.steps, or else args.minutes, at args.rate. one_pass() gives the batches of a pass over the data, loss_of(batch)
    their loss."""
    optimizer = torch.optim.AdamW(module.parameters(), lr=args.rate, weight_decay=decay)
    began, step, mean = time.time(), 0, None
    done = lambda: step / args.steps if args.steps else (time.time() - began) / (60 * args.minutes)  # noqa: E731
    while done() < 1:
        for batch in one_pass():
            left = 1 - done()
            if left <= 0:
                break
            for group in optimizer.param_groups:
                group["lr"] = args.rate * min(1, (step + 1) / warmup) * left ** FALL
            loss = loss_of(batch)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(module.parameters(), CLIP)
            optimizer.step()
            mean = loss.item() if mean is None else 0.98 * mean + 0.02 * loss.item()
            step += 1
            if step % SAID_EACH == 0:
                print(f"step {step}, {time.time() - began:.0f} s: loss {mean:.3f}", flush=True)
            after_step(step)
        after_pass(step)

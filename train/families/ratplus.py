"""The numerical oracle of the family `ratplus`: RAT+ as published, written plainly, in fp32.

Three forms that must agree: `RatPlus.forward` over a whole sequence with the attended set as a mask; `RatPlusDecoder`, which
takes one token at a time and keeps a ring of W entries and a list, which without a span only grows; and, for dilation 1, `dense_logits`, which
shares no code with them and computes in double. Letters: T positions, H heads, dh head width, D = H * dh.
"""

import math

import torch
import torch.nn.functional as F

from model.oracle import Oracle

NO_DILATION = -1


def patterns_of(config, overrides=None):
    """(window, dilation, initial, span) by layer and head: [layers][heads]. A number of `local` or `overrides` holds everywhere, a
    list has one entry for each layer, and such an entry may be a list with one for each head. A span that is not there is None."""
    local = {**config["local"], **(overrides or {})}

    def at(key, layer, head):
        value = local.get(key) if key == "span" else local[key]
        for index in (layer, head):
            value = value[index] if isinstance(value, list) else value
        return value

    return [[tuple(at(key, i, h) for key in ("window", "dilation", "initial", "span")) for h in range(config["heads"])]
            for i in range(config["layers"])]


def attends(pattern, t, p):
    """Whether position t attends to position p under (W, D, I, C), C None without an end; t, p tensors that broadcast."""
    window, dilation, initial, span = pattern
    ends = (p + 1) % dilation == 0 if dilation != NO_DILATION else torch.zeros_like(p, dtype=torch.bool)
    if span is not None:
        ends = ends & (p >= t - span)
    return (p <= t) & ((p >= t - window) | ends | (p < initial))


def stretched(config, context):
    """The config whose RoPE base suits sequences of `context` positions (rule NTK); None: as trained."""
    if context is None:
        return config
    exponent = config["head_dim"] / (config["head_dim"] - 2)
    return {**config, "rope_base": config["rope_base"] * (context / config["context"]) ** exponent}


def choose_blocks(q, keys, count, block, score):
    """Blocks that the query q [dh] chooses, keys [t + 1, dh] up to its own: its own, which counts, and the best of the earlier ones,
    ties to the lower index. -> (indices, distance of the last one taken to the first one left)."""
    own = (len(keys) - 1) // block
    whole = keys[:own * block].reshape(own, block, keys.shape[-1])
    if score == "quest":
        scores = torch.maximum(q * whole.amin(1), q * whole.amax(1)).sum(-1) if own else torch.zeros(0)
    else:
        scores = whole.mean(1) @ q
    order = sorted(range(own), key=lambda b: (-scores[b].item(), b))
    gap = (scores[order[count - 2]] - scores[order[count - 1]]).item() if 2 <= count <= own else float("inf")
    return [*order[:count - 1], own], gap


class RatPlus(Oracle):
    """Weights (by contract name) and config; `patterns` as of patterns_of, the config's unless given. `top_k`: blocks every query
    attends to besides its pattern, 0 for none."""

    def __init__(self, config, weights, patterns=None, context=None, top_k=0):
        self.c, self.w = {"recurrence": True, **stretched(config, context)}, {k: v.float() for k, v in weights.items()}
        self.patterns = patterns or patterns_of(config)
        self.top_k, self.gap = top_k, float("inf")

    def blocks(self, q, keys):
        """choose_blocks by the config, noting the smallest gap."""
        chosen, gap = choose_blocks(q, keys, self.top_k, self.c["top_k"]["block"], self.c["top_k"]["score"])
        self.gap = min(self.gap, gap)
        return chosen

    def ffn(self, x, name):
        return self.lin(F.gelu(self.lin(x, name + ".in_proj")), name + ".out_proj")

    def mask(self, i, q, k):
        t = torch.arange(len(q))
        masks = torch.stack([attends(pattern, t[:, None], t[None]) for pattern in self.patterns[i]])
        if self.top_k:
            block = t // self.c["top_k"]["block"]
            for head in range(self.c["heads"]):
                for row in range(len(q)):
                    chosen = self.blocks(q[row, head], k[:row + 1, head])
                    masks[head, row] |= torch.isin(block, torch.tensor(chosen)) & (t <= row)
        return masks

    def forward(self, ids):
        """Token ids [T] -> logits [T, vocab]."""
        h = self.w["embed.weight"][torch.tensor(ids)]
        for i in range(self.c["layers"]):
            h = self.finish_layer(i, h + self.mixer(i, h), None)
        return self.logits(h)


class HeadCache:
    """Entries of one head: the initial ones, a ring of the last W positions, and a queue of the block ends that left the ring and
    are still attended, with their positions."""

    def __init__(self, pattern):
        self.window, self.dilation, self.initial, self.span = pattern
        self.first, self.ring, self.ends, self.length = [], [], [], 0

    def append(self, entry):
        """Takes the entry of the next position. -> all entries that position attends to, its own last."""
        while self.span is not None and self.ends and self.ends[0][0] < self.length - self.span:
            self.ends.pop(0)
        seen = self.first + [e for _, e in self.ends] + self.ring + [entry]
        self.ring.append(entry)
        self.length += 1
        if len(self.ring) > self.window:
            leaving, p = self.ring.pop(0), self.length - 1 - self.window
            if p < self.initial:
                self.first.append(leaving)
            elif self.dilation != NO_DILATION and (p + 1) % self.dilation == 0:
                self.ends.append((p, leaving))
        return seen


class BlockHeadCache:
    """Entries of one head of which every query chooses blocks: all of them."""

    def __init__(self, pattern, oracle):
        self.pattern, self.o, self.entries = pattern, oracle, []

    def append(self, entry, q):
        self.entries.append(entry)
        chosen = self.o.blocks(q, torch.stack([e[0] for e in self.entries]))
        attended = attends(self.pattern, torch.tensor(len(self.entries) - 1), torch.arange(len(self.entries))).tolist()
        return [e for p, e in enumerate(self.entries) if attended[p] or p // self.o.c["top_k"]["block"] in chosen]


class RatPlusDecoder:
    """One token at a time; same logits as `RatPlus.forward`."""

    def __init__(self, oracle):
        self.o = oracle
        inner = oracle.c["heads"] * oracle.c["head_dim"]
        self.state = [(torch.zeros(inner), torch.zeros(inner)) for _ in oracle.patterns]
        self.cache = [[BlockHeadCache(p, oracle) if oracle.top_k else HeadCache(p) for p in heads] for heads in oracle.patterns]
        self.position = 0

    def mixer(self, i, h):
        o, q, k, v, g = self.o.project(i, h)
        H = self.o.c["heads"]
        k, v = (self.o.recur(g, x, s) for x, s in zip((k, v), self.state[i]))
        self.state[i] = (k[0], v[0])
        here = [self.position]
        q, k, v = self.o.rope(self.o.heads(q, H), here)[0], self.o.rope(self.o.heads(k, H), here)[0], self.o.heads(v, H)[0]
        rows = []
        for head, cache in enumerate(self.cache[i]):
            entry = torch.stack([k[head], v[head]])
            seen = cache.append(entry, q[head]) if self.o.top_k else cache.append(entry)
            keys, values = torch.stack(seen).unbind(1)
            rows.append((keys @ q[head] * self.o.c["head_dim"] ** -0.5).softmax(0) @ values)
        return self.o.lin(torch.sigmoid(o) * torch.cat(rows)[None], f"layers.{i}.mixer.out_proj")

    def step(self, token):
        """-> logits [vocab] of this position."""
        h = self.o.w["embed.weight"][token][None]
        for i in range(self.o.c["layers"]):
            h = self.o.finish_layer(i, h + self.mixer(i, h), None)
        self.position += 1
        return self.o.logits(h)[0]


def dense_logits(config, weights, ids):
    """Logits [T, vocab] in double for dilation 1: plain causal attention over the gated pairs, position by position and head by
    head, by the formulas of docs/model-format.md."""
    w = {k: v.double() for k, v in weights.items()}
    H, dh = config["heads"], config["head_dim"]
    inner = H * dh
    angles = [[p * config["rope_base"] ** (-2 * j / dh) for j in range(dh // 2)] for p in range(len(ids))]

    def norm(x, gain):
        return x / (x.pow(2).mean() + config["norm_eps"]).sqrt() * gain

    def turn(x, p):
        out = x.clone()
        for j in range(dh // 2):
            a, b = x[j].item(), x[j + dh // 2].item()
            c, s = math.cos(angles[p][j]), math.sin(angles[p][j])
            out[j], out[j + dh // 2] = a * c - b * s, b * c + a * s
        return out

    stream = [w["embed.weight"][i] for i in ids]
    for i in range(config["layers"]):
        keys, values = [[] for _ in range(H)], [[] for _ in range(H)]
        k_state, v_state = torch.zeros(inner, dtype=torch.float64), torch.zeros(inner, dtype=torch.float64)
        for p, h in enumerate(stream):
            row = w[f"layers.{i}.mixer.in_proj.weight"] @ norm(h, w[f"layers.{i}.mixer_norm.weight"])
            o, q, k, v, g = (row[n * inner:(n + 1) * inner] for n in range(5))
            gate = 1 / (1 + (-g).exp()) if config.get("recurrence", True) else 0 * g
            k_state, v_state = gate * k_state + (1 - gate) * k, gate * v_state + (1 - gate) * v
            mixed = []
            for head in range(H):
                part = slice(head * dh, (head + 1) * dh)
                keys[head].append(turn(k_state[part], p))
                values[head].append(v_state[part])
                query = turn(q[part], p)
                scores = torch.stack([(query * key).sum() / math.sqrt(dh) for key in keys[head]])
                share = (scores - scores.max()).exp()
                mixed.append(sum(a * b for a, b in zip(share / share.sum(), values[head])))
            h = h + w[f"layers.{i}.mixer.out_proj.weight"] @ (torch.cat(mixed) / (1 + (-o).exp()))
            x = w[f"layers.{i}.ffn.in_proj.weight"] @ norm(h, w[f"layers.{i}.ffn_norm.weight"])
            stream[p] = h + w[f"layers.{i}.ffn.out_proj.weight"] @ (x * (1 + torch.erf(x / math.sqrt(2))) / 2)
    return torch.stack([w["embed.weight"] @ norm(h, w["final_norm.weight"]) for h in stream])

"""The families without landmarks in the form the trainer needs: whole sequences, fixed shapes, one graph.

Formulas: docs/model-format.md ("The family `ratplus`", "Other families"). The plain versions are ratplus.py and families/; a test
compares. Tensors are named as in a model directory. Letters: B sequences, T positions, H heads, G key-value heads, dh head width,
D = H * dh; W window.
"""

import torch
import torch.nn.functional as F
from torch import nn

from families.parts import FFN_KINDS, rope
from families.ratplus import NO_DILATION
from families.rattention import phi
from model import ops
from model.modules import Linear, Norm

CHUNK = 64  # positions of linear attention that are computed at a time


def window_scores(q, k, v, window):
    """Scores of every position with {t-W..t}: -> (scores [B, H, T, n], -1e9 where there is none; how such n weights mix v)."""
    B, H, T, dh = q.shape
    if window == 0:
        return (q * k).sum(-1, keepdim=True).float(), lambda p: p * v
    # Tiles of at least W positions: the window lies in a position's own tile and the one before.
    tile = next(n for n in range(window, T + 1) if T % n == 0)

    def pairs(x):
        x = F.pad(x, (0, 0, tile, 0)).reshape(B, H, -1, tile, dh)
        return torch.cat([x[:, :, :-1], x[:, :, 1:]], 3)

    t = torch.arange(T, device=q.device).reshape(-1, tile, 1)
    p = t[:, :1] - tile + torch.arange(2 * tile, device=q.device)
    s = (q.reshape(B, H, -1, tile, dh) @ pairs(k).mT).float().masked_fill((p < 0) | (p > t) | (p < t - window), -1e9)
    return s.reshape(B, H, T, -1), lambda p: (p.reshape(B, H, -1, tile, 2 * tile) @ pairs(v)).reshape(B, H, T, dh)


def attend(q, k, v, window, dilation=NO_DILATION, initial=0, span=None):
    """Softmax attention of position t to {t-W..t} and, before those, to p < I and, back to t-C where there is a span C, to
    (p+1) mod D = 0; no window: to all before. q, k, v [B, H, T, dh]. Only what some position attends to is scored, so a sparse
    pattern is cheaper."""
    T = q.shape[2]
    bounded = span is not None and span < T - 1
    if window is None or window >= T - 1 or (dilation == 1 and not bounded):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    q = q * q.shape[-1] ** -0.5
    kept = [slice(0, initial)]
    if dilation != NO_DILATION:
        kept.append(slice(dilation * (initial // dilation) + dilation - 1, None, dilation))
    k_far, v_far = (torch.cat([x[:, :, s] for s in kept], 2) for x in (k, v))
    t = torch.arange(T, device=q.device)
    p_far = torch.cat([t[s] for s in kept])
    unseen = p_far >= t[:, None] - window
    if bounded:
        unseen = unseen | ((p_far < t[:, None] - span) & (p_far >= initial))
    far = (q @ k_far.mT).float().masked_fill(unseen, -1e9)
    near, mix = window_scores(q, k, v, window)
    p = torch.cat([far, near], -1).softmax(-1).to(q.dtype)
    return p[..., :len(p_far)] @ v_far + mix(p[..., len(p_far):])


def linear_attention(fq, fk, v, delay):
    """sum over p <= t - delay of <fq_t, fk_p> v_p, in chunks. fq [B, T, H, F], fk [B, T, G, F], v [B, T, G, dh] -> [B, T, H, dh]."""
    B, T, H, width = fq.shape
    G, size = fk.shape[2], CHUNK if T % CHUNK == 0 else T
    fk, v = (F.pad(x, (0, 0, 0, 0, delay, 0))[:, :T].reshape(B, -1, size, G, x.shape[-1]) for x in (fk, v))
    fq = fq.reshape(B, -1, size, G, H // G, width)
    sums = torch.einsum("bnsgf,bnsgd->bngfd", fk, v)
    before = sums.cumsum(1) - sums
    inside = torch.einsum("bnsgrf,bnugf->bngrsu", fq, fk).tril()
    y = torch.einsum("bnsgrf,bngfd->bnsgrd", fq, before) + torch.einsum("bngrsu,bnugd->bnsgrd", inside, v)
    return y.reshape(B, T, H, -1)


class Mixer(nn.Module):
    """rows: of one matrix inside in_proj. forward(x [B, T, d], dtype, pattern (W, D, I, C) or None) -> [B, T, d] fp32."""

    def __init__(self, c, spec, rows_in, rows):
        super().__init__()
        self.c, self.spec, self.rows = {"rope_pairs": "half", **c}, spec, rows
        self.in_proj = Linear(c["d"], rows_in)
        self.out_proj = Linear(c["heads"] * c["head_dim"], c["d"], 0.2)

    def project(self, x, dtype, heads):
        """in_proj x, split into [B, T, heads_i, dh]."""
        return self.in_proj(x, dtype).unflatten(-1, (-1, self.c["head_dim"])).split(heads, 2)

    def place(self, x, t):
        return rope(self.c, x.float(), t) if self.spec.get("positions", "rope") == "rope" else x.float()

    def attend(self, q, k, v, dtype, *pattern):
        """[B, T, H, dh] of queries and [B, T, G, dh] of keys and values -> [B, T, H, dh]."""
        group = q.shape[2] // k.shape[2]
        k, v = (x if group == 1 else x.repeat_interleave(group, 2) for x in (k, v))
        return attend(*(x.to(dtype).transpose(1, 2) for x in (q, k, v)), *pattern).transpose(1, 2)

    def finish(self, y, dtype):
        return self.out_proj(y.flatten(2), dtype).float()


class RatPlus(Mixer):
    def __init__(self, c, spec):
        D = c["heads"] * c["head_dim"]
        super().__init__(c, spec, 5 * D, D)

    def forward(self, x, dtype, pattern):
        o, q, k, v, g = self.project(x, dtype, [self.c["heads"]] * 5)
        k, v = k.float(), v.float()
        if self.c.get("recurrence", True):
            g = torch.sigmoid(g.float()).flatten(2)
            k, v = (ops.scan(g, y.flatten(2)).view_as(y) for y in (k, v))
        t = torch.arange(x.shape[1], device=x.device)
        y = self.attend(self.place(q, t), self.place(k, t), v, dtype, *pattern)
        return self.finish(torch.sigmoid(o.float()).to(dtype) * y, dtype)


class Rat(Mixer):
    def __init__(self, c, spec):
        H, shared, dh = c["heads"], spec["shared_heads"], c["head_dim"]
        super().__init__(c, spec, (3 * H + 2 * shared) * dh, shared * dh if H % shared == 0 else dh)
        # Spread the gates so that channels start with different memory lengths.
        self.gate_bias = nn.Parameter(torch.linspace(-3.0, 3.0, dh).repeat(H))

    def forward(self, x, dtype, pattern):
        B, T, _ = x.shape
        H, shared, L = self.c["heads"], self.spec["shared_heads"], self.spec["chunk"]
        z, v, g, q, k = self.project(x, dtype, [H, H, H, shared, shared])
        tiled = torch.arange(H, device=x.device) % shared
        g = torch.sigmoid(g.float().flatten(2) + self.gate_bias)
        # A chunk is a sequence of its own to the recurrence.
        chunks = lambda y: y.reshape(B * T // L, L, -1)
        k, v = (ops.scan(chunks(g), chunks(y.float())).reshape(B, T, H, -1) for y in (k[:, :, tiled], v))
        t = torch.arange(T, device=x.device) // L
        y = self.attend(self.place(q, t)[:, :, tiled], self.place(k, t), v, dtype, 0, L)
        return self.finish(torch.sigmoid(z.float()).to(dtype) * y, dtype)


class Attention(Mixer):
    def __init__(self, c, spec):
        H, G, dh = c["heads"], c.get("kv_heads", c["heads"]), c["head_dim"]
        super().__init__(c, spec, (H + 2 * G) * dh, G * dh)
        self.H, self.G = H, G
        if spec.get("qk_norm"):
            self.q_norm, self.k_norm = Norm(dh, c["head_norm_eps"]), Norm(dh, c["head_norm_eps"])

    def window(self, q, k, v, dtype):
        t = torch.arange(q.shape[1], device=q.device)
        q, k = self.place(q, t), self.place(k, t)
        if self.spec.get("qk_norm"):
            q, k = self.q_norm(q), self.k_norm(k)
        return self.attend(q, k, v, dtype, self.spec.get("window"))

    def forward(self, x, dtype, pattern):
        return self.finish(self.window(*self.project(x, dtype, [self.H, self.G, self.G]), dtype), dtype)


class LearnedState(nn.Module):
    """Tensors below `rla`."""

    def __init__(self, c, spec):
        super().__init__()
        dh, tokens = c["head_dim"], spec.get("learned_tokens", 0)
        if spec.get("qk_scale"):
            self.q_scale, self.k_scale = nn.Parameter(torch.ones(dh)), nn.Parameter(torch.ones(dh))
        if tokens:
            self.init_k, self.init_v = (nn.Parameter(torch.randn(c["heads"], tokens, dh) * 0.02) for _ in range(2))


class Rattention(Attention):
    def __init__(self, c, spec):
        super().__init__(c, spec)
        shape = (c["heads"], c["head_dim"])
        self.rla, self.rla_norm = LearnedState(c, spec), Norm(shape, c["head_norm_eps"])
        if spec["window"] >= 0:
            self.swa_norm = Norm(shape, c["head_norm_eps"])

    def forward(self, x, dtype, pattern):
        q, k, v = self.project(x, dtype, [self.H, self.G, self.G])
        kind, scale = self.spec["feature_map"], self.spec.get("qk_scale")
        fq, fk = (phi(kind, y.float() * getattr(self.rla, f"{n}_scale") if scale else y.float()) for n, y in (("q", q), ("k", k)))
        y = linear_attention(fq, fk, v.float(), self.spec["window"] + 1)
        if self.spec.get("learned_tokens"):
            start = torch.einsum("hmf,hmd->hfd", phi(kind, self.rla.init_k), self.rla.init_v)
            y = y + torch.einsum("bthf,hfd->bthd", fq, start)
        y = self.rla_norm(y)
        if self.spec["window"] >= 0:
            y = y + self.swa_norm(self.window(q, k, v, dtype).float())
        return self.finish(y, dtype)


MIXERS = {"ratplus": RatPlus, "rat": Rat, "attention": Attention, "rattention": Rattention}


class Ffn(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.kind = c.get("ffn_kind", "gelu")
        self.in_proj, self.out_proj = Linear(c["d"], c["ffn"] * (1 if self.kind == "gelu" else 2)), Linear(c["ffn"], c["d"], 0.2)

    def forward(self, x, dtype):
        x, act = self.in_proj(x, dtype), FFN_KINDS[self.kind]
        if self.kind == "gelu":
            return self.out_proj(act(x.float()).to(dtype), dtype).float()
        gate, up = x.chunk(2, -1)
        return self.out_proj(act(gate.float()).to(dtype) * up, dtype).float()


class Layer(nn.Module):
    def __init__(self, c, spec):
        super().__init__()
        self.mixer_norm, self.mixer = Norm(c["d"], c["norm_eps"]), MIXERS[spec["kind"]](c, spec)
        self.ffn_norm, self.ffn = Norm(c["d"], c["norm_eps"]), Ffn(c)

    def forward(self, h, dtype, pattern):
        h = h + self.mixer(self.mixer_norm(h), dtype, pattern)
        return h + self.ffn(self.ffn_norm(h), dtype)


class Stack(nn.Module):
    """c: the config of `ratplus` or of a family of `mixers`; the window, dilation, initial positions and span of `ratplus` come with
    each call, the same in every layer and head."""

    def __init__(self, c, dtype=torch.float32):
        super().__init__()
        self.c, self.dtype = c, dtype
        mixers = c.get("mixers", [{"kind": "ratplus"}])
        self.embed = nn.Embedding(c["vocab_size"], c["d"])
        nn.init.normal_(self.embed.weight, std=0.04)
        self.layers = nn.ModuleList(Layer(c, mixers[i % len(mixers)]) for i in range(c["layers"]))
        self.final_norm = Norm(c["d"], c["norm_eps"])

    def matrix_rows(self, name, p):
        """Rows of one matrix inside the parameter p called `name`."""
        if name.endswith("mixer.in_proj.weight"):
            return self.layers[int(name.split(".")[1])].mixer.rows
        return self.c["ffn"] if name.endswith("ffn.in_proj.weight") else p.shape[0]

    def forward(self, tokens, pattern=None):
        """[B, T] -> logits [B, T, vocab] fp32. pattern: (window, dilation, initial, span) of `ratplus`."""
        h = self.embed(tokens)
        for layer in self.layers:
            h = layer(h, self.dtype, pattern)
        return F.linear(self.final_norm(h).to(self.dtype), self.embed.weight.to(self.dtype)).float()

    def loss(self, tokens, pattern=None):
        """Mean nats of the tokens [B, T + 1] after the first."""
        return F.cross_entropy(self(tokens[:, :-1], pattern).flatten(0, 1), tokens[:, 1:].flatten())

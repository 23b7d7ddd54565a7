"""What the families share: norm, FFN, RoPE, softmax attention and its cache, the layer stack, its decoder.

A family is a mixer or two in a `Model`; each mixer has two forms that must agree: `forward` over a whole sequence, written
like the formula, and `start` with `step`, which hold what a server would hold and no more. All fp32; not for speed.
Letters: T positions, H query heads, G key-value heads, dh head width, D = H * dh, W window.
"""

import torch
import torch.nn.functional as F


def rms(x, eps):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)


class Weights:
    """The tensors below a prefix, in fp32."""

    def __init__(self, tensors, prefix=""):
        self.tensors, self.prefix = tensors, prefix

    def __getitem__(self, name):
        return self.tensors[self.prefix + name].float()

    def at(self, prefix):
        return Weights(self.tensors, f"{self.prefix}{prefix}.")

    def lin(self, name, x):
        return x @ self[name + ".weight"].to(x.dtype).T

    def norm(self, name, x, eps):
        return rms(x, eps) * self[name + ".weight"]


def prefixed(prefix, shapes):
    return {f"{prefix}.{name}": shape for name, shape in shapes.items()}


FFN_KINDS = {"gelu": F.gelu, "geglu": F.gelu, "swiglu": F.silu}  # F.gelu is the exact erf form


def ffn_shapes(c):
    hidden = c["ffn"] * (1 if c["ffn_kind"] == "gelu" else 2)
    return {"in_proj.weight": (hidden, c["d"]), "out_proj.weight": (c["d"], c["ffn"])}


def ffn(c, w, x):
    x, act = w.lin("in_proj", x), FFN_KINDS[c["ffn_kind"]]
    if c["ffn_kind"] == "gelu":
        return w.lin("out_proj", act(x))
    gate, up = x.chunk(2, -1)
    return w.lin("out_proj", act(gate) * up)


def rope(c, x, t):
    """RoPE of x [T, H, dh] at positions t [T], angles in double. Channels pair up as (j, j + dh/2) or, interleaved, as
    (2j, 2j + 1): RAT and DRT use the first, RAttention the second (its published code; the paper does not say)."""
    half = x.shape[-1] // 2
    frequency = c["rope_base"] ** (-torch.arange(half, dtype=torch.float64, device=t.device) / half)
    frequency = frequency / torch.tensor(c.get("rope_divisors", 1.0), dtype=torch.float64, device=t.device)
    angle = t.double()[:, None, None] * frequency
    cos, sin = angle.cos().float(), angle.sin().float()
    dim = -1 if c["rope_pairs"] == "interleaved" else -2
    a, b = x.unflatten(-1, (half, 2) if dim == -1 else (2, half)).unbind(dim)
    return torch.stack([a * cos - b * sin, b * cos + a * sin], dim).flatten(-2)


def attend(q, k, v, bias=0):
    """Softmax attention. q [Tq, H, dh], k and v [Tk, G, dh], bias [1 or H, Tq, Tk] -> [Tq, H, dh].
    Query head h reads key-value head floor(h * G / H): contiguous groups."""
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    p = (torch.einsum("qhd,khd->hqk", q, k) * q.shape[-1] ** -0.5 + bias).softmax(-1)
    return torch.einsum("hqk,khd->qhd", p, v)


class Attention:
    """Softmax attention over {t-W .. t}, or over {0 .. t} without a window.

    W + 1 tokens: the published codes give W as the count of earlier tokens, so RAT-SWA's 1024 sees 1025 and DRT's 512 sees
    513, where the papers speak of windows of 1024 and 512. RAttention's paper counts the own token: its 512 is W = 511.
    `positions` is "rope", "alibi" or "none". State: placed keys and values of the last W + 1 tokens."""

    def __init__(self, c, spec, w):
        self.c, self.spec, self.w = c, spec, w
        self.H, self.G, self.window = c["heads"], c.get("kv_heads", c["heads"]), spec.get("window")

    @staticmethod
    def shapes(c, spec):
        H, G, dh, d = c["heads"], c.get("kv_heads", c["heads"]), c["head_dim"], c["d"]
        norms = {f"{x}_norm.weight": (dh,) for x in "qk" if spec.get("qk_norm")}
        return {"in_proj.weight": ((H + 2 * G) * dh, d), **norms, "out_proj.weight": (d, H * dh)}

    def project(self, x):
        """Raw q [T, H, dh], k and v [T, G, dh]."""
        return self.w.lin("in_proj", x).unflatten(-1, (-1, self.c["head_dim"])).split([self.H, self.G, self.G], 1)

    def place(self, name, x, t):
        """Position, then norm: RAttention normalises what RoPE has turned (its published code), and the gain is per
        channel, so the order matters."""
        if self.spec["positions"] == "rope":
            x = rope(self.c, x, t)
        return self.w.norm(f"{name}_norm", x, self.c["head_norm_eps"]) if self.spec.get("qk_norm") else x

    def bias(self, t, p):
        """[1 or H, Tq, Tk] for queries at t and keys at p: -inf where p is not seen, else ALiBi or 0."""
        distance = t[:, None] - p
        seen = torch.ones_like(distance, dtype=torch.bool) if self.spec.get("bidirectional") else distance >= 0
        if self.window is not None:
            seen &= distance <= self.window
        slopes = torch.zeros(1)
        if self.spec["positions"] == "alibi":
            # One geometric series for any H, also where the original ALiBi takes two (H no power of two).
            slopes = 2.0 ** (-8.0 * torch.arange(1, self.H + 1) / self.H)
        return (-slopes[:, None, None] * distance).masked_fill(~seen, float("-inf"))

    def context(self, q, k, v):
        """Heads' outputs [T, H, dh] from raw q, k, v of a whole sequence."""
        t = torch.arange(len(q))
        return attend(self.place("q", q, t), self.place("k", k, t), v, self.bias(t, t))

    def start(self):
        empty = torch.zeros(0, self.G, self.c["head_dim"])
        return {"k": empty, "v": empty}

    def context_step(self, q, k, v, t, state):
        t = torch.tensor([t])
        state["k"], state["v"] = torch.cat([state["k"], self.place("k", k, t)]), torch.cat([state["v"], v])
        if self.window is not None:
            state["k"], state["v"] = (state[x][-self.window - 1:] for x in "kv")
        n = len(state["k"])
        return attend(self.place("q", q, t), state["k"], state["v"], self.bias(t, t + torch.arange(1 - n, 1)))

    def out(self, heads):
        return self.w.lin("out_proj", heads.flatten(1))

    def forward(self, x):
        return self.out(self.context(*self.project(x)))

    def step(self, x, t, state):
        """x [1, d] at position t -> [1, d]; `state` moves on."""
        return self.out(self.context_step(*self.project(x), t, state))


class Model:
    """Embedding, layers h <- a + FFN(RMS(a)) with a = h + mixer(RMS(h)), final norm, tied head. Layer i has the mixer
    `mixers[i mod len(mixers)]` of the config."""

    KINDS = {"attention": Attention}

    def __init__(self, config, tensors):
        self.start(config, tensors, config["norm_eps"])
        self.mixers = [self.KINDS[s["kind"]](config, s, self.layer(i).at("mixer")) for i, s in enumerate(self.specs(config))]

    def start(self, config, tensors, eps):
        self.c, self.w, self.eps = config, Weights(tensors), eps
        found, expected = {n: tuple(x.shape) for n, x in tensors.items()}, self.shapes(config)
        assert found == expected, sorted(set(found.items()) ^ set(expected.items()))

    @staticmethod
    def specs(c):
        return [c["mixers"][i % len(c["mixers"])] for i in range(c["layers"])]

    @classmethod
    def shapes(cls, c):
        """Every tensor's name and shape."""
        shapes = {"embed.weight": (c["vocab_size"], c["d"]), "final_norm.weight": (c["d"],)}
        for i, spec in enumerate(cls.specs(c)):
            layer = {"mixer_norm.weight": (c["d"],), "ffn_norm.weight": (c["d"],),
                     **prefixed("mixer", cls.KINDS[spec["kind"]].shapes(c, spec)), **prefixed("ffn", ffn_shapes(c))}
            shapes.update(prefixed(f"layers.{i}", layer))
        return shapes

    def layer(self, i):
        return self.w.at(f"layers.{i}")

    def embed(self, ids):
        return self.w["embed.weight"][torch.tensor(ids)]

    def mix(self, i, h, mixer=None):
        """a = h + mixer(RMS(h)); the mixer's `forward` unless said otherwise."""
        return h + (mixer or self.mixers[i].forward)(self.layer(i).norm("mixer_norm", h, self.eps))

    def finish(self, i, a, u=None):
        """h' = a + FFN(RMS(u)), where u is a unless said otherwise."""
        w = self.layer(i)
        return a + ffn(self.c, w.at("ffn"), w.norm("ffn_norm", a if u is None else u, self.eps))

    def run(self, h, layers, mix=None):
        for i in layers:
            h = self.finish(i, (mix or self.mix)(i, h))
        return h

    def logits(self, h):
        return self.w.norm("final_norm", h, self.eps) @ self.w["embed.weight"].T

    def forward(self, ids):
        """Logits [T, vocab] of a whole sequence."""
        return self.logits(self.run(self.embed(ids), range(len(self.mixers))))


class Decoder:
    """One position at a time. Same logits as `Model.forward`."""

    def __init__(self, model):
        self.model, self.t, self.states = model, 0, [m.start() for m in model.mixers]

    def mix(self, i, h):
        return self.model.mix(i, h, lambda x: self.model.mixers[i].step(x, self.t, self.states[i]))

    def step(self, token):
        """-> logits [vocab] of this position."""
        h = self.model.run(self.model.embed([token]), range(len(self.states)), self.mix)
        self.t += 1
        return self.model.logits(h)[0]

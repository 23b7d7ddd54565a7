"""RAT and its hybrids with attention layers ("RAT: Bridging RNN Efficiency and Attention Accuracy in Language Modeling").

A gated recurrence inside each chunk of L tokens, softmax attention over the ends of earlier chunks and the own token.
"""

import torch

from .parts import Attention, Model, attend, rope


class Rat:
    """State, bounded by ceil(T / L) slots: `k`, `v` one slot a chunk, keys placed; `last_k`, `last_v` [H, dh] the
    recurrence, keys not placed."""

    def __init__(self, c, spec, w):
        self.c, self.spec, self.w, self.L = c, spec, w, spec["chunk"]

    @staticmethod
    def shapes(c, spec):
        D, shared = c["heads"] * c["head_dim"], spec["shared_heads"] * c["head_dim"]
        return {"in_proj.weight": (3 * D + 2 * shared, c["d"]), "gate_bias": (D,), "out_proj.weight": (c["d"], D)}

    def project(self, x):
        """Output gate z, v, gate g, q, k of x [T, d], each [T, H, dh].

        q and k are shared by tiling (section 2.3, "Parameter allocation"; the layout is the published code's): head h uses
        shared head h mod r, so heads alternate, unlike grouped-query attention. The gate is not shared, so k differs by
        head after the recurrence."""
        H, r = self.c["heads"], self.spec["shared_heads"]
        z, v, g, q, k = self.w.lin("in_proj", x).unflatten(-1, (-1, self.c["head_dim"])).split([H, H, H, r, r], 1)
        tiled = torch.arange(H) % r
        g = torch.sigmoid(g + self.w["gate_bias"].view(H, -1))
        return torch.sigmoid(z), v, g, q[:, tiled], k[:, tiled]

    def recur(self, g, x, state, t):
        """x~_t = g_t x~_{t-1} + (1 - g_t) x_t for one token (eq. 3, "Intra-chunk RNN"). x~ is 0 before the first token of
        every chunk, not only of the sequence: a chunk's first output is (1 - g) x, and chunk ends are independent."""
        before = torch.zeros_like(x) if t % self.L == 0 else state
        return g * before + (1 - g) * x

    def place(self, x, t):
        """RoPE at the chunk's index, not the token's (section 2.3, "Positional encoding"), after the recurrence: the
        recurrence adds keys of one chunk, which share a position. The own token then has relative position 0."""
        return rope(self.c, x, t // self.L) if self.spec["positions"] == "rope" else x

    def output(self, z, y):
        return self.w.lin("out_proj", (z * y).flatten(1))

    def forward(self, x):
        z, v, g, q, k = self.project(x)
        rows, last = [], (None, None)
        for t in range(len(x)):
            last = [self.recur(g[t], s[t], before, t) for s, before in zip((k, v), last)]
            rows.append(last)
        k, v = map(torch.stack, zip(*rows))
        t = torch.arange(len(x))
        # Ends of earlier chunks and the own token, one softmax (eq. 3, "Inter-chunk attention"). In chunk 0 that is the
        # own token alone and the output v~_t.
        seen = (t == t[:, None]) | ((t < t[:, None]) & ((t + 1) % self.L == 0))
        bias = torch.zeros(1, len(x), len(x)).masked_fill(~seen, float("-inf"))
        return self.output(z, attend(self.place(q, t), self.place(k, t), v, bias))

    def start(self):
        empty = torch.zeros(0, self.c["heads"], self.c["head_dim"])
        return {"k": empty, "v": empty, "last_k": None, "last_v": None}

    def step(self, x, t, state):
        z, v, g, q, k = self.project(x)
        k, v = state["last_k"], state["last_v"] = [self.recur(g, s, state[last], t) for s, last in ((k, "last_k"), (v, "last_v"))]
        here, slot = torch.tensor([t]), t // self.L
        # Every token overwrites its chunk's slot; what the chunk's last token leaves there is the chunk's end.
        state["k"] = torch.cat([state["k"][:slot], self.place(k, here)])
        state["v"] = torch.cat([state["v"][:slot], v])
        return self.output(z, attend(self.place(q, here), state["k"], state["v"]))


class RatModel(Model):
    """`rat` and `rat-swa`: which layers are RAT and which attention is the config's list of mixers."""

    KINDS = {"rat": Rat, "attention": Attention}

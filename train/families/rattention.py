"""RAttention ("RAttention: Towards the Minimal Sliding Window Size in Local-Global Attention Models"): a window of softmax
attention, and linear attention over everything before the window, with the same q, k, v."""

import torch

from .parts import Attention, Model, rms


def phi(kind, x):
    """Feature map, [.., dh] -> [.., 2 dh]: softmax over a head's channels of x and of -x, or their positive parts."""
    both = torch.stack([x, -x], -2)
    return (both.softmax(-1) if kind == "softmax" else both.relu()).flatten(-2)


class Rattention(Attention):
    """State: a ring of W + 1 placed keys, values and raw keys (raw: S takes the key before RoPE), and S [G, 2 dh, dh].

    W counts the tokens left of the own one: the window is {t-W .. t}, the paper's w = W + 1 counts the own one. W = -1 is
    linear attention alone. S holds {0 .. t-W-1}: window and S touch every token exactly once."""

    @staticmethod
    def shapes(c, spec):
        H, dh, tokens = c["heads"], c["head_dim"], spec.get("learned_tokens", 0)
        branches = ("swa", "rla") if spec["window"] >= 0 else ("rla",)
        shapes = {**Attention.shapes(c, spec), **{f"{b}_norm.weight": (H, dh) for b in branches}}
        if spec.get("qk_scale"):
            shapes.update({"rla.q_scale": (dh,), "rla.k_scale": (dh,)})
        if tokens:
            shapes.update({"rla.init_k": (H, tokens, dh), "rla.init_v": (H, tokens, dh)})
        return shapes

    def features(self, name, x):
        """phi of raw q or k: before RoPE and q/k norm, and without 1/sqrt(dh)."""
        return phi(self.spec["feature_map"], x * self.w[f"rla.{name}_scale"] if self.spec.get("qk_scale") else x)

    def initial(self):
        """What S starts from, [H, 2 dh, dh]. Learned tokens are a query head's own, so a server keeps S per key-value head
        from zero and adds this constant when it reads. `qk_scale` does not touch learned keys (published code)."""
        if not self.spec.get("learned_tokens"):
            return torch.zeros(self.H, 2 * self.c["head_dim"], self.c["head_dim"])
        k = phi(self.spec["feature_map"], self.w["rla.init_k"])
        return torch.einsum("hmf,hmd->hfd", k, self.w["rla.init_v"])

    def merge(self, swa, rla):
        """Sum of the branches, each normalised per head: section 3.2. The linear branch has no denominator (section 2.2),
        so this norm sets its scale; where it is 0, for t <= W without learned tokens, it stays 0."""
        y = rms(rla, self.c["head_norm_eps"]) * self.w["rla_norm.weight"]
        return y if swa is None else y + rms(swa, self.c["head_norm_eps"]) * self.w["swa_norm.weight"]

    def context(self, q, k, v):
        T, group = len(q), self.H // self.G
        fq, fk = self.features("q", q), self.features("k", k).repeat_interleave(group, 1)
        # Eq. 4 summed out: o_t = phi(q_t) (S_0 + sum over p <= t-W-1 of phi(k_p) v_p^T). W + 1, since {t-W .. t} is the window's.
        outside = torch.ones(T, T).tril(-self.window - 1)
        rla = torch.einsum("qhf,khf,qk,khd->qhd", fq, fk, outside, v.repeat_interleave(group, 1))
        rla = rla + torch.einsum("qhf,hfd->qhd", fq, self.initial())
        return self.merge(super().context(q, k, v) if self.window >= 0 else None, rla)

    def start(self):
        ring = super().start()
        return {**ring, "raw_k": ring["k"], "S": torch.zeros(self.G, 2 * self.c["head_dim"], self.c["head_dim"])}

    def context_step(self, q, k, v, t, state):
        state["raw_k"] = torch.cat([state["raw_k"], k])
        if len(state["raw_k"]) > self.window + 1:
            # Token t-W-1 leaves the ring and enters S before S is read.
            leaving_k, leaving_v = state["raw_k"][0], torch.cat([state["v"], v])[0]
            state["S"] = state["S"] + torch.einsum("gf,gd->gfd", self.features("k", leaving_k), leaving_v)
            state["raw_k"] = state["raw_k"][1:]
        S = state["S"].repeat_interleave(self.H // self.G, 0) + self.initial()
        rla = torch.einsum("qhf,hfd->qhd", self.features("q", q), S)
        return self.merge(super().context_step(q, k, v, t, state) if self.window >= 0 else None, rla)


class RattentionModel(Model):
    """Local layers RAttention, global layers attention without window and positions (section 3.3)."""

    KINDS = {"rattention": Rattention, "attention": Attention}

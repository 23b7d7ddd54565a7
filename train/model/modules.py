"""The parts of the flagship model: their weights and the first values of these. What the parts compute together is in model.py."""

import math

import torch
import torch.nn.functional as F
from torch import nn


class Norm(nn.Module):
    """RMS(x) = x / sqrt(mean(x^2) + eps) * weight, fp32."""

    def __init__(self, d, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(d)), eps

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weight


class Linear(nn.Module):
    """y = x W^T with operands in the compute dtype `dtype`; returns that dtype."""

    def __init__(self, d_in, d_out, scale=0.6):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(d_out, d_in) * scale / math.sqrt(d_in))

    def forward(self, x, dtype):
        return F.linear(x.to(dtype), self.weight.to(dtype))


class Ffn(nn.Module):
    def __init__(self, d, width):
        super().__init__()
        self.in_proj, self.out_proj = Linear(d, 2 * width), Linear(width, d, 0.2)

    def forward(self, x, dtype):
        gate, up = self.in_proj(x, dtype).chunk(2, -1)
        return self.out_proj(F.silu(gate.float()).to(dtype) * up, dtype).float()


class Mixer(nn.Module):
    """Projections of RAT+; the attention itself is `Model.local_attention`."""

    def __init__(self, c):
        super().__init__()
        inner = c["heads"] * c["head_dim"]
        self.in_proj, self.out_proj = Linear(c["d"], 5 * inner), Linear(inner, c["d"], 0.2)
        # Spread the gates so that channels start with different memory lengths.
        self.gate_bias = nn.Parameter(torch.linspace(-3.0, 3.0, c["head_dim"]).repeat(c["heads"]))


class Gca(nn.Module):
    def __init__(self, c):
        super().__init__()
        inner = c["heads"] * c["head_dim"]
        self.norm = Norm(c["d"], c["norm_eps"])
        self.q_proj, self.out_proj = Linear(c["d"], inner), Linear(inner, c["d"], 0.3)


class Layer(nn.Module):
    def __init__(self, c, gca):
        super().__init__()
        self.mixer_norm, self.mixer = Norm(c["d"], c["norm_eps"]), Mixer(c)
        self.ffn_norm, self.ffn = Norm(c["d"], c["norm_eps"]), Ffn(c["d"], c["ffn"])
        if gca:
            self.gca = Gca(c)


class EncoderAttention(nn.Module):
    def __init__(self, c):
        super().__init__()
        inner = c["heads"] * c["head_dim"]
        self.in_proj, self.out_proj = Linear(c["d"], 3 * inner), Linear(inner, c["d"], 0.2)


class EncoderLayer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.attn_norm, self.attn = Norm(c["d"], c["norm_eps"]), EncoderAttention(c)
        self.ffn_norm, self.ffn = Norm(c["d"], c["norm_eps"]), Ffn(c["d"], c["ffn"])


class Encoder(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.cls = nn.Parameter(torch.randn(c["d"]))
        self.in_norm, self.out_norm = Norm(c["d"], c["norm_eps"]), Norm(c["d"], c["norm_eps"])
        if c.get("encoder_carry"):
            self.carry_proj = Linear(c["d"], c["d"], 0.0)
        self.layers = nn.ModuleList(EncoderLayer(c) for _ in range(c["encoder_layers"]))


class Memory(nn.Module):
    def __init__(self, c):
        super().__init__()
        inner = c["memory_kv_heads"] * c["head_dim"]
        self.k_proj, self.v_proj = Linear(c["d"], inner), Linear(c["d"], inner)
        if c["memory_key_recurrence"]:
            self.gate_proj = Linear(c["d"], inner)


class Group(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.query_norm, self.query_proj = Norm(c["d"], c["norm_eps"]), Linear(c["d"], c["d_r"], 1.0)
        if c.get("lexicon"):
            self.recency = nn.Parameter(torch.exp(-torch.arange(c["lexicon"]["reach"]) / 25))
        if c.get("successors"):
            self.successor_bias = nn.Parameter(torch.tensor([-0.7]))


class Pointer(nn.Module):
    """The pointer head: what a place in a retrieved chunk counts by which of the tokens before it are those before the next token."""

    def __init__(self, c):
        super().__init__()
        reach = c["pointer"]["reach"]
        # A first guess: the longer the run of equal tokens that ends here, the surer. The first number of `run` stands against the
        # sentinel, whose score begins at 0.
        self.run = nn.Parameter(torch.tensor(([-5.0, 2.0, 1.5, 1.0] + [0.5] * reach)[:reach]))
        self.overlap = nn.Parameter(torch.tensor(([0.0] + [0.2] * reach)[:reach]))
        self.rarity = nn.Parameter(torch.ones(c["vocab_size"]))

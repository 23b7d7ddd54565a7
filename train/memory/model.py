"""The adapter that gives a frozen base a memory: chunk encoder, landmark keys, scores, grouped cross-attention, pointer head.

Everything here takes batches and is used by the oracle and by the trainer. What is outside: the base's own layers (base.py), which
blocks are chosen (oracle.py, train.py). Names of the parameters are those of memory.safetensors.

Letters: M blocks, S = 63 rows of a block or of a query, B sessions, T positions, K chosen blocks of a session, H query heads,
G key-value heads, dh head width, d width of the base, d_r width of landmark keys, d_p width of pointer keys.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

from .base import rope_turns, rotate

EPS = 1e-6
BLOCK, QUERY = 0, 1  # rows of encoder.cls
SMALLEST_WEIGHT = 1e-9  # of a block in the pointer's scores
PLENTY = 3.0  # evidence at which the pointer's gate is its row's alone


def unit_rms(x):
    """x / sqrt(mean(x^2) + eps) over the last dimension, computed in fp32."""
    y = x.float()
    return (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + EPS)).to(x.dtype)


class Norm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))

    def forward(self, x):
        return (unit_rms(x.float()) * self.weight).to(x.dtype)


def linear(inputs, outputs, std=0.0, bias=False):
    """A projection that begins with random weights of deviation `std`, and a bias of zero."""
    layer = nn.Linear(inputs, outputs, bias=bias)
    nn.init.normal_(layer.weight, std=std)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


class Projections(nn.Module):
    """in_proj and out_proj of an encoder layer's attention or FFN."""

    def __init__(self, d, inner, fused):
        super().__init__()
        self.in_proj, self.out_proj = linear(d, fused * inner, 0.7 / d ** 0.5), linear(inner, d, 0.24 / d ** 0.5)


class EncoderLayer(nn.Module):
    def __init__(self, d, inner, ffn):
        super().__init__()
        self.attn_norm, self.attn = Norm(d), Projections(d, inner, 3)
        self.ffn_norm, self.ffn = Norm(d), Projections(d, ffn, 2)


class Encoder(nn.Module):
    """Bidirectional layers over a CLS row and S token rows; one for blocks and queries, which differ in the CLS row."""

    def __init__(self, config, base):
        super().__init__()
        self.head_dim = base.head_dim
        self.cls = nn.Parameter(0.02 * torch.randn(2, base.d))
        self.layers = nn.ModuleList(EncoderLayer(base.d, base.heads * base.head_dim, config["encoder_ffn"])
                                    for _ in range(config["encoder_layers"]))
        self.out_norm = Norm(base.d)
        tables = rope_turns(config["chunk_tokens"] + 1, base.head_dim, base.config["rope_theta"])
        for name, table in zip(("cosines", "sines"), tables):
            self.register_buffer(name, table, persistent=False)

    def forward(self, rows, valid, role):
        """rows [M, S, d] of the residual stream, valid bool [M, S], role BLOCK or QUERY -> (CLS [M, d], rows [M, S, d])."""
        x = torch.cat([self.cls[role].to(rows.dtype).expand(len(rows), 1, -1), unit_rms(rows)], 1)
        seen = F.pad(valid, (1, 0), value=True)[:, None, None, :]
        turns = self.cosines, self.sines
        for layer in self.layers:
            q, k, v = (y.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
                       for y in layer.attn.in_proj(layer.attn_norm(x)).chunk(3, -1))
            y = F.scaled_dot_product_attention(rotate(q, turns), rotate(k, turns), v, attn_mask=seen)
            x = x + layer.attn.out_proj(y.transpose(1, 2).flatten(2))
            gate, up = layer.ffn.in_proj(layer.ffn_norm(x)).chunk(2, -1)
            x = x + layer.ffn.out_proj(F.silu(gate) * up)
        x = self.out_norm(x)
        return x[:, 0], x[:, 1:]


class Words(nn.Module):
    """Weights of the words of blocks (key) and queries: softplus of what the row says and of what the word alone says."""

    def __init__(self, d, words):
        super().__init__()
        self.key_proj, self.query_proj = linear(d, 1), linear(d, 1)
        self.key_bias, self.query_bias = nn.Parameter(torch.zeros(words)), nn.Parameter(torch.zeros(words))


class Score(nn.Module):
    """How a block's dense and sparse parts are added up, the score of nothing, and what a successor's score is less."""

    def __init__(self, d):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([2.5, -0.4]))  # logarithms
        self.mix, self.nothing = linear(d, 2, bias=True), linear(d, 1, bias=True)
        self.successor = nn.Parameter(torch.tensor([2.0]))


class Gca(nn.Module):
    """Grouped cross-attention of one layer; begins as a copy of the layer's self-attention with a small gate."""

    def __init__(self, base, i):
        super().__init__()
        self.query_norm, self.key_norm = Norm(base.d), Norm(base.d)
        inner, kv = base.heads * base.head_dim, base.kv_heads * base.head_dim
        self.q_proj, self.out_proj = linear(base.d, inner), linear(inner, base.d)
        self.k_proj, self.v_proj = linear(base.d, kv), linear(base.d, kv)
        self.gate = nn.Parameter(torch.full((base.heads,), 0.3))
        with torch.no_grad():
            for mine, its in ((self.query_norm, "attn_norm"), (self.key_norm, "attn_norm"), (self.q_proj, "q"), (self.k_proj, "k"),
                              (self.v_proj, "v"), (self.out_proj, "o")):
                mine.weight.copy_(base.layers[i][its])


class Layer(nn.Module):
    def __init__(self, base, i):
        super().__init__()
        self.gca = Gca(base, i)


class Pointer(nn.Module):
    """Copies a token of a chosen block: a row's query against what stood before each token. Both sides are states of the same layer
    of the same model, so that it copies before any training, when both projections are equal."""

    def __init__(self, d, width):
        super().__init__()
        self.key_proj, self.query_proj = linear(d, width, 1.44 / d ** 0.5), linear(d, width)
        self.query_proj.weight.data.copy_(self.key_proj.weight)
        self.scale, self.evidence = nn.Parameter(torch.tensor([0.5])), nn.Parameter(torch.tensor([0.1]))
        self.gate = linear(d, 1, bias=True)
        nn.init.constant_(self.gate.bias, -1.5)


class Adapter(nn.Module):
    """config: memory.json; base: the frozen model (base.py), whose attention the GCA layers begin as."""

    def __init__(self, config, base):
        super().__init__()
        self.config, self.head_dim, self.kv_heads = config, base.head_dim, base.kv_heads
        self.encoder = Encoder(config, base)
        self.states_proj = linear(base.d, base.d)
        self.landmark_proj, self.query_proj = linear(base.d, config["d_r"], 0.96 / base.d ** 0.5), linear(base.d, config["d_r"])
        self.query_proj.weight.data.copy_(self.landmark_proj.weight)
        self.words, self.score = Words(base.d, config["words"]), Score(base.d)
        self.layers = nn.ModuleDict({str(i): Layer(base, i) for i in config["gca_layers"]})
        self.pointer = Pointer(base.d, config["d_pointer"])

    @torch.no_grad()
    def seed_words(self, idf):
        """Makes the product of a word's two weights its idf. idf: fp32 [words], above zero."""
        bias = torch.log(torch.expm1(idf.sqrt()))
        self.words.key_bias.copy_(bias)
        self.words.query_bias.copy_(bias)

    def encode_blocks(self, rows, words, valid):
        """rows [M, S, d], word numbers [M, S], valid bool [M, S] -> (landmark keys [M, d_r] of length 1, word weights [M, S],
        chunk states [M, S, d]). Rows that are not valid have the weight 0; their states mean nothing."""
        cls, r = self.encoder(rows, valid, BLOCK)
        return *self.block_keys(cls, r, words, valid), rows + self.states_proj(r)

    def block_keys(self, cls, r, words, valid):
        """Landmark keys and word weights, as encode_blocks, from the encoder's CLS [M, d] and rows [M, S, d]."""
        weights = F.softplus(self.words.key_proj(r)[..., 0].float() + self.words.key_bias[words]) * valid
        return F.normalize(self.landmark_proj(cls).float(), dim=-1), weights

    def encode_queries(self, rows, words, valid):
        """Of the last S rows before a landmark, right-aligned: rows [B, S, d], word numbers [B, S], valid bool [B, S] ->
        (queries [B, d_r] and word weights [B, S], both scaled so that a block's score is the sum of both parts; score of nothing [B])."""
        return self.query_keys(*self.encoder(rows, valid, QUERY), words, valid)

    def query_keys(self, cls, r, words, valid):
        """As encode_queries, from the encoder's CLS [B, d] and rows [B, S, d]."""
        scale = (self.score.mix(cls).float() + self.score.scale).exp()
        weights = F.softplus(self.words.query_proj(r)[..., 0].float() + self.words.query_bias[words]) * valid
        q = F.normalize(self.query_proj(cls).float(), dim=-1)
        return q * scale[:, :1], weights * scale[:, 1:], self.score.nothing(cls).float()[:, 0]

    def scores(self, q, query_words, query_weights, keys, words, weights):
        """Of M blocks for B queries, [B, M]: q [B, d_r] . keys [M, d_r] + the sum over pairs of rows with the same word of the product
        of their weights; query_words, query_weights [B, S]; words, weights [M, S]."""
        of_word = q.new_zeros(len(q), self.config["words"]).scatter_add(1, query_words, query_weights)
        # A few thousand blocks at a time, since there is a number for each query and each row of a block.
        sparse = [(of_word[:, w.flatten()].unflatten(1, w.shape) * k).sum(-1) for w, k in zip(words.split(4096), weights.split(4096))]
        with torch.autocast(q.device.type, enabled=False):
            return q @ keys.T + torch.cat(sparse, 1)

    def memory_kv(self, i, states):
        """K, V [B, K, G, S + 1, dh] of GCA in layer i from chunk states [B, K, S, d]; row 0 is zero, which makes the softmax off by one."""
        gca = self.layers[str(i)].gca
        x = gca.key_norm(states)
        return tuple(F.pad(proj(x).unflatten(-1, (self.kv_heads, -1)).transpose(2, 3), (0, 0, 1, 0)) for proj in (gca.k_proj, gca.v_proj))

    def cross(self, i, a, kv, valid, weights):
        """GCA of layer i: a [B, T, d] the residual stream after self-attention; kv as memory_kv has it; valid bool [B, K, S];
        weights [B, K] -> what is added to the residual stream, [B, T, d]."""
        gca = self.layers[str(i)].gca
        B, T, _ = a.shape
        q = gca.q_proj(gca.query_norm(a)).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
        H = q.shape[1]
        k, v = (x.flatten(0, 1).repeat_interleave(H // self.kv_heads, 1) for x in kv)
        q = q[:, None].expand(-1, weights.shape[1], -1, -1, -1).flatten(0, 1)
        seen = F.pad(valid, (1, 0), value=True).flatten(0, 1)[:, None, None, :]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen).unflatten(0, (B, -1))
        y = torch.einsum("be,behtd->bthd", weights.to(y.dtype), y) * gca.gate.to(y.dtype)[:, None]
        return gca.out_proj(y.flatten(2))

    def pointer_keys(self, before):
        """[..., d_p] of rows [..., d] of the residual stream after the lower layers: of the position before the one that is copied."""
        return unit_rms(self.pointer.key_proj(unit_rms(before)))

    def pointer_scores(self, low, keys):
        """Likeness of T rows of each session, low [B, T, d] after the lower layers, to places: keys [B, K, S, d_p] -> [B, T, K, S]."""
        query = unit_rms(self.pointer.query_proj(unit_rms(low))).float()
        with torch.autocast(low.device.type, enabled=False):
            return torch.einsum("btp,bksp->btks", query, keys.float()) * (self.pointer.scale.exp() / math.sqrt(query.shape[-1]))

    def point(self, scores, top, valid, weights):
        """Where n rows would copy from. scores [n, K, S] as pointer_scores has them, top [n, d] the residual stream after the last layer,
        valid bool [n, K, S] where there is a key, weights [n, K] -> (shares of the places [n, K, S] in logarithms, logit of the gate [n]).
        Without any key the gate is closed."""
        s = (scores + torch.log(weights + SMALLEST_WEIGHT)[..., None]).masked_fill(~valid, float("-inf"))
        z = s.flatten(1).logsumexp(1)
        nowhere, z = z.isinf(), z.masked_fill(z.isinf(), 0)
        gate = self.pointer.gate(unit_rms(top)).float()[:, 0] + self.pointer.evidence * (z - PLENTY)
        return s - z[:, None, None], gate.masked_fill(nowhere, float("-inf"))

    @staticmethod
    def mix(own, shares, gate, tokens, floor=0.0):
        """Logarithms of the mixture's probabilities [n, vocabulary]: own [n, vocabulary] log probabilities of the base's head, shares
        and gate as `point` has them, tokens [n, K, S] that stand at the places. floor: what training adds to the probability of each
        copied token, so that there is a gradient where none is copied."""
        copied = torch.zeros_like(own).scatter_add(1, tokens.flatten(1), shares.exp().flatten(1)) + floor
        return torch.logaddexp(F.logsigmoid(-gate)[:, None] + own, F.logsigmoid(gate)[:, None] + copied.log())

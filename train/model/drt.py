"""The flagship model in the form the trainer needs: whole sequences, fixed shapes, one graph.

Formulas: docs/model-format.md. The plain version without batching tricks is oracle.py; a test compares
the two. The weights: modules.py. Layout of a batch: `B` sequences of `T` contiguous positions, cut into at most `N` blocks each.
Tensors over blocks have `B * N` rows; a block that does not exist has length 0.
Letters: H heads, dh head width, D = H * dh, M = B * N chunks of the batch, Q keys of the queue, d_x width of the
lexicon, d_k = d_r + d_x width of keys and queries.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

from model import ops
from model.modules import Encoder, Group, Layer, Linear, Memory, Norm, Pointer

ROWS = 64  # rows of a block: landmark + 63 tokens; rows of a chunk memory: the zero row + 63 tokens
TILE = 128  # queries of one tile of local attention
TURNS = 1024  # positions whose RoPE tables are kept


def layer_plan(c):
    """[(group or None, gca)] for every layer, in order."""
    plan = [(None, False)] * c["n_low"]
    for g, group in enumerate(c["groups"]):
        plan += [(g, j in group["gca_layers"]) for j in range(group["layers"])]
    return plan


def check_trainable(c):
    """Weights can be made for any config of the flagship; what runs them here knows fewer patterns than the oracle."""
    local = c["local"]
    if local["window"] > TILE or local.get("initial", 0):
        raise SystemExit(f"local.window is {local['window']} and local.initial {local.get('initial', 0)}, "
                         f"this training form has windows up to {TILE} and no initial positions")


class Model(nn.Module):
    def __init__(self, c, dtype=torch.float32):
        super().__init__()
        self.c, self.dtype = c, dtype
        self.memory_on = True  # off: the trunk alone, as while a run reads text first
        self.plan = layer_plan(c)
        self.embed = nn.Embedding(c["vocab_size"], c["d"])
        nn.init.normal_(self.embed.weight, std=0.04)
        self.layers = nn.ModuleList(Layer(c, gca) for _, gca in self.plan)
        self.groups = nn.ModuleList(Group(c) for _ in c["groups"])
        self.encoder = Encoder(c)
        self.landmark_proj = Linear(c["d"], c["d_r"], 1.0)
        if c.get("lexicon"):
            self.lexicon = nn.Embedding(c["vocab_size"], c["lexicon"]["d"])
        self.memory = Memory(c)
        if c.get("pointer"):
            self.pointer = Pointer(c)
        self.final_norm = Norm(c["d"], c["norm_eps"])
        # Kept, since a compiled graph would compute them anew for every element that they turn.
        for name, table in zip(("cosines", "sines"), self.turns(TURNS)):
            self.register_buffer(name, table, persistent=False)
        self.align()

    @torch.no_grad()
    def align(self):
        """Initial values by which a landmark key begins as the mean of its chunk's tokens and a query as the mean of the
        last few tokens before the landmark: relevance starts as overlap of words (best of 5 candidates in 0.49 of the
        questions before any training, 0.12 by chance), and cross-attention as matching of like tokens."""
        c = self.c
        inner, d = c["heads"] * c["head_dim"], c["d"]
        turn = lambda: nn.init.orthogonal_(torch.empty(inner, d))
        half = inner // 2
        for layer in self.layers:
            w = layer.mixer.in_proj.weight
            # Half of the heads look at themselves (equal q and k), so that the recurrence alone mixes tokens at first. Not
            # all of them: a softmax that sure passes no gradient, and attention never learns to look elsewhere.
            mirror = turn()[:half]
            w[inner:inner + half], w[2 * inner:2 * inner + half] = mirror * 1.2, mirror * 2.4
            w[3 * inner:4 * inner] = turn()
            layer.mixer.gate_bias[:half] = 1.0
            layer.mixer.gate_bias[half:] = torch.linspace(-4.0, 2.0, c["head_dim"]).repeat(c["heads"] - c["heads"] // 2)
            layer.mixer.out_proj.weight.copy_(w[3 * inner:4 * inner].T * 0.3)
            layer.ffn.out_proj.weight.mul_(0.2)
        for layer in self.encoder.layers:
            w = layer.attn.in_proj.weight
            w[2 * inner:] = turn()
            layer.attn.out_proj.weight.copy_(w[2 * inner:].T)
            layer.ffn.out_proj.weight.mul_(0.2)
        # What is the same in every chunk (CLS) and every query (the landmark's embedding) tells nothing apart.
        identity = torch.eye(max(d, c["d_r"]))[:c["d_r"], :d]
        without = lambda v: identity - (identity @ F.normalize(v, dim=0))[:, None] * F.normalize(v, dim=0)
        self.landmark_proj.weight.copy_(without(self.encoder.cls))
        for group in self.groups:
            group.query_proj.weight.copy_(without(self.embed.weight[c["lmk_id"]]))
        if c["memory_kv_heads"] == c["heads"]:
            self.memory.k_proj.weight.copy_(turn())
            self.memory.v_proj.weight.copy_(turn())
            for layer in self.layers:
                if hasattr(layer, "gca"):
                    layer.gca.q_proj.weight.copy_(self.memory.k_proj.weight)
                    layer.gca.out_proj.weight.copy_(self.memory.v_proj.weight.T * 0.5)

    def turns(self, length):
        """(cos, sin), each [length, dh/2] fp32 on the CPU; angles in double."""
        half = self.c["head_dim"] // 2
        frequency = self.c["rope_base"] ** (-torch.arange(half, dtype=torch.float64) / half)
        angle = torch.arange(length, dtype=torch.float64)[:, None] * frequency
        return angle.cos().float(), angle.sin().float()

    def rope_tables(self, length):
        """(cos, sin), each [length, dh/2] fp32."""
        if length > TURNS:
            return tuple(table.to(self.cosines.device) for table in self.turns(length))
        return self.cosines[:length], self.sines[:length]

    @staticmethod
    def rotate(x, cos, sin):
        """RoPE on x [..., T, H, dh] with tables [T, 1, dh/2]."""
        a, b = x.chunk(2, -1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    def local_attention(self, q, k, v, dilated, biases):
        """q, k, v [B, T, H, dh]; dilated [B, KD] positions of dilated keys (>= T: none);
        biases: (window bias [T/TILE, TILE, 2 TILE], dilated bias [B, 1, T/TILE, TILE, KD]). -> [B, T, D]."""
        B, T, H, dh = q.shape
        tiles, KD = T // TILE, dilated.shape[1]
        q, k, v = (x.transpose(1, 2) for x in (q * dh ** -0.5, k, v))
        rows = dilated.clamp(max=T - 1)[:, None, :, None].expand(B, H, KD, dh)
        kd, vd = k.gather(2, rows), v.gather(2, rows)

        def pairs(x):
            x = F.pad(x, (0, 0, TILE, 0)).reshape(B, H, tiles + 1, TILE, dh)
            return torch.cat([x[:, :, :-1], x[:, :, 1:]], 3)

        s_near = q.reshape(B, H, tiles, TILE, dh) @ pairs(k).transpose(-1, -2)
        s_far = (q @ kd.transpose(-1, -2)).reshape(B, H, tiles, TILE, KD)
        s = torch.cat([s_near.float() + biases[0], s_far.float() + biases[1]], -1)
        p = s.softmax(-1).to(self.dtype)
        y = p[..., :2 * TILE] @ pairs(v) + (p[..., 2 * TILE:].reshape(B, H, T, KD) @ vd).reshape(B, H, tiles, TILE, dh)
        return y.reshape(B, H, T, dh).transpose(1, 2).reshape(B, T, H * dh)

    def attention_biases(self, dilated, T):
        """The two additive masks of A(t) = {t-W..t} + {dilated p in [t-C, t-W)}."""
        local, device = self.c["local"], dilated.device
        t = torch.arange(T, device=device).reshape(-1, TILE, 1)
        p = t[:, :1] - TILE + torch.arange(2 * TILE, device=device)
        near = (p >= 0) & (p <= t) & (p >= t - local["window"])
        far = dilated[:, None, None, None, :]
        far = (far < t - local["window"]) & (far >= t - local["span"])
        zero = torch.zeros((), device=device)
        return tuple(torch.where(m, zero, -1e9) for m in (near, far))

    def mix(self, layer, h, rope, dilated, biases):
        """h + mixer(RMS(h)), h [B, T, d] fp32."""
        B, T, _ = h.shape
        H, dh = self.c["heads"], self.c["head_dim"]
        o, q, k, v, g = layer.mixer.in_proj(layer.mixer_norm(h), self.dtype).chunk(5, -1)
        k, v = k.float(), v.float()
        if self.c["recurrence"]:
            g = torch.sigmoid(g.float() + layer.mixer.gate_bias)
            k, v = ops.scan(g, k), ops.scan(g, v)
        q = self.rotate(q.float().reshape(B, T, H, dh), *rope).to(self.dtype)
        k = self.rotate(k.reshape(B, T, H, dh), *rope).to(self.dtype)
        y = self.local_attention(q, k, v.reshape(B, T, H, dh).to(self.dtype), dilated, biases)
        return h + layer.mixer.out_proj(torch.sigmoid(o.float()).to(self.dtype) * y, self.dtype).float()

    def encode(self, rows, lengths):
        """rows [M, 64, d] (landmark first), lengths [M] tokens -> landmark keys [M, d_r] fp32,
        K and V [M, Hkv, 64, dh] in the compute dtype with row 0 zero."""
        H, dh, M = self.c["heads"], self.c["head_dim"], rows.shape[0]
        enc = self.encoder
        first = enc.cls.expand(M, 1, -1)
        if self.c.get("encoder_carry"):
            landmark = rows[:, :1]
            landmark = landmark * torch.rsqrt(landmark.square().mean(-1, keepdim=True) + self.c["norm_eps"])
            first = first + enc.carry_proj(landmark, self.dtype).float()
        x = torch.cat([first, rows[:, 1:]], 1)
        x = enc.in_norm(x)
        cos, sin = self.rope_tables(ROWS)
        cos, sin = cos[:, None], sin[:, None]
        missing = torch.arange(ROWS, device=rows.device)[None, :] > lengths[:, None]
        bias = torch.where(missing, -1e9, torch.zeros((), device=rows.device))[:, None, None, :]
        for layer in enc.layers:
            q, k, v = layer.attn.in_proj(layer.attn_norm(x), self.dtype).reshape(M, ROWS, 3, H, dh).unbind(2)
            q = self.rotate(q.float(), cos, sin) * dh ** -0.5
            k = self.rotate(k.float(), cos, sin)
            s = q.transpose(1, 2).to(self.dtype) @ k.permute(0, 2, 3, 1).to(self.dtype)
            y = (s.float() + bias).softmax(-1).to(self.dtype) @ v.transpose(1, 2)
            x = x + layer.attn.out_proj(y.transpose(1, 2).reshape(M, ROWS, H * dh), self.dtype).float()
            x = x + layer.ffn(layer.ffn_norm(x), self.dtype)
        x = enc.out_norm(x)
        key = self.landmark_proj(x[:, 0], self.dtype).float()
        key = key * torch.rsqrt(key.square().mean(-1, keepdim=True) + self.c["norm_eps"])
        states = x[:, 1:]
        k, v = self.memory.k_proj(states, self.dtype).float(), self.memory.v_proj(states, self.dtype)
        if self.c["memory_key_recurrence"]:
            k = ops.scan(torch.sigmoid(self.memory.gate_proj(states, self.dtype).float()), k)
        heads = self.c["memory_kv_heads"]
        k, v = (F.pad(y.to(self.dtype), (0, 0, 1, 0)).reshape(M, ROWS, heads, dh).transpose(1, 2) for y in (k, v))
        return key, k.contiguous(), v.contiguous()

    @torch.no_grad()
    def seed_lexicon(self, idf):
        """Rows of random directions, longer for rarer tokens: a count sketch, by which words that a chunk and a query share make
        it relevant before any training. idf [vocab_size], 0 for ids that no text has; of a text's tokens the mean square is 1."""
        rows = torch.randn(self.lexicon.weight.shape, generator=torch.Generator().manual_seed(5))
        # 4 a token: 16 tokens copied from a chunk then outweigh what other chunks share with them by chance by about 4 nats.
        self.lexicon.weight.copy_(4 * rows / math.sqrt(rows.shape[1]) * idf[:, None])

    @torch.no_grad()
    def seed_pointer(self, idf):
        """What counts for a match at first, and a sentinel that knows nothing yet. idf as seed_lexicon takes it."""
        self.pointer.rarity.copy_(idf.clamp(min=0.3))
        self.embed.weight[self.c["unk_id"]] = 0

    def lexical(self, batch):
        """The lexical parts: of the keys, RMS-normalised, [M, d_x], and of the tokens before each landmark [M, reach, d_x]."""
        rows = self.lexicon(batch["tokens"]).reshape(-1, self.c["lexicon"]["d"])
        rows = F.pad(rows, (0, 0, 0, 1)) * F.pad((batch["tokens"] != self.c["lmk_id"]).reshape(-1, 1).float(), (0, 0, 0, 1))
        take = lambda index: ops.gather(rows, index).reshape(*index.shape, -1)
        key = take(batch["block_rows"]).sum(1)
        return key * torch.rsqrt(key.square().mean(-1, keepdim=True) + self.c["norm_eps"]), take(batch["recent"])

    def retrieve(self, group, h_landmark, recent, keys, batch, noise):
        """One group's retrieval. h_landmark [M, d], recent [M, reach, d_x] or None, keys [M + Q, d_k], noise [M, M + Q] or 0 -> (selected [M, n_ret],
        weights [M, n_ret], retrieval loss per query with a known gold chunk, (weight on gold, hit) per query)."""
        u = group.query_proj(group.query_norm(h_landmark), torch.float32)
        if recent is not None:
            u = torch.cat([u, (recent * group.recency[:, None]).sum(1)], -1)
        r = (u @ keys.T) / math.sqrt(keys.shape[1])
        r = r.masked_fill(~batch["allow"], -1e9)
        if self.c.get("successors"):
            before = F.pad(r[:, :-1], (1, 0), value=-1e9) + group.successor_bias.clamp(max=0)
            r = torch.where(batch["follows"] & batch["allow"], torch.maximum(r, before), r)
        selected = (r.detach() + noise).topk(self.c["n_ret"], -1).indices
        r_sel, valid = r.gather(1, selected), batch["allow"].gather(1, selected)
        w = r_sel.softmax(-1) * valid
        gold = batch["gold"]
        # Every chunk with a part of the value, and no other: the chunk that only names what it is about is of no use to the answer.
        log_p = r.log_softmax(-1)
        loss = -(gold * log_p).sum(-1)
        on_gold = w.detach() * (gold.gather(1, selected) > 0)
        return selected, w, loss, torch.stack([on_gold.sum(-1), (on_gold > 0).any(-1).float()])

    def cross(self, layer, a, selected, w, memory, batch):
        """GCA of the tokens of every block on its selected chunks. a [B, T, d]; memory: K, V and the chunks' lengths.
        -> ([B, T, d] fp32, share of its attention [M, 64] that each row of a block gives, over heads, to the state that the
        row's successor is to be copied from: batch["copy_chunk"], batch["copy_row"], where that chunk is selected)."""
        k, v, lengths = memory
        B, T, d = a.shape
        H, dh, n = self.c["heads"], self.c["head_dim"], self.c["n_ret"]
        M, kv_heads = k.shape[0], k.shape[1]
        q = layer.gca.q_proj(layer.gca.norm(a), self.dtype).reshape(B * T, H * dh) * dh ** -0.5
        q = ops.gather(F.pad(q, (0, 0, 0, 1)), batch["block_rows"]).reshape(-1, ROWS, H, dh).transpose(1, 2)
        # Keys of the queue come without states: they read as one more chunk, all zero, of no rows.
        chunk = selected.clamp(max=M)
        head = torch.arange(H, device=a.device) * kv_heads // H
        index = (chunk[:, None, :] * kv_heads + head[None, :, None]).reshape(-1)
        ks, vs = (ops.gather(F.pad(x.reshape(M * kv_heads, ROWS * dh), (0, 0, 0, kv_heads)), index)
                  .reshape(-1, H, n * ROWS, dh) for x in (k, v))
        length = F.pad(lengths, (0, 1))[chunk]
        missing = torch.arange(ROWS, device=a.device) > length[..., None]
        s = (q @ ks.transpose(-1, -2)).reshape(-1, H, ROWS, n, ROWS).float()
        p = s.masked_fill(missing[:, None, None], -1e9).softmax(-1)
        row = batch["copy_row"][:, None, :, None, None].expand(-1, H, ROWS, n, 1)
        here = (selected[:, None, :] == batch["copy_chunk"][:, :, None]).float()
        copied = (p.gather(-1, row)[..., 0].mean(1) * here).sum(-1)
        y = (p * w[:, None, None, :, None]).to(self.dtype).reshape(-1, H, ROWS, n * ROWS) @ vs
        y = y.transpose(1, 2).reshape(-1, H * dh)
        return layer.gca.out_proj(ops.gather(y, batch["token_rows"]).reshape(B, T, H * dh), self.dtype).float(), copied

    def forward(self, batch):
        """Hidden states and retrieval facts. batch: see batches.py. -> (h [B, T, d], facts dict)."""
        B, T = batch["tokens"].shape
        h = self.embed(batch["tokens"])
        cos, sin = self.rope_tables(T)
        rope = (cos[:, None], sin[:, None])
        biases = self.attention_biases(batch["dilated"], T)
        k = v = lengths = selected = w = keys = recent = None
        losses, golds, copied = [], [], []
        seen_group = None
        memory = self.memory_on
        for i, (group, gca) in enumerate(self.plan):
            layer = self.layers[i]
            if memory and i == self.c["n_low"]:
                flat = F.pad(h.reshape(B * T, -1), (0, 0, 0, 1))
                own_keys, k, v = self.encode(
                    ops.gather(flat, batch["block_rows"]).reshape(-1, ROWS, self.c["d"]), batch["lengths"])
                if self.c.get("lexicon"):
                    lexical_keys, recent = self.lexical(batch)
                    own_keys = torch.cat([own_keys, lexical_keys], -1)
                keys, lengths = torch.cat([own_keys, batch["queue"]]), batch["lengths"]
            if memory and group is not None and group != seen_group:
                seen_group = group
                flat = F.pad(h.reshape(B * T, -1), (0, 0, 0, 1))
                selected, w, loss, on_gold = self.retrieve(
                    self.groups[group], ops.gather(flat, batch["landmarks"]), recent, keys, batch,
                    batch["noise"][group] if "noise" in batch else 0.0)
                losses.append(loss)
                golds.append(on_gold)
            a = self.mix(layer, h, rope, batch["dilated"], biases)
            if not (gca and memory):
                h = a + layer.ffn(layer.ffn_norm(a), self.dtype)
                continue
            x, share = self.cross(layer, a, selected, w, (k, v, lengths), batch)
            copied.append(share)
            base = a + x if self.c["gca_residual"] == "add" else a
            h = base + layer.ffn(layer.ffn_norm(a + x), self.dtype)
        facts = {}
        if memory:
            facts = {"retrieval_loss": torch.stack(losses), "on_gold": torch.stack(golds), "keys": own_keys.detach(),
                     "copied": torch.stack(copied), "selected": selected, "selected_weights": w}
        return h, facts

    def copies(self, selected, w, batch):
        """Where the pointer points. selected, w [M, n_ret] of the last group -> for every position of the batch and every row of its
        n_ret chunks: the score in nats, -1e9 where there is no such place, and the token that stands behind it, both [B T, n_ret 64]."""
        n, unk = self.c["n_ret"], -1
        before = F.pad(batch["before"], (0, 0, 0, 1), value=unk)
        tokens = F.pad(batch["tokens"].reshape(-1).int(), (0, 1), value=unk)
        # One more chunk, of no tokens: keys of the queue come without any.
        context = F.pad(before[batch["block_rows"]], (0, 0, 0, 0, 0, 1), value=unk)
        behind = F.pad(tokens[F.pad(batch["block_rows"][:, 1:], (0, 1), value=len(tokens) - 1)], (0, 0, 0, 1), value=unk)
        block = batch["token_rows"] // ROWS
        chunk = selected.clamp(max=len(context) - 1)[block]
        behind = behind[chunk].reshape(len(chunk), n * ROWS)
        query = before[:len(chunk)]
        rarity = self.pointer.rarity[query.clamp(min=0)] * (query >= 0)
        score = w.clamp(min=1e-6).log()[block].repeat_interleave(ROWS, 1)
        run = None
        for j in range(query.shape[1]):
            same = context[:, :, j][chunk].reshape(len(chunk), n * ROWS) == query[:, j, None]
            run = same if run is None else run & same
            score = score + rarity[:, j, None] * (same * self.pointer.overlap[j] + run * self.pointer.run[j])
            first = same if j == 0 else first
        there = first & (behind >= 0) & (w[block] > 0).repeat_interleave(ROWS, 1) & (query[:, :1] >= 0)
        return score.masked_fill(~there, -1e9), behind

    def loss(self, batch):
        """(loss per position [B, T] unweighted, right [B, T] bool, facts)."""
        h, facts = self(batch)
        logits = F.linear(self.final_norm(h).to(self.dtype), self.embed.weight.to(self.dtype)).float()
        flat, targets = logits.reshape(-1, logits.shape[-1]), batch["targets"].reshape(-1)
        shape = batch["targets"].shape
        if not (facts and self.c.get("pointer")):
            nats = F.cross_entropy(flat, targets, reduction="none")
            return nats.reshape(shape), (flat.argmax(-1) == targets).reshape(shape), facts
        scores, behind = self.copies(facts["selected"], facts["selected_weights"], batch)
        # The sentinel: the logit of the id that no text has. What it takes of the softmax over places is left to the words' own.
        sentinel = flat[:, self.c["unk_id"]]
        no_unk = F.one_hot(torch.tensor(self.c["unk_id"], device=flat.device), flat.shape[1]).bool()
        own = flat.masked_fill(no_unk, -1e9).log_softmax(-1)
        total = torch.logaddexp(sentinel, scores.logsumexp(-1))
        to_target = scores.masked_fill(behind != targets[:, None], -1e9).logsumexp(-1)
        nats = total - torch.logaddexp(sentinel + own.gather(1, targets[:, None])[:, 0], to_target)
        with torch.no_grad():
            share = (scores - total[:, None]).exp()
            p = (own + (sentinel - total)[:, None]).exp().scatter_add(1, behind.clamp(min=0).long(), share)
            right = p.argmax(-1) == targets
            facts["pointed"] = share.sum(-1).reshape(shape)
        return nats.reshape(shape), right.reshape(shape), facts

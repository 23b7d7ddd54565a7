"""The numerical oracle: the model of docs/model-format.md written plainly, in fp32.

Two forms that must agree: `Oracle.forward` over a whole laid-out sequence, and `Decoder`, which takes one
position at a time and keeps only what a server would keep. Not for training (model.py) nor for speed.
Letters: T positions, H heads, dh head width, D = H * dh, N blocks, K selected chunks.
"""

from dataclasses import dataclass, field, replace

import torch
import torch.nn.functional as F

from data.blocks import BLOCK_TOKENS, document_blocks


def stored(x):
    """Rounded to bf16 as in the store, back in fp32."""
    return x.float().bfloat16().float()


@dataclass
class Chunk:
    """One stored chunk: landmark key [d_k], states E [rows, d], memory K, V [rows, Dkv], all bf16 values in fp32; its number
    in its document or session; its tokens, and those before it that a pointer may look at."""

    key: torch.Tensor
    states: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    index: int = 0
    tokens: list = field(default_factory=list)
    before: list = field(default_factory=list)


@dataclass
class Layout:
    """Ids of all positions, landmarks included, and the positions where blocks start."""

    ids: list = field(default_factory=list)
    starts: list = field(default_factory=list)


def lay_out(events, lmk_id):
    """Positions of a session. events: lists of token ids and the string "flush". A flush of a block without tokens
    does nothing; a full block is followed by the next landmark only when there is a next token or a flush."""
    out = Layout([lmk_id], [0])

    def open_block():
        out.starts.append(len(out.ids))
        out.ids.append(lmk_id)

    for event in events:
        if isinstance(event, str):
            if len(out.ids) - out.starts[-1] > 1:
                open_block()
            continue
        for token in event:
            if len(out.ids) - out.starts[-1] > BLOCK_TOKENS:
                open_block()
            out.ids.append(token)
    return out


class Oracle:
    """Weights (fp32 tensors by contract name) and config; all methods are pure."""

    def __init__(self, config, weights):
        self.c, self.w = config, {k: v.float() for k, v in weights.items()}
        self.plan = [(None, False)] * config["n_low"]
        for g, group in enumerate(config["groups"]):
            self.plan += [(g, j in group["gca_layers"]) for j in range(group["layers"])]
        self.pointer_reach = (config.get("pointer") or {"reach": 0})["reach"]

    def lin(self, x, name):
        return x @ self.w[name + ".weight"].to(x.dtype).T

    def norm(self, x, weight):
        y = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.c["norm_eps"])
        return y if weight is None else y * self.w[weight]

    def ffn(self, x, name):
        gate, up = self.lin(x, name + ".in_proj").chunk(2, -1)
        return self.lin(F.silu(gate) * up, name + ".out_proj")

    def rope(self, x, positions):
        """RoPE on x [T, H, dh] at absolute positions [T]; angles in double, half-split pairs."""
        half = x.shape[-1] // 2
        frequency = self.c["rope_base"] ** (-torch.arange(half, dtype=torch.float64) / half)
        angle = torch.as_tensor(positions, dtype=torch.float64)[:, None] * frequency
        cos, sin = angle.cos().float()[:, None], angle.sin().float()[:, None]
        a, b = x[..., :half], x[..., half:]
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    def heads(self, x, n):
        return x.reshape(x.shape[0], n, self.c["head_dim"])

    # -- local mixer

    def project(self, i, h):
        """o, q, k, v, g of layer i for h [T, d]; g after the bias, which not every family has, and the sigmoid (0 without recurrence)."""
        name = f"layers.{i}.mixer"
        x = self.norm(h, f"layers.{i}.mixer_norm.weight")
        o, q, k, v, g = self.lin(x, name + ".in_proj").chunk(5, -1)
        if name + ".gate_bias" in self.w:
            g = g + self.w[name + ".gate_bias"]
        g = torch.sigmoid(g) if self.c["recurrence"] else torch.zeros_like(g)
        return o, q, k, v, g

    @staticmethod
    def recur(g, x, state):
        """x~_t = g_t x~_{t-1} + (1 - g_t) x_t from `state` [D]; -> x~ [T, D]."""
        rows = []
        for t in range(x.shape[0]):
            state = g[t] * state + (1 - g[t]) * x[t]
            rows.append(state)
        return torch.stack(rows)

    def sees(self, t, p):
        """Whether position t attends to position p (tensors that broadcast)."""
        local = self.c["local"]
        near = (p <= t) & (p >= t - local["window"])
        far = (p < t - local["window"]) & (p >= t - local["span"]) & ((p + 1) % local["dilation"] == 0)
        return near | far | ((p <= t) & (p < local["initial"]))

    def attend(self, q, k, v, mask):
        """q [Tq, H, dh], k, v [Tk, H, dh], mask [Tq, Tk] or, by head, [H, Tq, Tk] -> [Tq, D]."""
        s = torch.einsum("qhd,khd->hqk", q, k) * self.c["head_dim"] ** -0.5
        p = s.masked_fill(~mask, float("-inf")).softmax(-1)
        return torch.einsum("hqk,khd->qhd", p, v).flatten(1)

    def mask(self, i, q, k):
        """What attends to what in layer i over a whole sequence, as `attend` takes it; q, k [T, H, dh] with their positions."""
        t = torch.arange(len(q))
        return self.sees(t[:, None], t[None])

    def mixer(self, i, h):
        """Mixer output of layer i over a whole sequence h [T, d]."""
        H, T = self.c["heads"], h.shape[0]
        o, q, k, v, g = self.project(i, h)
        zero = torch.zeros(k.shape[1])
        k, v = self.recur(g, k, zero), self.recur(g, v, zero)
        t = torch.arange(T)
        q, k = self.rope(self.heads(q, H), t), self.rope(self.heads(k, H), t)
        y = self.attend(q, k, self.heads(v, H), self.mask(i, q, k))
        return self.lin(torch.sigmoid(o) * y, f"layers.{i}.mixer.out_proj")

    # -- memory

    def encode(self, h, tokens, index, before):
        """Chunk `index` of its document or session: of a block's rows h [1 + n, d], landmark first (residual stream after the
        last lower layer), its n tokens, and what stands before them in the sequence."""
        H, n = self.c["heads"], h.shape[0] - 1
        first = self.w["encoder.cls"][None]
        if self.c.get("encoder_carry"):
            first = first + self.lin(self.norm(h[:1], None), "encoder.carry_proj")
        x = self.norm(torch.cat([first, h[1:]]), "encoder.in_norm.weight")
        rows = torch.arange(n + 1)
        everything = torch.ones(n + 1, n + 1, dtype=torch.bool)
        for i in range(self.c["encoder_layers"]):
            name = f"encoder.layers.{i}"
            q, k, v = self.lin(self.norm(x, name + ".attn_norm.weight"), name + ".attn.in_proj").chunk(3, -1)
            q, k = self.rope(self.heads(q, H), rows), self.rope(self.heads(k, H), rows)
            x = x + self.lin(self.attend(q, k, self.heads(v, H), everything), name + ".attn.out_proj")
            x = x + self.ffn(self.norm(x, name + ".ffn_norm.weight"), name + ".ffn")
        x = self.norm(x, "encoder.out_norm.weight")
        key = stored(self.norm(self.lin(x[0], "landmark_proj"), None))
        if self.c.get("lexicon"):
            lexical = self.add_up(self.w["lexicon.weight"][torch.tensor(tokens)])
            key = torch.cat([key, stored(self.norm(lexical, None))])
        return replace(self.expand(key, stored(x[1:])), index=index, tokens=list(tokens), before=self.recent(before, self.pointer_reach)[::-1])

    def recent(self, before, reach):
        """The last `reach` ids of `before`, landmarks not counted, from the last one back."""
        return [i for i in reversed(before) if i != self.c["lmk_id"]][:reach]

    @staticmethod
    def add_up(rows):
        """Sum of rows [n, width], the first one first."""
        total = torch.zeros(rows.shape[1])
        for row in rows:
            total = total + row
        return total

    def expand(self, key, states):
        """Chunk with its memory K, V computed from the stored states: in double, so that which way they are rounded hangs on no
        order of summation, and goldens stay close."""
        x = states.double()
        k, v = self.lin(x, "memory.k_proj"), self.lin(x, "memory.v_proj")
        if self.c["memory_key_recurrence"]:
            k = self.recur(torch.sigmoid(self.lin(x, "memory.gate_proj")), k, torch.zeros(k.shape[1]))
        return Chunk(key, states, stored(k), stored(v))

    def relevance(self, g, h, before, candidates):
        """Of each candidate to group g's query at one landmark: its row h [d] and the ids before it in the sequence."""
        u = self.lin(self.norm(h, f"groups.{g}.query_norm.weight"), f"groups.{g}.query_proj")
        if self.c.get("lexicon"):
            recent = self.recent(before, self.c["lexicon"]["reach"])
            recency = self.w[f"groups.{g}.recency"][:len(recent)]
            u = torch.cat([u, self.add_up(recency[:, None] * self.w["lexicon.weight"][torch.tensor(recent, dtype=torch.long)])])
        r = torch.stack([c.key for c in candidates]) @ u / len(u) ** 0.5
        if self.c.get("successors"):
            # Candidates are whole documents, then the first of the session's chunks: before a chunk that is not the first of
            # its own stands its predecessor. The bias is at most 0, so that nothing but the n_ret best can give a score that counts.
            given = r.roll(1) + self.w[f"groups.{g}.successor_bias"]
            r = torch.where(torch.tensor([c.index > 0 for c in candidates]), torch.maximum(r, given), r)
        return r

    def retrieve(self, g, h, before, candidates):
        """Group g's retrieval at one landmark, as `relevance`: (indices, weights, scores), best first, at most n_ret."""
        if not candidates:
            return [], torch.zeros(0), torch.zeros(0)
        r = self.relevance(g, h, before, candidates)
        order = sorted(range(len(candidates)), key=lambda e: (-r[e].item(), e))[:self.c["n_ret"]]
        return order, r[order].softmax(0), r[order]

    def gca(self, i, a, chunks, weights):
        """GCA of layer i for the rows a [n, d] of one block -> [n, d]."""
        if not chunks:
            return torch.zeros_like(a)
        H, kv = self.c["heads"], self.c["memory_kv_heads"]
        name = f"layers.{i}.gca"
        q = self.heads(self.lin(self.norm(a, name + ".norm.weight"), name + ".q_proj"), H)
        memory_head = torch.arange(H) * kv // H
        y = 0
        for chunk, weight in zip(chunks, weights):
            k, v = self.heads(chunk.k, kv)[:, memory_head], self.heads(chunk.v, kv)[:, memory_head]
            s = torch.einsum("qhd,khd->hqk", q, k) * self.c["head_dim"] ** -0.5
            top = s.amax(-1, keepdim=True).clamp(min=0)
            e = (s - top).exp()
            p = e / ((-top).exp() + e.sum(-1, keepdim=True))
            y = y + weight * torch.einsum("hqk,khd->qhd", p, v).flatten(1)
        return self.lin(y, name + ".out_proj")

    def finish_layer(self, i, a, x):
        """h' from a and the GCA output x (None in a layer without GCA)."""
        norm, ffn = f"layers.{i}.ffn_norm.weight", f"layers.{i}.ffn"
        if x is None:
            return a + self.ffn(self.norm(a, norm), ffn)
        base = a + x if self.c["gca_residual"] == "add" else a
        return base + self.ffn(self.norm(a + x, norm), ffn)

    def logits(self, h):
        return self.norm(h, "final_norm.weight") @ self.w["embed.weight"].T

    # -- pointer head

    def point(self, before, chunks, weights):
        """{token: score} of what the places of `chunks` that are like the end of `before` go on with."""
        recent, scores = self.recent(before, self.pointer_reach), {}
        for chunk, weight in zip(chunks, weights):
            line = [*chunk.before, *chunk.tokens]
            for at in range(len(chunk.before), len(line)):
                there = line[:at][::-1][:len(recent)]
                if not recent or not there or there[0] != recent[0]:
                    continue
                score, run = weight.clamp(min=1e-6).log(), True
                for j, token in enumerate(there):
                    run = run and token == recent[j]
                    if token == recent[j]:
                        counts = self.w["pointer.overlap"][j] + (self.w["pointer.run"][j] if run else 0)
                        score = score + self.w["pointer.rarity"][token] * counts
                old = scores.get(line[at], torch.tensor(float("-inf")))
                scores[line[at]] = torch.logaddexp(old, score)
        return scores

    def mix(self, logits, before, chunks, weights):
        """Logits [vocab] of one row with what the pointer adds: `before` are the ids up to this row, landmarks too."""
        if not self.pointer_reach:
            return logits
        sentinel, logits = logits[self.c["unk_id"]], logits.clone()
        logits[self.c["unk_id"]] = float("-inf")
        total = logits.logsumexp(-1)
        for token, score in self.point(before, chunks, weights).items():
            logits[token] = torch.logaddexp(logits[token], score + total - sentinel)
        return logits

    # -- whole sequences

    def lower(self, layout):
        """Residual stream [T, d] after the last lower layer."""
        h = self.w["embed.weight"][torch.tensor(layout.ids)]
        for i in range(self.c["n_low"]):
            h = self.finish_layer(i, h + self.mixer(i, h), None)
        return h

    def chunks(self, layout, h, closed):
        """The first `closed` blocks as chunks."""
        ends = layout.starts[1:] + [len(layout.ids)]
        return [self.encode(h[s:e], layout.ids[s + 1:e], i, layout.ids[:s]) for i, (s, e) in enumerate(list(zip(layout.starts, ends))[:closed])]

    def ingest(self, tokens, token_bytes=None):
        """Memory ingest of a document (token_bytes: as document_blocks takes them). -> list of Chunk."""
        events = [event for block in document_blocks(tokens, self.c.get("min_chunk_tokens", 0), token_bytes) for event in (block, "flush")]
        layout = lay_out(events[:-1], self.c["lmk_id"])
        if len(layout.ids) == 1:
            return []
        return self.chunks(layout, self.lower(layout), len(layout.starts))

    def forward(self, layout, mounted=()):
        """A whole sequence. mounted: lists of Chunk, in request order.
        -> (logits [T, vocab], own chunks, hits per group and block: (indices, weights, scores))."""
        h = self.lower(layout)
        own = self.chunks(layout, h, len(layout.starts) - 1)
        documents = [c for document in mounted for c in document]
        ends = layout.starts[1:] + [len(layout.ids)]
        hits, seen = [], None
        for i in range(self.c["n_low"], len(self.plan)):
            group, gca = self.plan[i]
            if group != seen:
                seen = group
                hits.append([([], torch.zeros(0), torch.zeros(0))] + [
                    self.retrieve(group, h[s], layout.ids[:s], documents + own[:b])
                    for b, s in enumerate(layout.starts[1:])])
            a, x = h + self.mixer(i, h), None
            if gca:
                blocks = []
                for b, (s, e) in enumerate(zip(layout.starts, ends)):
                    indices, weights, _ = hits[group][b]
                    candidates = documents + own[:max(0, b - 1)]
                    blocks.append(self.gca(i, a[s:e], [candidates[j] for j in indices], weights))
                x = torch.cat(blocks)
            h = self.finish_layer(i, a, x)
        rows = []
        for b, ((indices, weights, _), s, e) in enumerate(zip(hits[-1], layout.starts, ends)):
            candidates = documents + own[:max(0, b - 1)]
            chunks = [candidates[j] for j in indices]
            rows += [self.mix(z, layout.ids[:s + r + 1], chunks, weights) for r, z in enumerate(self.logits(h[s:e]))]
        return torch.stack(rows), own, hits


class Decoder:
    """One position at a time, with bounded state: per layer the visible keys and values and two recurrence vectors,
    the rows of the open block, and the last tokens. Same logits as `Oracle.forward`."""

    def __init__(self, oracle, mounted=()):
        self.o, self.documents, self.own = oracle, [c for d in mounted for c in d], []
        inner = oracle.c["heads"] * oracle.c["head_dim"]
        self.state = [(torch.zeros(inner), torch.zeros(inner)) for _ in oracle.plan]
        self.cache = [[] for _ in oracle.plan]
        self.position, self.block, self.rows, self.hits = 0, -1, [], {}
        self.kept = max(BLOCK_TOKENS + oracle.pointer_reach, (oracle.c.get("lexicon") or {"reach": 0})["reach"])
        self.tokens = []

    def mixer(self, i, h):
        o, q, k, v, g = self.o.project(i, h)
        H = self.o.c["heads"]
        k, v = (self.o.recur(g, x, s) for x, s in zip((k, v), self.state[i]))
        self.state[i] = (k[0], v[0])
        here = [self.position]
        self.cache[i].append((self.position, self.o.rope(self.o.heads(k, H), here), self.o.heads(v, H)))
        t = torch.tensor(self.position)
        # What this position does not see, no later one will: the pattern only ever drops positions.
        sees = self.o.sees(t, torch.tensor([e[0] for e in self.cache[i]])).tolist()
        self.cache[i] = seen = [e for e, kept in zip(self.cache[i], sees) if kept]
        y = self.o.attend(self.o.rope(self.o.heads(q, H), here), torch.cat([e[1] for e in seen]), torch.cat([e[2] for e in seen]),
                          torch.ones(1, len(seen), dtype=torch.bool))
        return self.o.lin(torch.sigmoid(o) * y, f"layers.{i}.mixer.out_proj")

    def close_block(self):
        if len(self.rows) > 1:
            before, tokens = self.tokens[:1 - len(self.rows)], self.tokens[1 - len(self.rows):]
            self.own.append(self.o.encode(torch.cat(self.rows), tokens, len(self.own), before))
        self.rows = []

    def step(self, token):
        """Takes one id (a landmark id opens a block) -> logits [vocab] of this position."""
        o = self.o
        landmark = token == o.c["lmk_id"]
        if landmark:
            self.close_block()
            self.block += 1
            self.hits = {}
        else:
            self.tokens = [*self.tokens, token][-self.kept:]
        h, seen = o.w["embed.weight"][token][None], None
        for i, (group, gca) in enumerate(o.plan):
            if i == o.c["n_low"]:
                self.rows.append(h)
            candidates = self.documents + self.own[:max(0, self.block - 1)]
            if group is not None and group != seen:
                seen = group
                if landmark and self.block > 0:
                    self.hits[group] = o.retrieve(group, h[0], self.tokens, candidates)
            a, x = h + self.mixer(i, h), None
            if gca:
                indices, weights, _ = self.hits.get(group, ([], None, None))
                x = o.gca(i, a, [candidates[j] for j in indices], weights)
            h = o.finish_layer(i, a, x)
        self.position += 1
        indices, weights, _ = self.hits.get(o.plan[-1][0], ([], torch.zeros(0), None))
        candidates = self.documents + self.own[:max(0, self.block - 1)]
        return o.mix(o.logits(h)[0], self.tokens, [candidates[j] for j in indices], weights)

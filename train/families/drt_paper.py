"""DRT as published ("Efficient Length-Generalizable Attention via Causal Retrieval for Long-Context Language Modeling").

Every way in which it differs from the flagship is one config key, whose other value is the flagship's: docs/model-format.md,
"DRT as published".
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F

from model.oracle import Chunk, stored

from .parts import Attention, Decoder, Model, attend, ffn, ffn_shapes, prefixed, rms


@dataclass
class Layout:
    """Ids of all positions, landmarks included, and the landmarks' positions."""

    ids: list
    landmarks: list


def lay_out(c, events):
    """events: lists of token ids and the string "flush", which closes the open block unless it has no tokens. A landmark at
    the end follows its chunk's last token at once; one at the start waits for the next token or a flush."""
    out, tokens = Layout([], []), 0
    at_start = c["landmark_at"] == "start"

    def landmark():
        nonlocal tokens
        tokens = 0
        out.landmarks.append(len(out.ids))
        out.ids.append(c["lmk_id"])

    if at_start:
        landmark()
    for event in events:
        if isinstance(event, str):
            if tokens:
                landmark()
            continue
        for token in event:
            if at_start and tokens == c["chunk_tokens"]:
                landmark()
            out.ids.append(token)
            tokens += 1
            if not at_start and tokens == c["chunk_tokens"]:
                landmark()
    return out


class DrtPaper(Model):
    """`Model` with lower layers, chunk encoder, and groups of layers that read retrieved chunks."""

    ENCODER = {"positions": "rope", "bidirectional": True}  # the encoder's attention

    def __init__(self, config, tensors):
        super().__init__(config, tensors)
        self.at_start, self.encoder_eps = config["landmark_at"] == "start", config["encoder_norm_eps"]
        self.encoders = [Attention(self.ungrouped(config), self.ENCODER, self.w.at(f"encoder.layers.{i}.attn"))
                         for i in range(config["encoder_layers"])]
        self.groups = self.plan(config)

    @staticmethod
    def ungrouped(c):
        """The encoder's attention has a key-value head for each head, whatever the mixers share."""
        return {**c, "kv_heads": c["heads"]}

    @staticmethod
    def plan(c):
        """Per group its layers: (index, whether it has GCA)."""
        groups, first = [], c["n_low"]
        for group in c["groups"]:
            groups.append([(first + j, j in group["gca_layers"]) for j in range(group["layers"])])
            first += group["layers"]
        return groups

    @classmethod
    def specs(cls, c):
        return c["mixers"] * (c["n_low"] + sum(map(len, cls.plan(c))))

    @classmethod
    def shapes(cls, c):
        d, D, Dkv = c["d"], c["heads"] * c["head_dim"], c["memory_kv_heads"] * c["head_dim"]
        shapes, gca = super().shapes(c), {"norm.weight": (d,), "q_proj.weight": (D, d), "out_proj.weight": (d, D)}
        for g, layers in enumerate(cls.plan(c)):
            shapes[f"groups.{g}.query_norm.weight"] = (d,)
            if c["score_projections"]:
                shapes[f"groups.{g}.query_proj.weight"] = (c["d_r"], d)
            for i, has_gca in layers:
                shapes.update(prefixed(f"layers.{i}.gca", gca if has_gca else {}))
        for i in range(c["encoder_layers"]):
            layer = {"attn_norm.weight": (d,), "ffn_norm.weight": (d,),
                     **prefixed("attn", Attention.shapes(cls.ungrouped(c), cls.ENCODER)), **prefixed("ffn", ffn_shapes(c))}
            shapes.update(prefixed(f"encoder.layers.{i}", layer))
        shapes.update({"encoder.in_norm.weight": (d,), "encoder.out_norm.weight": (d,),
                       "memory.k_proj.weight": (Dkv, d), "memory.v_proj.weight": (Dkv, d)})
        if c["landmark_row"] == "cls":
            shapes["encoder.cls"] = (d,)
        if c["score_projections"]:
            shapes["landmark_proj.weight"] = (c["d_r"], d)
        return shapes

    # -- memory

    def encode(self, h):
        """The chunk of a block's rows h [n + 1, d] as they leave the last lower layer, un-normalised, in stream order.

        The landmark is the first or the last row, and RoPE counts the block's rows, so at the end it stands at row n. Its
        output is the landmark key; it is no row of the memory: K and V of that row are set to 0 (63) or dropped (64)."""
        w, eps, landmark = self.w.at("encoder"), self.encoder_eps, 0 if self.at_start else len(h) - 1
        tokens = slice(1, None) if self.at_start else slice(0, -1)
        if self.c["landmark_row"] == "cls":
            h = h.clone()
            h[landmark] = w["cls"]
        # The published encoder is another config object: its own norms have another eps than the decoder's and in_norm.
        x = w.norm("in_norm", h, self.eps)
        for i, attention in enumerate(self.encoders):
            layer = w.at(f"layers.{i}")
            x = x + attention.forward(layer.norm("attn_norm", x, eps))
            x = x + ffn(self.c, layer.at("ffn"), layer.norm("ffn_norm", x, eps))
        x = w.norm("out_norm", x, eps)
        key = rms(self.w.lin("landmark_proj", x[landmark]), self.eps) if self.c["score_projections"] else x[landmark]
        return self.expand(stored(key), stored(x[tokens]))

    def expand(self, key, states):
        """One K and one V for the whole model; no positions on K, so a chunk's distance is unknown to GCA. In double: as the
        flagship's oracle."""
        return Chunk(key, states, *(stored(self.w.lin(f"memory.{x}_proj", states.double())) for x in "kv"))

    def scores(self, g, h, candidates):
        """Raw scores of landmark row h [d], the residual stream on entry to group g. Published code has no W_h and W_l, and
        leaves this norm out when it decodes from its cache; here both ways have it."""
        w = self.w.at(f"groups.{g}")
        u = w.norm("query_norm", h, self.eps)
        keys = torch.stack([c.key for c in candidates])
        return keys @ (w.lin("query_proj", u) if self.c["score_projections"] else u) / keys.shape[1] ** 0.5

    def retrieve(self, g, h, candidates):
        """(indices, weights, scores), best first, at most n_ret, ties to the earlier candidate."""
        if not candidates:
            return [], torch.zeros(0), torch.zeros(0)
        r = self.scores(g, h, candidates)
        order = sorted(range(len(candidates)), key=lambda e: (-r[e].item(), e))[:self.c["n_ret"]]
        return order, r[order].softmax(0), r[order]

    def gca(self, i, a, chunks, weights):
        """Each chunk attended to on its own, then summed by weight: rows a [n, d] -> [n, d]."""
        if not chunks:
            return torch.zeros_like(a)
        w, dh, y = self.layer(i).at("gca"), self.c["head_dim"], 0
        q = w.lin("q_proj", w.norm("norm", a, self.eps)).unflatten(-1, (-1, dh))
        for chunk, weight in zip(chunks, weights):
            k, v = (x.unflatten(-1, (-1, dh)) for x in (chunk.k, chunk.v))
            if self.c["gca_softmax"] == "off_by_one":
                # A row of zeros: its score 0 adds the 1 to the denominator (eq. 3), its value nothing.
                k, v = (F.pad(x, (0, 0, 0, 0, 0, 1)) for x in (k, v))
            y = y + weight * attend(q, k, v)
        return w.lin("out_proj", y.flatten(1))

    def fuse(self, i, a, x):
        """h' from a and GCA's output x. "bypass": the paper's Norm(H + O) (eq. 2) is the FFN's input only; x never enters the
        residual stream (published code)."""
        return self.finish(i, a + x if self.c["gca_residual"] == "add" else a, a + x)

    # -- whole sequences

    def lower(self, layout):
        """Residual stream [T, d] after the last lower layer."""
        return self.run(self.embed(layout.ids), range(self.c["n_low"]))

    def blocks(self, layout, h):
        """Rows of each block that has a landmark."""
        if self.at_start:
            return h.tensor_split(layout.landmarks[1:])
        return h.tensor_split([p + 1 for p in layout.landmarks])[:-1]

    def ingest(self, tokens):
        """A document's chunks; the tail is a short one."""
        layout = lay_out(self.c, [tokens] if self.at_start else [tokens, "flush"])
        return [self.encode(rows) for rows in self.blocks(layout, self.lower(layout))] if tokens else []

    def readers(self, layout):
        """[T] which landmark's retrieval each position uses, -1 for none: the latest one before it, as chunk t retrieves for
        chunk t + 1 (section 3.1). All S + 1 rows of that chunk use it, so a landmark uses its predecessor's; with
        landmark_reads "own" it uses what it has just retrieved."""
        return torch.searchsorted(torch.tensor(layout.landmarks), torch.arange(len(layout.ids)),
                                  right=self.c["landmark_reads"] == "own") - 1

    def forward(self, layout, mounted=()):
        """A whole sequence. mounted: lists of Chunk, in request order.
        -> (logits [T, vocab], own chunks, hits per group and landmark: (indices, weights, scores))."""
        h = self.lower(layout)
        own = [self.encode(rows) for rows in self.blocks(layout, h)]
        own = own[:-1] if self.at_start else own
        documents = [c for document in mounted for c in document]
        # The chunk that a landmark closes is no candidate yet (e < t), so chunk c reads chunks <= c-2 and the window covers
        # c-1. A landmark that closes none, the first one where they stand at the start, retrieves nothing.
        closes = [n - self.at_start for n in range(len(layout.landmarks))]
        candidates = [documents + own[:n] if n >= 0 else [] for n in closes]
        reads, hits = self.readers(layout), []
        for g, layers in enumerate(self.groups):
            hits.append([self.retrieve(g, h[p], c) for p, c in zip(layout.landmarks, candidates)])
            chunks = [[c[e] for e in indices] for c, (indices, _, _) in zip(candidates, hits[g])]
            for i, has_gca in layers:
                a, x = self.mix(i, h), torch.zeros_like(h)
                for n, (_, weights, _) in enumerate(hits[g] if has_gca else []):
                    x[reads == n] = self.gca(i, a[reads == n], chunks[n], weights)
                h = self.fuse(i, a, x)  # with x = 0 a layer without GCA
        return self.logits(h), own, hits


class DrtDecoder(Decoder):
    """Beside the layers' states: rows of the open block, the chunks (the store), and per group the chunks and weights
    retrieved last. Same logits as `DrtPaper.forward`."""

    def __init__(self, model, mounted=()):
        super().__init__(model)
        self.documents, self.own, self.rows = [c for d in mounted for c in d], [], []
        self.hits = [([], ())] * len(model.groups)

    def close_block(self):
        if self.rows:
            self.own.append(self.model.encode(torch.cat(self.rows)))
        self.rows = []

    def retrieve(self, g, h):
        candidates = self.documents + self.own[:-1] if self.own else []
        indices, weights, _ = self.model.retrieve(g, h[0], candidates)
        return [candidates[e] for e in indices], weights

    def step(self, token):
        """Takes one id, landmarks included -> logits [vocab] of this position."""
        m, landmark = self.model, token == self.model.c["lmk_id"]
        if landmark and m.at_start:
            self.close_block()
        h = m.run(m.embed([token]), range(m.c["n_low"]), self.mix)
        self.rows.append(h)
        if landmark and not m.at_start:
            self.close_block()
        for g, layers in enumerate(m.groups):
            before = self.hits[g]
            if landmark:
                self.hits[g] = self.retrieve(g, h)
            used = self.hits[g] if m.c["landmark_reads"] == "own" else before
            for i, has_gca in layers:
                a = self.mix(i, h)
                h = m.fuse(i, a, m.gca(i, a, *used)) if has_gca else m.finish(i, a)
        self.t += 1
        return m.logits(h)[0]

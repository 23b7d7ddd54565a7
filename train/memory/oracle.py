"""The numerical oracle: one document, one prompt, in fp32, without batching, caches or roundings. Not for speed."""

from dataclasses import dataclass, fields

import torch

from .words import block_lengths, can_end, number_words

# Of the dense and of the sparse part of a score, in training.
SHARES_IN_TRAINING = {"dense": 1.0, "sparse": 1.0}


@dataclass
class Blocks:
    """Blocks of documents as they are kept, n of them with S = 63 rows; rows past a block's length are zero."""

    tokens: torch.Tensor  # int64 [n, S]
    valid: torch.Tensor  # bool [n, S]
    follows: torch.Tensor  # bool [n]: the block before it in the list is the one before it in the same segment
    keys: torch.Tensor  # landmark keys [n, d_r]
    words: torch.Tensor  # word numbers int64 [n, S]
    word_weights: torch.Tensor  # [n, S]
    states: torch.Tensor  # chunk states [n, S, d]
    pointer_keys: torch.Tensor  # [n, S, d_p]
    pointed: torch.Tensor  # bool [n, S]: rows that have a pointer key

    def join(self, other):
        return Blocks(*(torch.cat([getattr(self, f.name), getattr(other, f.name)]) for f in fields(self)))


@dataclass
class Retrieval:
    """What one landmark retrieved: the query, the scores of all blocks, and the chosen ones, each once."""

    q: torch.Tensor  # scaled [d_r]
    words: torch.Tensor  # word numbers int64 [S], right-aligned
    word_weights: torch.Tensor  # scaled [S], 0 where the prompt has no row
    nothing: torch.Tensor  # score of nothing []
    scores: torch.Tensor  # [n]
    chosen: torch.Tensor  # int64 [K], ascending
    weights: torch.Tensor  # [K]; with weight_nothing the sum is 1
    weight_nothing: torch.Tensor  # []


def choose(scores, nothing, follows, n_ret, successor):
    """The n_ret best blocks and their successors. scores [n], nothing [], follows bool [n], successor: what a successor's score is
    less. A block that comes as hit and as successor counts twice. -> (blocks ascending [K], weights [K], weight of nothing)."""
    best = torch.sort(scores, descending=True, stable=True).indices[:n_ret].tolist()
    listed, values = list(best), [scores[b] for b in best]
    for b in best:
        if b + 1 < len(scores) and follows[b + 1]:
            listed.append(b + 1)
            values.append(scores[b] - successor)
    shares = torch.stack([*values, nothing]).softmax(0)
    chosen = sorted(set(listed))
    weights = [sum(shares[j] for j, b in enumerate(listed) if b == c) for c in chosen]
    return torch.tensor(chosen), torch.stack(weights), shares[-1]


class Oracle:
    def __init__(self, base, adapter):
        self.base, self.adapter, self.config = base, adapter.float().eval(), adapter.config
        numbers, self.word_list = number_words(base.texts)
        self.word_of, self.ends = torch.tensor(numbers), can_end(base.texts)

    @torch.no_grad()
    def read(self, tokens):
        """A document's ids -> Blocks."""
        parts = [self.read_segment(tokens[at:at + self.config["segment_tokens"]])
                 for at in range(0, len(tokens), self.config["segment_tokens"])]
        return Blocks(*(torch.cat([getattr(part, f.name) for part in parts]) for f in fields(Blocks)))

    def read_segment(self, tokens):
        ids, S = torch.tensor(tokens), self.config["chunk_tokens"]
        lengths = torch.tensor(block_lengths(tokens, self.ends, self.config))
        position = (lengths.cumsum(0) - lengths)[:, None] + torch.arange(S)
        valid = torch.arange(S) < lengths[:, None]
        at = position.clamp(max=len(ids) - 1)
        h = self.base.lower(ids[None], self.config["n_low"])[0]
        words = self.word_of[ids[at]] * valid
        keys, weights, states = self.adapter.encode_blocks(h[at], words, valid)
        pointed = valid & (position > 0)
        pointer_keys = self.adapter.pointer_keys(h[(at - 1).clamp(min=0)])
        return Blocks(ids[at] * valid, valid, torch.arange(len(lengths)) > 0, keys, words, weights, states * valid[..., None],
                      pointer_keys * pointed[..., None], pointed)

    @torch.no_grad()
    def retrieve(self, prompt, blocks):
        """The landmark at a prompt's end. prompt: ids -> Retrieval."""
        S = self.config["chunk_tokens"]
        position = torch.arange(len(prompt) - S, len(prompt))
        valid, at = position >= 0, position.clamp(min=0)
        h = self.base.lower(torch.tensor([prompt]), self.config["n_low"])[0]
        words = self.word_of[torch.tensor(prompt)[at]] * valid
        q, weights, nothing = self.adapter.encode_queries(h[at][None], words[None], valid[None])
        shares = self.config.get("score_shares", SHARES_IN_TRAINING)
        q, weights = shares["dense"] * q, shares["sparse"] * weights
        scores = self.adapter.scores(q, words[None], weights, blocks.keys, blocks.words, blocks.word_weights)
        successor = torch.nn.functional.softplus(self.adapter.score.successor)[0]
        chosen = choose(scores[0], nothing[0], blocks.follows, self.config["n_ret"], successor)
        return Retrieval(q[0], words, weights[0], nothing[0], scores[0], *chosen)

    @torch.no_grad()
    def step(self, ids, prompt_length, blocks=None, retrieval=None):
        """The last row of a session: ids of prompt and answer so far -> (logits of the base's head, log probabilities of the mixture),
        both [vocabulary]. Rows of the prompt's last S tokens and of the answer read the blocks. Without blocks: the base alone."""
        base, adapter, S = self.base, self.adapter, self.config["chunk_tokens"]
        low = h = base.lower(torch.tensor([ids]), self.config["n_low"])
        if blocks is not None:
            chosen, weights = retrieval.chosen[None], retrieval.weights[None]
            states, valid = blocks.states[chosen], blocks.valid[chosen]
            reads = (torch.arange(len(ids)) >= prompt_length - S)[:, None]
        for i in range(self.config["n_low"], base.n_layers):
            h = base.attention(i, h)
            if blocks is not None and i in self.config["gca_layers"]:
                h = h + adapter.cross(i, h, adapter.memory_kv(i, states), valid, weights) * reads
            h = base.ffn(i, h)
        logits = base.logits(h[0, -1])
        own = logits.log_softmax(-1)
        if blocks is None:
            return logits, own
        scores = adapter.pointer_scores(low[:, -1:], blocks.pointer_keys[chosen])
        shares, gate = adapter.point(scores[:, 0], h[:, -1], blocks.pointed[chosen], weights)
        return logits, adapter.mix(own[None], shares, gate, blocks.tokens[chosen])[0]

    def answer(self, prompt, count, blocks=None):
        """At most `count` greedy ids after a prompt; one of the base's stop ids ends them and is not among them. -> (ids, the smallest
        lead of a best log probability over the next best)."""
        retrieval = self.retrieve(prompt, blocks) if blocks is not None else None
        ids, lead = list(prompt), float("inf")
        while len(ids) < len(prompt) + count:
            best = self.step(ids, len(prompt), blocks, retrieval)[1].topk(2)
            lead = min(lead, (best.values[0] - best.values[1]).item())
            if int(best.indices[0]) in self.base.stop:
                break
            ids.append(int(best.indices[0]))
        return ids[len(prompt):], lead

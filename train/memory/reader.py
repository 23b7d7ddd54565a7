"""The reader of a memory: a small network over the blocks that an answer reads, which says of each of their tokens how likely an answer
begins and ends there (model/reading.h). This is its oracle; train_reader.py trains it.

    PYTHONPATH=train python -m memory.reader --golden tests/golden/memory

writes a random reader and what it says of the golden question's blocks.

Letters: B questions, K blocks of a question, S = 63 rows of a block, T = 48 rows of a question, d width of the base, d_p of pointer keys,
c of the reader.
"""

import argparse
import json
import os

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import nn

from .base import rope_turns, rotate
from .export import save_tensors, write_config
from .judge import Words
from .model import EncoderLayer, Norm, linear, unit_rms

ROPE_BASE = 10000.0
IDF_UNIT, WEIGHT_UNIT, LEAST_WEIGHT = 8.0, 5.0, 1e-6  # of the marks
DROPOUT = 0.15
GOLDEN_CONFIG = {"width": 32, "heads": 2, "layers": 2, "ffn": 48, "question_tokens": 20, "more_blocks": 2, "span_tokens": 5, "spans": 6}
ROUNDED = torch.bfloat16  # what the engine keeps rows of blocks and questions in


class Reader(nn.Module):
    def __init__(self, config, d, d_p, S):
        super().__init__()
        self.config, self.d = config, d
        c = config["width"]
        self.states_proj, self.question_proj = linear(d + d_p, c, 1 / (d + d_p) ** 0.5), linear(d, c, 1 / d ** 0.5)
        self.ask_proj, self.mix_proj = linear(c, c, 1 / c ** 0.5), linear(3 * c + 4, c, 0.5 / c ** 0.5)
        self.layers = nn.ModuleList(EncoderLayer(c, c, config["ffn"]) for _ in range(config["layers"]))
        self.out_norm = Norm(c)
        self.out, self.nothing = linear(c, 2, 0.5 / c ** 0.5, bias=True), linear(c, 1, 0.5 / c ** 0.5, bias=True)
        self.drop = nn.Dropout(DROPOUT)
        for name, table in zip(("cosines", "sines"), rope_turns(S, c // config["heads"], ROPE_BASE)):
            self.register_buffer(name, table, persistent=False)

    def block_rows(self, states):
        """[..., c] of chunk states and pointer keys [..., d + d_p]."""
        parts = states.float().split([self.d, states.shape[-1] - self.d], -1)
        return unit_rms(self.states_proj(torch.cat([unit_rms(part) for part in parts], -1)))

    def question_rows(self, rows):
        """[..., c] of rows of a prompt after the base's lower layers [..., d]."""
        return unit_rms(self.question_proj(unit_rms(rows.float())))

    def layer(self, layer, x, seen):
        q, k, v = (y.unflatten(-1, (self.config["heads"], -1)).transpose(1, 2) for y in layer.attn.in_proj(layer.attn_norm(x)).chunk(3, -1))
        turns = self.cosines, self.sines
        y = F.scaled_dot_product_attention(rotate(q, turns), rotate(k, turns), v, attn_mask=seen)
        x = x + layer.attn.out_proj(y.transpose(1, 2).flatten(2))
        gate, up = layer.ffn.in_proj(layer.ffn_norm(x)).chunk(2, -1)
        return x + self.drop(layer.ffn.out_proj(F.silu(gate) * up))

    def forward(self, block, valid, question, there, marks):
        """block [B, K, S, c] and question [B, T, c] as block_rows and question_rows have them, valid [B, K, S], there [B, T], marks
        [B, K, S, 4] -> log probabilities of where the answer begins, and where it ends, each [B, 1 + K S]; place 0: nowhere."""
        B, K, S, c = block.shape
        block, question = self.drop(block), self.drop(question)
        near = torch.einsum("bksc,btc->bkst", self.ask_proj(block), question) / c ** 0.5
        asked = torch.einsum("bkst,btc->bksc", near.masked_fill(~there[:, None, None], -1e4).softmax(-1), question)
        x = self.mix_proj(torch.cat([block, asked, block * asked, marks], -1)).flatten(0, 1)
        seen = valid.flatten(0, 1).clone()
        seen[~seen.any(1), 0] = True  # a block that is not there
        for layer in self.layers:
            x = self.layer(layer, x, seen[:, None, None])
        x = self.out_norm(x).unflatten(0, (B, K))
        scores = self.out(x).float().masked_fill(~valid[..., None], -1e4).flatten(1, 2)
        nowhere = self.nothing((x * valid[..., None]).sum((1, 2)) / valid.sum((1, 2))[:, None]).float()
        return tuple(torch.cat([nowhere, scores[..., i]], 1).log_softmax(1) for i in (0, 1))


def marks_of(words, idf, asked, tokens, weights):
    """[..., K, S, 4] of each token: whether its word is one of the question's, the word's idf then, its idf, ln of the block's weight.
    tokens [..., K, S]; asked: the question's words; weights [..., K]."""
    word = words[tokens]
    hit, value = torch.isin(word, asked).float(), idf[word] / IDF_UNIT
    weight = weights.clamp(min=LEAST_WEIGHT).log() / WEIGHT_UNIT
    return torch.stack([hit, hit * value, value, weight[..., None].expand(value.shape)], -1)


def spans(begins, ends, valid, config):
    """The likeliest spans of one question that share no token: [(ln p, block, first row, last row)]. begins, ends [1 + K S], valid [K, S]."""
    K, S = valid.shape
    begins, ends = (x[1:].reshape(K, S).masked_fill(~valid, -torch.inf) for x in (begins, ends))
    near = torch.ones(S, S).triu().tril(config["span_tokens"] - 1).bool()
    both = (begins[:, :, None] + ends[:, None, :]).masked_fill(~near, -torch.inf)
    found = []
    while len(found) < config["spans"]:
        at = int(both.argmax())
        block, first, last = at // (S * S), at // S % S, at % S
        if both[block, first, last] == -torch.inf:
            break
        found.append((float(both[block, first, last]), block, first, last))
        both[block, :last + 1, first:] = -torch.inf  # all that begin before its end and end after its begin
    return found


def more_blocks(scores, nothing, chosen, weight_of_nothing, count):
    """The blocks that are read besides the chosen ones, the best by their scores [n], and their weights on the same scale."""
    best = [b for b in scores.sort(descending=True, stable=True).indices[:count + len(chosen)].tolist() if b not in set(chosen.tolist())]
    more = torch.tensor(best[:count], dtype=torch.long)
    return more, (scores[more] - nothing).exp() * weight_of_nothing


def save(reader, folder, config):
    """reader.safetensors, in bf16, and the key "reader" of memory.json."""
    save_tensors(reader.state_dict(), os.path.join(folder, "reader.safetensors"))
    write_config(folder, {**config, "reader": reader.config})


def open_reader(folder, d, d_p, S):
    with open(os.path.join(folder, "memory.json")) as file:
        reader = Reader(json.load(file)["reader"], d, d_p, S)
    reader.load_state_dict({name: x.float() for name, x in load_file(os.path.join(folder, "reader.safetensors")).items()})
    return reader.eval()


@torch.no_grad()
def read_once(reader, oracle, question, states, tokens, valid, weights):
    """The reading of one question about K blocks: (spans, ln of the probability of nothing). states [K, S, d + d_p], tokens and valid [K, S]."""
    low = oracle.base.lower(torch.tensor([oracle.base.chat(question)]), oracle.config["n_low"])[0][-reader.config["question_tokens"]:]
    words = Words(oracle.base.texts)
    asked = torch.tensor(sorted(words.distinct(words(oracle.base.encode(question)))))
    marks = marks_of(torch.tensor(words.of_token), torch.tensor(words.idf), asked, tokens, weights)
    rows = [made.to(ROUNDED).float()[None] for made in (reader.block_rows(states), reader.question_rows(low))]
    begins, ends = reader.eval()(rows[0], valid[None], rows[1], torch.ones(1, len(low), dtype=torch.bool), marks[None])
    return spans(begins[0], ends[0], valid, reader.config), (begins[0, 0] + ends[0, 0]).item()


def golden_case(folder, reader):
    """What a reader says of the blocks that the golden question retrieves. -> tensors."""
    from .goldens import open_models
    oracle = open_models(folder)
    with open(os.path.join(folder, "case.json"), encoding="utf-8") as file:
        case = json.load(file)
    blocks = oracle.read(oracle.base.encode(case["text"]))
    found = oracle.retrieve(oracle.base.chat(case["question"]), blocks)
    states = torch.cat([blocks.states, blocks.pointer_keys], -1)[found.chosen].to(ROUNDED).float()
    tokens, valid = blocks.tokens[found.chosen], blocks.valid[found.chosen]
    read, nothing = read_once(reader, oracle, case["question"], states, tokens, valid, found.weights)
    low = oracle.base.lower(torch.tensor([oracle.base.chat(case["question"])]), oracle.config["n_low"])[0]
    return {"states": states, "tokens": tokens.int(), "lengths": valid.sum(1).int(), "weights": found.weights, "rows": low[-oracle.config["chunk_tokens"]:],
            "spans": torch.tensor([[block, first, last] for _, block, first, last in read]).int(),
            "logprobs": torch.tensor([logprob for logprob, *_ in read]), "nothing": torch.tensor([nothing])}


def golden(folder):
    with open(os.path.join(folder, "memory.json")) as file:
        config = json.load(file)
    from .goldens import write_tensors
    torch.manual_seed(7)
    d = load_file(os.path.join(folder, "memory.safetensors"))["states_proj.weight"].shape[0]
    reader = Reader(GOLDEN_CONFIG, d, config["d_pointer"], config["chunk_tokens"])
    save(reader, folder, config)
    reader = open_reader(folder, d, config["d_pointer"], config["chunk_tokens"])
    write_tensors(folder, "reader_case.safetensors", golden_case(folder, reader))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--golden", metavar="DIR", required=True)
    golden(parser.parse_args().golden)

"""The reranker of a memory: the base's lower layers with changes of low rank, which read a question and the sentences of a passage
and say how likely each answers it (model/reranker.h). This is its oracle; train_reranker.py trains it.

    PYTHONPATH=train python -m memory.reranker --golden tests/golden/memory

writes a random reranker and what it says of some pieces of the golden document.

Letters: B sequences, T positions, d width of the base, r rank of the changes.
"""

import argparse
import json
import os
import random

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import nn

from .base import halves, norm, pairs, rotate
from .export import save_tensors, write_config
from .judge import FEATURES, PASSAGE_BLOCKS
from .model import EPS

CHANGED = {"in_proj": "qkv", "out_proj": "o"}  # matrices of the engine's layers, and those of the base that they are made of
BEFORE_QUESTION = "Question:"
NO_DOCUMENT = "No document is needed."  # read as the first sentence: how likely the answer is left to the model
GOLDEN_CONFIG = {"layers": 2, "rank": 4, "sentence_tokens": 30, "question_tokens": 20}
GOLDEN_PASSAGES = 6
TOGETHER = 8  # sequences that are run side by side


def reranker_tokens(base, config, question, passage):
    """Ids of a question, NO_DOCUMENT and the sentences of a passage, a line each, as model/reranker.h has them, and the numbers of the ids at
    which these lines end."""
    asked, ends = base.encode(" " + question), []
    ids = base.encode(BEFORE_QUESTION) + asked[max(0, len(asked) - config["question_tokens"]):] + base.encode("\n")
    for sentence in [NO_DOCUMENT, *passage]:
        ids += base.encode(sentence)[:config["sentence_tokens"]] + base.encode("\n")
        ends.append(len(ids) - 1)
    return ids, ends


class Reranker(nn.Module):
    """Only the changes are parameters; the base's tensors are borrowed."""

    def __init__(self, config, base):
        super().__init__()
        self.config, self.base = config, base
        self.fused = {}
        self.down, self.up = nn.ParameterDict(), nn.ParameterDict()
        for layer in range(config["layers"]):
            for name, parts in CHANGED.items():
                at, matrix = f"{layer}_{name}", torch.cat([base.layers[layer][part] for part in parts])
                n, k = matrix.shape
                self.fused[at] = matrix
                self.down[at] = nn.Parameter(torch.randn(config["rank"], k) / k ** 0.5)
                self.up[at] = nn.Parameter(torch.zeros(n, config["rank"]))
        self.head = nn.Linear(base.d, 1)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def product(self, layer, name, x):
        """W x + up down x."""
        at = f"{layer}_{name}"
        return F.linear(x, self.fused[at]) + F.linear(F.linear(x, self.down[at].to(x.dtype)), self.up[at].to(x.dtype))

    def attention(self, layer, h, turns):
        base = self.base
        sizes = [len(base.layers[layer][part]) for part in "qkv"]
        x = self.product(layer, "in_proj", norm(h, base.layers[layer]["attn_norm"], base.eps))
        q, k, v = (part.unflatten(-1, (-1, base.head_dim)).transpose(1, 2) for part in x.split(sizes, -1))
        k, v = (part.repeat_interleave(q.shape[1] // k.shape[1], 1) for part in (rotate(k, turns), v))
        y = F.scaled_dot_product_attention(rotate(q, turns), k, v, is_causal=True)
        return self.product(layer, "out_proj", y.transpose(1, 2).flatten(2))

    def forward(self, ids):
        """Scores [B, T] of all positions of sequences ids [B, T]."""
        base = self.base
        h, turns = base.embed[ids], base.turns(ids.shape[1])
        for layer in range(self.config["layers"]):
            h = h + self.attention(layer, h, turns)
            h = base.ffn_block(h, base.layers[layer], base.eps)
        h = h.float()
        return self.head(h * torch.rsqrt(h.square().mean(-1, keepdim=True) + EPS))[..., 0]

    def scores(self, sequences):
        """Scores of each of lists of (ids, ends): those of NO_DOCUMENT and of the sentences."""
        found, by_length = {}, sorted(range(len(sequences)), key=lambda i: len(sequences[i][0]))
        for at in range(0, len(by_length), TOGETHER):  # of about the same length, so that little is padding
            some = by_length[at:at + TOGETHER]
            scores = self(nn.utils.rnn.pad_sequence([torch.tensor(sequences[i][0]) for i in some], batch_first=True))
            found.update((i, own[torch.tensor(sequences[i][1])]) for i, own in zip(some, scores))
        return [found[i] for i in range(len(sequences))]


def reordered(base, layer, up, order):
    """Rows of the change of in_proj, those of q and k by `order`: `pairs`, as a GGUF file has them, or `halves`, as they are here."""
    if not base.file.endswith(".gguf"):
        return up
    q, k, v = up.split([len(base.layers[layer][part]) for part in "qkv"])
    return torch.cat([order(q, base.heads), order(k, base.kv_heads), v])


def tensors_of(reranker):
    tensors = {"head.weight": reranker.head.weight, "head.bias": reranker.head.bias}
    for layer in range(reranker.config["layers"]):
        for name in CHANGED:
            up = reranker.up[f"{layer}_{name}"].detach()
            at = f"layers.{layer}.mixer.{name}.weight."
            tensors[at + "down"] = reranker.down[f"{layer}_{name}"]
            tensors[at + "up"] = reordered(reranker.base, layer, up, pairs) if name == "in_proj" else up
    return tensors


def save(reranker, folder, config):
    """reranker.safetensors, in bf16, and the key "reranker" of memory.json. A judge that knew of none, or of no passages, goes
    on without that, so that the memory can be served for the candidates that the next judge is trained on. One that does not name its features
    is not used anyway."""
    save_tensors(tensors_of(reranker), os.path.join(folder, "reranker.safetensors"))
    if "features" in config.get("judge", {}):
        judge, filled = config["judge"], lambda weights, count: weights + [0.0] * (count - len(weights))
        hidden = [filled(unit, len(FEATURES) + 2) for unit in judge["hidden"]]
        config = {**config, "judge": {"passage_blocks": PASSAGE_BLOCKS, **judge, "features": FEATURES, "linear": filled(judge["linear"], len(FEATURES)), "hidden": hidden}}
    write_config(folder, {**config, "reranker": reranker.config})


def open_reranker(folder, base):
    with open(os.path.join(folder, "memory.json")) as file:
        reranker = Reranker(json.load(file)["reranker"], base)
    tensors = {name: x.float() for name, x in load_file(os.path.join(folder, "reranker.safetensors")).items()}
    state = {"head.weight": tensors["head.weight"], "head.bias": tensors["head.bias"]}
    for layer in range(reranker.config["layers"]):
        for name in CHANGED:
            up = tensors[f"layers.{layer}.mixer.{name}.weight.up"]
            state[f"down.{layer}_{name}"] = tensors[f"layers.{layer}.mixer.{name}.weight.down"]
            state[f"up.{layer}_{name}"] = reordered(base, layer, up, halves) if name == "in_proj" else up
    reranker.load_state_dict(state)
    return reranker.eval()


@torch.no_grad()
def golden_case(reranker, case):
    """What a reranker says of some pieces of the golden document. -> ([(question, sentences)], tensors)."""
    base, rng = reranker.base, random.Random(5)
    def sentence():
        at = rng.randrange(len(case["text"]) - 130)
        return " ".join(case["text"][at:at + rng.randint(20, 130)].split())
    texts = [(rng.choice(["Who came?", case["question"]]), [sentence() for _ in range(rng.randint(1, 4))]) for _ in range(GOLDEN_PASSAGES)]
    made = [reranker_tokens(base, reranker.config, *one) for one in texts]
    return texts, {"tokens": torch.tensor(sum((ids for ids, _ in made), [])).int(), "lengths": torch.tensor([len(ids) for ids, _ in made]).int(),
                   "ends": torch.tensor(sum((ends for _, ends in made), [])).int(), "scores": torch.cat([reranker.scores([one])[0] for one in made])}


def golden(folder):
    from .goldens import open_models, write_tensors
    base = open_models(folder).base
    with open(os.path.join(folder, "memory.json")) as file:
        config = json.load(file)
    with open(os.path.join(folder, "case.json"), encoding="utf-8") as file:
        case = json.load(file)
    torch.manual_seed(11)
    reranker = Reranker(GOLDEN_CONFIG, base)
    for table in (reranker.up, reranker.down):
        for one in table.values():
            nn.init.normal_(one, std=0.2)
    nn.init.normal_(reranker.head.weight, std=0.5)
    save(reranker, folder, config)
    texts, tensors = golden_case(open_reranker(folder, base), case)
    write_tensors(folder, "reranker_case.safetensors", tensors)
    with open(os.path.join(folder, "reranker_case.json"), "w", encoding="utf-8") as file:
        json.dump(texts, file, ensure_ascii=False, indent=1)
        file.write("\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--golden", metavar="DIR", required=True)
    golden(parser.parse_args().golden)

"""Checks of the oracle: step-by-step decode equals whole sequences, and the training form equals both.

    python tests/train/run_check.py train test_oracle.py
"""

import random
from unittest import mock

import numpy as np
import torch
import torch.nn.functional as F

from data.batches import BatchMaker
from data.blocks import document_blocks
from data.tokenizer import split_segments
from eval.goldens import BASE, CASES, random_weights
from model.drt import Model
from model.oracle import Chunk, Decoder, Oracle, lay_out

TOLERANCE = 2e-4


def case_oracle(name, seed=5):
    config = {**BASE, **CASES[name][0]}
    config.pop("bf16_weights", None)
    return config, Oracle(config, random_weights(config, seed))


def draw(rng, config, n):
    return [rng.randrange(3, config["vocab_size"]) for _ in range(n)]


def apart(logits, others):
    """The largest difference of numbers that are not -inf in both, as the pointer leaves its sentinel's."""
    assert torch.equal(logits.isinf(), others.isinf())
    return (logits - others).masked_fill(others.isinf(), 0).abs().max()


def test_decode_equals_forward():
    for name, (_, documents, events) in CASES.items():
        config, oracle = case_oracle(name)
        rng = random.Random(7)
        mounted = [oracle.ingest(draw(rng, config, n)) for n in documents]
        layout = lay_out([e if isinstance(e, str) else draw(rng, config, e) for e in events], config["lmk_id"])
        logits, own, _ = oracle.forward(layout, mounted)
        decoder = Decoder(oracle, mounted)
        steps = torch.stack([decoder.step(i) for i in layout.ids])
        assert apart(steps, logits) < TOLERANCE * logits.masked_fill(logits.isinf(), 0).abs().max(), name
        assert len(decoder.own) == len(own), name


def test_document_blocks():
    token_bytes = [b"7", b"\n", b".", " ".encode(), "”".encode(), "。".encode()]
    sizes = lambda tokens, least=24: [len(b) for b in document_blocks(tokens, least, token_bytes)]
    assert sizes([0] * 130, 0) == [63, 63, 4] and sizes([0] * 130) == [63, 63, 4]
    assert sizes([0] * 23 + [1] + [0] * 60) == [24, 60]
    assert sizes([0] * 22 + [1] + [0] * 60) == [63, 20]
    assert sizes(([0] * 22 + [1]) * 4 + [0]) == [46, 47]
    assert sizes([0] * 30 + [2, 4, 3] + [0] * 60) == [32, 61]
    assert sizes([0] * 30 + [2, 0] + [0] * 60) == [63, 29]
    assert sizes([0] * 30 + [5, 0] + [0] * 60) == [31, 61]
    assert sizes([0] * 62 + [1]) == [63] and sizes([]) == []


def test_memory_changes_logits():
    config, oracle = case_oracle("base")
    rng = random.Random(1)
    layout = lay_out([draw(rng, config, 20), "flush", draw(rng, config, 5)], config["lmk_id"])
    mounted = oracle.ingest(draw(rng, config, 100))
    with_memory, without = oracle.forward(layout, [mounted])[0], oracle.forward(layout)[0]
    block = layout.starts[1]
    assert torch.equal(with_memory[:block], without[:block])
    assert (with_memory[block:] - without[block:]).abs().max() > 1e-3


def test_lexical_keys():
    config, oracle = case_oracle("lexicon")
    T, d_x = oracle.w["lexicon.weight"], config["lexicon"]["d"]
    rng = random.Random(2)
    tokens = draw(rng, config, 100)
    chunks = oracle.ingest(tokens)
    for chunk, block in zip(chunks, (tokens[:63], tokens[63:]), strict=True):
        total = T[torch.tensor(block)].sum(0)
        assert torch.allclose(chunk.key[-d_x:], total / total.square().mean().sqrt(), rtol=1e-2)
    # Whatever is more than `reach` tokens before a landmark, and landmarks, are not asked for.
    relevance = lambda before: oracle.relevance(0, torch.ones(config["d"]), before, chunks)
    recent = tokens[:config["lexicon"]["reach"]]
    assert torch.equal(relevance(recent), relevance([5, config["lmk_id"], *recent[:3], config["lmk_id"], *recent[3:]]))
    assert not torch.equal(relevance(recent), relevance([*recent[:-1], 5])) and len(relevance([])) == 2


def test_successors():
    config, oracle = case_oracle("lexicon")
    plain = Oracle({**config, "successors": False}, oracle.w)
    bias = oracle.w["groups.0.successor_bias"].item()
    assert bias < 0
    rng = random.Random(3)
    documents = [oracle.ingest(draw(rng, config, n)) for n in (250, 40, 126)]
    candidates = [c for d in documents for c in d]
    h, before, gained = torch.ones(config["d"]), draw(rng, config, 8), 0
    r, with_successors = (o.relevance(0, h, before, candidates) for o in (plain, oracle))
    for e in range(len(candidates)):
        expected = r[e].item()
        if e not in (0, 4, 5):  # the first of each document
            expected = max(expected, r[e - 1].item() + bias)
        assert abs(with_successors[e].item() - expected) < 1e-6
        gained += expected > r[e].item()
    assert gained > 0
    # As docs/model-format.md says it: only the best by themselves give.
    best = plain.retrieve(0, h, before, candidates)[0]
    given = {e + 1: r[e] + oracle.w["groups.0.successor_bias"][0] for e in best if e + 1 < len(candidates) and candidates[e + 1].index}
    of = {e: torch.maximum(r[e], given.get(e, r[e])) for e in {*best, *given}}
    assert oracle.retrieve(0, h, before, candidates)[0] == sorted(of, key=lambda e: (-of[e], e))[:config["n_ret"]]


def test_pointer():
    config, oracle = case_oracle("pointer")
    # Of one chunk: 5 stands behind 3 4, behind 4 alone, and behind 9 8 3 4 across a chunk's begin.
    chunk = Chunk(*[torch.zeros(0)] * 4, tokens=[5, 3, 4, 5, 7, 4, 6], before=[9, 8, 3, 4])
    run, overlap, rarity = (oracle.w[f"pointer.{n}"] for n in ("run", "overlap", "rarity"))
    own = lambda j, token: rarity[token] * (run[j] + overlap[j])
    weight = torch.tensor(0.25)
    scores = oracle.point([8, config["lmk_id"], 3, 4], [chunk], [weight])
    one, two = own(0, 4), own(0, 4) + own(1, 3)
    assert set(scores) == {5, 6}
    expected = torch.stack([two + own(2, 8), two]) + weight.log()
    assert torch.allclose(scores[5], expected.logsumexp(0)) and torch.allclose(scores[6], one + weight.log())
    # A token that differs ends the run and no more.
    gap = oracle.point([8, 10, 4], [chunk], [weight])[5] - weight.log()
    assert torch.allclose(gap, torch.stack([one + rarity[8] * overlap[2], one]).logsumexp(0))
    assert oracle.point([2], [chunk], [weight]) == {} and oracle.point([], [chunk], [weight]) == {}
    # What the pointer takes it takes from all others alike.
    logits = torch.randn(config["vocab_size"], generator=torch.Generator().manual_seed(1))
    mixed = oracle.mix(logits, [3, 4], [chunk], [weight]).softmax(0)
    left = torch.cat([logits[:1], torch.tensor([s for s in oracle.point([3, 4], [chunk], [weight]).values()])]).softmax(0)
    alone = torch.cat([torch.tensor([float("-inf")]), logits[1:]]).softmax(0)
    assert torch.allclose(mixed, (left[0] * alone).index_add(0, torch.tensor([*oracle.point([3, 4], [chunk], [weight])]), left[1:]), atol=1e-6)


class TinyBooks:
    """Random tokens in place of books."""

    def __init__(self, vocab):
        self.tokens, self.words = np.random.default_rng(0).integers(3, vocab, 5000), ["aa", "bb", "cc"]

    def passage(self, rng, length):
        at = rng.randrange(len(self.tokens) - length)
        return self.tokens[at:at + length].tolist()


class TinyTasks:
    """Needles of random tokens."""

    def __init__(self, vocab):
        self.vocab, self.begins_word = vocab, [True] * vocab
        self.token_bytes = [b"\n" if i % 20 == 0 else b"a" for i in range(vocab)]

    def form(self, rng):
        return {"kind": "digits"}

    def encode(self, text):
        return [3] * len(text)

    def decode(self, ids):
        return " ".join(map(str, ids))

    def draw(self, rng, n):
        return [rng.randrange(3, self.vocab) for _ in range(n)]

    def needle(self, rng, form=None, bare_nouns=None, near=""):
        return {"ids": self.draw(rng, 12), "value": self.draw(rng, 5), "kind": "digits", "bare": True}

    def question(self, rng, needle, lead=None):
        return self.draw(rng, 6)


def test_training_form_equals_oracle():
    config = {**BASE, "d": 64, "heads": 4, "d_r": 48, "memory_kv_heads": 2, "encoder_carry": True, "min_chunk_tokens": 24,
              "lexicon": {"d": 16, "reach": 8}, "successors": True, "pointer": {"reach": 6}, "vocab_size": 40, "local": {"window": 128, "dilation": 16, "initial": 0, "span": 1024}, "adapted_dilations": [16]}
    data = {"batch": 2, "length": 512, "max_blocks": 14, "max_dilated": 24, "queue": 8, "dilation_shares": [1.0],
            "weight_task": 0.1, "weight_answer": 2.0, "weights_crossing": [3.0], "weight_end": 1.0,
            "straddle": 0.4, "force_straddle": 0.3, "across": 0.08, "random_filler": 0.0, "whole_words": 0.5, "mean_gap": 20,
            "repeat": 0.4, "repeat_lead": [4, 12], "weight_repeat": 1.0, "weight_first": 2.0,
            "ask_again": 0.2, "for_others": 0.5, "sentences": 0.5, "same_form": 0.3, "forms": 2, "form_batches": 2, "split_value": 0.5,
            "dense": 0.2, "twins": 0.0, "several": 0.0, "thinned": 0.3, "shuffled": 0.2}
    weights = random_weights(config, 3)
    model = Model(config)
    model.load_state_dict(weights)
    maker = BatchMaker(data, config, TinyBooks(config["vocab_size"]), TinyTasks(config["vocab_size"]), 11)
    batch, _ = maker.batch(0.0, 0.0, 1.0)
    inputs = {k: torch.from_numpy(v) for k, v in batch.items()}
    with torch.no_grad():
        nats, right, _ = model.loss(inputs)
    oracle = Oracle(config, weights)
    for i, seq in enumerate(maker.done):
        layout = lay_out([], config["lmk_id"])
        layout.ids, layout.starts = seq.tokens, seq.starts
        # The oracle rounds what is stored to bf16, the trainer does not; a rounding can pick another chunk.
        with mock.patch("model.oracle.stored", lambda x: x.float()):
            expected = oracle.forward(layout)[0]
        targets = inputs["targets"][i, :-1]  # behind the last token stands none
        assert torch.allclose(nats[i, :-1], F.cross_entropy(expected[:-1], targets, reduction="none"), rtol=1e-4, atol=1e-4)
        assert (right[i, :-1] == (expected[:-1].argmax(-1) == targets)).float().mean() > 0.99


def test_segments():
    assert split_segments("a  b\n\nC d") == ["a", "  b", "\n\nC", " d"]
    assert split_segments("  x ") == ["  x", " "]
    assert split_segments("x\u2581y z") == ["x", "\u2581", "y", " z"]
    assert [len(s) for s in split_segments("a" * 300)] == [256, 44]
    assert split_segments("") == []

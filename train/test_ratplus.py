"""Checks of the RAT+ oracle: token by token equals whole sequences, dilation 1 equals an independent dense form in double, and
the properties of the attended set.

    python tests/train/run_check.py train test_ratplus.py
"""

import torch

from eval.goldens_ratplus import MODELS, build, of_request
from families.ratplus import HeadCache, RatPlus, RatPlusDecoder, attends, choose_blocks, dense_logits, patterns_of

TOLERANCE = 2e-4


def test_cache_holds_what_the_definition_attends_to():
    for dilation in (1, 2, 3, 4, 8, 16, 64, 128, -1):
        for window in (0, 1, 7, 256):
            for initial in (0, 1, 4, 5, 17):
                for span in (None, window, window + 20):
                    pattern = (window, dilation, initial, span)
                    cache, p = HeadCache(pattern), torch.arange(150)
                    for t, attended in enumerate(attends(pattern, p[:, None], p[None])):
                        assert cache.append(t) == attended.nonzero()[:, 0].tolist(), (pattern, t)


def test_a_span_changes_nothing_until_the_first_entry_leaves_it():
    config, weights, ids, _, _ = build("plain", 6)
    for pattern in ((0, 4, 0, 40), (5, 16, 4, 33), (2, 64, 1, 20)):
        numbers = dict(zip(("window", "dilation", "initial"), pattern))
        whole, bounded = (RatPlus(config, weights, patterns_of(config, {**numbers, "span": c})).forward(ids) for c in (None, pattern[3]))
        last = pattern[3] + pattern[1] * (pattern[2] // pattern[1]) + pattern[1] - 1
        assert (whole[:last + 1] - bounded[:last + 1]).abs().max() < TOLERANCE * whole.abs().max()
        assert (whole[last + 1] - bounded[last + 1]).abs().max() > 10 * TOLERANCE


def test_token_by_token_equals_whole_sequences():
    for name, (_, _, cases) in MODELS.items():
        config, weights, ids, logits, _ = build(name, 3)
        for case, asked in cases.items():
            decoder = RatPlusDecoder(of_request(config, weights, asked))
            steps = torch.stack([decoder.step(i) for i in ids])
            assert (steps - logits[case]).abs().max() < TOLERANCE * logits[case].abs().max(), (name, case)


def test_dilation_one_equals_dense():
    for name in ("plain", "no_recurrence", "quest"):
        config, weights, ids, logits, _ = build(name, 4)
        expected = dense_logits(config, weights, ids)
        assert (logits["dense"] - expected).abs().max() < TOLERANCE * expected.abs().max()
        for case in {"all_window", "every_block"} & set(logits):  # W >= t, or K >= the blocks there are: dense for any D
            assert (logits[case] - expected).abs().max() < TOLERANCE * expected.abs().max()


def test_own_block_is_always_chosen_and_counts():
    keys, q = torch.randn(21, 4), torch.randn(4)
    for score in ("quest", "moba"):
        assert choose_blocks(q, keys, 1, 8, score)[0] == [2]
        assert sorted(choose_blocks(q, keys, 2, 8, score)[0])[1] == 2
        assert sorted(choose_blocks(q, keys, 9, 8, score)[0]) == [0, 1, 2]
    # Any key of a block scores at most what its bounds do.
    assert torch.maximum(q * keys[:8].amin(0), q * keys[:8].amax(0)).sum() >= (keys[:8] @ q).max()


def test_first_token_and_closed_gates():
    config, weights, ids, _, _ = build("plain", 5)
    oracle = RatPlus(config, weights)
    h = oracle.w["embed.weight"][torch.tensor(ids)]
    _, _, k, _, g = oracle.project(0, h)
    zero = torch.zeros(k.shape[1])
    assert torch.equal(oracle.recur(g, k, zero)[0], (1 - g[0]) * k[0])
    assert torch.equal(oracle.recur(torch.zeros_like(g), k, zero), k)
    assert torch.equal(oracle.recur(torch.ones_like(g), k, k[0])[-1], k[0])

"""Checks of the families' oracles: decode equals whole sequences, and the properties each family is known by.

    python tests/train/run_check.py train test_families.py
"""

import json
import pathlib
import random

import torch
import torch.nn.functional as F
from safetensors.torch import load_file

from families import MODELS, build, decoder, family
from families.cases import CASES, DRT, GENERATING, RAT, RATTENTION, draw, draw_session, only, random_weights
from families.drt_paper import lay_out
from families.goldens import expected
from families.parts import Attention, Weights, attend, rope
from families.rat import Rat
from families.rattention import Rattention, phi
from importer.testing import place
from model import oracle

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDEN, HUB = ROOT / "tests" / "golden" / "families", ROOT / "tests" / "golden" / "hub"
# Checkpoints as published, with the golden case whose config has the same keys, and what the checkpoint does not say.
IMPORTS = {"rat.pt": ("rat", {}), "rat_swa.pt": ("rat_swa", {}), "rat_swa.bin": ("rat_swa", {"head_dim": 2, "chunk": 16})}
TOLERANCE = 1e-5
BF16_STEP = 2.0 ** -7
ROUNDED = 1e-3  # where the store's rounding to bf16 may go the other way


def close(a, b, what=None, tolerance=TOLERANCE):
    assert (a - b).abs().max() <= tolerance * max(1, b.abs().max()), what


def case_model(config, seed=5):
    return build(config, random_weights(MODELS[family(config)].shapes(config), seed))


def session(config, documents, events, seed=7):
    """Model, ids, mounted documents and layout (none without landmarks) of a case."""
    model = case_model(config)
    documents, events = draw_session(random.Random(seed), config, documents, events)
    if family(config) != "drt-paper":
        return model, events[0], (), None
    layout = lay_out(config, events)
    return model, layout.ids, [model.ingest(d) for d in documents], layout


def mixer(kind, config, seed=3, **weights):
    """A mixer of `config`'s first kind with random weights, some of them replaced."""
    spec = config["mixers"][0]
    tensors = random_weights(kind.shapes(config, spec), seed)
    tensors.update({name.replace("__", "."): x for name, x in weights.items()})
    return kind(config, spec, Weights(tensors))


def rows(config, T, seed=1):
    return torch.randn(T, config["d"], generator=torch.Generator().manual_seed(seed))


def depends(run, x, t):
    """Positions p whose row of x changes row t of run(x)."""
    found = set()
    for p in range(len(x)):
        changed = x.clone()
        changed[p] += 1
        if not torch.equal(run(changed)[t], run(x)[t]):
            found.add(p)
    return found


def test_decode_equals_forward():
    for name, case in CASES.items():
        model, ids, mounted, layout = session(*case)
        logits = model.forward(layout, mounted)[0] if layout else model.forward(ids)
        steps = decoder(model, mounted)
        close(torch.stack([steps.step(i) for i in ids]), logits, name, ROUNDED if layout else TOLERANCE)


def test_committed_goldens():
    for name in CASES:
        folder = GOLDEN / name
        config, case = (json.loads((folder / f"{f}.json").read_text()) for f in ("config", "case"))
        assert config == CASES[name][0], name
        model, want = build(config, load_file(folder / "model.safetensors")), load_file(folder / "case.safetensors")
        got, *_ = expected(model, case["documents"], [e.get("tokens", "flush") for e in case["events"]], name in GENERATING)
        assert got.keys() == want.keys(), name
        for tensor, x in want.items():
            step = BF16_STEP if x.dtype == torch.bfloat16 else ROUNDED if "own.keys" in want else TOLERANCE
            close(got[tensor].float(), x.float(), (name, tensor), step)


def test_switches_matter():
    """No two configs with the same tensors and ids compute the same."""
    seen = {}
    for name, config in {json.dumps(c): (name, c) for name, (c, _, _) in CASES.items()}.values():
        model, ids, _, layout = session(config, [], [340 if family(config) == "drt-paper" else 45])
        logits = model.forward(layout)[0] if layout else model.forward(ids)
        others = seen.setdefault((family(config), str(sorted(model.shapes(config).items())), tuple(ids)), [])
        for other, earlier in others:
            assert (logits - earlier).abs().max() > 1e-3, (name, other)
        others.append((name, logits))


# -- shared parts


def test_window_is_one_more_than_w():
    config = {**RAT, "mixers": [{"kind": "attention", "window": 3, "positions": "rope"}]}
    assert depends(mixer(Attention, config).forward, rows(config, 9), 7) == {4, 5, 6, 7}
    state = mixer(Attention, config).start()
    for t, x in enumerate(rows(config, 9)):
        mixer(Attention, config).step(x[None], t, state)
    assert len(state["k"]) == 4


def test_rope_pairs_differ_by_a_permutation():
    x, t = torch.randn(5, 2, 8), torch.arange(5) * 3
    half, interleaved = ({"rope_base": 1e4, "rope_pairs": p} for p in ("half", "interleaved"))
    order = torch.arange(8).view(2, 4).T.flatten()
    close(rope(half, x, t)[..., order], rope(interleaved, x[..., order], t))
    close(rope(half, x, t)[0], x[0])


def test_alibi_is_one_series():
    bias = mixer(Attention, {**DRT, "heads": 12}).bias(torch.tensor([9]), torch.arange(10))
    close(bias[:, 0, 8], -(2.0 ** (-torch.arange(1, 13) * 2 / 3)))


# -- RAT


def test_rat_chunk_of_one_is_attention():
    config = only(RAT, chunk=1)
    layer, x, t = mixer(Rat, config), rows(config, 12), torch.arange(12)
    z, v, g, q, k = layer.project(x)
    q, k, v = (y.transpose(0, 1)[None] for y in (rope(config, q, t), rope(config, (1 - g) * k, t), (1 - g) * v))
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)[0].transpose(0, 1)
    close(layer.forward(x), layer.output(z, y))


def test_rat_one_chunk_is_its_values():
    config = only(RAT, chunk=12)
    layer, x = mixer(Rat, config), rows(config, 12)
    z, v, g, _, _ = layer.project(x)
    # v~_t summed out: token j weighs (1 - g_j) g_{j+1} .. g_t.
    y = torch.stack([sum((1 - g[j]) * g[j + 1:t + 1].prod(0) * v[j] for j in range(t + 1)) for t in range(12)])
    close(layer.forward(x), layer.output(z, y))


def test_rat_merges_by_log_sum_exp():
    """Chunk ends and own token as two parts joined by their log-sum-exp, as in the paper's algorithm 1."""
    layer, x = mixer(Rat, RAT), rows(RAT, 21)
    state, t = layer.start(), 20
    for s in range(21):
        y = layer.step(x[s:s + 1], s, state)
    z, _, _, q, _ = layer.project(x[t:])
    q = layer.place(q, torch.tensor([t]))[0]
    score = torch.einsum("hd,nhd->nh", q, state["k"]) * q.shape[-1] ** -0.5
    inter = torch.einsum("nh,nhd->hd", score[:-1].softmax(0), state["v"][:-1])
    own = torch.sigmoid(score[-1] - score[:-1].logsumexp(0))[:, None]
    close(y, layer.output(z, (inter + own * (state["v"][-1] - inter))[None]))


def test_rat_state_has_a_slot_a_chunk_and_starts_anew():
    config = only(RAT, positions="none")
    layer, x = mixer(Rat, config), rows(config, 16)
    whole, second = layer.start(), layer.start()
    for t in range(16):
        layer.step(x[t:t + 1], t, whole)
        assert len(whole["k"]) == t // 8 + 1
    for t in range(8, 16):
        layer.step(x[t:t + 1], t - 8, second)
    assert torch.equal(whole["k"][1], second["k"][0])


def test_rat_tiles_shared_heads():
    q, k = mixer(Rat, RAT).project(rows(RAT, 3))[3:]
    for x in (q, k):
        assert torch.equal(x[:, 0], x[:, 2]) and torch.equal(x[:, 1], x[:, 3]) and not torch.equal(x[:, 0], x[:, 1])


# -- RAT as the importer writes it


class Read(dict):
    """Tensors, and the names of those that were read."""

    def __init__(self, tensors):
        super().__init__(tensors)
        self.names = set()

    def __getitem__(self, name):
        self.names.add(name)
        return super().__getitem__(name)


def imported(name):
    """Config and tensors of the model directory made of a checkpoint."""
    with place() as at:
        at.use(name)
        at.run(family="rat-hub", **IMPORTS[name][1])
        return json.loads((at.out / "config.json").read_text()), Read(load_file(at.out / "model.safetensors"))


def test_imported_checkpoints():
    for name, (case, _) in IMPORTS.items():
        config, tensors = imported(name)
        golden = CASES[case][0]
        assert config.keys() == golden.keys() | {"context"}, name
        assert [m.keys() for m in config["mixers"]] == [m.keys() for m in golden["mixers"]], name
        model, ids = build(config, tensors), draw(random.Random(1), config, 40)
        logits = model.forward(ids)
        assert logits.isfinite().all() and logits.std() > 0, name
        assert tensors.names == tensors.keys(), name
        steps = decoder(model)
        close(torch.stack([steps.step(i) for i in ids]), logits, name)


def test_imported_attention_reads_published_rows():
    config, tensors = imported("rat_swa.bin")
    published = torch.load(HUB / "rat_swa.bin", weights_only=True)
    w_in, w_out = (published[f"backbone.layers.1.seq_layer.{n}_proj.weight"].float() for n in ("in", "out"))
    x, t = 100 * rows(config, 12), torch.arange(12)  # so that the scores differ
    v, q, k = (x @ w_in.T).unflatten(-1, (3, config["heads"], -1)).unbind(1)
    q, k, v = (y.transpose(0, 1)[None] for y in (rope(config, q, t), rope(config, k, t), v))
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)[0].transpose(0, 1).flatten(1)
    close(build(config, tensors).mixers[1].forward(x), y @ w_out.T)


# -- RAttention


def test_rattention_without_window_is_linear_attention():
    config = only(RATTENTION, window=-1, qk_norm=False)
    layer, x = mixer(Rattention, config, rla_norm__weight=torch.ones(4, 8)), rows(config, 9)
    q, k, v = layer.project(x)
    S, out = torch.zeros(2, 16, 8), []
    for t in range(9):
        S = S + phi("softmax", k[t])[:, :, None] * v[t][:, None]
        out.append(torch.stack([phi("softmax", q[t, h]) @ S[h // 2] for h in range(4)]))  # contiguous groups
    close(layer.context(q, k, v), F.rms_norm(torch.stack(out), (8,), eps=1e-8))


def test_rattention_touches_every_token_once():
    x, none = rows(RATTENTION, 12), torch.zeros(4, 8)
    window = mixer(Rattention, RATTENTION, rla_norm__weight=none).forward
    outside = mixer(Rattention, RATTENTION, swa_norm__weight=none).forward
    for t in (0, 5, 6, 11):
        assert depends(window, x, t) == set(range(max(0, t - 5), t + 1))
        # The own row is the query of both branches.
        assert depends(outside, x, t) - {t} == set(range(t - 5))
    assert not outside(x)[:6].any()


def test_rattention_state_is_bounded():
    layer, x = mixer(Rattention, RATTENTION), rows(RATTENTION, 20)
    state = layer.start()
    for t in range(20):
        layer.step(x[t:t + 1], t, state)
    assert len(state["k"]) == len(state["v"]) == len(state["raw_k"]) == 6
    assert state["S"].shape == (2, 16, 8)


# -- DRT as published


def test_drt_zero_row_is_softmax_off_by_one():
    q, k, v = torch.randn(3, 5, 2, 8)
    zero_row = attend(q, *(F.pad(x, (0, 0, 0, 0, 0, 1)) for x in (k, v)))
    e = (torch.einsum("qhd,khd->hqk", q, k) * 8 ** -0.5).exp()
    close(zero_row, torch.einsum("hqk,khd->qhd", e / (1 + e.sum(-1, keepdim=True)), v))


def first_difference(change):
    """Layout of a session, and the first position whose logits change with the config."""
    model, _, _, layout = session(DRT, [], [340])
    other = case_model({**DRT, **change})
    differs = (model.forward(layout)[0] != other.forward(layout)[0]).any(1)
    return layout, differs.nonzero()[0].item()


def test_drt_reads_two_chunks_back():
    # Block 0 has no landmark before it and the landmark of block 0 no candidate: GCA is 0 in blocks 0 and 1, both landmarks
    # included. Block 2 is the first that reads.
    layout, first = first_difference({"gca_residual": "add"})
    assert first == layout.landmarks[1] + 1
    # A landmark that reads what it retrieves itself reads one position earlier.
    layout, first = first_difference({"landmark_reads": "own"})
    assert first == layout.landmarks[1]


def test_drt_landmark_layout():
    for S in (63, 64):
        layout = lay_out({**DRT, "chunk_tokens": S}, [[5] * (2 * S), "flush", [5], "flush"])
        assert layout.landmarks == [S, 2 * S + 1, 2 * S + 3]
    start = {**DRT, "landmark_at": "start"}
    for events in ([[5] * 126], [[5] * 126, "flush"], ["flush", [5], "flush", "flush", [5] * 64]):
        ours, flagship = lay_out(start, events), oracle.lay_out(events, DRT["lmk_id"])
        assert (ours.ids, ours.landmarks) == (flagship.ids, flagship.starts)


def test_drt_gca_ignores_the_order_of_chunks():
    model, rng = case_model(DRT), random.Random(2)
    chunks, a = model.ingest(draw(rng, DRT, 150)), rows(DRT, 4)
    w = torch.tensor([0.5, 0.3, 0.2])
    close(model.gca(1, a, chunks, w), model.gca(1, a, chunks[::-1], w.flip(0)))
    close(model.gca(1, a, chunks, w), sum(x * model.gca(1, a, [c], torch.ones(1)) for c, x in zip(chunks, w)))


def test_drt_with_all_switches_is_the_flagship():
    """The flagship's oracle, without recurrence and with output gates of 1/2, computes the same."""
    config, documents, events = CASES["drt_paper_as_flagship"]
    config = {**config, "encoder_norm_eps": config["norm_eps"]}
    model, _, mounted, layout = session(config, documents, events)
    weights, D = dict(model.w.tensors), config["heads"] * config["head_dim"]
    for i in range(3):
        name = f"layers.{i}.mixer"
        weights[f"{name}.in_proj.weight"] = F.pad(weights[f"{name}.in_proj.weight"], (0, 0, D, D))
        weights[f"{name}.out_proj.weight"] = 2 * weights[f"{name}.out_proj.weight"]
        weights[f"{name}.gate_bias"] = torch.zeros(D)
    flagship = oracle.Oracle({**config, "recurrence": False, "memory_key_recurrence": False, "encoder_carry": False,
                              "local": {"window": 70, "dilation": 1, "initial": 0, "span": 70}}, weights)
    logits, own, hits = flagship.forward(oracle.Layout(layout.ids, layout.landmarks), mounted)
    ours = model.forward(layout, mounted)
    close(ours[0], logits, tolerance=ROUNDED)
    assert len(ours[1]) == len(own) and [[h[0] for h in g] for g in ours[2]] == [[h[0] for h in g] for g in hits]

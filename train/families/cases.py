"""Small models of every family, one case a switch, and random weights for them."""

import torch

STACK = {
    "format_version": 1, "vocab_size": 32, "unk_id": 0, "eos_id": 2, "d": 16, "heads": 4, "head_dim": 8, "ffn": 24,
    "norm_eps": 1e-6, "rope_base": 10000.0, "rope_pairs": "half",
}
CHUNKED = {"kind": "rat", "chunk": 8, "shared_heads": 2, "positions": "rope"}
LOCAL = {"kind": "attention", "window": 7, "positions": "rope"}
RESIDUAL = {"kind": "rattention", "window": 5, "positions": "rope", "qk_norm": True, "feature_map": "softmax"}
RAT = {**STACK, "architecture": "rat", "ffn_kind": "gelu", "layers": 2, "mixers": [CHUNKED]}
HYBRID = {**RAT, "architecture": "rat-swa", "mixers": [CHUNKED, LOCAL]}
RATTENTION = {
    **STACK, "architecture": "rattention", "ffn_kind": "geglu", "layers": 2, "kv_heads": 2, "rope_base": 500000.0,
    "rope_pairs": "interleaved", "head_norm_eps": 1e-8, "mixers": [RESIDUAL],
}
DRT = {
    **STACK, "architecture": "drt-paper", "ffn_kind": "swiglu", "vocab_size": 24, "lmk_id": 1, "heads": 2,
    "norm_eps": 1e-5, "encoder_norm_eps": 1e-6, "mixers": [{"kind": "attention", "window": 70, "positions": "alibi"}],
    "n_low": 1, "groups": [{"layers": 1, "gca_layers": [0]}, {"layers": 1, "gca_layers": [0]}], "encoder_layers": 1,
    "n_ret": 2, "d_r": 16, "memory_kv_heads": 2, "chunk_tokens": 63, "landmark_at": "end", "landmark_row": "stream",
    "landmark_reads": "predecessor", "score_projections": False, "gca_residual": "bypass", "gca_softmax": "off_by_one",
}
# In the Hugging Face layout.
LLAMA = {
    "model_type": "llama", "vocab_size": 32, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2,
    "num_attention_heads": 3, "num_key_value_heads": 1, "max_position_embeddings": 128, "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": True, "eos_token_id": 2,
}
# Of a head's four pairs the first keeps its angle, the second is between, and the others turn 8 times slower.
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 128}
# Whole chunks, an open block at the end. Early flushes and mounted documents in cases of their own.
PLAIN = ([], [340])
FLUSHES = ([150, 40, 1], [12, "flush", 70, "flush", "flush", 5, "flush", 126, "flush", 30])
FLUSHES_64 = ([150, 40, 1], [12, "flush", 70, "flush", "flush", 5, "flush", 128, "flush", 30])


def only(base, **mixer):
    """base with all its mixers' keys changed."""
    return {**base, "mixers": [{**m, **mixer} for m in base["mixers"]]}


# name: (config, documents' lengths, session events as lengths or "flush")
CASES = {
    "rat": (RAT, [], [45]),
    "rat_chunk_of_one": (only(RAT, chunk=1), [], [20]),
    "rat_one_chunk": (only(RAT, chunk=64), [], [45]),
    "rat_no_sharing": (only(RAT, shared_heads=4), [], [45]),
    "rat_no_positions": (only(RAT, positions="none"), [], [45]),
    "rat_swa": ({**HYBRID, "layers": 3}, [], [45]),
    "rat_swa_no_positions": ({**HYBRID, "mixers": [{**CHUNKED, "positions": "none"}, LOCAL]}, [], [45]),
    "rat_swa_full": ({**HYBRID, "mixers": [CHUNKED, {**LOCAL, "window": None}]}, [], [45]),
    "rattention": (RATTENTION, [], [30]),
    "rattention_global": ({**RATTENTION, "layers": 4, "mixers": [RESIDUAL] * 3 + [
        {"kind": "attention", "window": None, "positions": "none", "qk_norm": True}]}, [], [30]),
    "rattention_relu": (only(RATTENTION, feature_map="relu"), [], [30]),
    "rattention_learned_init": (only(RATTENTION, learned_tokens=3), [], [30]),
    "rattention_qk_scale": (only(RATTENTION, qk_scale=True, qk_norm=False), [], [30]),
    "rattention_one_kv_head": ({**RATTENTION, "kv_heads": 1}, [], [30]),
    "rattention_window_of_one": (only(RATTENTION, window=0), [], [30]),
    "rattention_no_window": (only(RATTENTION, window=-1, qk_norm=False), [], [30]),
    "llama": (LLAMA, [], [45]),
    "llama_untied": ({**LLAMA, "hidden_size": 16, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
                      "tie_word_embeddings": False}, [], [45]),
    "llama_scaled": ({**LLAMA, "rope_scaling": LLAMA3}, [], [60]),
    "drt_paper": (DRT, *PLAIN),
    "drt_paper_64": ({**DRT, "chunk_tokens": 64, "gca_softmax": "ordinary"}, *FLUSHES_64),
    "drt_paper_flushes": (DRT, *FLUSHES),
    "drt_paper_layers": ({**DRT, "encoder_layers": 2, "kv_heads": 1, "memory_kv_heads": 1, "d": 12, "d_r": 12,
                          "groups": [{"layers": 3, "gca_layers": [0, 2]}]}, *PLAIN),
    "drt_paper_three_heads": ({**DRT, "heads": 3, "memory_kv_heads": 3}, *PLAIN),
    "drt_paper_encoder_eps": ({**DRT, "encoder_norm_eps": 1e-2}, *PLAIN),
    "drt_paper_rope": (only(DRT, positions="rope"), *PLAIN),
    "drt_paper_ordinary_softmax": ({**DRT, "gca_softmax": "ordinary"}, *PLAIN),
    "drt_paper_add": ({**DRT, "gca_residual": "add"}, *PLAIN),
    "drt_paper_reads_own": ({**DRT, "landmark_reads": "own"}, *PLAIN),
    "drt_paper_projections": ({**DRT, "score_projections": True, "d_r": 12}, *PLAIN),
    "drt_paper_cls": ({**DRT, "landmark_row": "cls"}, *PLAIN),
    "drt_paper_start": ({**DRT, "landmark_at": "start"}, *FLUSHES),
    "drt_paper_as_flagship": ({**only(DRT, positions="rope"), "landmark_at": "start", "landmark_row": "cls",
                               "landmark_reads": "own", "score_projections": True, "gca_residual": "add"}, *FLUSHES),
}
# Cases that go on after their events with greedy tokens; their weights are random_weights' with these sublayers.
GENERATING = {"llama", "rat", "rat_swa", "rattention_global", "drt_paper_64", "drt_paper_flushes", "drt_paper_start", "drt_paper_as_flagship"}
LIVELY = 3


def draw(rng, config, n):
    return [rng.randrange(3, config["vocab_size"]) for _ in range(n)]


def draw_session(rng, config, documents, events):
    """Random tokens for a case's lengths."""
    return [draw(rng, config, n) for n in documents], [e if isinstance(e, str) else draw(rng, config, e) for e in events]


def random_weights(shapes, seed, sublayers=1):
    """Random weights of a lively scale, so that every part moves the logits. `sublayers` scales what mixers, FFNs and GCA add to
    the residual stream: at 1 the next greedy token is mostly the last one again, as embedding and head are tied."""
    generator = torch.Generator().manual_seed(seed)
    weights = {}
    for name, shape in shapes.items():
        x = torch.randn(shape, generator=generator)
        if "norm" in name or "scale" in name:
            weights[name] = 1 + 0.2 * x
        elif name.endswith(("embed.weight", "embed_tokens.weight")):
            weights[name] = 0.7 * x
        else:
            weights[name] = x if len(shape) != 2 else x / shape[1] ** 0.5
        if name.startswith(("layers.", "model.layers.")) and name.endswith(("out_proj.weight", "o_proj.weight", "down_proj.weight")):
            weights[name] *= sublayers
    return weights

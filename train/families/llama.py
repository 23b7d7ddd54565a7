"""LLaMA, as transformers has it: grouped-query attention over everything before, SwiGLU, tied or untied head. Config and tensors have
the names of the Hugging Face layout."""

import math

import torch

from .parts import FFN_KINDS, Attention, Model


def divisors(scaling, base, width):
    """By what LLaMA 3 divides each pair's frequency: long wavelengths turn `factor` times slower, short ones stay."""
    if not scaling:
        return [1.0] * (width // 2)
    if scaling["rope_type"] == "linear":
        return [scaling["factor"]] * (width // 2)
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    result = []
    for j in range(width // 2):
        turns = scaling["original_max_position_embeddings"] / (2 * math.pi * base ** (2 * j / width))
        kept = min(max((turns - low) / (high - low), 0), 1)
        result.append(1 / ((1 - kept) / scaling["factor"] + kept))
    return result


def sizes(c):
    """-> (heads, key-value heads, head width)."""
    H = c["num_attention_heads"]
    return H, c.get("num_key_value_heads") or H, c.get("head_dim") or c["hidden_size"] // H


class LlamaAttention(Attention):
    """Attention with its projections apart."""

    def __init__(self, c, w):
        H, G, width = sizes(c)
        base = c.get("rope_theta", 10000.0)
        shared = {"heads": H, "kv_heads": G, "head_dim": width, "rope_base": base, "rope_pairs": "half",
                  "rope_divisors": divisors(c.get("rope_scaling"), base, width)}
        super().__init__(shared, {"positions": "rope"}, w)

    @staticmethod
    def shapes(c, spec=None):
        H, G, width = sizes(c)
        d = c["hidden_size"]
        return {"q_proj.weight": (H * width, d), "k_proj.weight": (G * width, d), "v_proj.weight": (G * width, d),
                "o_proj.weight": (d, H * width)}

    def project(self, x):
        return [self.w.lin(f"{name}_proj", x).unflatten(-1, (-1, self.c["head_dim"])) for name in "qkv"]

    def out(self, heads):
        return self.w.lin("o_proj", heads.flatten(1))


class LlamaModel(Model):
    def __init__(self, config, tensors):
        self.start(config, tensors, config["rms_norm_eps"])
        self.mixers = [LlamaAttention(config, self.layer(i).at("self_attn")) for i in range(config["num_hidden_layers"])]

    @classmethod
    def shapes(cls, c):
        d, hidden = c["hidden_size"], c["intermediate_size"]
        shapes = {"model.embed_tokens.weight": (c["vocab_size"], d), "model.norm.weight": (d,)}
        for i in range(c["num_hidden_layers"]):
            layer = {"input_layernorm.weight": (d,), "post_attention_layernorm.weight": (d,), "mlp.gate_proj.weight": (hidden, d),
                     "mlp.up_proj.weight": (hidden, d), "mlp.down_proj.weight": (d, hidden),
                     **{f"self_attn.{name}": shape for name, shape in LlamaAttention.shapes(c).items()}}
            shapes.update({f"model.layers.{i}.{name}": shape for name, shape in layer.items()})
        if not c["tie_word_embeddings"]:
            shapes["lm_head.weight"] = (c["vocab_size"], d)
        return shapes

    def layer(self, i):
        return self.w.at(f"model.layers.{i}")

    def embed(self, ids):
        return self.w["model.embed_tokens.weight"][torch.tensor(ids)]

    def mix(self, i, h, mixer=None):
        return h + (mixer or self.mixers[i].forward)(self.layer(i).norm("input_layernorm", h, self.eps))

    def finish(self, i, a, u=None):
        w = self.layer(i)
        x, mlp = w.norm("post_attention_layernorm", a, self.eps), w.at("mlp")
        return a + mlp.lin("down_proj", FFN_KINDS["swiglu"](mlp.lin("gate_proj", x)) * mlp.lin("up_proj", x))

    def logits(self, h):
        head = "model.embed_tokens" if self.c["tie_word_embeddings"] else "lm_head"
        return self.w.norm("model.norm", h, self.eps) @ self.w[f"{head}.weight"].T

"""The frozen base: a language model of the Llama architecture, from a GGUF file or a directory in the Hugging Face layout.

Letters: B sequences, T positions, H query heads, G key-value heads, dh head width, d width of the residual stream.
"""

import copy
import hashlib
import json
import os

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from tokenizers import Tokenizer

from data.smollm import read_tokenizer, token_texts
from families.llama import divisors, sizes

# Names of a layer's tensors: here, in the Hugging Face layout, in a GGUF file.
TENSORS = {
    "attn_norm": ("input_layernorm", "attn_norm"), "q": ("self_attn.q_proj", "attn_q"), "k": ("self_attn.k_proj", "attn_k"),
    "v": ("self_attn.v_proj", "attn_v"), "o": ("self_attn.o_proj", "attn_output"), "ffn_norm": ("post_attention_layernorm", "ffn_norm"),
    "gate": ("mlp.gate_proj", "ffn_gate"), "up": ("mlp.up_proj", "ffn_up"), "down": ("mlp.down_proj", "ffn_down")}


STOP = ("<|endoftext|>", "<|im_end|>")  # tokens that end an answer
SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"


def halves(rows, heads):
    """Rows of Q or K [H dh, d] as a GGUF file has them, with a pair of RoPE side by side, in halves: first the first of each pair."""
    return rows.reshape(heads, -1, 2, rows.shape[-1]).transpose(1, 2).reshape(rows.shape)


def pairs(rows, heads):
    """The inverse of halves."""
    return rows.reshape(heads, 2, -1, rows.shape[-1]).transpose(1, 2).reshape(rows.shape)


def rope_turns(length, width, rope_base, divisor=None):
    """(cos, sin), each [length, width] fp32; angles in double. Both halves have the same angles."""
    frequency = rope_base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    if divisor is not None:
        frequency = frequency / torch.tensor(divisor, dtype=torch.float64)
    angle = torch.arange(length, dtype=torch.float64)[:, None] * frequency
    return tuple(torch.cat([table, table], -1).float() for table in (angle.cos(), angle.sin()))


def rotate(x, turns):
    """RoPE in halves on x [..., T, dh] with the tables of rope_turns."""
    a, b = x.float().chunk(2, -1)
    return (x.float() * turns[0] + torch.cat([-b, a], -1) * turns[1]).to(x.dtype)


def norm(x, weight, eps):
    y = x.float()
    return (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + eps)).to(x.dtype) * weight


def attention_block(h, w, turns, head_dim, eps):
    """h [B, T, d] with its causal self-attention added; w: a layer's tensors; turns: cos and sin [T, dh]."""
    x = norm(h, w["attn_norm"], eps)
    q, k, v = (F.linear(x, w[name]).unflatten(-1, (-1, head_dim)).transpose(1, 2) for name in "qkv")
    k, v = (y.repeat_interleave(q.shape[1] // k.shape[1], 1) for y in (rotate(k, turns), v))
    y = F.scaled_dot_product_attention(rotate(q, turns), k, v, is_causal=True)
    return h + F.linear(y.transpose(1, 2).flatten(2), w["o"])


def ffn_block(h, w, eps):
    """h [B, T, d] with the SwiGLU FFN added."""
    x = norm(h, w["ffn_norm"], eps)
    return h + F.linear(F.silu(F.linear(x, w["gate"])) * F.linear(x, w["up"]), w["down"])


class Base:
    """A frozen model: tensors, no parameters. `config` has the names of the Hugging Face layout."""

    def __init__(self, config, tensors, tokenizer, file):
        """tensors: names of the Hugging Face layout; file: what memory.json names as the base, by its SHA-256."""
        self.config, self.tokenizer, self.file = config, tokenizer, file
        self.d, self.n_layers, self.eps = config["hidden_size"], config["num_hidden_layers"], config["rms_norm_eps"]
        self.heads, self.kv_heads, self.head_dim = sizes(config)
        self.embed, self.final_norm = tensors["model.embed_tokens.weight"], tensors["model.norm.weight"]
        self.head = self.embed if config["tie_word_embeddings"] else tensors["lm_head.weight"]
        self.layers = [{name: tensors[f"model.layers.{i}.{hub}.weight"] for name, (hub, _) in TENSORS.items()}
                       for i in range(self.n_layers)]
        self.texts = token_texts(tokenizer)
        self.stop = [tokenizer.token_to_id(name) for name in STOP]
        tokenizer.encode_special_tokens = True
        self.tables = self.turns(0)
        self.attention_block, self.ffn_block = attention_block, ffn_block

    @classmethod
    def load(cls, path):
        return cls.load_gguf(path) if path.endswith(".gguf") else cls.load_directory(path)

    @classmethod
    def load_directory(cls, path):
        with open(os.path.join(path, "config.json")) as f:
            config = json.load(f)
        weights = os.path.join(path, "model.safetensors")
        tensors = {name: x.float() for name, x in load_file(weights).items()}
        return cls(config, tensors, Tokenizer.from_file(os.path.join(path, "tokenizer.json")), weights)

    @classmethod
    def load_gguf(cls, path):
        import gguf  # Only here, since its directory of a published model needs none.

        reader = gguf.GGUFReader(path)
        field = lambda name: reader.fields[f"llama.{name}"].contents()
        raw = {t.name: torch.from_numpy(gguf.quants.dequantize(t.data, t.tensor_type).copy()) for t in reader.tensors}
        config = {
            "hidden_size": field("embedding_length"), "num_hidden_layers": field("block_count"),
            "intermediate_size": field("feed_forward_length"), "num_attention_heads": field("attention.head_count"),
            "num_key_value_heads": field("attention.head_count_kv"), "rms_norm_eps": field("attention.layer_norm_rms_epsilon"),
            "rope_theta": field("rope.freq_base"), "max_position_embeddings": field("context_length"),
            "vocab_size": len(raw["token_embd.weight"]), "tie_word_embeddings": "output.weight" not in raw}
        tensors = {"model.embed_tokens.weight": raw["token_embd.weight"], "model.norm.weight": raw["output_norm.weight"]}
        if "output.weight" in raw:
            tensors["lm_head.weight"] = raw["output.weight"]
        heads = {"q": config["num_attention_heads"], "k": config["num_key_value_heads"]}
        for i in range(config["num_hidden_layers"]):
            for name, (hub, short) in TENSORS.items():
                x = raw[f"blk.{i}.{short}.weight"]
                tensors[f"model.layers.{i}.{hub}.weight"] = halves(x, heads[name]) if name in heads else x
        return cls(config, tensors, read_tokenizer(path), path)

    def sha256(self):
        with open(self.file, "rb") as f:
            return hashlib.file_digest(f, "sha256").hexdigest()

    def to(self, device, dtype):
        """This base with its tensors on `device` as `dtype`."""
        move = lambda x: x.to(device=device, dtype=dtype)
        self.layers = [{name: move(x) for name, x in layer.items()} for layer in self.layers]
        tied = self.head is self.embed
        self.embed, self.final_norm = move(self.embed), move(self.final_norm)
        self.head = self.embed if tied else move(self.head)
        return self

    def encode(self, text):
        """Ids of plain text: nothing in it becomes a control token, whatever it spells."""
        return self.encoding(text).ids

    def encoding(self, text):
        """The same with the offsets of each id's characters."""
        return self.tokenizer.encode(text, add_special_tokens=False)

    def chat(self, question, system=SYSTEM, before=()):
        """Ids of a ChatML prompt, up to where the answer begins. before: (question, answer) of earlier turns; system: "" for none."""
        start, end = (self.tokenizer.token_to_id(name) for name in ("<|im_start|>", "<|im_end|>"))
        said = lambda role, text: [start, *self.encode(f"{role}\n{text}"), end, *self.encode("\n")]
        ids = said("system", system) if system else []
        for asked, answered in before:
            ids += said("user", asked) + said("assistant", answered)
        return [*ids, *said("user", question), start, *self.encode("assistant\n")]

    def decode(self, ids):
        return self.tokenizer.decode(list(ids), skip_special_tokens=False)

    def turns(self, length):
        """Tables of RoPE for `length` positions."""
        return rope_turns(length, self.head_dim, self.config["rope_theta"],
                          divisors(self.config.get("rope_scaling"), self.config["rope_theta"], self.head_dim))

    def attention(self, i, h):
        """h [B, T, d] with the self-attention of layer i added; positions from 0."""
        if len(self.tables[0]) < h.shape[1] or self.tables[0].device != h.device:
            self.tables = tuple(table.to(h.device) for table in self.turns(h.shape[1]))
        turns = tuple(table[:h.shape[1]] for table in self.tables)
        return self.attention_block(h, self.layers[i], turns, self.head_dim, self.eps)

    def ffn(self, i, h):
        """h [B, T, d] with the FFN of layer i added."""
        return self.ffn_block(h, self.layers[i], self.eps)

    def compiled(self):
        """This base with both blocks compiled, for shapes that do not change. The tensors are the same ones."""
        other = copy.copy(self)
        other.attention_block, other.ffn_block = (torch.compile(block, dynamic=False) for block in (attention_block, ffn_block))
        return other

    def lower(self, ids, n_low):
        """Residual stream [B, T, d] of ids [B, T] after the first `n_low` layers."""
        h = F.embedding(ids, self.embed)
        for i in range(n_low):
            h = self.ffn(i, self.attention(i, h))
        return h

    def logits(self, h):
        """fp32 [..., vocabulary] of h [..., d], the residual stream after the last layer."""
        return F.linear(norm(h, self.final_norm, self.eps), self.head).float()

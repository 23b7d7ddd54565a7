"""Models of the shipped model's layers, width, heads and vocabulary, with random weights: a dense one for llama.cpp (GGUF), and for Recollect one
of family ratplus without recurrence, dense or with a window. For speed only: what they say means nothing.

The shipped model has 5 decoder layers; what else it has (the chunk encoder, lexical keys, GCA) has no counterpart in a dense model.
"""
import json
import pathlib
import shutil

import gguf
import numpy as np

ROPE_BASE, EPSILON = 10000.0, 1e-6
DENSE = {"window": 0, "dilation": 1, "initial": 4}
WINDOW = {"window": 184, "dilation": 1, "initial": 0, "span": 184}  # as many positions as the shipped model's window and dilated ones together


def sizes(model):
    """Of the shipped model: {d, heads, head_dim, ffn, layers, vocab}."""
    config = json.loads((pathlib.Path(model) / "config.json").read_text())
    return {"d": config["d"], "heads": config["heads"], "head_dim": config["head_dim"], "ffn": config["ffn"], "vocab": config["vocab_size"],
            "layers": config["n_low"] + sum(group["layers"] for group in config["groups"])}


def bf16(values):
    """The upper halves of fp32 numbers."""
    return (np.ascontiguousarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)


def random_weights(generator, rows, columns):
    return generator.standard_normal((rows, columns), np.float32) * 0.02


def write_gguf(path, model):
    """A Llama: SwiGLU, RMSNorm, RoPE, the head tied to the embedding, bf16 weights. Returns the number of parameters."""
    s, generator = sizes(model), np.random.default_rng(1)
    inner = s["heads"] * s["head_dim"]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(1 << 24)
    writer.add_embedding_length(s["d"])
    writer.add_block_count(s["layers"])
    writer.add_feed_forward_length(s["ffn"])
    writer.add_head_count(s["heads"])
    writer.add_head_count_kv(s["heads"])
    writer.add_rope_dimension_count(s["head_dim"])
    writer.add_rope_freq_base(ROPE_BASE)
    writer.add_layer_norm_rms_eps(EPSILON)
    writer.add_vocab_size(s["vocab"])
    writer.add_tokenizer_model("no_vocab")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_BF16)
    count = 0

    def matrix(name, rows, columns):
        nonlocal count
        count += rows * columns
        # GGUF's bf16 tensors are given as their bytes
        writer.add_tensor(f"{name}.weight", bf16(random_weights(generator, rows, columns)).view(np.uint8), raw_dtype=gguf.GGMLQuantizationType.BF16)

    def gain(name):
        nonlocal count
        count += s["d"]
        writer.add_tensor(f"{name}.weight", np.ones(s["d"], np.float32))

    matrix("token_embd", s["vocab"], s["d"])
    gain("output_norm")
    for i in range(s["layers"]):
        gain(f"blk.{i}.attn_norm")
        gain(f"blk.{i}.ffn_norm")
        for name in "q", "k", "v":
            matrix(f"blk.{i}.attn_{name}", inner, s["d"])
        matrix(f"blk.{i}.attn_output", s["d"], inner)
        matrix(f"blk.{i}.ffn_gate", s["ffn"], s["d"])
        matrix(f"blk.{i}.ffn_up", s["ffn"], s["d"])
        matrix(f"blk.{i}.ffn_down", s["d"], s["ffn"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return count


def write_recollect(directory, model, tokenizer, local):
    """A model directory of family ratplus with this pattern. Its FFN has two matrices instead of three, so it is half as wide again: as many parameters. The rows
    of the output gate and of the recurrence's gate, which is off, are beyond a Llama's. Returns the number of parameters."""
    s, generator = sizes(model), np.random.default_rng(1)
    inner, ffn = s["heads"] * s["head_dim"], s["ffn"] * 3 // 2
    config = {"format_version": 1, "architecture": "ratplus", "vocab_size": s["vocab"], "unk_id": 0, "eos_id": 2, "d": s["d"], "heads": s["heads"],
              "head_dim": s["head_dim"], "ffn": ffn, "layers": s["layers"], "context": 1024, "recurrence": False, "rope_base": ROPE_BASE,
              "norm_eps": EPSILON, "local": local}
    tensors = {"embed.weight": random_weights(generator, s["vocab"], s["d"]), "final_norm.weight": np.ones(s["d"])}
    for i in range(s["layers"]):
        tensors |= {f"layers.{i}.mixer_norm.weight": np.ones(s["d"]), f"layers.{i}.ffn_norm.weight": np.ones(s["d"]),
                    f"layers.{i}.mixer.in_proj.weight": random_weights(generator, 5 * inner, s["d"]),
                    f"layers.{i}.mixer.out_proj.weight": random_weights(generator, s["d"], inner),
                    f"layers.{i}.ffn.in_proj.weight": random_weights(generator, ffn, s["d"]),
                    f"layers.{i}.ffn.out_proj.weight": random_weights(generator, s["d"], ffn)}
    directory.mkdir(parents=True, exist_ok=True)
    shutil.copy(pathlib.Path(tokenizer) / "tokenizer.model", directory)
    (directory / "config.json").write_text(json.dumps(config, indent=1))
    header, data = {}, b""
    for name, values in tensors.items():
        piece = bf16(values).tobytes()
        header[name] = {"dtype": "BF16", "shape": list(np.shape(values)), "data_offsets": [len(data), len(data) + len(piece)]}
        data += piece
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (directory / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)
    return sum(np.size(values) for values in tensors.values())

"""Writes the golden case of tests/golden/memory: a small random base with a small random memory, and what the oracle computes with
them for one document and two prompts. With --base the same for other weights, another text and one question:

    PYTHONPATH=train python -m memory.goldens --out tests/golden/memory
    PYTHONPATH=train python -m memory.goldens --base BASE --memory models/smollm2-memory --text FILE --question "..." --out DIR

The format is described in tests/golden/memory/README.md.
"""

import argparse
import json
import lzma
import os

import torch
from safetensors.torch import save_file

from families.llama import LlamaModel

from .base import Base
from .export import load, make_config, save
from .judge import FEATURES
from .model import Adapter
from .oracle import Oracle

VERSION = 1
ANSWER_TOKENS = 32
SMALLEST_GAP = 2e-2  # between the last block that is retrieved and the next one, and between an answer's token and the next best
FEWEST_CHANGES = 16  # of 31, from a token of an answer to the next

TOKENIZER, TEXT, TEXT_CHARACTERS = "tests/support/tiny_bpe_tokenizer.json", "examples/books.txt.xz", 900
QUESTION = "Who came with the train in the evening, and what had he in his hand?"
BASE = {
    "model_type": "llama", "vocab_size": 512, "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 1024, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
    "hidden_act": "silu", "tie_word_embeddings": True, "eos_token_id": 2}
MEMORY = {"n_low": 2, "gca_layers": [2, 3], "d_r": 16, "d_pointer": 8, "n_ret": 3, "encoder_layers": 2, "encoder_ffn": 48,
          "segment_tokens": 128, "score_shares": {"dense": 0.7, "sparse": 1.4},
          # It prefers long sentences of unlikely spans; the model's own words if the weight of nothing is more than about 0.5.
          "judge": {"features": FEATURES, "passage_blocks": 3, "sentence_tokens": 12, "refusal": "No.", "linear": [0, -1000] + 7 * [0] + [-1, 0.5, 0.2, 0],
                    "hidden": [15 * [0.125], [1000, -15, 0, 15, 1] + 10 * [0]]}}
CHAT_TEMPLATE = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou are a helpful AI "
    "assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}{{ '<|im_start|>' + message['role'] + '\n' + "
    "message['content'] + '<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")


def compute_document(oracle, text):
    """-> (Blocks, tensors of a document)."""
    tokens = oracle.base.encode(text)
    blocks = oracle.read(tokens)
    return blocks, {"tokens": torch.tensor(tokens), "block_lengths": blocks.valid.sum(1), "keys": blocks.keys, "words": blocks.words,
                    "word_weights": blocks.word_weights, "states": blocks.states, "pointer_keys": blocks.pointer_keys}


def compute_prompt(oracle, blocks, prompt):
    """-> (tensors of a prompt, smallest gap)."""
    found = oracle.retrieve(prompt, blocks)
    logits, log_probs = oracle.step(prompt, len(prompt), blocks, found)
    answer, lead = oracle.answer(prompt, ANSWER_TOKENS, blocks)
    base_answer, base_lead = oracle.answer(prompt, ANSWER_TOKENS)
    best = found.scores.sort(descending=True).values
    n_ret = oracle.config["n_ret"]
    gap = (best[n_ret - 1] - best[n_ret]).item() if len(best) > n_ret else float("inf")
    return {"prompt": torch.tensor(prompt), "query": found.q, "query_words": found.words, "query_word_weights": found.word_weights,
            "nothing": found.nothing[None], "scores": found.scores, "chosen": found.chosen, "weights": found.weights,
            "weight_nothing": found.weight_nothing[None], "logits": logits, "log_probs": log_probs, "answer": torch.tensor(answer),
            "base_answer": torch.tensor(base_answer)}, min(gap, lead, base_lead)


def compute(oracle, text, question, short=False):
    """-> (case.json, {file's name: its tensors}, smallest gap). short: with a prompt of the question alone, without a chat template."""
    blocks, document = compute_document(oracle, text)
    prompt, gap = compute_prompt(oracle, blocks, oracle.base.chat(question))
    case = {"version": VERSION, "torch": torch.__version__.split("+")[0], "text": text, "question": question,
            **{name: oracle.base.decode(prompt[name].tolist()) for name in ("answer", "base_answer")}}
    files = {"case": document | prompt}
    if short:
        files["short"], other = compute_prompt(oracle, blocks, oracle.base.encode(question))
        gap = min(gap, other)
    narrow = lambda x: x.to(torch.int32) if x.dtype == torch.int64 else x
    return case, {name: {key: narrow(x) for key, x in tensors.items()} for name, tensors in files.items()}, gap


def lively(oracle, files):
    """Whether answers change token often, those of the memory are not the base's own, and a block is both a hit and a successor."""
    changes = [(x[1:] != x[:-1]).sum() for tensors in files.values() for x in (tensors["answer"], tensors["base_answer"])]
    lengths, twice = files["case"]["block_lengths"], False
    first = (lengths.cumsum(0) - lengths) % oracle.config["segment_tokens"] == 0
    for tensors in files.values():
        hits = set(tensors["scores"].topk(oracle.config["n_ret"]).indices.tolist())
        twice = twice or any(b - 1 in hits and not first[b] for b in hits)
        if torch.equal(tensors["answer"], tensors["base_answer"]):
            return False
    return twice and min(changes) >= FEWEST_CHANGES


def write_json(folder, name, content, **kwargs):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
        json.dump(content, f, ensure_ascii=False, **kwargs)
        f.write("\n")


def write_tensors(folder, name, tensors):
    path = os.path.join(folder, name)
    save_file({key: x.contiguous() for key, x in tensors.items()}, path)
    os.chmod(path, 0o644)


def write(folder, oracle, case, files):
    write_json(folder, "case.json", case)
    write_json(folder, "words.json", oracle.word_list)
    for name, tensors in files.items():
        write_tensors(folder, f"{name}.safetensors", tensors)


def write_base(folder, seed):
    """A random base whose layers add so much to the residual stream that its answers do not repeat themselves."""
    with open(TOKENIZER, encoding="utf-8") as f:
        tokenizer = json.load(f)
    model, size = tokenizer["model"], BASE["vocab_size"]
    model["vocab"] = {token: i for token, i in model["vocab"].items() if i < size}
    model["merges"] = [pair for pair in model["merges"] if "".join(pair) in model["vocab"]]
    write_json(folder, "config.json", BASE, indent=2)
    write_json(folder, "tokenizer.json", tokenizer, separators=(",", ":"))
    write_json(folder, "tokenizer_config.json", {"eos_token": "<|im_end|>", "chat_template": CHAT_TEMPLATE}, indent=2)
    random = torch.Generator().manual_seed(seed)
    tensors = {}
    for name, shape in LlamaModel.shapes(BASE).items():
        x = torch.randn(shape, generator=random)
        out = "o_proj" in name or "down_proj" in name
        tensors[name] = 1 + 0.2 * x if len(shape) == 1 else 0.4 * x if "embed" in name else (4.0 if out else 1.0) * x / shape[1] ** 0.5
    write_tensors(folder, "model.safetensors", tensors)


@torch.no_grad()
def random_adapter(base, seed):
    """Random weights of a lively scale: every part moves the result, and the scores of several blocks and of nothing are close."""
    random = torch.Generator().manual_seed(seed)
    adapter = Adapter(make_config(base, "tiny", **MEMORY), base)
    for name, p in adapter.named_parameters():
        x = torch.randn(p.shape, generator=random)
        if name.endswith("norm.weight"):
            p.copy_(1 + 0.2 * x)
        elif name in ("score.mix.weight", "score.nothing.weight", "pointer.gate.weight", "words.key_proj.weight", "words.query_proj.weight"):
            p.copy_(0.5 * x / base.d ** 0.5)
        elif p.dim() == 1:
            p.copy_({"score.scale": torch.tensor([0.5, -3.0]), "score.nothing.bias": torch.ones(1)}.get(name, 0) + 0.3 * x
                    + (1 if name.endswith("gate") else 0))
        else:
            p.copy_(x / p.shape[1] ** 0.5)
    return adapter


def write_models(folder, seed):
    write_base(os.path.join(folder, "base"), seed)
    save(random_adapter(Base.load(os.path.join(folder, "base")), seed), folder)


def open_models(folder):
    base = Base.load(os.path.join(folder, "base"))
    return Oracle(base, load(folder, base))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="tests/golden/memory")
    parser.add_argument("--base", help="GGUF file or directory in the Hugging Face layout")
    parser.add_argument("--memory", help="directory with memory.json and memory.safetensors")
    parser.add_argument("--text", help="file with the document's text")
    parser.add_argument("--question")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.base:
        base = Base.load(args.base)
        oracle = Oracle(base, load(args.memory, base))
        with open(args.text, encoding="utf-8") as f:
            case, files, gap = compute(oracle, f.read(), args.question)
    else:
        with lzma.open(TEXT, "rt", encoding="utf-8") as f:
            text = f.read(TEXT_CHARACTERS)
        seed, gap = 0, 0.0
        while gap < SMALLEST_GAP or not lively(oracle, files):
            seed += 1
            write_models(args.out, seed)
            oracle = open_models(args.out)
            case, files, gap = compute(oracle, text, QUESTION, short=True)
            case["seed"] = seed
    write(args.out, oracle, case, files)
    print(f"{len(files['case']['tokens'])} tokens, {len(files['case']['keys'])} blocks, gap {gap:.4f}: {case['answer']!r}")


if __name__ == "__main__":
    main()

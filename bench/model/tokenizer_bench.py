"""How fast a byte-level BPE is against the PyPI package `tokenizers`: the same texts, vocabulary and rule, one thread each, the time of
the processor, and whether the ids are the same. Needs `tokenizers`, `numpy` and `gguf`.

    python bench/model/tokenizer_bench.py --bench build/release/bin/tokenizer_bench --gguf SmolLM2-135M-Instruct.Q4_1.gguf book.txt

The library encodes with encode_batch of pieces of text, which is its fast way; a piece is what the service's ingest would decide at
once. Prints a row for each of the four rules.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import gguf
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/model/text"))
from bpe_rules import RULES, with_rule  # noqa: E402

os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
CONTROL = 3


def vocabulary(path):
    """A GGUF file's vocabulary as a tokenizer.json, and its chat template."""
    fields = gguf.GGUFReader(path).fields
    tokens, merges, types = (fields[f"tokenizer.ggml.{name}"].contents() for name in ("tokens", "merges", "token_type"))
    added = [{"id": i, "content": token, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
             for i, (token, kind) in enumerate(zip(tokens, types)) if kind == CONTROL]
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
             "fuse_unk": False, "byte_fallback": False, "ignore_merges": False, "vocab": {t: i for i, t in enumerate(tokens)},
             "merges": merges}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None, "pre_tokenizer": None,
            "post_processor": None, "decoder": None, "model": model}, fields["tokenizer.chat_template"].contents()


def library_ids(tokenizer, texts):
    """The ids of each text, and the processor's seconds."""
    begin = time.process_time()
    ids = [encoding.ids for encoding in tokenizer.encode_batch_fast(texts, add_special_tokens=False)]
    return ids, time.process_time() - begin


def compare(bench, tokenizer, rule, paths, folder):
    """One row of the table; `same` says whether all ids are."""
    from tokenizers import Tokenizer
    ours_file = pathlib.Path(folder, f"{rule}.json")
    ours_file.write_text(json.dumps(with_rule(tokenizer, rule, controls=True)), encoding="utf-8")
    ids_file = pathlib.Path(folder, "ids")
    printed = subprocess.run([bench, "--tokenizer", ours_file, "--ids", ids_file, "--repeat", "3", *paths], check=True,
                             capture_output=True, text=True).stdout
    size, count, seconds = re.search(r"(\d+) bytes, (\d+) tokens: ([\d.]+) s", printed).groups()
    ours = np.fromfile(ids_file, dtype=np.int32)
    library = Tokenizer.from_str(json.dumps(with_rule(tokenizer, rule)))
    expected, library_seconds = library_ids(library, [pathlib.Path(path).read_bytes().decode() for path in paths])
    expected = np.concatenate([np.array(ids, dtype=np.int32) for ids in expected])
    return {"rule": rule, "bytes": int(size), "tokens": int(count), "seconds": float(seconds), "library_seconds": library_seconds,
            "same": len(ours) == len(expected) and bool((ours == expected).all()),
            "first_difference": int(np.argmax(ours[:len(expected)] != expected[:len(ours)]))}


def table(rows):
    lines = ["rule        bytes       tokens    tokens/s      MB/s  library tokens/s   ratio  same ids"]
    for row in rows:
        ours, theirs = row["tokens"] / row["seconds"], row["tokens"] / row["library_seconds"]
        lines.append(f"{row['rule']:<10}{row['bytes']:>10}{row['tokens']:>11}{ours:>12.0f}{row['bytes'] / row['seconds'] / 1e6:>10.1f}"
                     f"{theirs:>18.0f}{ours / theirs:>8.1f}  {'yes' if row['same'] else 'NO'}")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bench", required=True, help="the program tokenizer_bench")
    parser.add_argument("--gguf", required=True, help="a GGUF file with a byte-level vocabulary")
    parser.add_argument("texts", nargs="+", help="files of UTF-8 text")
    arguments = parser.parse_args()
    tokenizer, _ = vocabulary(arguments.gguf)
    with tempfile.TemporaryDirectory() as folder:
        rows = [compare(arguments.bench, tokenizer, rule, arguments.texts, folder) for rule in RULES]
    print(table(rows))
    return 0 if all(row["same"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())

"""Writes whole_text_cases.json: texts, their ids and the ids' text by the SentencePiece library, which C++ must equal.

    python tests/model/text/make_whole_text_cases.py > tests/model/text/whole_text_cases.json
"""

import json
import pathlib
import random
import sys

import sentencepiece as spm

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "train"))
from make_tokenizer_cases import PROSE  # noqa: E402
from data.tokenizer import hostile_texts  # noqa: E402


def main():
    model = spm.SentencePieceProcessor(model_file=str(ROOT / "tests/support/llama_tokenizer.model"))
    rng = random.Random(5)
    texts = ["", " ", "  ", "\n", "the", " the", "  the", "the ", "\u2581", "a\u2581 \u2581b", "\u2581the", PROSE,
             "<s> is </s>", "<unk><0x41>", "x" * 300, " " * 40, "    if (a) {\n        return b;\n    }\n", "48213", "\u4e2d\u6587",
             "e\u0301" * 90, "\x00\x01 \x7f", "the" * 200, "ab" * 500]
    texts += rng.sample(hostile_texts(), 12)
    cases = []
    for text in texts:
        ids = model.encode(text)
        cases.append({"text": text, "ids": ids, "decoded": model.decode(ids)})
    json.dump(cases, sys.stdout, separators=(",", ":"))
    print()


if __name__ == "__main__":
    main()

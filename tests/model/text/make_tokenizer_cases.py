"""Writes tokenizer_cases.json: texts and their ids by train/data/tokenizer.py, which C++ must equal; "shipped" are those of the shipped
model's tokenizer, of texts that are not long.

    python tests/model/text/make_tokenizer_cases.py > tests/model/text/tokenizer_cases.json
"""

import json
import pathlib
import random
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "train"))
from data.tokenizer import Tokenizer, hostile_texts  # noqa: E402

PROSE = (
    "It was the best of times, it was the worst of times; the pass key for Marlow is 48213.\n\n"
    "\u201cNa\u00efve caf\u00e9,\u201d she said \u2014 \u4e2d\u6587\u6587\u672c and \u0440\u0443\u0441\u0441\u043a\u0438\u0439.\r\n\tTabs\tand   runs.\n"
)


def main():
    tiny = Tokenizer(str(ROOT / "tests/support/tiny_tokenizer.model"))
    shipped = Tokenizer(str(ROOT / "models/recollect-7m/tokenizer.model"))
    rng = random.Random(3)
    texts = ["", " ", "\n", "\u2581", "a\u2581 \u2581b", PROSE, "<lmk> is <eos>", "x" * 255 + "\u00e9", "x" * 256 + " y",
             "\U0001f600" * 100, "\u2581" * 5, " " * 600, "a" * 1000, "e\u0301" * 90, "\x00\x01 \x7f", PROSE[:101] * 3]
    texts += rng.sample(hostile_texts(), 30)
    cases = [{"text": text, "ids": tiny.encode(text)} for text in texts]
    for case in cases:
        if len(case["text"]) <= 300:
            case["shipped"] = shipped.encode(case["text"])
    json.dump(cases, sys.stdout, separators=(",", ":"))
    print()


if __name__ == "__main__":
    main()

"""Trains tiny_bpe_tokenizer.json: a byte-level BPE of 4096 tokens with the rule smollm and the control tokens of ChatML, for tests
that need such a vocabulary but not a good one. Needs the PyPI package `tokenizers`.

    python tests/support/make_tiny_bpe_tokenizer.py examples/books.txt.xz tests/support/tiny_bpe_tokenizer.json
"""

import json
import lzma
import sys

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

TOKENS = 4096
CONTROLS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
# Some words in other scripts and in code, so that merges cross the bytes of a character there too.
OTHER = ["Привет, как дела? Это хорошо. ", "Γειά σου κόσμε. ", "中文和日本語の文章です。", "안녕하세요 세계. ", "مرحبا بالعالم ",
         "नमस्ते दुनिया ", "naïve façade coöperate Ångström ", "for (int i = 0; i < 10; ++i) {\n    return 0;\n}\n\n", "🐋🐳🚢 "]


def main():
    books, out = sys.argv[1:]
    with lzma.open(books, "rt", encoding="utf-8") as file:
        text = file.read(1_500_000)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        [text] + OTHER * 40, trainers.BpeTrainer(vocab_size=TOKENS, special_tokens=CONTROLS, show_progress=False,
                                                 initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    with open(out, "w", encoding="utf-8") as file:
        json.dump(json.loads(tokenizer.to_str()), file, ensure_ascii=False, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()

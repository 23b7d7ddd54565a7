"""Trains llama_tokenizer.model: 400 pieces of the kinds LLaMA's model has, for tests.

    python tests/support/make_llama_tokenizer.py books.jsonl.xz tests/support/llama_tokenizer.model

`books.jsonl.xz` holds one {"text": ...} a line; the first 300 000 characters are used, some of them indented, so that
runs of spaces become pieces. Whole texts, a space put before each (dummy prefix), bytes for what has no piece, and the
control symbols <s> and </s>.
"""

import io
import json
import lzma
import sys

import sentencepiece as spm

SAMPLE_CHARACTERS = 300_000


def main():
    books, out = sys.argv[1:]
    text = ""
    with lzma.open(books, "rt", encoding="utf-8") as lines:
        for line in lines:
            text += json.loads(line)["text"]
            if len(text) >= SAMPLE_CHARACTERS:
                break
    lines = [line for line in text[:SAMPLE_CHARACTERS].split("\n") if line]
    lines += [" " * (2 + 2 * (i % 8)) + line for i, line in enumerate(lines[:2000])]
    model = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, model_type="bpe", vocab_size=400,
        split_digits=True, byte_fallback=True, normalization_rule_name="identity",
        add_dummy_prefix=True, remove_extra_whitespaces=False, allow_whitespace_only_pieces=True,
        character_coverage=0.995, unk_id=0, bos_id=1, eos_id=2, pad_id=-1, num_threads=1,
        minloglevel=1)
    with open(out, "wb") as f:
        f.write(model.getvalue())


if __name__ == "__main__":
    main()

"""Trains tiny_tokenizer.model: 320 pieces, for tests that need a tokenizer but not a good one.

    python tests/support/make_tiny_tokenizer.py books.jsonl.xz tests/support/tiny_tokenizer.model

`books.jsonl.xz` holds one {"text": ...} a line; the first million characters are used. The options are those of
train/data/tokenizer.py, so the tiny model has the same kinds of pieces: bytes, control symbols, newlines.
"""

import io
import json
import lzma
import re
import sys

import sentencepiece as spm

SAMPLE_CHARACTERS = 1_000_000


def main():
    books, out = sys.argv[1:]
    text = ""
    with lzma.open(books, "rt", encoding="utf-8") as lines:
        for line in lines:
            text += json.loads(line)["text"]
            if len(text) >= SAMPLE_CHARACTERS:
                break
    segments = re.findall(r"\s*\S{1,60}", text[:SAMPLE_CHARACTERS].replace("\t", " "))
    model = io.BytesIO()
    # A low coverage leaves rare letters to the byte pieces, so that 320 pieces have room for some merges.
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(segments), model_writer=model, model_type="bpe", vocab_size=320,
        split_digits=True, byte_fallback=True, normalization_rule_name="identity",
        add_dummy_prefix=False, remove_extra_whitespaces=False, allow_whitespace_only_pieces=True,
        character_coverage=0.98, user_defined_symbols=["\n", "\n\n"],
        control_symbols=["<lmk>", "<eos>"], unk_id=0, bos_id=-1, eos_id=-1, pad_id=-1,
        max_sentencepiece_length=16, num_threads=1, minloglevel=1)
    with open(out, "wb") as f:
        f.write(model.getvalue())


if __name__ == "__main__":
    main()

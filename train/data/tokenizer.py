"""Tokenizer: fixed pre-split rule plus SentencePiece BPE; trains, encodes, decodes.

Text is first cut into segments by a rule on the text alone (docs/tokenizers.md, "Tokenizer"), each
segment is encoded on its own, and the ids are concatenated. Message sizes therefore never change
tokens, and every UTF-8 string comes back byte for byte.

    PYTHONPATH=train python -m data.tokenizer --out models/recollect-7m/tokenizer.model
"""

import argparse
import io
import json
import lzma
import random
import re

import sentencepiece as spm

UNK_ID, LMK_ID, EOS_ID = 0, 1, 2
VOCAB_SIZE = 4096
MAX_SEGMENT_BYTES = 256
# SentencePiece writes a space as this character, so the character itself must go through bytes.
SPACE_MARK = "\u2581"
_SEGMENT = re.compile(r"[ \t\n\r]*[^ \t\n\r]+|[ \t\n\r]+")


def _split_long(segment):
    """Cuts rule (2) and (3) inside one run of whitespace and non-whitespace characters."""
    parts, start, size, previous_mark = [], 0, 0, False
    for i, c in enumerate(segment):
        width, mark = len(c.encode()), c == SPACE_MARK
        if i > start and (mark or previous_mark or size + width > MAX_SEGMENT_BYTES):
            parts.append(segment[start:i])
            start, size = i, 0
        size += width
        previous_mark = mark
    return parts + [segment[start:]]


def split_segments(text):
    """Segments of `text` (a list of str whose concatenation is `text`).

    A cut falls (1) before a whitespace character that follows a non-whitespace character, (2) before
    and after every U+2581, (3) before a character that would make the segment longer than 256 bytes.
    """
    segments = []
    for segment in _SEGMENT.findall(text):
        if len(segment) > MAX_SEGMENT_BYTES // 4 or SPACE_MARK in segment:
            segments += _split_long(segment)
        else:
            segments.append(segment)
    return segments


class Tokenizer:
    """Encodes and decodes text. Not for serving: `recollect::model` has its own reader of the same file."""

    def __init__(self, path):
        self.sp = spm.SentencePieceProcessor(model_file=path)
        self.vocab_size = self.sp.get_piece_size()
        self._cache = {}
        self._mark_ids = [self.sp.piece_to_id("<0x%02X>" % b) for b in SPACE_MARK.encode()]
        self.token_bytes = []  # of every id; control symbols have none
        for i in range(self.vocab_size):
            piece = self.sp.id_to_piece(i)
            if self.sp.is_byte(i):
                self.token_bytes.append(bytes([int(piece[3:5], 16)]))
            elif self.sp.is_control(i) or self.sp.is_unknown(i):
                self.token_bytes.append(b"")
            else:
                self.token_bytes.append(piece.replace(SPACE_MARK, " ").encode())

    def encode(self, text):
        """Token ids (list of int) of `text`; never unk, lmk or eos."""
        ids = []
        for segment in split_segments(text):
            known = self._cache.get(segment)
            if known is None:
                known = list(self._mark_ids) if segment == SPACE_MARK else self.sp.encode(segment)
                if len(self._cache) < 1_000_000:
                    self._cache[segment] = known
            ids.extend(known)
        return ids

    def decode_bytes(self, ids):
        """Bytes of `ids`; control symbols become nothing."""
        return b"".join(self.token_bytes[i] for i in ids)

    def decode(self, ids):
        return self.decode_bytes(ids).decode("utf-8", errors="replace")


def read_books(path, skip_authors=()):
    """Rows {author, title, text} of a books file, without the authors to skip."""
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            if row["author"] not in skip_authors:
                yield row


def train_tokenizer(books, out, sample_bytes=10_000_000, seed=1):
    """Trains on random passages of `books` (an iterable of rows) and writes the model file `out`."""
    rng, texts = random.Random(seed), [row["text"] for row in books]
    total = sum(len(t) for t in texts)
    segments = []
    for text in texts:
        for _ in range(max(1, round(len(text) / total * sample_bytes / 20_000))):
            start = rng.randrange(max(1, len(text) - 20_000))
            segments += split_segments(text[start:start + 20_000].replace("\t", " "))
    model = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(segments), model_writer=model, model_type="bpe", vocab_size=VOCAB_SIZE,
        split_digits=True, byte_fallback=True, normalization_rule_name="identity",
        add_dummy_prefix=False, remove_extra_whitespaces=False, allow_whitespace_only_pieces=True,
        character_coverage=0.9995, user_defined_symbols=["\n", "\n\n"], control_symbols=["<lmk>", "<eos>"],
        unk_id=UNK_ID, bos_id=-1, eos_id=-1, pad_id=-1, max_sentencepiece_length=16, num_threads=2,
        minloglevel=1)
    with open(out, "wb") as f:
        f.write(model.getvalue())


def check_round_trip(tokenizer, texts):
    """Raises ValueError if any text does not come back byte for byte or encodes to a control id."""
    for text in texts:
        ids = tokenizer.encode(text)
        if tokenizer.decode_bytes(ids) != text.encode():
            raise ValueError(f"no round trip: {text[:80]!r}")
        if any(i in (UNK_ID, LMK_ID, EOS_ID) for i in ids):
            raise ValueError(f"control id in the encoding of {text[:80]!r}")


def hostile_texts(seed=2, count=300):
    """Strings that try the rules: marks, control names, NUL, runs of spaces, every kind of character."""
    rng = random.Random(seed)
    pool = [" ", "  ", "\n", "\n\n\n", "\t", "\r\n", SPACE_MARK, "<lmk>", "<eos>", "<unk>", "<0x41>", "\x00", "a", "Z",
            "the", "0", "42", "\u00e9", "\u4e2d", "\U0001f600", "\u0301", "\u3000", "\u00a0", "\ufeff", "\ufffd", "x" * 300, "\u00e9" * 200, " " * 300]
    return ["".join(rng.choice(pool) for _ in range(rng.randrange(1, 30))) for _ in range(count)] + [
        "".join(chr(c) for c in (rng.randrange(1, 0xD800) for _ in range(200))) for _ in range(20)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--books", default="train/books/books-train.jsonl.xz")
    parser.add_argument("--split", default="train/split.json")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    with open(args.split) as f:
        skip = set(json.load(f)["test_authors"])
    train_tokenizer(read_books(args.books, skip), args.out)
    tokenizer = Tokenizer(args.out)
    sample = [row["text"][:50_000] for row, _ in zip(read_books(args.books), range(40))]
    check_round_trip(tokenizer, sample + hostile_texts())
    tokens = sum(len(tokenizer.encode(t)) for t in sample)
    bytes_ = sum(len(t.encode()) for t in sample)
    print(f"{tokenizer.vocab_size} pieces, {bytes_ / tokens:.3f} bytes a token")


if __name__ == "__main__":
    main()

"""Writes bpe_golden.txt, 200 KB of text in many scripts, and bpe_golden.json, what the PyPI package `tokenizers` makes of it with the
vocabulary of tests/support/tiny_bpe_tokenizer.json and each of the four rules: per kilobyte the number of ids and a hash of them.

    python tests/model/text/make_bpe_golden.py

The words of other scripts are random letters of theirs: a rule sees classes of characters, not meanings.
"""

import json
import lzma
import pathlib
import random
import sys

from tokenizers import Tokenizer

ROOT = pathlib.Path(__file__).resolve().parents[3]
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from bpe_rules import with_rule  # noqa: E402

# First and last code points: letters, marks, and digits of scripts, some of them of Unicode 15 to 17.
SCRIPTS = {
    "latin": [(0xC0, 0x24F), (0x1E00, 0x1EFF)], "greek": [(0x391, 0x3A1), (0x3A3, 0x3CE), (0x1F00, 0x1F15)],
    "cyrillic": [(0x410, 0x44F), (0x400, 0x40F)], "armenian": [(0x531, 0x556), (0x561, 0x587)], "hebrew": [(0x5D0, 0x5EA), (0x5B0, 0x5BD)],
    "arabic": [(0x620, 0x64A), (0x64B, 0x652), (0x660, 0x669)], "devanagari": [(0x904, 0x939), (0x93E, 0x94D), (0x966, 0x96F)],
    "bengali": [(0x985, 0x98C), (0x9BE, 0x9C4), (0x9E6, 0x9EF)], "tamil": [(0xB85, 0xB8A), (0xBBE, 0xBC2), (0xBE6, 0xBF2)],
    "thai": [(0xE01, 0xE3A), (0xE40, 0xE4E), (0xE50, 0xE59)], "tibetan": [(0xF40, 0xF47), (0xF71, 0xF7E), (0xF20, 0xF33)],
    "georgian": [(0x10D0, 0x10FA), (0x1C90, 0x1CBA)], "hangul": [(0xAC00, 0xD7A3), (0x1100, 0x1112)], "ethiopic": [(0x1200, 0x1248)],
    "cherokee": [(0x13A0, 0x13F5), (0xAB70, 0xABBF)], "khmer": [(0x1780, 0x17B3), (0x17B6, 0x17D3), (0x17E0, 0x17E9)],
    "mongolian": [(0x1820, 0x1842), (0x1810, 0x1819), (0x180E, 0x180E)], "hiragana": [(0x3041, 0x3096)], "katakana": [(0x30A1, 0x30FA)],
    "han": [(0x4E00, 0x9FFF)], "han extension": [(0x20000, 0x2A6DF), (0x31350, 0x323AF), (0x2EBF0, 0x2EE5D)], "gothic": [(0x10330, 0x1034A)],
    "deseret": [(0x10400, 0x1044F)], "adlam": [(0x1E900, 0x1E943), (0x1E950, 0x1E959)], "kawi": [(0x11F04, 0x11F10), (0x11F50, 0x11F59)],
    "garay": [(0x10D4A, 0x10D65), (0x10D40, 0x10D49)], "todhri": [(0x105C0, 0x105F3)], "tolong siki": [(0x11DB0, 0x11DDB), (0x11DE0, 0x11DE9)],
    "numbers": [(0x2150, 0x2189), (0x2460, 0x249B), (0x3021, 0x3029), (0x1D7CE, 0x1D7FF), (0xBC, 0xBE), (0xB2, 0xB3)],
    "symbols": [(0x2190, 0x22FF), (0x2500, 0x25FF), (0x20A0, 0x20BF)], "emoji": [(0x1F300, 0x1F64F), (0x1F900, 0x1F9FF)],
    "private": [(0xE000, 0xE0FF), (0xF0000, 0xF00FF)], "controls": [(0x1, 0x1F), (0x7F, 0x9F), (0x200B, 0x200F), (0xFE00, 0xFE0F)],
}
BETWEEN = [" "] * 30 + ["  ", "   ", "\n", "\n\n", "\r\n", "\t", " \n", "\n ", "\r", "\u00a0", "\u3000", "\u2028", "\u2003 ", "\u0085", ", ", ". ", "-", "'",
                        "’", "…", "。", "、", "! ", "?\n", "'s ", "\u200b", " \n \n\n  ", "    ", "\v", "\f"]
NASTY = ["don't DON'T I'll I'LL we've WE'VE they're THEY'RE it's IT'S it'\u017f I'm I'M he'd HE'D 'sd 'tis 'S'T'L'l 'll'", "'", "''s", " 's", "\n's",
         "   1", "1   2", "12 345 6789 0123456789", "3.14e-10", "\u0661\u0662\u0663\u0664\u0665", "a1b2c3", " 1a", "\u00bd\u2460\u2461\u2462\u2463", "abc \n\n\n def",
         " \t \r\n \t x", "\n\n\n", "!!!\n\n", "!!! \n", "...\r\n\r\n...", " !", "  !", "   !", "_id", " _id", "$x", "-x", "(x)", "\u00a0x", "\u3000x", "\u180ex",
         "<|im_end|>", "<|im_start|>user", "<|endoftext|>", "<|im_", "\x00\x01\x02", "e\u0301e\u0301", "\u0301", " \u0301", "\ufeffBOM", "\u200d", "\U0001F468\u200d\U0001F469\u200d\U0001F467\u200d\U0001F466",
         "\U0001F1E9\U0001F1EA", "\ufffd", "\uffff", "\U0010FFFF", "a" * 300, " " * 300 + "x", "\n" * 200, "7" * 100, "=" * 200 + "\n", "ab" * 200, "\U0001F40B" * 50,
         "    def f(self):\n        return self.x['k'] != 0  # ok\n\n", "https://example.org/a_b?c=d&e=%20#f", "SELECT * FROM t WHERE a >= 10;\r\n", "\\frac{1}{2}\\int_0^1",
         "foo(bar)->baz[3]++;\t// x\n", "{\"a\":[1,2,{\"b\":null}]}", "x²+y²=z²", "№5", "™©®", "½ cup", "5°C", "A\u030a", "\u1e9e\u00df", "\u0130\u0131", "\u212a\u212b"]


def word(rng, ranges):
    first, last = rng.choice(ranges)
    return "".join(chr(rng.randint(first, last)) for _ in range(rng.randint(1, 8)))


def passage(rng, size):
    """Random words of one script, with some of another, and what may stand between words."""
    own, other = rng.choice(list(SCRIPTS.values())), rng.choice(list(SCRIPTS.values()))
    text = ""
    while len(text.encode()) < size:
        text += word(rng, own if rng.random() < 0.8 else other) + rng.choice(BETWEEN)
    return text


def pieces(rng):
    with lzma.open(ROOT / "examples/books.txt.xz", "rt", encoding="utf-8", newline="") as file:
        books = file.read()
    for _ in range(60):
        at = rng.randrange(len(books) - 1000)
        yield books[at:at + 1000]
    for _ in range(110):
        yield passage(rng, 1000)
    for _ in range(30):
        text = ""
        while len(text.encode()) < 1000:
            text += rng.choice(NASTY) + rng.choice(BETWEEN + [""] * 10)
        yield text


def fnv(ids):
    """FNV-1a over the ids, 4 bytes each, the lowest first."""
    value = 0xCBF29CE484222325
    for byte in b"".join(i.to_bytes(4, "little") for i in ids):
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def main():
    tiny = json.loads((ROOT / "tests/support/tiny_bpe_tokenizer.json").read_text(encoding="utf-8"))
    rng = random.Random(41)
    texts = list(pieces(rng))
    whole = "".join(texts)
    golden = {"bytes": [len(text.encode()) for text in texts], "rules": {}}
    for rule in ("gpt-2", "smollm", "llama-bpe", "qwen2"):
        tokenizer = Tokenizer.from_str(json.dumps(with_rule(tiny, rule)))
        rows = [tokenizer.encode(text).ids for text in texts]
        golden["rules"][rule] = {"counts": [len(ids) for ids in rows], "hashes": [fnv(ids) for ids in rows],
                                 "whole": fnv(tokenizer.encode(whole).ids)}
    (HERE / "bpe_golden.txt").write_bytes(whole.encode())
    (HERE / "bpe_golden.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()

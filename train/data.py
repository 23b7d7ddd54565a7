"""Book text for training, tokenised once.

    python train/data.py prepare --config train/config.json
"""

import argparse
import json
import os
import random

import numpy as np

from tokenizer import Tokenizer, read_books


class Books:
    """Token ids of many books as one array, with the places where a word begins."""

    def __init__(self, path):
        data = np.load(path)
        self.tokens, self.starts = data["tokens"], data["starts"]
        self.words = [w for w in str(data["words"]).split("\n") if w]

    @staticmethod
    def prepare(rows, tokenizer, path, unwrap=0.3, seed=3):
        """Tokenises rows and writes the arrays. A share of the books loses its hard line ends."""
        rng, parts, starts, counts, at = random.Random(seed), [], [], {}, 0
        for row in rows:
            text = row["text"]
            for word in text[:200_000].split():
                if word.isalpha() and word.isascii() and 3 <= len(word) <= 10:
                    counts[word] = counts.get(word, 0) + 1
            if rng.random() < unwrap:
                text = "\n\n".join(p.replace("\n", " ") for p in text.split("\n\n"))
            ids = np.array(tokenizer.encode(text), np.uint16)
            parts.append(ids)
            starts.append(at)
            at += len(ids)
        words = sorted(w for w, n in counts.items() if n >= 15)
        temporary = path + ".tmp.npz"
        np.savez(temporary, tokens=np.concatenate(parts), starts=np.array(starts + [at]), words=np.array("\n".join(words)))
        os.replace(temporary, path)

    def passage(self, rng, length):
        """`length` consecutive tokens of one random book (longer books more often)."""
        while True:
            at = rng.randrange(len(self.tokens) - length)
            book = np.searchsorted(self.starts, at, side="right")
            if at + length <= self.starts[book]:
                return self.tokens[at:at + length].tolist()


def prepare(config):
    folder = config["cache"]
    os.makedirs(folder, exist_ok=True)
    tokenizer = Tokenizer(config["tokenizer"])
    with open(config["split"]) as f:
        skip = set(json.load(f)["test_authors"])
    path = os.path.join(folder, "train.npz")
    if not os.path.exists(path):
        Books.prepare(read_books(config["books"], skip), tokenizer, path)
    path = os.path.join(folder, "valid.npz")
    if not os.path.exists(path):
        Books.prepare(read_books(config["books_valid"]), tokenizer, path, unwrap=0.0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("verb", choices=["prepare"])
    parser.add_argument("--config", default="train/config.json")
    args = parser.parse_args()
    with open(args.config) as f:
        prepare(json.load(f)["data"])


if __name__ == "__main__":
    main()

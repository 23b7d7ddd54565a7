"""Book text for training, tokenised once.

    PYTHONPATH=train python -m data.books prepare --config train/config.json
"""

import argparse
import hashlib
import json
import multiprocessing
import os
import random

import numpy as np

from data.tokenizer import Tokenizer, read_books


def _keep(tokenizer):
    global _tokenizer
    _tokenizer = tokenizer


def _encode(text):
    return np.array(_tokenizer.encode(text), np.uint16)


class Books:
    """Token ids of many books as one array, with the places where a word begins."""

    def __init__(self, path):
        data = np.load(path)
        self.tokens, self.starts = data["tokens"], data["starts"]
        self.words = [w for w in str(data["words"]).split("\n") if w]

    @staticmethod
    def made_from(path):
        """What prepare was told; None when there is nothing."""
        if not os.path.exists(path):
            return None
        data = np.load(path)
        return str(data["made_from"]) if "made_from" in data else None

    @staticmethod
    def prepare(rows, tokenizer, path, made_from, unwrap, seed=3):
        """Tokenises rows and writes the arrays. A share `unwrap` of the books loses its hard line ends."""
        rng, parts, starts, counts, at = random.Random(seed), [], [], {}, 0

        def texts():
            for row in rows:
                text = row["text"]
                for word in text[:200_000].split():
                    if word.isalpha() and word.isascii() and 3 <= len(word) <= 10:
                        counts[word] = counts.get(word, 0) + 1
                yield "\n\n".join(p.replace("\n", " ") for p in text.split("\n\n")) if rng.random() < unwrap else text

        with multiprocessing.get_context("fork").Pool(len(os.sched_getaffinity(0)), _keep, (tokenizer,)) as pool:
            for ids in pool.imap(_encode, texts(), chunksize=1):
                parts.append(ids)
                starts.append(at)
                at += len(ids)
        words = sorted(w for w, n in counts.items() if n >= 15)
        temporary = f"{path}.{os.getpid()}.npz"
        np.savez(temporary, tokens=np.concatenate(parts), starts=np.array(starts + [at]), words=np.array("\n".join(words)),
                 made_from=np.array(made_from))
        os.replace(temporary, path)

    def rarity(self, vocab, chunk=57, power=0.75):
        """idf^power of every id over chunks of so many tokens, 0 for ids that never occur; mean square 1 over the text's tokens."""
        rows = self.tokens[:len(self.tokens) // chunk * chunk].reshape(-1, chunk)
        seen, counts = np.zeros(vocab), np.bincount(self.tokens, minlength=vocab)
        for part in np.array_split(rows, 64):
            part = np.sort(part, 1)
            new = np.diff(part, axis=1, prepend=-1) != 0
            seen += np.bincount(part[new], minlength=vocab)
        weight = np.log((len(rows) + 1) / np.maximum(seen, 1)) ** power * (seen > 0)
        return (weight / np.sqrt((weight ** 2 * counts).sum() / counts.sum())).astype(np.float32)

    def passage(self, rng, length):
        """`length` consecutive tokens of one random book (longer books more often)."""
        while True:
            at = rng.randrange(len(self.tokens) - length)
            book = np.searchsorted(self.starts, at, side="right")
            if at + length <= self.starts[book]:
                return self.tokens[at:at + length].tolist()


def prepare(config):
    """Tokenises the books of training, validation and test authors into the cache; anew where it was made with another split or
    tokenizer, so that no author of a test is trained on."""
    os.makedirs(config["cache"], exist_ok=True)
    tokenizer = Tokenizer(config["tokenizer"])
    with open(config["split"], "rb") as f, open(config["tokenizer"], "rb") as g:
        split = f.read()
        made_from = hashlib.sha256(split + g.read()).hexdigest()
    test = set(json.loads(split)["test_authors"])
    parts = {"train": (lambda: read_books(config["books"], test), 0.3), "valid": (lambda: read_books(config["books_valid"]), 0.0),
             "test": (lambda: (r for r in read_books(config["books"]) if r["author"] in test), 0.0)}
    for name, (rows, unwrap) in parts.items():
        path = os.path.join(config["cache"], f"{name}.npz")
        if Books.made_from(path) != made_from:
            Books.prepare(rows(), tokenizer, path, made_from, unwrap)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("verb", choices=["prepare"])
    parser.add_argument("--config", default="train/config.json")
    args = parser.parse_args()
    with open(args.config) as f:
        prepare(json.load(f)["data"])


if __name__ == "__main__":
    main()

"""Measures how often sparse keys find the block that answers a question, beside other ways to weigh words and beside BM25.

    PYTHONPATH=train python -m eval.sparse_quality --gguf SmolLM2-135M-Instruct.Q4_1.gguf --documents qa/*.jsonl --books books-valid.jsonl.xz

Candidates are the blocks of all documents and of a million tokens of books. Questions are asked in the first wording or the
second, in turns. Without --held-out they are those of documents that choices may be made by (crc32(id) % 8 != 0); with it, of
the others. Needs the packages numpy, tokenizers, gguf and bm25s."""
import argparse
import json
import lzma
import math
import pathlib
import random
import zlib

import bm25s
import numpy as np

from data.idf import block_begins, parts, word_text
from data.smollm import endings, read_tokenizer, token_texts

TABLE = pathlib.Path(__file__).resolve().parents[2] / "model/text/idf.txt"
NEAR = {0: 9, -1: 6, 1: 6, -2: 4, 2: 4}   # ninths, as engine/session/sparse_keys.cc has them
HITS = (4, 8)


def read_idf():
    """A function of a word: model::WordIdf."""
    head, *lines = TABLE.read_text().splitlines()
    table = {word: int(idf) / 100 for idf, *words in (line.split(" ") for line in lines) for word in words}
    absent, least = int(head.split()[1]) / 100, min(table.values())
    return lambda word: table.get(word, absent if any(c.isalnum() for c in word) else least)


class Corpus:
    """Blocks as lists of words, and the document of each."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        texts, number = token_texts(tokenizer), {}
        self.ends = endings(texts)
        self.words = np.array([number.setdefault(word_text(text), len(number)) for text in texts])
        idf = read_idf()
        self.idf = np.array([idf(word) for word in number])
        self.blocks, self.document, self.tokens = [], [], 0

    def encode(self, text):
        encoding = self.tokenizer.encode(text, add_special_tokens=False)
        return np.array(encoding.ids, int), encoding.offsets

    def add(self, text):
        """Adds a document; the numbers of its blocks and the characters where they begin."""
        ids, offsets = self.encode(text)
        begins = block_begins(ids, self.ends)
        first = len(self.blocks)
        self.blocks += np.split(self.words[ids], begins[1:])
        self.document += [first] * len(begins)
        self.tokens += len(ids)
        return first, [offsets[at][0] for at in begins]


class Lists:
    """Inverted lists of (block, weight); scores are sums over a query's words."""

    def __init__(self, corpus, rows):
        """rows: of each block, a dictionary of words with weights."""
        words = np.concatenate([np.fromiter(row, int, len(row)) for row in rows])
        weights = np.concatenate([np.fromiter(row.values(), float, len(row)) for row in rows])
        blocks = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
        order = np.argsort(words, kind="stable")
        self.blocks, self.weights = blocks[order], weights[order]
        self.begins = np.searchsorted(words[order], np.arange(len(corpus.idf) + 1))
        self.count, self.idf = len(rows), corpus.idf

    def scores(self, words, counts):
        total = np.zeros(self.count)
        for word, count in zip(words, counts):
            some = slice(self.begins[word], self.begins[word + 1])
            total[self.blocks[some]] += self.weights[some] * (self.idf[word] * count)
        return total


def counted(block, most):
    words, counts = np.unique(block, return_counts=True)
    return dict(zip(words.tolist(), np.minimum(counts, most).tolist()))


def nearby(corpus, at):
    """Words of a block and of its neighbours in the document, the nearest first."""
    row = {}
    for step, weight in NEAR.items():
        there = at + step
        if 0 <= there < len(corpus.blocks) and corpus.document[there] == corpus.document[at]:
            for word in corpus.blocks[there].tolist():
                row.setdefault(word, weight / NEAR[0])
    return row


def methods(corpus):
    """Of each way to search, a function from a question's words to the scores of all blocks."""
    every = Lists(corpus, [counted(block, 63) for block in corpus.blocks])
    once = Lists(corpus, [counted(block, 1) for block in corpus.blocks])
    twice = Lists(corpus, [counted(block, 2) for block in corpus.blocks])
    near = Lists(corpus, [nearby(corpus, at) for at in range(len(corpus.blocks))])
    library = bm25s.BM25(method="lucene")
    library.index([[str(word) for word in block] for block in corpus.blocks], show_progress=False)
    different = lambda lists: lambda words: lists.scores(np.unique(words), np.ones(len(words)))
    return {
        "sum over all rows of both": lambda words: every.scores(*np.unique(words, return_counts=True)),
        "a block's repeated words count twice at most": different(twice),
        "different words alone": different(once),
        "different words, those nearby too (what is built)": different(near),
        "BM25 of the same words (bm25s, k1 1.5, b 0.75)": lambda words: library.get_scores([str(word) for word in words]),
    }


def read(options):
    """The corpus, and the questions that are asked with the block that answers each."""
    corpus, questions = Corpus(read_tokenizer(options.gguf)), []
    rows = [json.loads(line) for path in options.documents for line in path.read_text().splitlines()]
    for row in rows:
        held_out = zlib.crc32(row["id"].encode()) % 8 == 0
        first, begins = corpus.add(row["text"])
        for i, pair in enumerate(row["qa"] if held_out == options.held_out else []):
            block = first + int(np.searchsorted(begins, row["text"].index(pair["a"]), "right")) - 1
            questions.append((corpus.words[corpus.encode(pair["q"][i % 2])[0]], block))
    of_documents = corpus.tokens
    for path in options.books:
        with lzma.open(path, "rt") as lines:
            for part in (part for line in lines for part in parts(json.loads(line)["text"])):
                if corpus.tokens - of_documents < options.tokens:
                    corpus.add(part)
    return corpus, questions


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gguf", type=pathlib.Path, required=True, help="file whose tokenizer divides the texts")
    parser.add_argument("--documents", type=pathlib.Path, nargs="+", required=True, help="documents with questions, a JSON object a line")
    parser.add_argument("--books", type=pathlib.Path, nargs="*", default=[], help="other text, a JSON object a line, .xz")
    parser.add_argument("--tokens", type=int, default=1_000_000, help="of books")
    parser.add_argument("--questions", type=int, default=2000, help="asked at most")
    parser.add_argument("--held-out", action="store_true", help="ask about the documents kept for reports")
    options = parser.parse_args()
    corpus, questions = read(options)
    questions = random.Random(1).sample(questions, min(options.questions, len(questions)))
    print(f"{len(corpus.blocks)} blocks, {corpus.tokens} tokens, {len(questions)} questions")
    for name, search in methods(corpus).items():
        ranks = []
        for words, block in questions:
            scores = search(words)
            ranks.append((scores > scores[block]).sum() + (scores[:block] == scores[block]).sum())
        found = ", ".join(f"{np.mean(np.array(ranks) < hits):.3f} among {hits}" for hits in HITS)
        half = 1.96 * math.sqrt(0.25 / len(questions))
        print(f"{name}: {found} (±{half:.3f})", flush=True)


if __name__ == "__main__":
    main()

"""BM25, the classic search by words, as the baseline for retrieval: k1 = 1.2, b = 0.75, the idf of Lucene, by the package bm25s.

    score(text) = sum over words w of the query: idf(w) * tf / (tf + k1 * (1 - b + b * l))
    idf(w) = ln(1 + (N - df + 1/2) / (df + 1/2))

tf: occurrences of w in the text; df: the number of the N texts that contain w; l: the text's number of words divided by the mean
of all texts.
"""
import re
import sys

try:
    import bm25s
    import numpy as np
except ImportError:
    bm25s = None

K1, B = 1.2, 0.75
MISSING = "niah: no BM25 beside the hits: the package bm25s is not installed"


def available():
    return bm25s is not None


def lower_words(text):
    """Runs of ASCII letters and digits, in lower case."""
    return [sys.intern(word.decode()) for word in re.findall(rb"[0-9a-z]+", text.lower())]


class Search:
    """Searches texts, given as lists of words."""

    def __init__(self, texts):
        self.empty = not any(texts)
        self.index = None if self.empty else bm25s.BM25(k1=K1, b=B, method="lucene", dtype="float64")
        if not self.empty:
            self.index.index(texts, show_progress=False)

    def best(self, query, count):
        """The numbers of the `count` best texts, best first, ties to the earlier one. Texts without any word of the query are
        no hits."""
        words = [] if self.empty else self.index.get_tokens_ids(lower_words(query.encode()))
        if not words:
            return []
        scores = self.index.get_scores_from_ids(words)
        return [int(i) for i in np.argsort(-scores, kind="stable")[:count] if scores[i] > 0]

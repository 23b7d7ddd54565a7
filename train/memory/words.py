"""Words of tokens and ends of blocks, from the text of each token decoded alone."""

import numpy as np

from data.smollm import ENDS

ENDINGS = ("ing", "ed", "es", "s", "ly")
STEM_CHARACTERS = 4  # what an ending must leave


def word_of(text):
    """The word of a token's text: without blanks on both sides, in lower case, and without the first of ENDINGS that fits. So
    tokens that differ in case, in a blank before them or in a common ending are one word."""
    word = text.strip().lower()
    for ending in ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= STEM_CHARACTERS:
            return word[:-len(ending)]
    return word


def number_words(texts):
    """Numbers words by first appearance, in the order of the ids. texts: of each id. -> (word number of each id, the words)."""
    numbers = {}
    return [numbers.setdefault(word_of(text), len(numbers)) for text in texts], list(numbers)


def block_lengths(tokens, ends, config):
    """Tokens of each block of a document. A segment's end ends a block; a block is the longest of `min_chunk_tokens` to `chunk_tokens`
    tokens whose last token can end a sentence or a line, else `chunk_tokens`; what a segment has left, if no more than that, is one
    block. tokens: ids; ends: bool of each id of the vocabulary."""
    most, least, lengths = config["chunk_tokens"], config["min_chunk_tokens"], []
    for start in range(0, len(tokens), config["segment_tokens"]):
        stops = ends[np.asarray(tokens[start:start + config["segment_tokens"]], dtype=np.int64)]
        at = 0
        while len(stops) - at > most:
            found = np.flatnonzero(stops[at + least - 1:at + most])
            lengths.append(least + int(found[-1]) if len(found) else most)
            at += lengths[-1]
        if at < len(stops):
            lengths.append(len(stops) - at)
    return lengths


def can_end(texts):
    """Whether a sentence or a line can end with each id. texts: of each id. -> bool [vocabulary]."""
    return np.array([bool(ENDS.search(text)) for text in texts])

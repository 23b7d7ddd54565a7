"""The tokenizer of SmolLM2's GGUF file as PyPI's `tokenizers` has it, for scripts that count or measure."""
import re

import gguf
import numpy as np
import tokenizers
from tokenizers import decoders, models, pre_tokenizers

CONTROL = 3   # type of a control token in the file
ENDS = re.compile(r"([.!?][\"'”’)]?|\n)\s*$")


def read_tokenizer(path):
    fields = gguf.GGUFReader(path).fields
    tokens, types, merges = (fields[f"tokenizer.ggml.{name}"].contents() for name in ("tokens", "token_type", "merges"))
    tokenizer = tokenizers.Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, [tuple(m.split(" ")) for m in merges]))
    digits = pre_tokenizers.Digits(individual_digits=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    control = [token for token, kind in zip(tokens, types) if kind == CONTROL]
    tokenizer.add_special_tokens([tokenizers.AddedToken(name, special=True, normalized=False) for name in control])
    return tokenizer


def token_texts(tokenizer):
    """The text of each token alone; of a control token its name."""
    return [tokenizer.decode([i], skip_special_tokens=False) for i in range(tokenizer.get_vocab_size())]


def endings(texts):
    """Whether a sentence can end with each token."""
    return np.array([bool(ENDS.search(text)) for text in texts])

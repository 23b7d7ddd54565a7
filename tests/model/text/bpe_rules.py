"""The four published rules of dividing text into pre-tokens, as a tokenizer.json holds them."""

import copy

LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
EXPRESSION = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def _split(quantity):
    return {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": EXPRESSION % quantity}, "behavior": "Isolated", "invert": False}, {**LEVEL, "use_regex": False}]}


RULES = {
    "gpt-2": {**LEVEL, "use_regex": True},
    "smollm": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, {**LEVEL, "use_regex": True}]},
    "llama-bpe": _split("{1,3}"),
    "qwen2": _split(""),
}


def with_rule(tokenizer, rule, controls=False):
    """The tokenizer.json with another rule, as the published models with that rule have it. Without `controls` no text becomes a
    control token, which is what our tokenizer promises."""
    changed = copy.deepcopy(tokenizer)
    changed["pre_tokenizer"] = RULES[rule]
    changed["model"]["ignore_merges"] = rule == "llama-bpe"
    if not controls:
        changed["added_tokens"] = []
    return changed

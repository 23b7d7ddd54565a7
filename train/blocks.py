"""Where the blocks of a document end (docs/model-format.md, "Blocks of documents")."""

BLOCK_TOKENS = 63
_CLOSING = tuple(mark.encode() for mark in "\"')]”’»」』")
_WITHOUT_SPACE = tuple(mark.encode() for mark in "。！？")


def ends_between(before, after):
    """Whether a line or a sentence ends between the bytes `before` and `after`."""
    if before.endswith(b"\n"):
        return True
    while before.endswith(_CLOSING):
        before = before[:-max(len(mark) for mark in _CLOSING if before.endswith(mark))]
    return before.endswith(_WITHOUT_SPACE) or (after.startswith((b" ", b"\n")) and before.endswith((b".", b"!", b"?")))


def document_blocks(tokens, least=0, token_bytes=None):
    """Tokens of a document as lists, one a block: full ones, or with `least` > 0 (min_chunk_tokens) such that end with a sentence or a
    line where one of at least so many tokens can. token_bytes: of every id, for those."""
    tokens, blocks = list(tokens), []
    while tokens:
        end = BLOCK_TOKENS
        if least and len(tokens) > BLOCK_TOKENS:
            parts = [token_bytes[i] for i in tokens[:BLOCK_TOKENS + 1]]
            end = next((e for e in range(BLOCK_TOKENS, least - 1, -1) if ends_between(b"".join(parts[:e]), parts[e])), BLOCK_TOKENS)
        blocks.append(tokens[:end])
        tokens = tokens[end:]
    return blocks

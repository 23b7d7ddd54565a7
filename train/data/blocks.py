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


def block_end(tokens, least, token_bytes):
    """Tokens of the block that begins with `tokens`, more than a block has: the most of at least `least` that end with a sentence or
    a line, or all. token_bytes: of every id."""
    parts = [token_bytes[i] for i in tokens[:BLOCK_TOKENS + 1]]
    return next((e for e in range(BLOCK_TOKENS, least - 1, -1) if ends_between(b"".join(parts[:e]), parts[e])), BLOCK_TOKENS)


def document_blocks(tokens, least=0, token_bytes=None):
    """Tokens of a document as lists, one a block: full ones, or with `least` > 0 (min_chunk_tokens) as block_end says."""
    tokens, blocks = list(tokens), []
    while tokens:
        end = block_end(tokens, least, token_bytes) if least and len(tokens) > BLOCK_TOKENS else BLOCK_TOKENS
        blocks.append(tokens[:end])
        tokens = tokens[end:]
    return blocks

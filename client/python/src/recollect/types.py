"""What the service answers, as immutable values. Meanings, units and limits: proto/recollect/v1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

Metadata = Mapping[str, str | int | float | bool]
"""What clients say about a document, to find it by."""
Filter = Mapping[str, Any]
"""On metadata: {"type": "gte", "key": "year", "value": 2024}, and so on."""


@dataclass(frozen=True)
class Document:
    """A document that the model has read."""

    id: str
    fingerprint: str
    """Of the model that read it; sessions of other models cannot mount it."""
    from_tokens: bool
    bytes: int
    """Of text."""
    tokens: int
    chunks: int
    """Candidates of retrieval that mounting it adds."""
    created_unix_ms: int
    stored_bytes: int
    sha256: str
    """Hex, of the text."""
    damage: str
    """Not empty if its record is damaged: then only `id` is set beside it."""
    kind: str
    """"chunks", or "text" or "prefix" for a model without landmarks."""
    pattern: str
    state_bytes: int
    metadata: Metadata = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class UnfinishedIngest:
    """An ingest that was broken off and can be resumed."""

    id: str
    fingerprint: str
    from_tokens: bool
    committed_offset: int
    """Bytes of text, or tokens, that need not be sent again."""
    bytes: int
    tokens: int
    chunks: int
    kind: str
    pattern: str
    refresh: bool
    """It will replace the document of that id."""


@dataclass(frozen=True)
class Backup:
    """A backup of all documents and unfinished ingests."""

    number: int
    """Ascending, from 1."""
    created_unix_s: int
    bytes: int
    """Of its files, those that it shares with other backups included."""
    files: int
    documents: int
    damage: str
    """Not empty if it is damaged: then only `number` is set beside it."""


@dataclass(frozen=True)
class Progress:
    """How far an ingest is."""

    committed_offset: int
    accepted_offset: int
    bytes: int
    tokens: int
    chunks: int
    tokens_per_s: float


@dataclass(frozen=True)
class Hit:
    """A retrieved chunk."""

    document: str
    """Empty: a chunk of the session's own past."""
    chunk: int
    """Counted from 0 within the document."""
    score: float
    """Raw relevance."""
    weight: float
    """Its share in attention; 0 for hits beyond those that the model reads."""
    text_begin: int
    text_end: int
    """Byte range [text_begin, text_end) in the document's text."""
    tier: str
    """Where the chunk was found."""
    text: str
    """If asked for."""
    quote: str = ""
    """The sentences of this block that the answer quotes, a line each. Such a block may be one that only the reader has read."""


@dataclass(frozen=True)
class Retrieval:
    """What one group of layers retrieved at one landmark."""

    position: int
    group: int
    candidates: int
    hits: tuple[Hit, ...]
    """Best first."""
    nothing: float = 0.0
    """Of a model with a memory adapter: the weight of nothing. From 0.5 on the layers read no document; it is 1 where the judge has
    left the answer to the model, or where there are no blocks."""


@dataclass(frozen=True)
class Candidate:
    """What a question about documents may be answered with."""

    ids: tuple[int, ...]
    text: str
    block: int
    """Of a sentence the place of its hit in Candidates.blocks; -1: the documents do not say; -2: the model's own words,
    of which there are no ids yet."""
    logprob: float
    """Natural, of the likeliest span in a sentence; -15 where there is none."""
    score: float
    """The candidate with the largest is the answer."""
    reranked: float


@dataclass(frozen=True)
class Candidates:
    """What an answer was chosen among. Comes before its first Tokens."""

    candidates: tuple[Candidate, ...]
    blocks: tuple[Hit, ...]
    nothing: float
    """The natural logarithm of the probability that these blocks have no answer."""
    unneeded: float
    """How likely no document is needed."""


@dataclass(frozen=True)
class Tokens:
    """Tokens generated since the last such event. `text` may lag behind `ids`: it has whole
    characters only, and nothing that may still become a stop string."""

    ids: tuple[int, ...]
    text: str


@dataclass(frozen=True)
class TokenLogprobs:
    """Natural logarithms, as the model gives them, before temperature, top_p, top_k and DRY. Comes
    before the Tokens that have the token; an end-of-text token is in none of these."""

    id: int
    logprob: float
    top_ids: tuple[int, ...]
    """The likeliest in its place, the likeliest first."""
    top_logprobs: tuple[float, ...]


@dataclass(frozen=True)
class Usage:
    prompt_tokens: int
    generated_tokens: int
    time_to_first_token_ms: float
    generation_ms: float
    cached_tokens: int
    """Of prompt_tokens, those that an earlier call had read."""
    dropped_messages: int
    """Of a conversation, the oldest, which had no room in the model's context."""


@dataclass(frozen=True)
class Saved:
    """What became of save_as."""

    document: Document | None
    """None: it was not saved."""
    error_code: str
    """Why, "RESOURCE_EXHAUSTED" …"""
    error: str


@dataclass(frozen=True)
class Done:
    """The last event of a generation."""

    reason: str
    """"max_tokens", "stop", "eos" or "repetition"."""
    usage: Usage
    saved: Saved | None = None
    """With save_as."""
    repeats_from: int = 0
    """After "repetition": the UTF-8 bytes of the answer before it only repeats itself; its events have all the same what
    follows them."""


@dataclass(frozen=True)
class Message:
    """A message of a conversation."""

    role: str
    """"system", "user" or "assistant"."""
    content: str


Conversation = Sequence[Message | Mapping[str, str]]
"""A mapping has the keys role and content, as for OpenAI's clients."""

Event = Tokens | TokenLogprobs | Retrieval | Candidates | Done


@dataclass(frozen=True)
class Result:
    """A whole generation."""

    text: str
    """Without what it only repeated in the end."""
    tokens: tuple[int, ...]
    retrievals: tuple[Retrieval, ...]
    logprobs: tuple[TokenLogprobs, ...]
    """If asked for."""
    finish_reason: str
    usage: Usage
    saved: Saved | None = None
    """With save_as."""
    candidates: tuple[Candidates, ...] = ()
    """If asked for, and the answer was chosen among them: those of each question of the message, in order."""


@dataclass(frozen=True)
class SessionInfo:
    id: int
    mounts: tuple[str, ...]
    positions: int
    own_chunks: int


@dataclass(frozen=True)
class Scores:
    """Log probabilities of a given text; one entry of each list for each token."""

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    """Natural logarithms."""
    argmax: tuple[int, ...]
    """The most likely token in its place."""
    argmax_logprobs: tuple[float, ...]
    """Of the most likely token: a token was the greedy choice where its own is not below it."""
    text_bytes: int
    top_ids: tuple[int, ...]
    """If asked for: so many for each token, one token's after the other's, the likeliest first."""
    top_logprobs: tuple[float, ...]

    @property
    def bits_per_byte(self) -> float:
        """Of the text that the tokens stand for."""
        return -sum(self.logprobs) / 0.6931471805599453 / self.text_bytes


class GenerateArguments(TypedDict, total=False):
    """How a generation goes; greedy unless told otherwise."""

    temperature: float
    """0: greedy."""
    top_p: float
    top_k: int
    """0: all."""
    seed: int
    """The same seed and request give the same tokens."""
    dry_multiplier: float
    """DRY: what it costs to repeat what the answer has said; 0: off."""
    dry_allowed_length: int
    """0: the server's default."""
    max_tokens: int
    """0: only read the prompt; 128 unless told otherwise."""
    stop: Sequence[str]
    """Generation ends before the first of these."""
    flush: bool
    """Whether the answer retrieves with all of the prompt; yes, unless told otherwise."""
    ignore_eos: bool
    stop_repetition: bool
    """Whether the answer ends once it only repeats itself; in a chat it does, unless told otherwise."""
    quotes: bool
    """Whether questions about the documents are answered by sentences of theirs; yes, unless told otherwise."""
    retrievals: bool
    """Whether there are Retrieval events."""
    candidates: bool
    """Whether there is a Candidates event where an answer is chosen among them."""
    logprobs: int
    """There are TokenLogprobs events, with so many of the likeliest tokens (0 to 20)."""
    save_as: str
    """Prompt and answer, of a conversation its turns, become this document. It takes the place of one of that id whose
    text it begins with, as that of a conversation that has grown. Not in a session: Session.save."""
    replace: bool
    """With save_as: in place of any document of that id."""


@dataclass(frozen=True)
class Options:
    """Of the session in which a call runs. Only values to which the model was adapted are allowed
    (Client.model)."""

    dilation: int | None = None
    window: int | None = None
    initial: int | None = None
    context: int | None = None
    mount_as: str = ""
    """"memory", "text" or "both": how what is mounted is read; empty: memory where the model has one, else text."""
    text_tokens: int = 0
    """Mounted as text: the most tokens of blocks in front of a prompt; 0: the server's default."""
    mount_filter: Filter | None = field(default=None, hash=False)
    """Of what a mount "NAME*" stands for, only documents whose metadata matches."""
    top_k_blocks: int = 0
    random_chunks: bool = False
    """Control for recall tests: chunks drawn at random instead of the retrieved ones."""
    layer_dilations: tuple[tuple[int, ...], ...] = field(default=())
    layer_windows: tuple[tuple[int, ...], ...] = field(default=())
    layer_initials: tuple[tuple[int, ...], ...] = field(default=())

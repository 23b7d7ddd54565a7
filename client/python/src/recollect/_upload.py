"""What is sent on an Ingest stream, in answer to what the server says: for both clients."""

from __future__ import annotations

import array
import hashlib
import io
import os
import pathlib
import sys
from collections.abc import Iterable, Sequence

from recollect import _messages, errors, types
from recollect.v1 import documents_pb2 as documents

PIECE_BYTES = 256 << 10  # of input in one message
PIECE_TOKENS = 64 << 10
RETRIES = 10  # over about a minute

Input = str | bytes | os.PathLike[str] | io.BufferedIOBase | Iterable[int]


def backoff(retry: int) -> float:
    """Seconds before the retry of that number, from 0."""
    return 0.2 * float(2 ** min(retry, 6))


class Source:
    """An input that can be read from any offset."""

    def __init__(self, value: Input, id: str | None) -> None:
        self.unit = "bytes"
        self._tokens: list[int] | None = None
        self._close = False
        if isinstance(value, os.PathLike):
            id = id if id is not None else pathlib.Path(value).name
            self._file: io.BufferedIOBase = open(value, "rb")
            self._close = True
        elif isinstance(value, str):
            if len(value) < 1024 and "\n" not in value and os.path.exists(value):
                raise ValueError(f"ingest: {value!r} is a file; pass pathlib.Path({value!r}) to "
                                 "read it, or its text")
            self._file = io.BytesIO(value.encode())
        elif isinstance(value, bytes):
            self._file = io.BytesIO(value)
        elif isinstance(value, io.BufferedIOBase):
            if not value.seekable():
                raise ValueError("ingest: the file cannot be read twice; read it into memory first")
            self._file = value
        else:
            self._tokens, self.unit = list(value), "tokens"
        if id is None:
            raise ValueError("ingest: id is missing; only a path gives one by its name")
        self.id = id

    @property
    def is_tokens(self) -> bool:
        return self._tokens is not None

    def piece(self, offset: int, limit: int | None = None) -> documents.IngestPiece:
        """Of the input from `offset` on, and before `limit`."""
        most = PIECE_TOKENS if self.is_tokens else PIECE_BYTES
        if limit is not None:
            most = min(most, limit - offset)
        if self._tokens is not None:
            return documents.IngestPiece(offset=offset, tokens=self._tokens[offset : offset + most])
        self._file.seek(offset)
        return documents.IngestPiece(offset=offset, text=self._file.read(most))

    def close(self) -> None:
        if self._close:
            self._file.close()


def _size(piece: documents.IngestPiece) -> int:
    return len(piece.text) or len(piece.tokens)


class Upload:
    """One stream. `header()` is sent first, then what `answer` returns for each response."""

    def __init__(self, source: Source, options: types.Options | None, replace: bool,
                 append: bool = False,
                 metadata: types.Metadata | None = None) -> None:
        self._source = source
        self._options = options
        self._replace = replace
        self._append = append
        self._metadata = None if metadata is None else _messages.object_text("metadata", metadata)
        self._sent = -1
        self._finished = False
        self.document: types.Document | None = None
        """Once it is published."""

    def header(self) -> documents.IngestRequest:
        kind = documents.INPUT_KIND_TOKENS if self._source.is_tokens else documents.INPUT_KIND_TEXT
        session = _messages.session((), self._options) if self._options is not None else None
        return documents.IngestRequest(
            header=documents.IngestHeader(id=self._source.id, kind=kind, session=session,
                                          replace=self._replace, append=self._append,
                                          metadata=self._metadata))

    @property
    def may_have_appended(self) -> bool:
        """Whether another stream with this input might append it twice."""
        return self._append and self._finished

    def answer(self, response: documents.IngestResponse) -> documents.IngestRequest | None:
        """The next request; None while the server has not taken the last one."""
        progress = response.progress
        if response.HasField("document"):
            self.document = _messages.decode(types.Document, response.document)
        if self._sent < 0:
            self._check_committed(progress)
            self._sent = progress.committed_offset
        elif progress.accepted_offset < self._sent or self._finished:
            return None
        piece = self._source.piece(self._sent)
        self._sent += _size(piece)
        if _size(piece) > 0:
            return documents.IngestRequest(piece=piece)
        self._finished = True
        return documents.IngestRequest(finish=documents.IngestFinish())

    def _check_committed(self, progress: documents.IngestProgress) -> None:
        """What earlier streams sent must be the beginning of this input: the server does not get
        it again."""
        if not progress.committed_sha256:
            return
        digest = hashlib.sha256()
        read = 0
        while read < progress.committed_offset:
            piece = self._source.piece(read, progress.committed_offset)
            if _size(piece) == 0:
                raise errors.OutOfRange(
                    f"document {self._source.id!r}: the input ends at {read} {self._source.unit}, "
                    f"but an earlier ingest had read {progress.committed_offset}")
            digest.update(piece.text or _little_endian(piece.tokens))
            read += _size(piece)
        if digest.hexdigest() != progress.committed_sha256:
            raise errors.AlreadyExists(
                f"document {self._source.id!r}: an earlier ingest had read other input: the first "
                f"{read} {self._source.unit} of this one have SHA-256 {digest.hexdigest()}, "
                f"expected {progress.committed_sha256}; delete the unfinished document, or take "
                "another id")


def _little_endian(tokens: Sequence[int]) -> bytes:
    numbers = array.array("i", tokens)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()

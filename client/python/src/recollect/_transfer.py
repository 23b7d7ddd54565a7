"""Documents to and from files: what both clients do with the bytes."""

from __future__ import annotations

import io
import os
from types import TracebackType

from recollect import _messages, types
from recollect._messages import decode
from recollect.v1 import documents_pb2 as documents

MESSAGE_BYTES = 1 << 20  # the server's limit

Output = str | os.PathLike[str] | io.BufferedIOBase
File = str | bytes | os.PathLike[str] | io.BufferedIOBase


class Target:
    """Where an export goes. A path gets its file once that is whole: `with` it, and call `finish`."""

    def __init__(self, value: Output) -> None:
        self.document: types.Document | None = None
        self._path: str | None = None
        if isinstance(value, io.BufferedIOBase):
            self._file: io.BufferedIOBase = value
            return
        self._path = os.fspath(value)
        if os.path.lexists(self._path):
            raise FileExistsError(f"{self._path} exists: nothing is written over")
        self._partial = self._path + ".partial"
        # A document as it is: for its owner alone.
        self._file = open(os.open(self._partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")

    def __enter__(self) -> Target:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        if self._path is None or self._file.closed:
            return
        self._file.close()
        os.unlink(self._partial)

    def take(self, response: documents.ExportDocumentResponse) -> None:
        if response.HasField("document"):
            self.document = decode(types.Document, response.document)
        self._file.write(response.data)

    def finish(self) -> types.Document:
        document = _messages.whole(self.document)
        if self._path is not None:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            os.rename(self._partial, self._path)
        return document


class Import:
    """One stream. `header()` is sent first, then what `answer` returns for each response."""

    def __init__(self, value: File, id: str | None) -> None:
        self._id = id
        self._finished = False
        self.document: types.Document | None = None
        """Once it is published."""
        self._close = isinstance(value, (str, os.PathLike))
        if isinstance(value, (str, os.PathLike)):
            self._file: io.BufferedIOBase = open(value, "rb")
        else:
            self._file = io.BytesIO(value) if isinstance(value, bytes) else value

    def close(self) -> None:
        if self._close:
            self._file.close()

    def header(self) -> documents.ImportDocumentRequest:
        return documents.ImportDocumentRequest(header=documents.ImportHeader(id=self._id or ""))

    def answer(self, response: documents.ImportDocumentResponse) -> documents.ImportDocumentRequest | None:
        if response.HasField("document"):
            self.document = decode(types.Document, response.document)
        if self._finished:
            return None
        data = self._file.read(MESSAGE_BYTES)
        if data:
            return documents.ImportDocumentRequest(data=data)
        self._finished = True
        return documents.ImportDocumentRequest(finish=documents.ImportFinish())

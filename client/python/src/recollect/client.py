"""The blocking client."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Unpack

from recollect import _transfer, _upload, types
from recollect._calls import Calls
from recollect._generation import Generation, Session
from recollect._io import Blocking, run
from recollect._messages import Prompt
from recollect.v1 import admin_pb2


class Client:
    """Calls of a server at `address`, "host:port", or of several (replicas): "a:50051,b:50051", or a
    name with several addresses. Thread-safe: calls run concurrently on one connection. `timeout`, in
    seconds, is for each call but those that carry documents. `api_key`: for a server that asks for
    keys. `tls_ca`: file of certificates (PEM) that are trusted, for a server that speaks TLS.

    Errors are exceptions of recollect.errors. Calls that only read are repeated for some seconds
    while no server answers. With several servers a generation goes on at another one when its own is
    gone, with the tokens that would have followed; a session is opened there again, for which this
    client keeps what open sessions have read. A warning of the logger "recollect" says so.
    """

    def __init__(self, address: str = "localhost:50051", *, timeout: float | None = None,
                 api_key: str | None = None,
                 tls_ca: str | os.PathLike[str] | None = None) -> None:
        self._core = Calls(Blocking(), address, timeout, api_key, tls_ca)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        run(self._core.close())

    def ingest(
        self,
        source: _upload.Input,
        *,
        id: str | None = None,
        options: types.Options | None = None,
        progress: Callable[[types.Progress], None] | None = None,
        retries: int = _upload.RETRIES,
        replace: bool = False,
        append: bool = False,
        metadata: types.Metadata | None = None,
    ) -> types.Document:
        """Has the model read a document once; it is then kept.

        `source` is the path of a UTF-8 text (pathlib.Path, whose name is the id unless another is
        given), a text, bytes of UTF-8, an open binary file, or token ids. An ingest that was broken
        off is resumed by the `retries` of this call, and by a later call with the same input:
        AlreadyExists if the input is another. `options`: for a model without landmarks, those of the sessions to come.
        `replace`: the document takes the place of the one of this id, if there is one, when it is
        whole; an ingest that was broken off begins again. `append`: the document of this id, if
        there is one, goes on with this input; readers see the shorter one until all of it is read.
        Unavailable where the answer was lost: the document may have been appended to. `metadata`:
        what to find the document by; without, a document that is there keeps its own.
        """
        return run(self._core.ingest(source, id, options, progress, retries, replace, append, metadata))

    def documents(self, filter: types.Filter | None = None) -> list[types.Document]:
        """All documents, in byte order of their ids; with a filter those whose metadata matches."""
        return run(self._core.list_documents(filter))

    def set_metadata(self, id: str, metadata: Mapping[str, Any], *, patch: bool = False) -> types.Document:
        """Replaces a document's metadata; with `patch` sets these keys and removes those that are
        None."""
        return run(self._core.set_metadata(id, metadata, patch))

    def ingests(self) -> list[types.UnfinishedIngest]:
        """All ingests that were begun and not finished."""
        return run(self._core.ingests())

    def document(self, id: str) -> types.Document:
        """What the server knows of a document. NotFound where there is none."""
        return run(self._core.document(id))

    def delete(self, id: str) -> None:
        """Removes a document, or an unfinished ingest. Sessions that mount it keep it."""
        run(self._core.delete(id))

    def text(self, id: str, begin: int = 0, end: int | None = None) -> bytes:
        """Bytes [begin, end) of a document's text; unless told, all of it."""
        return run(self._core.text(id, begin, end))

    def refresh_document(self, id: str, *,
                         progress: Callable[[types.Progress], None] | None = None) -> types.Document:
        """Has the model read the text of a document again that another model has read.

        Until it is done the document stays as it was. One that is broken off is resumed by the next
        call. Without the timeout of other calls, like exports and imports.
        """
        return run(self._core.refresh_document(id, progress))

    def export_document(self, id: str, target: _transfer.Output) -> types.Document:
        """Writes a document as a file, from which another server with the same model can import it.

        `target` is a path, which must not exist and has a file once that is whole, or an open binary
        file.
        """
        return run(self._core.export_document(id, target))

    def import_document(self, source: _transfer.File, *, id: str | None = None,
                        progress: Callable[[int], None] | None = None) -> types.Document:
        """Publishes a document of a file that export_document wrote; the model does not read it again.

        `source` is a path, the bytes, or an open binary file; `id` the document's new name (else the
        one in the file). `progress` is called with the bytes that the server has taken. Not to be
        resumed: nothing is left of an import that was broken off.
        """
        return run(self._core.import_document(source, id, progress))

    def retrieve(
        self,
        query: Prompt,
        *,
        mounts: Sequence[str],
        k: int = 0,
        with_text: bool = True,
        options: types.Options | None = None,
    ) -> list[types.Retrieval]:
        """The chunks that the model retrieves for a query: one list for each group of layers.
        `k`: hits in each; 0: as many as the model uses."""
        return run(self._core.retrieve(query, mounts, k, with_text, options))

    def generate(self, prompt: Prompt, *, mounts: Sequence[str] = (),
                 options: types.Options | None = None,
                 **arguments: Unpack[types.GenerateArguments]) -> Generation:
        """Continues a prompt (text or token ids) with documents mounted. Iterate for events as they
        come, or call result()."""
        return Generation(self._core.generate(prompt, mounts, options, arguments))

    def chat(self, question: str | types.Conversation, *, mounts: Sequence[str] = (), system: str = "",
             options: types.Options | None = None,
             **arguments: Unpack[types.GenerateArguments]) -> Generation:
        """Answers a question, or the last one of a conversation, from the mounted documents. The next turn is a call
        with this question, the answer and the next question: the server does not read them again.
        The result's retrievals say where the answer was found."""
        return Generation(self._core.chat(question, mounts, system, options, arguments))

    def session(self, *, mounts: Sequence[str] = (),
                options: types.Options | None = None) -> Session:
        """Opens a session for several generations, which keeps what it has read."""
        return Session(run(self._core.session(mounts, options)))

    def score(self, prompt: Prompt, *, mounts: Sequence[str] = (), flush_after: Sequence[int] = (),
              top_logprobs: int = 0, options: types.Options | None = None) -> types.Scores:
        """Log probabilities of a given text, each token given all before it. `flush_after`: numbers of
        tokens after which documents are searched, as at a prompt's end. `top_logprobs`: also of so
        many of the likeliest tokens in each place."""
        return run(self._core.score(prompt, mounts, flush_after, top_logprobs, options))

    def model(self) -> admin_pb2.ModelInfo:
        """The model that the server has loaded."""
        return run(self._core.model())

    def stats(self) -> admin_pb2.Stats:
        """Counters and sizes of the server."""
        return run(self._core.stats())

    def backup_create(self, *, keep: int = 0, timeout: float | None = None) -> types.Backup:
        """Makes a backup in the server's directory for backups, while it serves; it takes as long as
        copying what has changed, so `timeout` is its own. Then removes all but the latest `keep`;
        0: none."""
        return run(self._core.backup_create(keep, timeout))

    def backups(self) -> list[types.Backup]:
        """All backups in the server's directory for backups, oldest first."""
        return run(self._core.backups())

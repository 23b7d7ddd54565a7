"""The blocking client."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Unpack

from recollect import _sessions, types
from recollect._calls import Calls
from recollect._io import Blocking, blocking, run
from recollect._messages import Prompt


class Generation(Iterator[types.Event]):
    """The events of a generation, as they come. Ends with Done."""

    def __init__(self, core: _sessions.Generation) -> None:
        self._core = core

    def __next__(self) -> types.Event:
        event = run(self._core.next())
        if event is None:
            raise StopIteration
        return event

    def cancel(self) -> None:
        """Ends the work on the server within a step."""
        self._core.cancel()

    result = blocking(_sessions.Generation.result)


class Session:
    """An open session; closed at the end of a with block. `id` is its server's, and changes with it."""

    def __init__(self, core: _sessions.Session) -> None:
        self._core = core

    @property
    def id(self) -> int:
        return self._core.id

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self.close()

    def generate(self, prompt: Prompt = "", **arguments: Unpack[types.GenerateArguments]) -> Generation:
        """Continues the session: prompt and answer become part of its past."""
        return Generation(self._core.generate(prompt, arguments))

    score = blocking(_sessions.Session.score)
    info = blocking(_sessions.Session.info)
    save = blocking(_sessions.Session.save)
    close = blocking(_sessions.Session.close)


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

    def generate(self, prompt: Prompt, *, mounts: Sequence[str] = (), options: types.Options | None = None,
                 **arguments: Unpack[types.GenerateArguments]) -> Generation:
        """Continues a prompt (text or token ids) with documents mounted. Iterate for events as they
        come, or call result()."""
        return Generation(self._core.generate(prompt, mounts, options, arguments))

    def chat(self, question: str | types.Conversation, *, mounts: Sequence[str] = (), system: str = "",
             options: types.Options | None = None, **arguments: Unpack[types.GenerateArguments]) -> Generation:
        """Answers a question, or the last one of a conversation, from the mounted documents. The next turn is a call
        with this question, the answer and the next question: the server does not read them again.
        The result's retrievals say where the answer was found."""
        return Generation(self._core.chat(question, mounts, system, options, arguments))

    def session(self, *, mounts: Sequence[str] = (), options: types.Options | None = None) -> Session:
        """Opens a session for several generations, which keeps what it has read."""
        return Session(run(self._core.open_session(mounts, options)))

    close = blocking(Calls.close)
    ingest = blocking(Calls.ingest)
    documents = blocking(Calls.documents)
    set_metadata = blocking(Calls.set_metadata)
    ingests = blocking(Calls.ingests)
    document = blocking(Calls.document)
    delete = blocking(Calls.delete)
    text = blocking(Calls.text)
    refresh_document = blocking(Calls.refresh_document)
    export_document = blocking(Calls.export_document)
    import_document = blocking(Calls.import_document)
    retrieve = blocking(Calls.retrieve)
    score = blocking(Calls.score)
    model = blocking(Calls.model)
    stats = blocking(Calls.stats)
    backup_create = blocking(Calls.backup_create)
    backups = blocking(Calls.backups)

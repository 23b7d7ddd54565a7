"""Generations and sessions of the blocking client."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Unpack

from recollect import _sessions, types
from recollect._io import run
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

    def result(self) -> types.Result:
        """Reads to the end, and returns all events together."""
        return run(self._core.result())

    def cancel(self) -> None:
        """Ends the work on the server within a step."""
        self._core.cancel()


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

    def score(self, prompt: Prompt, *, flush_after: Sequence[int] = (), top_logprobs: int = 0) -> types.Scores:
        """As Client.score, going on with what the session has read: the text becomes part of its past, its last token with
        the session's next call. Texts of any length are scored piece by piece. With one server only."""
        return run(self._core.score(prompt, flush_after, top_logprobs))

    def info(self) -> types.SessionInfo:
        return run(self._core.info())

    def save(self, id: str, *, replace: bool = False) -> types.Document:
        """Makes a document of what the session has read and generated, without passages; the session goes on. Saved
        again under this id, it takes the place of what it was; `replace`: of any document. Without the timeout of
        other calls."""
        return run(self._core.save(id, replace))

    def close(self) -> None:
        """Ends the session; harmless if it has ended."""
        run(self._core.close())

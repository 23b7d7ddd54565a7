"""The client for asyncio: the calls of recollect.client as coroutines."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import Unpack

from recollect import _sessions, types
from recollect._calls import Calls
from recollect._io import Asyncio, awaitable
from recollect._messages import Prompt


class AsyncGeneration(AsyncIterator[types.Event]):
    """As Generation, with async for and await."""

    def __init__(self, core: _sessions.Generation) -> None:
        self._core = core

    async def __anext__(self) -> types.Event:
        event = await self._core.next()
        if event is None:
            raise StopAsyncIteration
        return event

    def cancel(self) -> None:
        """Ends the work on the server within a step."""
        self._core.cancel()

    result = awaitable(_sessions.Generation.result)


class AsyncSession:
    """As Session, with async with."""

    def __init__(self, core: _sessions.Session) -> None:
        self._core = core

    @property
    def id(self) -> int:
        return self._core.id

    async def __aenter__(self) -> AsyncSession:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                       traceback: TracebackType | None) -> None:
        await self.close()

    def generate(self, prompt: Prompt = "", **arguments: Unpack[types.GenerateArguments]) -> AsyncGeneration:
        """Continues the session: prompt and answer become part of its past."""
        return AsyncGeneration(self._core.generate(prompt, arguments))

    score = awaitable(_sessions.Session.score)
    info = awaitable(_sessions.Session.info)
    save = awaitable(_sessions.Session.save)
    close = awaitable(_sessions.Session.close)


class AsyncClient:
    """As Client. To be used within one event loop."""

    def __init__(self, address: str = "localhost:50051", *, timeout: float | None = None,
                 api_key: str | None = None,
                 tls_ca: str | os.PathLike[str] | None = None) -> None:
        self._core = Calls(Asyncio(), address, timeout, api_key, tls_ca)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                       traceback: TracebackType | None) -> None:
        await self.close()

    def generate(self, prompt: Prompt, *, mounts: Sequence[str] = (), options: types.Options | None = None,
                 **arguments: Unpack[types.GenerateArguments]) -> AsyncGeneration:
        """As Client.generate."""
        return AsyncGeneration(self._core.generate(prompt, mounts, options, arguments))

    def chat(self, question: str | types.Conversation, *, mounts: Sequence[str] = (), system: str = "",
             options: types.Options | None = None, **arguments: Unpack[types.GenerateArguments]) -> AsyncGeneration:
        """As Client.chat."""
        return AsyncGeneration(self._core.chat(question, mounts, system, options, arguments))

    async def session(self, *, mounts: Sequence[str] = (), options: types.Options | None = None) -> AsyncSession:
        """Opens a session for several generations, which keeps what it has read."""
        return AsyncSession(await self._core.open_session(mounts, options))

    close = awaitable(Calls.close)
    ingest = awaitable(Calls.ingest)
    documents = awaitable(Calls.documents)
    set_metadata = awaitable(Calls.set_metadata)
    ingests = awaitable(Calls.ingests)
    document = awaitable(Calls.document)
    delete = awaitable(Calls.delete)
    text = awaitable(Calls.text)
    refresh_document = awaitable(Calls.refresh_document)
    export_document = awaitable(Calls.export_document)
    import_document = awaitable(Calls.import_document)
    retrieve = awaitable(Calls.retrieve)
    score = awaitable(Calls.score)
    model = awaitable(Calls.model)
    stats = awaitable(Calls.stats)
    backup_create = awaitable(Calls.backup_create)
    backups = awaitable(Calls.backups)

"""Generations and sessions of the client for asyncio."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import Unpack

from recollect import _sessions, types
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

    async def result(self) -> types.Result:
        return await self._core.result()

    def cancel(self) -> None:
        self._core.cancel()


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
        return AsyncGeneration(self._core.generate(prompt, arguments))

    async def score(self, prompt: Prompt, *, flush_after: Sequence[int] = (), top_logprobs: int = 0) -> types.Scores:
        return await self._core.score(prompt, flush_after, top_logprobs)

    async def info(self) -> types.SessionInfo:
        return await self._core.info()

    async def save(self, id: str, *, replace: bool = False) -> types.Document:
        return await self._core.save(id, replace)

    async def close(self) -> None:
        await self._core.close()

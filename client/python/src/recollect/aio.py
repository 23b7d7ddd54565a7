"""The client for asyncio: the calls of recollect.client as coroutines."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Unpack

from recollect import _transfer, _upload, types
from recollect._async_generation import AsyncGeneration, AsyncSession
from recollect._calls import Calls
from recollect._io import Asyncio
from recollect._messages import Prompt
from recollect.v1 import admin_pb2


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

    async def close(self) -> None:
        await self._core.close()

    async def ingest(
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
        return await self._core.ingest(source, id, options, progress, retries, replace, append, metadata)

    async def documents(self, filter: types.Filter | None = None) -> list[types.Document]:
        return await self._core.list_documents(filter)

    async def set_metadata(self, id: str, metadata: Mapping[str, Any], *,
                           patch: bool = False) -> types.Document:
        return await self._core.set_metadata(id, metadata, patch)

    async def ingests(self) -> list[types.UnfinishedIngest]:
        return await self._core.ingests()

    async def document(self, id: str) -> types.Document:
        return await self._core.document(id)

    async def delete(self, id: str) -> None:
        await self._core.delete(id)

    async def text(self, id: str, begin: int = 0, end: int | None = None) -> bytes:
        return await self._core.text(id, begin, end)

    async def refresh_document(
            self, id: str, *,
            progress: Callable[[types.Progress], None] | None = None) -> types.Document:
        return await self._core.refresh_document(id, progress)

    async def export_document(self, id: str, target: _transfer.Output) -> types.Document:
        return await self._core.export_document(id, target)

    async def import_document(self, source: _transfer.File, *, id: str | None = None,
                              progress: Callable[[int], None] | None = None) -> types.Document:
        return await self._core.import_document(source, id, progress)

    async def retrieve(
        self,
        query: Prompt,
        *,
        mounts: Sequence[str],
        k: int = 0,
        with_text: bool = True,
        options: types.Options | None = None,
    ) -> list[types.Retrieval]:
        return await self._core.retrieve(query, mounts, k, with_text, options)

    def generate(self, prompt: Prompt, *, mounts: Sequence[str] = (),
                 options: types.Options | None = None,
                 **arguments: Unpack[types.GenerateArguments]) -> AsyncGeneration:
        return AsyncGeneration(self._core.generate(prompt, mounts, options, arguments))

    def chat(self, question: str | types.Conversation, *, mounts: Sequence[str] = (), system: str = "",
             options: types.Options | None = None, **arguments: Unpack[types.GenerateArguments]) -> AsyncGeneration:
        return AsyncGeneration(self._core.chat(question, mounts, system, options, arguments))

    async def session(self, *, mounts: Sequence[str] = (),
                      options: types.Options | None = None) -> AsyncSession:
        return AsyncSession(await self._core.session(mounts, options))

    async def score(self, prompt: Prompt, *, mounts: Sequence[str] = (),
                    flush_after: Sequence[int] = (), top_logprobs: int = 0,
                    options: types.Options | None = None) -> types.Scores:
        return await self._core.score(prompt, mounts, flush_after, top_logprobs, options)

    async def model(self) -> admin_pb2.ModelInfo:
        return await self._core.model()

    async def stats(self) -> admin_pb2.Stats:
        return await self._core.stats()

    async def backup_create(self, *, keep: int = 0,
                            timeout: float | None = None) -> types.Backup:
        return await self._core.backup_create(keep, timeout)

    async def backups(self) -> list[types.Backup]:
        return await self._core.backups()

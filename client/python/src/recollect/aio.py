"""The client for asyncio: the calls of recollect.client as coroutines."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Unpack

import grpc
import grpc.aio

from recollect import _connection, _messages, _replicas, _transfer, _upload, errors, types
from recollect._async_generation import AsyncGeneration, AsyncSession
from recollect._messages import Prompt, decode
from recollect.v1 import admin_pb2, admin_pb2_grpc, documents_pb2, documents_pb2_grpc
from recollect.v1 import generation_pb2, generation_pb2_grpc


# In place of its status grpc.aio reports this for a call that ends while it is written to. The same call once more tells.
_LOST_STATUS = "Internal error from Core"


class AsyncClient:
    """As Client. To be used within one event loop."""

    def __init__(self, address: str = "localhost:50051", *, timeout: float | None = None,
                 api_key: str | None = None,
                 tls_ca: str | os.PathLike[str] | None = None) -> None:
        self._address = address
        self._timeout = timeout
        self._metadata = _connection.metadata(api_key)
        self._credentials = _connection.credentials(tls_ca)
        self._replicas = _replicas.find(address)
        self._pinned: dict[str, Any] = {}
        target, options = ((address, _messages.CHANNEL_OPTIONS) if self._replicas is None
                           else self._replicas.channel())
        self._channel = _replicas.connect(grpc.aio, target, self._credentials, options)
        self._documents = documents_pb2_grpc.DocumentsStub(self._channel)
        self._generation = generation_pb2_grpc.GenerationStub(self._channel)
        self._admin = admin_pb2_grpc.AdminStub(self._channel)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        traceback: TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        await self._channel.close()
        for channel in self._pinned.values():
            await channel.close()

    def _patience(self) -> _replicas.Patience | None:
        return None if self._replicas is None else _replicas.Patience(self._replicas)

    def _to(self, address: _replicas.Address) -> Any:
        if address.target not in self._pinned:
            target, options = address.channel()
            self._pinned[address.target] = _replicas.connect(grpc.aio, target, self._credentials, options)
        return generation_pb2_grpc.GenerationStub(self._pinned[address.target])

    async def _call(self, method: Any, request: Any) -> Any:
        try:
            return await method(request, timeout=self._timeout, metadata=self._metadata)
        except grpc.RpcError as error:
            raise errors.from_grpc(error, address=self._address, timeout=self._timeout) from None

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
        upload_source = _upload.Source(source, id)
        try:
            for retry in range(retries + 1):
                upload = _upload.Upload(upload_source, options, replace, append, metadata)
                try:
                    return await self._ingest_once(upload, progress)
                except (errors.Unavailable, errors.Aborted):
                    if retry == retries or upload.may_have_appended:
                        raise
                await asyncio.sleep(_upload.backoff(retry))
            raise AssertionError("retries: negative")
        finally:
            upload_source.close()

    async def _ingest_once(self, upload: _upload.Upload,
                           progress: Callable[[types.Progress], None] | None) -> types.Document:
        call = self._documents.Ingest(metadata=self._metadata)
        try:
            await call.write(upload.header())
            async for response in call:
                request = upload.answer(response)
                if request is not None:
                    await call.write(request)
                if progress is not None:
                    progress(decode(types.Progress, response.progress))
                if upload.document is not None:
                    await call.done_writing()
        except asyncio.InvalidStateError:
            pass  # the server ended the stream: its status says why
        except grpc.RpcError as error:
            if error.details() == _LOST_STATUS:
                raise errors.from_status(grpc.StatusCode.UNAVAILABLE, "the server ended the stream") from None
            raise errors.from_grpc(error) from None
        finally:
            call.cancel()
        if upload.document is None:
            code, details = await call.code(), await call.details()
            raise errors.from_status(code, details)
        return upload.document

    async def documents(self, filter: types.Filter | None = None) -> list[types.Document]:
        request = documents_pb2.ListDocumentsRequest(filter=_messages.filter_text("filter", filter))
        return [decode(types.Document, d)
                async for page in self._pages(self._documents.ListDocuments, request)
                for d in page.documents]

    async def set_metadata(self, id: str, metadata: Mapping[str, Any], *,
                           patch: bool = False) -> types.Document:
        return decode(types.Document, await self._call(
            self._documents.SetMetadata, _messages.set_metadata(id, metadata, patch)))

    async def ingests(self) -> list[types.UnfinishedIngest]:
        return [decode(types.UnfinishedIngest, i)
                async for page in self._pages(self._documents.ListIngests,
                                              documents_pb2.ListIngestsRequest())
                for i in page.ingests]

    async def _pages(self, method: Any, request: Any) -> AsyncIterator[Any]:
        request.page_size = 1000
        while True:
            page = await self._call(method, request)
            yield page
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    async def document(self, id: str) -> types.Document:
        return decode(types.Document, await self._call(
            self._documents.GetDocument, documents_pb2.GetDocumentRequest(id=id)))

    async def delete(self, id: str) -> None:
        await self._call(self._documents.DeleteDocument,
                         documents_pb2.DeleteDocumentRequest(id=id))

    async def text(self, id: str, begin: int = 0, end: int | None = None) -> bytes:
        if end is None:
            end = (await self.document(id)).bytes
        parts = []
        for request in _messages.read_text(id, begin, end):
            parts.append((await self._call(self._documents.ReadText, request)).text)
        return b"".join(parts)

    async def refresh_document(
            self, id: str, *,
            progress: Callable[[types.Progress], None] | None = None) -> types.Document:
        call = self._documents.RefreshDocument(documents_pb2.RefreshDocumentRequest(id=id),
                                               metadata=self._metadata)
        document = None
        try:
            async for response in call:
                if response.HasField("document"):
                    document = decode(types.Document, response.document)
                elif progress is not None:
                    progress(decode(types.Progress, response.progress))
        except grpc.RpcError as error:
            raise errors.from_grpc(error) from None
        finally:
            call.cancel()
        if document is None:
            raise errors.Internal("the stream ended without a document")
        return document

    async def export_document(self, id: str, target: _transfer.Output) -> types.Document:
        with _transfer.Target(target) as out:
            call = self._documents.ExportDocument(documents_pb2.ExportDocumentRequest(id=id),
                                                  metadata=self._metadata)
            try:
                async for response in call:
                    out.take(response)
            except grpc.RpcError as error:
                raise errors.from_grpc(error) from None
            finally:
                call.cancel()
            return out.finish()

    async def import_document(self, source: _transfer.File, *, id: str | None = None,
                              progress: Callable[[int], None] | None = None) -> types.Document:
        transfer = _transfer.Import(source, id)
        call = self._documents.ImportDocument(metadata=self._metadata)
        try:
            await call.write(transfer.header())
            async for response in call:
                request = transfer.answer(response)
                if request is not None:
                    await call.write(request)
                else:
                    await call.done_writing()
                if progress is not None:
                    progress(response.accepted_bytes)
        except asyncio.InvalidStateError:
            pass  # the server ended the stream: its status says why
        except grpc.RpcError as error:
            if error.details() == _LOST_STATUS:
                raise errors.from_status(grpc.StatusCode.UNAVAILABLE, "the server ended the stream") from None
            raise errors.from_grpc(error) from None
        finally:
            call.cancel()
            transfer.close()
        if transfer.document is None:
            raise errors.from_status(await call.code(), await call.details())
        return transfer.document

    async def retrieve(
        self,
        query: Prompt,
        *,
        mounts: Sequence[str],
        k: int = 0,
        with_text: bool = True,
        options: types.Options | None = None,
    ) -> list[types.Retrieval]:
        response = await self._call(self._documents.Retrieve, documents_pb2.RetrieveRequest(
            session=_messages.session(mounts, options), query=_messages.prompt(query), k=k,
            with_text=with_text))
        return [decode(types.Retrieval, r) for r in response.retrievals]

    def generate(self, prompt: Prompt, *, mounts: Sequence[str] = (),
                 options: types.Options | None = None,
                 **arguments: Unpack[types.GenerateArguments]) -> AsyncGeneration:
        return self._generate(_messages.generate_request(
            prompt, 0, _messages.session(mounts, options), arguments))

    def chat(self, question: str | Sequence[types.Message], *, mounts: Sequence[str] = (), system: str = "",
             options: types.Options | None = None, **arguments: Unpack[types.GenerateArguments]) -> AsyncGeneration:
        return self.generate(_messages.conversation(question, system), mounts=mounts, options=options,
                             **{**_messages.CHAT_DEFAULTS, **arguments})

    def _generate(self, request: generation_pb2.GenerateRequest) -> AsyncGeneration:
        return AsyncGeneration(self, request)

    async def session(self, *, mounts: Sequence[str] = (),
                      options: types.Options | None = None) -> AsyncSession:
        session = AsyncSession(self, _messages.session(mounts, options))
        await session._open([])
        return session

    async def score(self, prompt: Prompt, *, mounts: Sequence[str] = (),
                    flush_after: Sequence[int] = (), top_logprobs: int = 0,
                    options: types.Options | None = None) -> types.Scores:
        return decode(types.Scores, await self._call(self._generation.Score, _messages.score_request(
            prompt, 0, _messages.session(mounts, options), flush_after, top_logprobs)))

    async def model(self) -> admin_pb2.ModelInfo:
        info: admin_pb2.ModelInfo = await self._call(
            self._admin.GetModel, admin_pb2.GetModelRequest())
        return info

    async def stats(self) -> admin_pb2.Stats:
        stats: admin_pb2.Stats = await self._call(self._admin.GetStats, admin_pb2.GetStatsRequest())
        return stats

    async def backup_create(self, *, keep: int = 0,
                            timeout: float | None = None) -> types.Backup:
        try:
            return decode(types.Backup, await self._admin.CreateBackup(
                admin_pb2.CreateBackupRequest(keep=keep), timeout=timeout,
                metadata=self._metadata))
        except grpc.RpcError as error:
            raise errors.from_grpc(error) from None

    async def backups(self) -> list[types.Backup]:
        response = await self._call(self._admin.ListBackups, admin_pb2.ListBackupsRequest())
        return [decode(types.Backup, backup) for backup in response.backups]

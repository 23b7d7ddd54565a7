"""The calls of both clients: what is sent, and what the answers mean. They are documented in recollect.client."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from recollect import _messages, _transfer, _upload, errors, types
from recollect._connection import Connection
from recollect._messages import Prompt, decode
from recollect._sessions import Generation, Session
from recollect.v1 import admin_pb2, documents_pb2


class Calls(Connection):
    """Calls that a client makes, over either way of waiting."""

    async def ingest(self, source: _upload.Input, id: str | None, options: types.Options | None,
                     progress: Callable[[types.Progress], None] | None, retries: int, replace: bool, append: bool,
                     metadata: types.Metadata | None) -> types.Document:
        def taken(response: documents_pb2.IngestResponse) -> None:
            if progress is not None:
                progress(decode(types.Progress, response.progress))

        if retries < 0:
            raise ValueError(f"retries: {retries}, expected 0 or more")
        upload_source = _upload.Source(source, id)
        try:
            for retry in range(retries + 1):
                upload = _upload.Upload(upload_source, options, replace, append, metadata)
                try:
                    return await self._send(self.documents.Ingest, upload, taken)
                except (errors.Unavailable, errors.Aborted):
                    if retry == retries or upload.may_have_appended:
                        raise
                await self.io.sleep(_upload.backoff(retry))
            raise AssertionError  # the last try returns or raises
        finally:
            upload_source.close()

    async def import_document(self, source: _transfer.File, id: str | None,
                              progress: Callable[[int], None] | None) -> types.Document:
        def taken(response: documents_pb2.ImportDocumentResponse) -> None:
            if progress is not None:
                progress(response.accepted_bytes)

        transfer = _transfer.Import(source, id)
        try:
            return await self._send(self.documents.ImportDocument, transfer, taken)
        finally:
            transfer.close()

    async def _send(self, method: Any, input: _upload.Upload | _transfer.Import,
                    taken: Callable[[Any], None]) -> types.Document:
        """Sends an input message by message, until it is published."""
        stream = self.exchange(method)
        try:
            await stream.write(input.header())
            while (response := await stream.read()) is not None:
                request = input.answer(response)
                if request is not None:
                    await stream.write(request)
                taken(response)
                if input.document is not None:
                    await stream.done_writing()
        finally:
            stream.cancel()
        return _messages.whole(input.document)

    async def refresh_document(self, id: str,
                               progress: Callable[[types.Progress], None] | None) -> types.Document:
        stream = self.stream(self.documents.RefreshDocument, documents_pb2.RefreshDocumentRequest(id=id))
        document = None
        try:
            while (response := await stream.read()) is not None:
                if response.HasField("document"):
                    document = decode(types.Document, response.document)
                elif progress is not None:
                    progress(decode(types.Progress, response.progress))
        finally:
            stream.cancel()
        return _messages.whole(document)

    async def export_document(self, id: str, target: _transfer.Output) -> types.Document:
        with _transfer.Target(target) as out:
            stream = self.stream(self.documents.ExportDocument, documents_pb2.ExportDocumentRequest(id=id))
            try:
                while (response := await stream.read()) is not None:
                    out.take(response)
            finally:
                stream.cancel()
            return out.finish()

    async def list_documents(self, filter: types.Filter | None) -> list[types.Document]:
        request = documents_pb2.ListDocumentsRequest(filter=_messages.filter_text("filter", filter))
        pages = await self._pages(self.documents.ListDocuments, request)
        return [decode(types.Document, document) for page in pages for document in page.documents]

    async def ingests(self) -> list[types.UnfinishedIngest]:
        pages = await self._pages(self.documents.ListIngests, documents_pb2.ListIngestsRequest())
        return [decode(types.UnfinishedIngest, ingest) for page in pages for ingest in page.ingests]

    async def _pages(self, method: Any, request: Any) -> list[Any]:
        request.page_size = 1000
        pages = [await self.call(method, request)]
        while pages[-1].next_page_token:
            request.page_token = pages[-1].next_page_token
            pages.append(await self.call(method, request))
        return pages

    async def document(self, id: str) -> types.Document:
        request = documents_pb2.GetDocumentRequest(id=id)
        return decode(types.Document, await self.call(self.documents.GetDocument, request))

    async def set_metadata(self, id: str, metadata: Mapping[str, Any], patch: bool) -> types.Document:
        request = _messages.set_metadata(id, metadata, patch)
        return decode(types.Document, await self.call(self.documents.SetMetadata, request))

    async def delete(self, id: str) -> None:
        await self.call(self.documents.DeleteDocument, documents_pb2.DeleteDocumentRequest(id=id))

    async def text(self, id: str, begin: int, end: int | None) -> bytes:
        if end is None:
            end = (await self.document(id)).bytes
        parts = [(await self.call(self.documents.ReadText, request)).text
                 for request in _messages.read_text(id, begin, end)]
        return b"".join(parts)

    async def retrieve(self, query: Prompt, mounts: Sequence[str], k: int, with_text: bool,
                       options: types.Options | None) -> list[types.Retrieval]:
        response = await self.call(self.documents.Retrieve, documents_pb2.RetrieveRequest(
            session=_messages.session(mounts, options), query=_messages.prompt(query), k=k, with_text=with_text))
        return [decode(types.Retrieval, retrieval) for retrieval in response.retrievals]

    def generate(self, prompt: Prompt, mounts: Sequence[str], options: types.Options | None,
                 arguments: types.GenerateArguments) -> Generation:
        return Generation(self, _messages.generate_request(
            prompt, 0, _messages.session(mounts, options), arguments))

    def chat(self, question: str | types.Conversation, mounts: Sequence[str], system: str,
             options: types.Options | None, arguments: types.GenerateArguments) -> Generation:
        return self.generate(_messages.conversation(question, system), mounts, options,
                             {**_messages.CHAT_DEFAULTS, **arguments})

    async def session(self, mounts: Sequence[str], options: types.Options | None) -> Session:
        session = Session(self, _messages.session(mounts, options))
        await session.open([])
        return session

    async def score(self, prompt: Prompt, mounts: Sequence[str], flush_after: Sequence[int], top_logprobs: int,
                    options: types.Options | None) -> types.Scores:
        request = _messages.score_request(prompt, 0, _messages.session(mounts, options), flush_after, top_logprobs)
        return decode(types.Scores, await self.call(self.generation.Score, request))

    async def model(self) -> admin_pb2.ModelInfo:
        info: admin_pb2.ModelInfo = await self.call(self.admin.GetModel, admin_pb2.GetModelRequest())
        return info

    async def stats(self) -> admin_pb2.Stats:
        stats: admin_pb2.Stats = await self.call(self.admin.GetStats, admin_pb2.GetStatsRequest())
        return stats

    async def backup_create(self, keep: int, timeout: float | None) -> types.Backup:
        request = admin_pb2.CreateBackupRequest(keep=keep)
        return decode(types.Backup, await self.call_within(timeout, self.admin.CreateBackup, request))

    async def backups(self) -> list[types.Backup]:
        response = await self.call(self.admin.ListBackups, admin_pb2.ListBackupsRequest())
        return [decode(types.Backup, backup) for backup in response.backups]

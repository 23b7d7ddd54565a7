"""The calls of both clients: their arguments, what is sent, and what the answers mean."""

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
                    return await self._send(self.docs.Ingest, upload, taken)
                except (errors.Unavailable, errors.Aborted):
                    if retry == retries or upload.may_have_appended:
                        raise
                await self.io.sleep(_upload.backoff(retry))
            raise AssertionError  # the last try returns or raises
        finally:
            upload_source.close()

    async def import_document(self, source: _transfer.File, *, id: str | None = None,
                              progress: Callable[[int], None] | None = None) -> types.Document:
        """Publishes a document of a file that export_document wrote; the model does not read it again.

        `source` is a path, the bytes, or an open binary file; `id` the document's new name (else the
        one in the file). `progress` is called with the bytes that the server has taken. Not to be
        resumed: nothing is left of an import that was broken off.
        """
        def taken(response: documents_pb2.ImportDocumentResponse) -> None:
            if progress is not None:
                progress(response.accepted_bytes)

        transfer = _transfer.Import(source, id)
        try:
            return await self._send(self.docs.ImportDocument, transfer, taken)
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

    async def refresh_document(self, id: str, *,
                               progress: Callable[[types.Progress], None] | None = None) -> types.Document:
        """Has the model read the text of a document again that another model has read.

        Until it is done the document stays as it was. One that is broken off is resumed by the next
        call. Without the timeout of other calls, like exports and imports.
        """
        stream = self.stream(self.docs.RefreshDocument, documents_pb2.RefreshDocumentRequest(id=id))
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
        """Writes a document as a file, from which another server with the same model can import it.

        `target` is a path, which must not exist and has a file once that is whole, or an open binary
        file.
        """
        with _transfer.Target(target) as out:
            stream = self.stream(self.docs.ExportDocument, documents_pb2.ExportDocumentRequest(id=id))
            try:
                while (response := await stream.read()) is not None:
                    out.take(response)
            finally:
                stream.cancel()
            return out.finish()

    async def documents(self, filter: types.Filter | None = None) -> list[types.Document]:
        """All documents, in byte order of their ids; with a filter those whose metadata matches."""
        request = documents_pb2.ListDocumentsRequest(filter=_messages.filter_text("filter", filter))
        pages = await self._pages(self.docs.ListDocuments, request)
        return [decode(types.Document, document) for page in pages for document in page.documents]

    async def ingests(self) -> list[types.UnfinishedIngest]:
        """All ingests that were begun and not finished."""
        pages = await self._pages(self.docs.ListIngests, documents_pb2.ListIngestsRequest())
        return [decode(types.UnfinishedIngest, ingest) for page in pages for ingest in page.ingests]

    async def _pages(self, method: Any, request: Any) -> list[Any]:
        request.page_size = 1000
        pages = [await self.call(method, request)]
        while pages[-1].next_page_token:
            request.page_token = pages[-1].next_page_token
            pages.append(await self.call(method, request))
        return pages

    async def document(self, id: str) -> types.Document:
        """What the server knows of a document. NotFound where there is none."""
        request = documents_pb2.GetDocumentRequest(id=id)
        return decode(types.Document, await self.call(self.docs.GetDocument, request))

    async def set_metadata(self, id: str, metadata: Mapping[str, Any], *, patch: bool = False) -> types.Document:
        """Replaces a document's metadata; with `patch` sets these keys and removes those that are
        None."""
        request = _messages.set_metadata(id, metadata, patch)
        return decode(types.Document, await self.call(self.docs.SetMetadata, request))

    async def delete(self, id: str) -> None:
        """Removes a document, or an unfinished ingest. Sessions that mount it keep it."""
        await self.call(self.docs.DeleteDocument, documents_pb2.DeleteDocumentRequest(id=id))

    async def text(self, id: str, begin: int = 0, end: int | None = None) -> bytes:
        """Bytes [begin, end) of a document's text; unless told, all of it."""
        if end is None:
            end = (await self.document(id)).bytes
        parts = [(await self.call(self.docs.ReadText, request)).text
                 for request in _messages.read_text(id, begin, end)]
        return b"".join(parts)

    async def retrieve(self, query: Prompt, *, mounts: Sequence[str], k: int = 0, with_text: bool = True,
                       options: types.Options | None = None) -> list[types.Retrieval]:
        """The chunks that the model retrieves for a query: one list for each group of layers.
        `k`: hits in each; 0: as many as the model uses."""
        response = await self.call(self.docs.Retrieve, documents_pb2.RetrieveRequest(
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

    async def open_session(self, mounts: Sequence[str], options: types.Options | None) -> Session:
        session = Session(self, _messages.session(mounts, options))
        await session.open([])
        return session

    async def score(self, prompt: Prompt, *, mounts: Sequence[str] = (), flush_after: Sequence[int] = (),
                    top_logprobs: int = 0, options: types.Options | None = None) -> types.Scores:
        """Log probabilities of a given text, each token given all before it. `flush_after`: numbers of
        tokens after which documents are searched, as at a prompt's end. `top_logprobs`: also of so
        many of the likeliest tokens in each place."""
        request = _messages.score_request(prompt, 0, _messages.session(mounts, options), flush_after, top_logprobs)
        return decode(types.Scores, await self.call(self.generation.Score, request))

    async def model(self) -> admin_pb2.ModelInfo:
        """The model that the server has loaded."""
        info: admin_pb2.ModelInfo = await self.call(self.admin.GetModel, admin_pb2.GetModelRequest())
        return info

    async def stats(self) -> admin_pb2.Stats:
        """Counters and sizes of the server."""
        stats: admin_pb2.Stats = await self.call(self.admin.GetStats, admin_pb2.GetStatsRequest())
        return stats

    async def backup_create(self, *, keep: int = 0, timeout: float | None = None) -> types.Backup:
        """Makes a backup in the server's directory for backups, while it serves; it takes as long as
        copying what has changed, so `timeout` is its own. Then removes all but the latest `keep`;
        0: none."""
        request = admin_pb2.CreateBackupRequest(keep=keep)
        return decode(types.Backup, await self.call_within(timeout, self.admin.CreateBackup, request))

    async def backups(self) -> list[types.Backup]:
        """All backups in the server's directory for backups, oldest first."""
        response = await self.call(self.admin.ListBackups, admin_pb2.ListBackupsRequest())
        return [decode(types.Backup, backup) for backup in response.backups]

"""The blocking client."""

from __future__ import annotations

import os
import queue
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Unpack

import grpc

from recollect import _connection, _messages, _replicas, _transfer, _upload, errors, types
from recollect._generation import Generation, Session
from recollect._messages import Prompt, decode
from recollect.v1 import admin_pb2, admin_pb2_grpc, documents_pb2, documents_pb2_grpc
from recollect.v1 import generation_pb2, generation_pb2_grpc


class Client:
    """Calls of a server at `address`, "host:port", or of several (replicas): "a:50051,b:50051", or a
    name with several addresses. Thread-safe: calls run concurrently on one connection. `timeout`, in seconds, is for each call but those that carry documents. `api_key`: for a server that asks
    for keys. `tls_ca`: file of certificates (PEM) that are trusted, for a server that speaks TLS.

    Errors are exceptions of recollect.errors. Calls that only read are repeated for some seconds
    while no server answers. With several servers a generation goes on at another one when its own is
    gone, with the tokens that would have followed; a session is opened there again, for which this
    client keeps what open sessions have read. A warning of the logger "recollect" says so.
    """

    def __init__(self, address: str = "localhost:50051", *, timeout: float | None = None,
                 api_key: str | None = None,
                 tls_ca: str | os.PathLike[str] | None = None) -> None:
        self._address = address
        self._timeout = timeout
        self._metadata = _connection.metadata(api_key)
        self._credentials = _connection.credentials(tls_ca)
        self._replicas = _replicas.find(address)
        self._pinned: dict[str, Any] = {}  # channels to one server each, by target
        target, options = ((address, _messages.CHANNEL_OPTIONS) if self._replicas is None
                           else self._replicas.channel())
        self._channel = _replicas.connect(grpc, target, self._credentials, options)
        self._documents = documents_pb2_grpc.DocumentsStub(self._channel)
        self._generation = generation_pb2_grpc.GenerationStub(self._channel)
        self._admin = admin_pb2_grpc.AdminStub(self._channel)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._channel.close()
        for channel in self._pinned.values():
            channel.close()

    def _patience(self) -> _replicas.Patience | None:
        return None if self._replicas is None else _replicas.Patience(self._replicas)

    def _to(self, address: _replicas.Address) -> Any:
        """Stub of the server there alone."""
        if address.target not in self._pinned:
            target, options = address.channel()
            self._pinned[address.target] = _replicas.connect(grpc, target, self._credentials, options)
        return generation_pb2_grpc.GenerationStub(self._pinned[address.target])

    def _call(self, method: Any, request: Any) -> Any:
        try:
            return method(request, timeout=self._timeout, metadata=self._metadata)
        except grpc.RpcError as error:
            raise errors.from_grpc(error, address=self._address, timeout=self._timeout) from None

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
        off is resumed, here and by a later call with the same input: AlreadyExists if the input is
        another. `options`: for a model without landmarks, those of the sessions to come.
        `replace`: the document takes the place of the one of this id, if there is one, when it is
        whole; an ingest that was broken off begins again. `append`: the document of this id, if
        there is one, goes on with this input; readers see the shorter one until all of it is read.
        Unavailable where the answer was lost: the document may have been appended to.
        whole; an ingest that was broken off begins again. `metadata`: what to find the document by;
        without, a document that is there keeps its own.
        """
        upload_source = _upload.Source(source, id)
        try:
            for retry in range(retries + 1):
                upload = _upload.Upload(upload_source, options, replace, append, metadata)
                try:
                    return self._ingest_once(upload, progress)
                except (errors.Unavailable, errors.Aborted):
                    if retry == retries or upload.may_have_appended:
                        raise
                time.sleep(_upload.backoff(retry))
            raise AssertionError("retries: negative")
        finally:
            upload_source.close()

    def _ingest_once(self, upload: _upload.Upload,
                     progress: Callable[[types.Progress], None] | None) -> types.Document:
        requests: queue.SimpleQueue[documents_pb2.IngestRequest | None] = queue.SimpleQueue()
        requests.put(upload.header())
        call = self._documents.Ingest(iter(requests.get, None), metadata=self._metadata)
        try:
            for response in call:
                request = upload.answer(response)
                if request is not None:
                    requests.put(request)
                if progress is not None:
                    progress(decode(types.Progress, response.progress))
                if upload.document is not None:
                    requests.put(None)
        except grpc.RpcError as error:
            raise errors.from_grpc(error) from None
        finally:
            requests.put(None)
            call.cancel()  # harmless at the end
        if upload.document is None:
            raise errors.Internal("the stream ended without a document")
        return upload.document

    def documents(self, filter: types.Filter | None = None) -> list[types.Document]:
        """All documents, in byte order of their ids; with a filter those whose metadata matches."""
        request = documents_pb2.ListDocumentsRequest(filter=_messages.filter_text("filter", filter))
        return [decode(types.Document, d)
                for page in self._pages(self._documents.ListDocuments, request)
                for d in page.documents]

    def set_metadata(self, id: str, metadata: Mapping[str, Any], *, patch: bool = False) -> types.Document:
        """Replaces a document's metadata; with `patch` sets these keys and removes those that are
        None."""
        return decode(types.Document, self._call(
            self._documents.SetMetadata, _messages.set_metadata(id, metadata, patch)))

    def ingests(self) -> list[types.UnfinishedIngest]:
        """All ingests that were begun and not finished."""
        return [decode(types.UnfinishedIngest, i)
                for page in self._pages(self._documents.ListIngests,
                                        documents_pb2.ListIngestsRequest())
                for i in page.ingests]

    def _pages(self, method: Any, request: Any) -> Iterator[Any]:
        request.page_size = 1000
        while True:
            page = self._call(method, request)
            yield page
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    def document(self, id: str) -> types.Document:
        return decode(types.Document, self._call(
            self._documents.GetDocument, documents_pb2.GetDocumentRequest(id=id)))

    def delete(self, id: str) -> None:
        """Removes a document, or an unfinished ingest. Sessions that mount it keep it."""
        self._call(self._documents.DeleteDocument, documents_pb2.DeleteDocumentRequest(id=id))

    def text(self, id: str, begin: int = 0, end: int | None = None) -> bytes:
        """Bytes [begin, end) of a document's text; unless told, all of it."""
        if end is None:
            end = self.document(id).bytes
        return b"".join(self._call(self._documents.ReadText, request).text
                        for request in _messages.read_text(id, begin, end))

    def refresh_document(self, id: str, *,
                         progress: Callable[[types.Progress], None] | None = None) -> types.Document:
        """Has the model read the text of a document again that another model has read.

        Until it is done the document stays as it was. One that is broken off is resumed by the next
        call. Without the timeout of other calls, like the next two.
        """
        call = self._documents.RefreshDocument(documents_pb2.RefreshDocumentRequest(id=id),
                                               metadata=self._metadata)
        document = None
        try:
            for response in call:
                if response.HasField("document"):
                    document = decode(types.Document, response.document)
                elif progress is not None:
                    progress(decode(types.Progress, response.progress))
        except grpc.RpcError as error:
            raise errors.from_grpc(error) from None
        finally:
            call.cancel()  # harmless at the end
        if document is None:
            raise errors.Internal("the stream ended without a document")
        return document

    def export_document(self, id: str, target: _transfer.Output) -> types.Document:
        """Writes a document as a file, from which another server with the same model can import it.

        `target` is a path, which must not exist and has a file once that is whole, or an open binary
        file.
        """
        with _transfer.Target(target) as out:
            call = self._documents.ExportDocument(documents_pb2.ExportDocumentRequest(id=id),
                                                  metadata=self._metadata)
            try:
                for response in call:
                    out.take(response)
            except grpc.RpcError as error:
                raise errors.from_grpc(error) from None
            finally:
                call.cancel()  # harmless at the end
            return out.finish()

    def import_document(self, source: _transfer.File, *, id: str | None = None,
                        progress: Callable[[int], None] | None = None) -> types.Document:
        """Publishes a document of such a file, which the model does not read again.

        `source` is a path, the bytes, or an open binary file; `id` the document's new name (else the
        one in the file). `progress` is called with the bytes that the server has taken. Not to be
        resumed: nothing is left of an import that was broken off.
        """
        transfer = _transfer.Import(source, id)
        requests: queue.SimpleQueue[documents_pb2.ImportDocumentRequest | None] = queue.SimpleQueue()
        requests.put(transfer.header())
        call = self._documents.ImportDocument(iter(requests.get, None), metadata=self._metadata)
        try:
            for response in call:
                requests.put(transfer.answer(response))
                if progress is not None:
                    progress(response.accepted_bytes)
        except grpc.RpcError as error:
            raise errors.from_grpc(error) from None
        finally:
            requests.put(None)
            call.cancel()  # harmless at the end
            transfer.close()
        if transfer.document is None:
            raise errors.Internal("the stream ended without a document")
        return transfer.document

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
        response = self._call(self._documents.Retrieve, documents_pb2.RetrieveRequest(
            session=_messages.session(mounts, options), query=_messages.prompt(query), k=k,
            with_text=with_text))
        return [decode(types.Retrieval, r) for r in response.retrievals]

    def generate(self, prompt: Prompt, *, mounts: Sequence[str] = (),
                 options: types.Options | None = None,
                 **arguments: Unpack[types.GenerateArguments]) -> Generation:
        """Continues a prompt (text or token ids) with documents mounted. Iterate for events as they
        come, or call result()."""
        return self._generate(_messages.generate_request(
            prompt, 0, _messages.session(mounts, options), arguments))

    def chat(self, question: str | Sequence[types.Message], *, mounts: Sequence[str] = (), system: str = "",
             options: types.Options | None = None,
             **arguments: Unpack[types.GenerateArguments]) -> Generation:
        """Answers a question, or the last one of a conversation, from the mounted documents. The next turn is a call
        with this question, the answer and the next question: the server does not read them again.
        The result's retrievals say where the answer was found."""
        messages = _messages.conversation(question, system)
        return self.generate(messages, mounts=mounts, options=options, **{**_messages.CHAT_DEFAULTS, **arguments})

    def _generate(self, request: generation_pb2.GenerateRequest) -> Generation:
        return Generation(self, request)

    def session(self, *, mounts: Sequence[str] = (),
                options: types.Options | None = None) -> Session:
        """Opens a session for several generations, which keeps what it has read."""
        return Session(self, _messages.session(mounts, options))

    def score(self, prompt: Prompt, *, mounts: Sequence[str] = (), flush_after: Sequence[int] = (),
              top_logprobs: int = 0, options: types.Options | None = None) -> types.Scores:
        """Log probabilities of a given text, each token given all before it. `top_logprobs`: also
        of so many of the likeliest tokens in each place."""
        return decode(types.Scores, self._call(self._generation.Score, _messages.score_request(
            prompt, 0, _messages.session(mounts, options), flush_after, top_logprobs)))

    def model(self) -> admin_pb2.ModelInfo:
        """The model that the server has loaded."""
        info: admin_pb2.ModelInfo = self._call(self._admin.GetModel, admin_pb2.GetModelRequest())
        return info

    def stats(self) -> admin_pb2.Stats:
        """Counters and sizes of the server."""
        stats: admin_pb2.Stats = self._call(self._admin.GetStats, admin_pb2.GetStatsRequest())
        return stats

    def backup_create(self, *, keep: int = 0, timeout: float | None = None) -> types.Backup:
        """Makes a backup in the server's directory for backups, while it serves; it takes as long as
        copying what has changed, so `timeout` is its own. Then removes all but the latest `keep`;
        0: none."""
        try:
            return decode(types.Backup, self._admin.CreateBackup(
                admin_pb2.CreateBackupRequest(keep=keep), timeout=timeout,
                metadata=self._metadata))
        except grpc.RpcError as error:
            raise errors.from_grpc(error) from None

    def backups(self) -> list[types.Backup]:
        """All backups there, oldest first."""
        response = self._call(self._admin.ListBackups, admin_pb2.ListBackupsRequest())
        return [decode(types.Backup, backup) for backup in response.backups]

"""Generations and sessions of the blocking client."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Unpack

import grpc

from recollect import _messages, _replicas, errors, types
from recollect._messages import Prompt, decode
from recollect.v1 import documents_pb2, generation_pb2

if TYPE_CHECKING:
    from recollect.client import Client


class Generation(Iterator[types.Event]):
    """The events of a generation, as they come. Ends with Done."""

    def __init__(self, client: Client, request: generation_pb2.GenerateRequest,
                 session: Session | None = None) -> None:
        self._client, self._session = client, session
        self._answer = _replicas.Answer(request, client._timeout)
        self._patience = client._patience()
        self._collector = _messages.Collector()
        if session is not None and session._history is not None:
            session._history.begin(self._answer)
        self._call = self._ask()

    def _ask(self) -> Any:
        stub = self._client._generation if self._session is None else self._session._stub
        return stub.Generate(self._answer.asked(0 if self._session is None else self._session.id),
                             timeout=self._answer.timeout(), metadata=self._client._metadata)

    def __next__(self) -> types.Event:
        while True:
            try:
                event = self._answer.take(next(self._call))
            except grpc.RpcError as error:
                self._go_on(errors.from_grpc(error))
                continue
            if event is not None:
                self._collector.add(event)
                return event

    def _go_on(self, failure: errors.RecollectError) -> None:
        """At another server, where there is one and it may help."""
        session, answer = self._session, self._answer
        if self._patience is None or not _replicas.is_gone(failure, session is not None):
            if session is not None and session._history is not None:
                session._history.failed(answer, failure)
            raise failure from None
        if answer.progressed():
            self._patience.renew()
            _replicas.LOG.warning("the server is gone (%s); after %d tokens the answer goes on at another",
                                  failure, answer.tokens)
        time.sleep(self._patience.pause(failure))
        if session is not None:
            session._move(failure, answer)
        self._call = self._ask()

    def result(self) -> types.Result:
        """Reads to the end, and returns all events together."""
        for _ in self:
            pass
        return self._collector.result()

    def cancel(self) -> None:
        """Ends the work on the server within a step."""
        self._call.cancel()


class Session:
    """An open session; closed at the end of a with block. `id` is its server's, and changes with it."""

    def __init__(self, client: Client, options: documents_pb2.SessionOptions) -> None:
        self._client = client
        self._target = ""
        self._history = None if client._replicas is None else _replicas.History(options)
        self.id = 0
        if self._history is None:
            self._stub = client._generation
            self.id = client._call(self._stub.OpenSession,
                                   generation_pb2.OpenSessionRequest(session=options)).id
        else:
            self._open(self._history, [])

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self.close()

    def generate(self, prompt: Prompt = "",
                 **arguments: Unpack[types.GenerateArguments]) -> Generation:
        """Continues the session: prompt and answer become part of its past."""
        return Generation(self._client, _messages.generate_request(prompt, 0, None, arguments), self)

    def score(self, prompt: Prompt, *, flush_after: Sequence[int] = (),
              top_logprobs: int = 0) -> types.Scores:
        """As Client.score, going on with what the session has read: the text becomes part of its past, its last token with
        the session's next call. Texts of any length are scored piece by piece. With one server only."""
        if self._history is not None:
            raise errors.FailedPrecondition(_replicas.NO_SCORES)
        return decode(types.Scores, self._client._call(
            self._stub.Score, _messages.score_request(prompt, self.id, None, flush_after, top_logprobs)))

    def info(self) -> types.SessionInfo:
        try:
            return self._info()
        except errors.RecollectError as failure:
            if self._history is None or not _replicas.is_gone(failure, in_session=True):
                raise
            self._move(failure, None)
        return self._info()

    def _info(self) -> types.SessionInfo:
        return decode(types.SessionInfo, self._client._call(
            self._stub.GetSession, generation_pb2.GetSessionRequest(id=self.id)))

    def save(self, id: str, *, replace: bool = False) -> types.Document:
        """Makes a document of what the session has read and generated, without passages; the session goes on. Saved
        again under this id, it takes the place of what it was; `replace`: of any document. Without the timeout of
        other calls."""
        try:
            return self._save(id, replace)
        except errors.RecollectError as failure:
            if self._history is None or not _replicas.is_gone(failure, in_session=True):
                raise
            self._move(failure, None)
        return self._save(id, replace)

    def _save(self, id: str, replace: bool) -> types.Document:
        try:
            return decode(types.Document, self._stub.SaveSession(
                _messages.save_request(self.id, id, replace), metadata=self._client._metadata))
        except grpc.RpcError as error:
            raise errors.from_grpc(error) from None

    def close(self) -> None:
        """Ends the session; harmless if it has ended."""
        try:
            self._client._call(self._stub.CloseSession,
                               generation_pb2.CloseSessionRequest(id=self.id))
        except errors.RecollectError as failure:
            # With its server a session has ended, too.
            lost = self._history is not None and _replicas.is_gone(failure, in_session=True)
            if not lost and not isinstance(failure, errors.NotFound):
                raise

    def _move(self, why: errors.RecollectError, running: _replicas.Answer | None) -> None:
        """Opens it at another server, for the reason `why`; `running` is not read again."""
        assert self._history is not None
        turns = self._history.turns(running, why)
        self._open(self._history, turns)
        _replicas.LOG.warning("the session is gone with its server (%s); it was opened at %s, where its %d calls were "
                              "read again", why, self._target.split(":", 1)[1], len(turns))

    def _open(self, history: _replicas.History, turns: Sequence[generation_pb2.GenerateRequest]) -> None:
        client = self._client
        assert client._replicas is not None
        patience = _replicas.Patience(client._replicas)
        while True:
            for address in client._replicas.rotated(self._target):
                try:
                    self.id, self._stub = self._open_at(address, history.options, turns)
                    self._target = address.target
                    return
                except errors.Unavailable as failure:
                    last = failure
            time.sleep(patience.pause(last))

    def _open_at(self, address: _replicas.Address, options: documents_pb2.SessionOptions,
                 turns: Sequence[generation_pb2.GenerateRequest]) -> tuple[int, Any]:
        client, stub = self._client, self._client._to(address)
        id = client._call(stub.OpenSession, generation_pb2.OpenSessionRequest(session=options)).id
        for turn in turns:
            turn.session_id = id
            try:
                for response in stub.Generate(turn, timeout=client._timeout, metadata=client._metadata):
                    _replicas.check_ended(response, turn)
            except grpc.RpcError as error:
                raise errors.from_grpc(error) from None
        return id, stub

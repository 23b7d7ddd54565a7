"""Generations and sessions of both clients: the calls that go on at another server when their own is gone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from recollect import _messages, _replicas, errors, types
from recollect._connection import Connection
from recollect._messages import Prompt, decode
from recollect.v1 import documents_pb2, generation_pb2

T = TypeVar("T")


class Generation:
    """A generation, in a session where one is given."""

    def __init__(self, connection: Connection, request: generation_pb2.GenerateRequest,
                 session: Session | None = None) -> None:
        self._connection, self._session = connection, session
        self._answer = _replicas.Answer(request, connection.timeout)
        self._patience = connection.patience()
        self._collector = _messages.Collector()
        if session is not None and session.history is not None:
            session.history.begin(self._answer)
        self._ask()

    def _ask(self) -> None:
        session = self._session
        stub, id = (self._connection.generation, 0) if session is None else (session.stub, session.id)
        self._stream = self._connection.stream(stub.Generate, self._answer.asked(id), self._answer.timeout())

    async def next(self) -> types.Event | None:
        """The next event; None at the end."""
        while True:
            try:
                response = await self._stream.read()
            except errors.RecollectError as failure:
                await self._go_on(failure)
                continue
            event = None if response is None else self._answer.take(response)
            if event is not None:
                self._collector.add(event)
            if event is not None or response is None:
                return event

    async def _go_on(self, failure: errors.RecollectError) -> None:
        """At another server, where there is one and it may help."""
        session, answer = self._session, self._answer
        if self._patience is None or not _replicas.is_gone(failure, session is not None):
            if session is not None and session.history is not None:
                session.history.failed(answer, failure)
            raise failure from None
        if answer.progressed():
            self._patience.renew()
            _replicas.LOG.warning("the server is gone (%s); after %d tokens the answer goes on at another",
                                  failure, answer.tokens)
        await self._connection.io.sleep(self._patience.pause(failure))
        if session is not None:
            await session.move(failure, answer)
        self._ask()

    async def result(self) -> types.Result:
        """Reads to the end, and returns all events together."""
        while await self.next() is not None:
            pass
        return self._collector.result()

    def cancel(self) -> None:
        self._stream.cancel()


class Session:
    """A session, once it is open; with several servers it keeps what it has read."""

    def __init__(self, connection: Connection, options: documents_pb2.SessionOptions) -> None:
        self._connection = connection
        self._options = options
        self._target = ""
        self.history = None if connection.replicas is None else _replicas.History()
        self.stub: Any = connection.generation
        self.id = 0

    async def open(self, turns: Sequence[generation_pb2.GenerateRequest]) -> None:
        """At any server, which reads these turns."""
        replicas = self._connection.replicas
        if replicas is None:
            self.id = await self._open_with(self.stub)
            return
        patience = _replicas.Patience(replicas)
        while True:
            for address in replicas.rotated(self._target):
                try:
                    self.id, self.stub = await self._open_at(address, turns)
                    self._target = address.target
                    return
                except errors.Unavailable as failure:
                    last = failure
            await self._connection.io.sleep(patience.pause(last))

    async def _open_with(self, stub: Any) -> int:
        request = generation_pb2.OpenSessionRequest(session=self._options)
        opened: generation_pb2.Session = await self._connection.call(stub.OpenSession, request)
        return opened.id

    async def _open_at(self, address: _replicas.Address,
                       turns: Sequence[generation_pb2.GenerateRequest]) -> tuple[int, Any]:
        stub = self._connection.to(address)
        id = await self._open_with(stub)
        for turn in turns:
            turn.session_id = id
            stream = self._connection.stream(stub.Generate, turn, self._connection.timeout)
            while (response := await stream.read()) is not None:
                _replicas.check_ended(response, turn)
        return id, stub

    async def move(self, why: errors.RecollectError, running: _replicas.Answer | None) -> None:
        """Opens it at another server, for the reason `why`; `running` is not read again."""
        assert self.history is not None
        turns = self.history.turns(running, why)
        await self.open(turns)
        _replicas.LOG.warning("the session is gone with its server (%s); it was opened at %s, where its %d calls were "
                              "read again", why, self._target.split(":", 1)[1], len(turns))

    def _is_gone(self, failure: errors.RecollectError) -> bool:
        """Whether its server is, and another may have it."""
        return self.history is not None and _replicas.is_gone(failure, in_session=True)

    async def _here_or_elsewhere(self, call: Callable[[], Awaitable[T]]) -> T:
        try:
            return await call()
        except errors.RecollectError as failure:
            if not self._is_gone(failure):
                raise
            await self.move(failure, None)
        return await call()

    def generate(self, prompt: Prompt, arguments: types.GenerateArguments) -> Generation:
        return Generation(self._connection, _messages.generate_request(prompt, 0, None, arguments), self)

    async def score(self, prompt: Prompt, *, flush_after: Sequence[int] = (), top_logprobs: int = 0) -> types.Scores:
        """As Client.score, going on with what the session has read: the text becomes part of its past, its last token with
        the session's next call. Texts of any length are scored piece by piece. With one server only."""
        if self.history is not None:
            raise errors.FailedPrecondition(_replicas.NO_SCORES)
        request = _messages.score_request(prompt, self.id, None, flush_after, top_logprobs)
        return decode(types.Scores, await self._connection.call(self.stub.Score, request))

    async def info(self) -> types.SessionInfo:
        return decode(types.SessionInfo, await self._here_or_elsewhere(lambda: self._connection.call(
            self.stub.GetSession, generation_pb2.GetSessionRequest(id=self.id))))

    async def save(self, id: str, *, replace: bool = False) -> types.Document:
        """Makes a document of what the session has read and generated, without passages; the session goes on. Saved
        again under this id, it takes the place of what it was; `replace`: of any document. Without the timeout of
        other calls."""
        return decode(types.Document, await self._here_or_elsewhere(lambda: self._connection.call_within(
            None, self.stub.SaveSession, _messages.save_request(self.id, id, replace))))

    async def close(self) -> None:
        """Ends the session; harmless if it has ended."""
        try:
            await self._connection.call(self.stub.CloseSession, generation_pb2.CloseSessionRequest(id=self.id))
        except errors.RecollectError as failure:
            # With its server a session has ended, too.
            if not self._is_gone(failure) and not isinstance(failure, errors.NotFound):
                raise

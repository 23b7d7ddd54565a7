"""Generations and sessions of the client for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Unpack

import grpc

from recollect import _messages, _replicas, errors, types
from recollect._messages import Prompt, decode
from recollect.v1 import documents_pb2, generation_pb2

if TYPE_CHECKING:
    from recollect.aio import AsyncClient


class AsyncGeneration(AsyncIterator[types.Event]):
    """As Generation, with async for and await."""

    def __init__(self, client: AsyncClient, request: generation_pb2.GenerateRequest,
                 session: AsyncSession | None = None) -> None:
        self._client, self._session = client, session
        self._answer = _replicas.Answer(request, client._timeout)
        self._patience = client._patience()
        self._collector = _messages.Collector()
        if session is not None and session._history is not None:
            session._history.begin(self._answer)
        self._ask()

    def _ask(self) -> None:
        stub = self._client._generation if self._session is None else self._session._stub
        self._call: Any = stub.Generate(
            self._answer.asked(0 if self._session is None else self._session.id),
            timeout=self._answer.timeout(), metadata=self._client._metadata)
        self._responses: Any = aiter(self._call)

    async def __anext__(self) -> types.Event:
        while True:
            try:
                event = self._answer.take(await anext(self._responses))
            except grpc.RpcError as error:
                await self._go_on(errors.from_grpc(error))
                continue
            if event is not None:
                self._collector.add(event)
                return event

    async def _go_on(self, failure: errors.RecollectError) -> None:
        session, answer = self._session, self._answer
        if self._patience is None or not _replicas.is_gone(failure, session is not None):
            if session is not None and session._history is not None:
                session._history.failed(answer, failure)
            raise failure from None
        if answer.progressed():
            self._patience.renew()
            _replicas.LOG.warning("the server is gone (%s); after %d tokens the answer goes on at another",
                                  failure, answer.tokens)
        await asyncio.sleep(self._patience.pause(failure))
        if session is not None:
            await session._move(failure, answer)
        self._ask()

    async def result(self) -> types.Result:
        async for _ in self:
            pass
        return self._collector.result()

    def cancel(self) -> None:
        self._call.cancel()


class AsyncSession:
    """As Session, with async with."""

    def __init__(self, client: AsyncClient, options: documents_pb2.SessionOptions) -> None:
        self._client = client
        self._options = options
        self._target = ""
        self._history = None if client._replicas is None else _replicas.History(options)
        self._stub: Any = client._generation
        self.id = 0

    async def __aenter__(self) -> AsyncSession:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        traceback: TracebackType | None) -> None:
        await self.close()

    def generate(self, prompt: Prompt = "",
                 **arguments: Unpack[types.GenerateArguments]) -> AsyncGeneration:
        return AsyncGeneration(self._client, _messages.generate_request(prompt, 0, None, arguments), self)

    async def score(self, prompt: Prompt, *, flush_after: Sequence[int] = (),
                    top_logprobs: int = 0) -> types.Scores:
        if self._history is not None:
            raise errors.FailedPrecondition(_replicas.NO_SCORES)
        return decode(types.Scores, await self._client._call(
            self._stub.Score, _messages.score_request(prompt, self.id, None, flush_after, top_logprobs)))

    async def info(self) -> types.SessionInfo:
        try:
            return await self._info()
        except errors.RecollectError as failure:
            if self._history is None or not _replicas.is_gone(failure, in_session=True):
                raise
            await self._move(failure, None)
        return await self._info()

    async def _info(self) -> types.SessionInfo:
        return decode(types.SessionInfo, await self._client._call(
            self._stub.GetSession, generation_pb2.GetSessionRequest(id=self.id)))

    async def save(self, id: str, *, replace: bool = False) -> types.Document:
        try:
            return await self._save(id, replace)
        except errors.RecollectError as failure:
            if self._history is None or not _replicas.is_gone(failure, in_session=True):
                raise
            await self._move(failure, None)
        return await self._save(id, replace)

    async def _save(self, id: str, replace: bool) -> types.Document:
        try:
            return decode(types.Document, await self._stub.SaveSession(
                _messages.save_request(self.id, id, replace), metadata=self._client._metadata))
        except grpc.RpcError as error:
            raise errors.from_grpc(error) from None

    async def close(self) -> None:
        try:
            await self._client._call(self._stub.CloseSession,
                                     generation_pb2.CloseSessionRequest(id=self.id))
        except errors.RecollectError as failure:
            lost = self._history is not None and _replicas.is_gone(failure, in_session=True)
            if not lost and not isinstance(failure, errors.NotFound):
                raise

    async def _move(self, why: errors.RecollectError, running: _replicas.Answer | None) -> None:
        assert self._history is not None
        turns = self._history.turns(running, why)
        await self._open(turns)
        _replicas.LOG.warning("the session is gone with its server (%s); it was opened at %s, where its %d calls were "
                              "read again", why, self._target.split(":", 1)[1], len(turns))

    async def _open(self, turns: Sequence[generation_pb2.GenerateRequest]) -> None:
        client = self._client
        if client._replicas is None:
            self.id = (await client._call(self._stub.OpenSession,
                                          generation_pb2.OpenSessionRequest(session=self._options))).id
            return
        patience = _replicas.Patience(client._replicas)
        while True:
            for address in client._replicas.rotated(self._target):
                try:
                    self.id, self._stub = await self._open_at(address, turns)
                    self._target = address.target
                    return
                except errors.Unavailable as failure:
                    last = failure
            await asyncio.sleep(patience.pause(last))

    async def _open_at(self, address: _replicas.Address,
                       turns: Sequence[generation_pb2.GenerateRequest]) -> tuple[int, Any]:
        client, stub = self._client, self._client._to(address)
        id = (await client._call(stub.OpenSession,
                                 generation_pb2.OpenSessionRequest(session=self._options))).id
        for turn in turns:
            turn.session_id = id
            try:
                async for response in stub.Generate(turn, timeout=client._timeout, metadata=client._metadata):
                    _replicas.check_ended(response, turn)
            except grpc.RpcError as error:
                raise errors.from_grpc(error) from None
        return id, stub

"""How the core waits: blocking, or in an event loop of asyncio. The core is coroutines, which over Blocking never suspend."""

from __future__ import annotations

import asyncio
import functools
import queue
import time
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast

import grpc
import grpc.aio

from recollect import errors

T = TypeVar("T")
P = ParamSpec("P")


def run(steps: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine of the core over Blocking."""
    try:
        steps.send(None)
    except StopIteration as done:
        return cast(T, done.value)
    raise AssertionError("a coroutine over Blocking has suspended")


def blocking(step: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Any, P], T]:
    """A coroutine of the core as a method of its blocking form, which has the core as `_core`."""

    @functools.wraps(step)
    def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return run(step(self._core, *args, **kwargs))

    return method


def awaitable(
        step: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """The same of its form for asyncio."""

    @functools.wraps(step)
    async def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await step(self._core, *args, **kwargs)

    return method


class Stream:
    """A call with many responses; with many requests where it is an exchange."""

    async def read(self) -> Any:
        """The next response; None at the end."""
        try:
            return await self._next()
        except grpc.RpcError as error:
            raise errors.from_grpc(error) from None

    async def _next(self) -> Any:
        raise NotImplementedError

    async def write(self, request: Any) -> None:
        raise NotImplementedError

    async def done_writing(self) -> None:
        raise NotImplementedError

    def cancel(self) -> None:
        """Ends it; harmless at its end."""
        raise NotImplementedError


class Io(Protocol):
    """What the core does with the network and the clock; `how`: timeout and metadata of the call."""

    channels: Any  # grpc or grpc.aio

    async def call(self, method: Any, request: Any, **how: Any) -> Any: ...
    async def sleep(self, seconds: float) -> None: ...
    async def close(self, channel: Any) -> None: ...
    def stream(self, method: Any, request: Any, **how: Any) -> Stream: ...
    def exchange(self, method: Any, **how: Any) -> Stream: ...


class _BlockingStream(Stream):
    def __init__(self, call: Any, requests: queue.SimpleQueue[Any]) -> None:
        self._call, self._requests = call, requests

    async def _next(self) -> Any:
        return next(self._call, None)

    async def write(self, request: Any) -> None:
        self._requests.put(request)

    async def done_writing(self) -> None:
        self._requests.put(None)

    def cancel(self) -> None:
        self._requests.put(None)
        self._call.cancel()


class Blocking:
    channels: Any = grpc

    async def call(self, method: Any, request: Any, **how: Any) -> Any:
        return method(request, **how)

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    async def close(self, channel: Any) -> None:
        channel.close()

    def stream(self, method: Any, request: Any, **how: Any) -> Stream:
        return _BlockingStream(method(request, **how), queue.SimpleQueue())

    def exchange(self, method: Any, **how: Any) -> Stream:
        requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        return _BlockingStream(method(iter(requests.get, None), **how), requests)


class _AsyncioStream(Stream):
    def __init__(self, call: Any) -> None:
        self._call, self._responses = call, aiter(call)

    async def _next(self) -> Any:
        return await anext(self._responses, None)

    async def write(self, request: Any) -> None:
        try:
            await self._call.write(request)
        except asyncio.InvalidStateError:
            pass  # the server ended the stream: what is read next says why
        except grpc.RpcError as error:
            raise errors.from_grpc(error) from None

    async def done_writing(self) -> None:
        await self._call.done_writing()

    def cancel(self) -> None:
        self._call.cancel()


class Asyncio:
    channels: Any = grpc.aio

    async def call(self, method: Any, request: Any, **how: Any) -> Any:
        return await method(request, **how)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def close(self, channel: Any) -> None:
        await channel.close()

    def stream(self, method: Any, request: Any, **how: Any) -> Stream:
        return _AsyncioStream(method(request, **how))

    def exchange(self, method: Any, **how: Any) -> Stream:
        return _AsyncioStream(method(**how))

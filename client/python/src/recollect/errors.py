"""Errors of the service as exceptions, one class for each status code that the service uses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import grpc


class RecollectError(Exception):
    """An error of the service or of the connection. `code` is the gRPC status code.

    `retry_after`: seconds after which what was refused may be tried again, where the server says so.
    """

    code: grpc.StatusCode = grpc.StatusCode.UNKNOWN
    retry_after: float | None = None

    def __init__(self, message: str, code: grpc.StatusCode | None = None) -> None:
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = code


class InvalidArgument(RecollectError):
    """A field is missing, malformed or beyond its limit; the message names all three."""

    code = grpc.StatusCode.INVALID_ARGUMENT


class NotFound(RecollectError):
    """No such document or session."""

    code = grpc.StatusCode.NOT_FOUND


class AlreadyExists(RecollectError):
    """The document's id is taken by other content."""

    code = grpc.StatusCode.ALREADY_EXISTS


class FailedPrecondition(RecollectError):
    """A document of another model, or a session that an error has broken."""

    code = grpc.StatusCode.FAILED_PRECONDITION


class Aborted(RecollectError):
    """Another call writes the same document or runs in the same session."""

    code = grpc.StatusCode.ABORTED


class OutOfRange(RecollectError):
    """A range that is not within the text."""

    code = grpc.StatusCode.OUT_OF_RANGE


class Unauthenticated(RecollectError):
    """The server asks for API keys, and this client has none of its."""

    code = grpc.StatusCode.UNAUTHENTICATED


class PermissionDenied(RecollectError):
    """The API key has not the right for this call, or is for other documents."""

    code = grpc.StatusCode.PERMISSION_DENIED


class ResourceExhausted(RecollectError):
    """A queue or a budget is full; the message names both sizes. Try again later."""

    code = grpc.StatusCode.RESOURCE_EXHAUSTED


class Unavailable(RecollectError):
    """No server answers at this address, or it is starting or stopping. Try again later."""

    code = grpc.StatusCode.UNAVAILABLE


class DeadlineExceeded(RecollectError):
    """The timeout passed before the answer was complete."""

    code = grpc.StatusCode.DEADLINE_EXCEEDED


class Cancelled(RecollectError):
    """The call was cancelled."""

    code = grpc.StatusCode.CANCELLED


class Unimplemented(RecollectError):
    """The server does not have this method."""

    code = grpc.StatusCode.UNIMPLEMENTED


class DataLoss(RecollectError):
    """A stored record is damaged; nothing computed from it was returned."""

    code = grpc.StatusCode.DATA_LOSS


class Internal(RecollectError):
    """A bug of the server."""

    code = grpc.StatusCode.INTERNAL


# In place of its status grpc.aio reports this for a call that ends while it is written to. The same call once more tells.
_LOST_STATUS = "Internal error from Core"
_CLASSES = {kind.code: kind for kind in RecollectError.__subclasses__()}


def from_grpc(error: grpc.RpcError, *, address: str = "", timeout: float | None = None) -> RecollectError:
    """The exception for a failed call. `address` and `timeout`: what it was made with, for the message."""
    details = error.details()
    if details == _LOST_STATUS:
        return Unavailable("the server ended the stream")
    if timeout is not None and error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
        details = f"{address}: no whole answer within the timeout of {timeout:g} s"
    failed = _CLASSES.get(error.code(), RecollectError)(details or "", error.code())
    for name, value in cast("Iterable[tuple[str, str]]", error.trailing_metadata() or ()):
        if name == "retry-after":
            failed.retry_after = float(value)
    return failed

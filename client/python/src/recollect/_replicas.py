"""Several servers as one: for both clients. gRPC balances, checks health and finds failures; what is here tells it of whom."""

from __future__ import annotations

import ipaddress
import itertools
import json
import logging
import random
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from recollect import _messages, errors, types
from recollect.v1 import generation_pb2 as generation

LOG = logging.getLogger("recollect")
PATIENCE = 5.0  # seconds for which a call that gets no further looks for a server that answers
NO_SCORES = "a session of a client of several servers could not be opened again after it was scored in: connect to one server"

_ROUND_ROBIN: dict[str, Any] = {"loadBalancingConfig": [{"round_robin": {}}], "healthCheckConfig": {"serviceName": ""}}
_RECONNECT = [("grpc.max_reconnect_backoff_ms", 5000), ("grpc.min_reconnect_backoff_ms", 5000),
              ("grpc.service_config_disable_resolution", 1)]
_OWN_FORMS = ("unix:", "unix-abstract:", "vsock:", "ipv4:", "ipv6:", "xds:")

ChannelOptions = list[tuple[str, Any]]


@dataclass(frozen=True)
class Address:
    """Where one replica is reached."""

    server: str
    """As the caller named it: whom its certificate is for."""
    target: str
    """gRPC's: "ipv4:10.0.0.7:50051"."""

    @property
    def shown(self) -> str:
        return self.target.split(":", 1)[1]

    def channel(self) -> tuple[str, ChannelOptions]:
        """Target and options of a channel to this one alone."""
        return self.target, [("grpc.service_config", json.dumps(_ROUND_ROBIN)),
                             ("grpc.default_authority", self.server), *_RECONNECT]


def split(servers: str) -> list[tuple[str, str, int]]:
    """(server, host, port) of each part of "a:50051,b:50051". ValueError names the part."""
    parts: list[tuple[str, str, int]] = []
    for server in servers.split(","):
        name = server.removeprefix("dns:").removeprefix("///")
        scheme, separator, _ = name.rpartition("://")
        if separator:
            raise ValueError(f"server {server!r}: expected HOST:PORT of gRPC (serve --grpc-listen), without {scheme}{separator}")
        host, colon, port = name.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536 or server.startswith(_OWN_FORMS):
            raise ValueError(f"server {server!r}: expected HOST:PORT, the port from 1 to 65535")
        if any(name == other for other, _, _ in parts):
            raise ValueError(f"server {server!r}: named twice")
        parts.append((name, host.removeprefix("[").removesuffix("]"), int(port)))
    return parts


def look_up(parts: Sequence[tuple[str, str, int]]) -> list[Address]:
    """The addresses of all names that are known. errors.Unavailable: none is."""
    addresses: dict[str, Address] = {}
    failure = None
    for server, host, port in parts:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            failure = errors.Unavailable(f"server {server!r}: {error.strerror}")
            continue
        for family, _, _, _, where in found:
            target = f"ipv6:[{where[0]}]:{port}" if family == socket.AF_INET6 else f"ipv4:{where[0]}:{port}"
            addresses.setdefault(target, Address(server, target))
    if failure is not None and not addresses:
        raise failure
    return list(addresses.values())


def find(servers: str) -> Replicas | None:
    """None: it is one server, and nothing of this is needed."""
    many = "," in servers
    if not many and servers.startswith(_OWN_FORMS):
        return None
    parts = split(servers)
    try:
        addresses = look_up(parts)
    except errors.Unavailable:
        if many:
            raise
        return None  # gRPC says why, and asks again
    v6 = sum(address.target.startswith("ipv6:") for address in addresses)
    one = v6 <= 1 and len(addresses) - v6 <= 1  # a name with one address of each kind is one machine
    if one and not many and not servers.startswith("dns:"):
        return None
    return Replicas(servers, parts, addresses)


class Replicas:
    """The servers of one client."""

    def __init__(self, servers: str, parts: list[tuple[str, str, int]], addresses: list[Address]) -> None:
        self.servers = servers
        self._parts = parts
        self._addresses = addresses
        self._next = itertools.count(random.randrange(1 << 16))

    def channel(self) -> tuple[str, ChannelOptions]:
        """Target and options of a channel over all: gRPC goes round those that it finds healthy."""
        config = json.dumps(_ROUND_ROBIN | _messages.SERVICE_CONFIG)
        options = [("grpc.service_config", config), *_RECONNECT]
        if len(self._parts) == 1:  # gRPC looks the name up, again when addresses fail
            return f"dns:///{self._parts[0][0]}", options
        # One form for all: beside IPv6 the others are written as IPv6, too.
        parsed = [address.target.split(":", 1)[1].rpartition(":") for address in self._addresses]
        v6 = any(host.startswith("[") for host, _, _ in parsed)
        hosts = [(host if host.startswith("[") or not v6 else f"[::ffff:{ipaddress.IPv4Address(host)}]", port)
                 for host, _, port in parsed]
        target = ",".join(f"{host}:{port}" for host, port in hosts)
        return ("ipv6:" if v6 else "ipv4:") + target, [*options, ("grpc.default_authority", self._addresses[0].server)]

    def rotated(self, last: str) -> list[Address]:
        """All addresses, as names are known now, each time beginning with another; the target `last` at the end."""
        try:
            self._addresses = look_up(self._parts)
        except errors.Unavailable:
            pass
        first = next(self._next) % len(self._addresses)
        rotated = self._addresses[first:] + self._addresses[:first]
        return sorted(rotated, key=lambda address: address.target == last)


class Patience:
    """How long something is tried at other servers, from the first of a row of failures on."""

    def __init__(self, replicas: Replicas) -> None:
        self._servers = replicas.servers
        self._failures = 0
        self._since = 0.0

    def renew(self) -> None:
        """Something was reached: the next failure is the first of another row."""
        self._failures = 0

    def pause(self, failure: errors.RecollectError) -> float:
        """Seconds to wait after a failure; errors.Unavailable when there is no more time."""
        self._failures += 1
        if self._failures == 1:
            self._since = time.monotonic()
            return 0.0
        pause = min(0.025 * float(2 ** min(self._failures, 6)), 1.0)
        if time.monotonic() + pause > self._since + PATIENCE:
            raise errors.Unavailable(f"none of the servers {self._servers} answers any more; the last: {failure}")
        return pause


class Answer:
    """A generation that may take several calls: what has come of it, and the request for the rest."""

    def __init__(self, request: generation.GenerateRequest, timeout: float | None) -> None:
        self._request = request
        self._ids: list[int] = []
        self._text: list[str] = []
        self._end = None if timeout is None else time.monotonic() + timeout
        self._last_retrieval = (-1, -1)
        self.begun = self.done = False
        self._at_failure = 0

    def timeout(self) -> float | None:
        """What is left of it."""
        return None if self._end is None else max(self._end - time.monotonic(), 0.0)

    def asked(self, session_id: int) -> generation.GenerateRequest:
        """The request for what is missing."""
        request = generation.GenerateRequest()
        request.CopyFrom(self._request)
        request.session_id = session_id
        if self._ids or self._text:
            request.generated.ids.extend(self._ids)
            request.generated.text += "".join(self._text)
        return request

    @property
    def tokens(self) -> int:
        """That have come."""
        return len(self._ids)

    def take(self, response: generation.GenerateResponse) -> types.Event | None:
        """The event, unless it came before."""
        self.begun = True
        event = _messages.event(response)
        if isinstance(event, types.Tokens):
            self._ids.extend(event.ids)
            self._text.append(event.text)
        elif isinstance(event, types.Retrieval):
            here = (event.position, event.group)
            if here <= self._last_retrieval:
                return None  # another server retrieves once more for the landmarks of what it reads
            self._last_retrieval = here
        elif isinstance(event, types.Done):
            self.done = True
        return event

    def progressed(self) -> bool:
        """Whether tokens have come since this was asked last."""
        before, self._at_failure = self._at_failure, self.tokens
        return self.tokens > before


class History:
    """What a session of several servers has read, from which it is opened again at another."""

    def __init__(self) -> None:
        self._answers: list[Answer] = []
        self._failure: errors.RecollectError | None = None

    def begin(self, answer: Answer) -> None:
        """A call begins; how the one before has ended is known by now."""
        self._answers.append(answer)

    def failed(self, answer: Answer, failure: errors.RecollectError) -> None:
        """A call has ended with an error that no other server can help with."""
        unchanged = (errors.InvalidArgument, errors.Aborted, errors.Unauthenticated, errors.PermissionDenied,
                     errors.FailedPrecondition)
        if not answer.begun and isinstance(failure, unchanged):
            self._answers.remove(answer)
        else:
            self._failure = failure

    def turns(self, running: Answer | None, why: errors.RecollectError) -> list[generation.GenerateRequest]:
        """The complete calls. errors.Unavailable: one was broken off, so what the session has read is not known."""
        before = [answer for answer in self._answers if answer is not running]
        if self._failure is not None or not all(answer.done for answer in before):
            raise errors.Unavailable(
                f"the session is lost with its server ({why}); it cannot be opened elsewhere, because an earlier "
                f"answer was not read to its end ({self._failure or 'left by the caller'})")
        turns = []
        for answer in before:
            turn = answer.asked(0)
            turn.with_retrievals = False
            turns.append(turn)
        return turns


def is_gone(failure: errors.RecollectError, in_session: bool) -> bool:
    """Whether another server may help. NOT_FOUND in a session: another process answers there, or it has expired."""
    return isinstance(failure, errors.Unavailable) or (in_session and isinstance(failure, errors.NotFound))


def check_ended(response: generation.GenerateResponse, turn: generation.GenerateRequest) -> None:
    """Of a turn that is read again: it has to end where it ended."""
    if response.HasField("tokens") and response.tokens.ids:
        raise errors.FailedPrecondition(
            f"after {len(turn.generated.ids)} tokens, where an answer in this session had ended, this server goes on: "
            "it has another model or another kind of CPU")

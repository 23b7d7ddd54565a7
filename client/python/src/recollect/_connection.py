"""How clients reach a server, and what they send with every call."""

from __future__ import annotations

import os
import pathlib
from typing import Any

import grpc

from recollect import _messages, _replicas, errors
from recollect._io import Io, Stream
from recollect.v1 import admin_pb2_grpc, documents_pb2_grpc, generation_pb2_grpc


class Connection:
    """Channels to a server, or to several, and calls on them, whose errors are those of recollect.errors."""

    def __init__(self, io: Io, address: str, timeout: float | None, api_key: str | None,
                 tls_ca: str | os.PathLike[str] | None) -> None:
        self.io, self.address, self.timeout = io, address, timeout
        self.metadata = _metadata(api_key)
        self._credentials = _credentials(tls_ca)
        self.replicas = _replicas.find(address)
        self._pinned: dict[str, Any] = {}  # channels to one server each, by target
        target, options = ((address, _messages.CHANNEL_OPTIONS) if self.replicas is None
                           else self.replicas.channel())
        self._channel = self._connect(target, options)
        self.docs = documents_pb2_grpc.DocumentsStub(self._channel)
        self.generation = generation_pb2_grpc.GenerationStub(self._channel)
        self.admin = admin_pb2_grpc.AdminStub(self._channel)

    def _connect(self, target: str, options: _replicas.ChannelOptions) -> Any:
        if self._credentials is None:
            return self.io.channels.insecure_channel(target, options=options)
        return self.io.channels.secure_channel(target, self._credentials, options=options)

    async def close(self) -> None:
        for channel in (self._channel, *self._pinned.values()):
            await self.io.close(channel)

    def patience(self) -> _replicas.Patience | None:
        return None if self.replicas is None else _replicas.Patience(self.replicas)

    def to(self, address: _replicas.Address) -> Any:
        """Stub of the server there alone."""
        if address.target not in self._pinned:
            self._pinned[address.target] = self._connect(*address.channel())
        return generation_pb2_grpc.GenerationStub(self._pinned[address.target])

    async def call(self, method: Any, request: Any) -> Any:
        return await self.call_within(self.timeout, method, request)

    async def call_within(self, timeout: float | None, method: Any, request: Any) -> Any:
        """A call with a timeout of its own."""
        try:
            return await self.io.call(method, request, timeout=timeout, metadata=self.metadata)
        except grpc.RpcError as error:
            raise errors.from_grpc(error, address=self.address, timeout=timeout) from None

    def stream(self, method: Any, request: Any, timeout: float | None = None) -> Stream:
        """A call that is answered by a stream."""
        return self.io.stream(method, request, timeout=timeout, metadata=self.metadata)

    def exchange(self, method: Any) -> Stream:
        """A call with streams in both directions."""
        return self.io.exchange(method, metadata=self.metadata)


def _metadata(api_key: str | None) -> tuple[tuple[str, str], ...]:
    """That of a call with this key. ValueError: no key has other than visible ASCII characters."""
    if api_key is None:
        return ()
    if not api_key or not all("!" <= character <= "~" for character in api_key):
        raise ValueError("api_key: empty, or other than visible ASCII characters")
    return (("authorization", f"Bearer {api_key}"),)


def _credentials(tls_ca: str | os.PathLike[str] | None) -> grpc.ChannelCredentials | None:
    """Those of a channel that trusts the certificates in this file; None: no TLS."""
    if tls_ca is None:
        return None
    trusted = pathlib.Path(tls_ca).read_bytes()
    if b"-----BEGIN CERTIFICATE-----" not in trusted:
        raise ValueError(f"tls_ca: no certificate in {os.fspath(tls_ca)} (PEM)")
    return grpc.ssl_channel_credentials(trusted)

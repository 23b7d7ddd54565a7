"""How clients reach a server, and what they send with every call."""

from __future__ import annotations

import os
import pathlib

import grpc


def metadata(api_key: str | None) -> tuple[tuple[str, str], ...]:
    """That of a call with this key. ValueError: no key has other than visible ASCII characters."""
    if api_key is None:
        return ()
    if not api_key or not all("!" <= character <= "~" for character in api_key):
        raise ValueError("api_key: empty, or other than visible ASCII characters")
    return (("authorization", f"Bearer {api_key}"),)


def credentials(tls_ca: str | os.PathLike[str] | None) -> grpc.ChannelCredentials | None:
    """Those of a channel that trusts the certificates in this file; None: no TLS."""
    if tls_ca is None:
        return None
    trusted = pathlib.Path(tls_ca).read_bytes()
    if b"-----BEGIN CERTIFICATE-----" not in trusted:
        raise ValueError(f"tls_ca: no certificate in {os.fspath(tls_ca)} (PEM)")
    return grpc.ssl_channel_credentials(trusted)

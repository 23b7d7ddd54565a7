"""How clients reach a server, and what they send with every call."""

from __future__ import annotations


def metadata(api_key: str | None) -> tuple[tuple[str, str], ...]:
    """That of a call with this key. ValueError: no key has other than visible ASCII characters."""
    if api_key is None:
        return ()
    if not api_key or not all("!" <= character <= "~" for character in api_key):
        raise ValueError("api_key: empty, or other than visible ASCII characters")
    return (("authorization", f"Bearer {api_key}"),)

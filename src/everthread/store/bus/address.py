"""The address of a bus, as its user writes it: redis://[user:password@]host[:port][/0][?channel=NAME].

It is taken apart here, once. What is shown of it anywhere has no password.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from everthread.errors import BadValue

CHANNEL = "everthread"
PORT = 6379
ALLOWED = "redis://host:6379/0, or rediss:// for TLS, with ?channel=NAME where several stores share a server"


class BusAddress(NamedTuple):
    tls: bool
    host: str
    port: int
    user: str | None
    password: str | None
    channel: str
    shown: str

    def __repr__(self) -> str:
        return f"BusAddress({self.shown!r})"


def read(address: str) -> BusAddress:
    shown = without_password(address)
    try:
        parts = urlsplit(address)
        port = PORT if parts.port is None else parts.port
        options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    except ValueError:
        raise BadValue("bus", shown, ALLOWED) from None
    channel = options.pop("channel", CHANNEL)
    if options or not _is_server(parts) or not _is_channel(channel):
        raise BadValue("bus", shown, ALLOWED)
    user, password = _unquoted(parts.username), _unquoted(parts.password)
    return BusAddress(parts.scheme == "rediss", parts.hostname or "", port, user, password, channel, shown)


def _is_server(parts: SplitResult) -> bool:
    # The number of a database is allowed and means nothing: all databases of a server share its channels.
    number = parts.path.removeprefix("/") or "0"
    return parts.scheme in ("redis", "rediss") and bool(parts.hostname) and number.isdecimal() and not parts.fragment


def _is_channel(name: str) -> bool:
    return bool(name) and name.isprintable()


def _unquoted(word: str | None) -> str | None:
    return unquote(word) if word else None


def without_password(address: str) -> str:
    """The address without what stands before its last @, and without what is asked for after a question mark."""
    scheme, found, rest = address.rpartition("://")
    return f"{scheme}{found}{rest.rpartition('@')[2].partition('?')[0]}"

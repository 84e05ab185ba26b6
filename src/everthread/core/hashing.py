"""Hashes by which something is known again."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

_sorted = msgspec.json.Encoder(order="deterministic")
_as_it_stands = msgspec.json.Encoder()


def hash_of(value: Any) -> str:
    """The hash of a JSON value; the order of keys does not matter."""
    return hashlib.sha256(_sorted.encode(value)).hexdigest()[:32]


def request_hash(body: dict[str, Any]) -> str:
    """The hash of a request as it is sent; the order of keys matters."""
    return hashlib.sha256(_as_it_stands.encode(body)).hexdigest()

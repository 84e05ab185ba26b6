"""Metadata: what an application keeps with a conversation or a message for itself.

One JSON object of at most `MOST` bytes. It comes back as it went in and can be filtered by; no model is sent it, it has
no size in tokens, and recall does not look into it. A message's goes with the message when that is redacted; a
conversation's goes when that is erased, and is in no other conversation.
"""

from __future__ import annotations

import json
from typing import Any

from everthread.core.schemas import same
from everthread.errors import BadValue

MOST = 16_384  # bytes of JSON


def check_metadata(given: object) -> dict[str, Any]:
    """The metadata that was given; BadValue where it would not come back as it went in, or is too large."""
    if not isinstance(given, dict):
        raise BadValue("metadata", given, "names and values, as in {'team': 'blue'}")
    try:
        written = json.dumps(given, ensure_ascii=False, allow_nan=False)
        if json.loads(written) != given:
            raise BadValue("metadata", given, "plain JSON: text keys, lists and not tuples")
    except (TypeError, ValueError, RecursionError) as problem:
        raise BadValue("metadata", given, f"plain JSON ({problem})") from None
    if (size := len(written.encode("utf-8", "surrogatepass"))) > MOST:
        raise BadValue(
            "metadata", f"{size:,} bytes", f"at most {MOST:,} bytes of JSON: keep more in a store of your own"
        )
    return given


def matches(metadata: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Whether it has all that is wanted: the same names with equal values, whatever else it has. True is not 1."""
    return all(name in metadata and same(metadata[name], value) for name, value in wanted.items())

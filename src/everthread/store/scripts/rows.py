"""A conversation as its rows, whole and exact: what an archive is made of, and compared with.

Every row of every table that is a conversation's alone, as it is stored: all branches, events with their folded heads,
what recall's index is made from, receipts, images and files, figures of model calls, quotes, canvases, reminders, and
schedules that are done, unless another conversation's tool call made them. Tenant and conversation are the same in all,
and left out. The index of recall is not among them: it is made from the events again, as for any that are new.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from everthread.store.engine import Ask, Script, Tell, statements
from everthread.store.recall import index

# In the order in which they are put back: what refers to a row comes after it.
PARTS = (
    "conversations",
    "branches",
    "events",
    "receipts",
    "blobs",
    "blob_uses",
    "model_calls",
    "quotes",
    "canvases",
    "schedules",
    "reminders",
)
OWN = ("tenant", "conversation")

Rows = dict[str, list[tuple[Any, ...]]]
_encoder = msgspec.msgpack.Encoder()


def columns_of(part: str) -> tuple[str, ...]:
    """The columns of a part, as the queries have them."""
    if part == "conversations":
        text = "conversation user agent name goal settings current time forgotten alias metadata active"
        return tuple(text.split())
    return tuple(name for name in statements("?{n}")[f"insert_packed_{part}"].names if name not in OWN)


def read(key: Mapping[str, str]) -> Script[Rows]:
    """All rows of a conversation; of its own row none where it is erased, archived or not there."""
    found: Rows = {}
    for part in PARTS:
        found[part] = [tuple(row) for row in (yield Ask(f"pack_{part}", key))]
    return found


def put_back(key: Mapping[str, str], rows: Rows) -> list[Tell]:
    """The statements that write all rows but the conversation's own, which never went."""
    own = (key["tenant"], key["conversation"])
    tells = [Tell(f"insert_packed_{part}", [(*own, *row) for row in rows[part]]) for part in PARTS[1:]]
    return [tell for tell in tells if tell.rows]


def take_out(key: Mapping[str, str]) -> Script[list[Tell]]:
    """The statements that remove all rows but the conversation's own, and what recall's index has of them."""
    unindexed = yield from index.erase(key["tenant"], key["conversation"])
    return [*unindexed, *(Tell(_taking_out(part), [key]) for part in reversed(PARTS[1:]))]


def _taking_out(part: str) -> str:
    """The statement that removes a part. Whoever erases reaches schedules in other conversations; this must not."""
    return "take_out_schedules" if part == "schedules" else f"erase_{part}"


def digest(rows: Mapping[str, Sequence[tuple[Any, ...]]]) -> bytes:
    """Of all rows together: two conversations that have the same are the same in every column of every row."""
    whole = hashlib.sha256()
    for part in PARTS:
        whole.update(f"{part} {len(rows[part])}\n".encode())
        for row in rows[part]:
            encoded = _encoder.encode(row)
            whole.update(len(encoded).to_bytes(8, "big"))
            whole.update(encoded)
    return whole.digest()

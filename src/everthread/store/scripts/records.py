"""Records of a whole store that are neither conversations nor documents: as rows, for operators who move a store.

A record is written only where there is none with its key: what is there stays. Which of them are secret is said here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from everthread.store.conversations import Conversation
from everthread.store.engine import Ask, Outcome, Script, Tell


class Kind(NamedTuple):
    """A kind of record: its columns, those that may be null, those that are bytes, and what of it is secret: all of it
    where that is None."""

    texts: tuple[str, ...]
    numbers: tuple[str, ...]
    nullable: tuple[str, ...] = ()
    bytes: tuple[str, ...] = ()
    secret: tuple[str, ...] | None = ()


KINDS = {
    "schedule": Kind(
        ("tenant", "conversation", "id", "user", "cron", "zone", "missed", "state", "made_conversation"),
        ("failures", "made_branch", "made_seq"),
        ("at", "due", "look", "ran"),
        ("text",),
    ),
    "account": Kind(("tenant", "user", "role", "password"), ("made",), ("disabled",), secret=("password",)),
    "api_key": Kind(
        ("tenant", "id", "hash", "user", "application", "users", "label", "scopes"),
        ("made", "until"),
        ("seen", "revoked"),
        secret=None,
    ),
    "provider_key": Kind(("tenant", "provider", "key_id"), ("made",), (), ("nonce", "sealed"), secret=None),
    "erased": Kind(("tenant", "conversation", "user", "agent"), ("time", "active", "erased")),
    "calibration": Kind(("model",), ("step", "count")),
}
_ORDER = {
    "schedule": "tenant conversation id user text at cron zone missed state due look failures ran made_conversation"
    " made_branch made_seq",
    "account": "tenant user role password made disabled",
    "api_key": "tenant id hash user application users label scopes made until seen revoked",
    "provider_key": "tenant provider key_id nonce sealed made",
    "erased": "tenant conversation user agent time active erased",
    "calibration": "model step count",
}


def read(what: str) -> Script[list[dict[str, Any]]]:
    names = _ORDER[what].split()
    return [dict(zip(names, row, strict=True)) for row in (yield Ask(f"read_{what}", {}))]


def add(what: str, row: Mapping[str, Any]) -> Script[Outcome[int]]:
    if (yield Ask(f"there_{what}", row)):
        return Outcome(0)
    return Outcome(1, [Tell(f"write_{what}", [row])])


def receipts(conversation: Conversation) -> Script[list[dict[str, Any]]]:
    rows = yield Ask("all_receipts", {"tenant": conversation.tenant, "conversation": conversation.id})
    return [dict(zip(("key", "branch", "first", "last", "hash"), row, strict=True)) for row in rows]

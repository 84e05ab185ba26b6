"""Checking a log against its own laws: what `everthread doctor` runs.

Folds every branch again and compares each stored head; decodes every event; compares the figures of model calls
and what recall knows with their events, and every image and file with its hash; and looks for what is half-forgotten
(`check_forgotten`). Says what is wrong and where, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from everthread.core.branches import ENDLESS, Branch
from everthread.core.events import Event, ModelCall, Redacted, decode
from everthread.core.parts import blob_hash
from everthread.core.turns import Head, advance
from everthread.store.beside.usage import CallFigures, figures, stored
from everthread.store.conversations import stored_object
from everthread.store.engine import Ask, Row, Script
from everthread.store.recall import check
from everthread.store.scripts import check_forgotten
from everthread.store.scripts.append import forgotten, head_of
from everthread.store.scripts.branch import branches
from everthread.store.scripts.check_forgotten import Noted

PAGE = 1_000


def check_conversation(tenant: str, conversation: str) -> Script[tuple[int, list[str]]]:
    """How many events there are, and what is wrong with them. Once more, where something was redacted meanwhile."""
    key = {"tenant": tenant, "conversation": conversation}
    before = yield from forgotten(key)
    count, problems = yield from _check(tenant, conversation)
    if problems and before != (yield from forgotten(key)):
        return (yield from _check(tenant, conversation))
    return count, problems


def _check(tenant: str, conversation: str) -> Script[tuple[int, list[str]]]:
    key = {"tenant": tenant, "conversation": conversation}
    problems: list[str] = []
    count = 0
    receipts = yield Ask("receipts", key)  # before their events: those only grow meanwhile
    grown, seen = (yield from branches(tenant, conversation)), Noted()
    for branch in grown:
        checked, wrong = yield from _check_branch(tenant, conversation, branch, seen)
        count += checked
        problems += [f"{conversation} branch {branch.name}: {problem}" for problem in wrong]
    found = yield from check.check(tenant, conversation)
    found += yield from _check_row(key, grown)
    found += yield from check_forgotten.check(key, grown, seen, receipts)
    problems += [f"{conversation}: {problem}" for problem in found]
    problems += yield from _check_blobs(tenant, conversation)
    return count, problems


def _check_row(key: dict[str, Any], grown: list[Branch]) -> Script[list[str]]:
    """What is wrong with the conversation's own row: whose it is, which branch is current, whether it was erased."""
    rows = yield Ask("whose", key)
    if not rows:
        return ["it is missing, with all that it says of itself"] if grown else []
    user, current, erased, settings, metadata, archived = rows[0]
    if erased is not None:
        return [f"it is half-forgotten: it was erased, and {len(grown)} of its branches are there"] if grown else []
    if archived is not None:  # the rest is in a file, which `everthread archive verify` checks
        return [f"it is archived, and {len(grown)} of its branches are there"] if grown else []
    unread = ["its metadata cannot be read: it is taken for none"] if stored_object(metadata) is None else []
    return [*_check_details(user, current, settings, grown), *unread]


def _check_details(user: str, current: int, settings: str, grown: list[Branch]) -> list[str]:
    if not any(branch.number == current for branch in grown):
        return [f"its current branch is {current}, which is missing"]
    if stored_object(settings) is None:
        return ["its settings cannot be read: none are in force"]
    return [] if user else ["it is nobody's"]


def _check_branch(tenant: str, conversation: str, branch: Branch, seen: Noted) -> Script[tuple[int, list[str]]]:
    key = {"tenant": tenant, "conversation": conversation, "branch": branch.number}
    head, problems = yield from _start(tenant, conversation, branch)
    first, count = branch.at + 1, 0
    while True:
        rows = yield Ask("folds", {**key, "first": first, "last": ENDLESS, "limit": PAGE})
        head, wrong = _check_page(head, rows, branch.number, seen)
        # The last page asks for what is kept beyond the last event, too.
        end = head.seq if len(rows) == PAGE else ENDLESS
        problems += [*wrong, *(yield from _check_figures(key, rows, first, end))]
        count += len(rows)
        if len(rows) < PAGE:
            break
        first = head.seq + 1
    if not count and branch.parent is not None:
        problems.append("it has no events of its own, not even what began it")
    return count, problems


def _check_page(head: Head, rows: Sequence[Row], branch: int, seen: Noted) -> tuple[Head, list[str]]:
    """The head after the last of these events, and what is wrong with them."""
    problems: list[str] = []
    for kind, body, *columns in rows:
        found = head_of(columns)
        event = _decoded(bytes(body))
        seen.take(branch, found, None if isinstance(event, str) else event)
        problems += _check_event(head, found, kind, event)
        head = found
    return head, problems


def _start(tenant: str, conversation: str, branch: Branch) -> Script[tuple[Head, list[str]]]:
    if branch.parent is None or branch.at == 0:
        return Head(), []
    spot = {"tenant": tenant, "conversation": conversation, "branch": branch.parent, "seq": branch.at}
    rows = yield Ask("head_at", spot)
    return (head_of(rows[0]), []) if rows else (Head(), [f"its fork point, event {branch.at}, is missing"])


def _decoded(body: bytes) -> Event | str:
    """An event, or why it cannot be read."""
    try:
        return decode(body)
    except ValueError as problem:
        return str(problem)


def _check_event(before: Head, stored: Head, kind: str, event: Event | str) -> Iterator[str]:
    if stored.seq != before.seq + 1:
        first, last = before.seq + 1, stored.seq - 1
        yield f"event {first} is missing" if first == last else f"events {first} to {last} are missing"
        return
    if isinstance(event, str):
        yield f"event {stored.seq} cannot be read ({event})"
        return
    if event.kind != kind:
        yield f"event {stored.seq} is stored as {kind!r} but says otherwise"
    elif wrong := _wrong_fields(before, stored, event):
        yield f"event {stored.seq} has wrong {', '.join(wrong)}"


def _wrong_fields(before: Head, stored: Head, event: Event) -> list[str]:
    """What of a stored head is not what its event makes of the head before it."""
    # Times, sizes, importance and session gaps were settled when it was appended: taken as they are.
    again = advance(
        before,
        event,
        id=stored.id,
        time=stored.time,
        sizes=(stored.tokens, stored.settled),
        session=stored.session,
    )
    settled = {"importance": stored.importance, "left_importance": stored.left_importance}
    again = msgspec.structs.replace(again, **settled)
    return [f for f in Head.__struct_fields__ if getattr(again, f) != getattr(stored, f)] if again != stored else []


def _check_figures(key: dict[str, Any], rows: Sequence[Row], first: int, last: int) -> Script[list[str]]:
    """Whether what is kept of model calls from seq `first` to seq `last` is what these events say."""
    expected, unreadable = _figures(rows)
    kept = {found.seq: found for found in (yield from stored(key, first, last)) if found.seq not in unreadable}
    return [
        f"model call {seq} {_miscounted(expected.get(seq), kept.get(seq))}"
        for seq in sorted(expected.keys() | kept.keys())
        if expected.get(seq) != kept.get(seq)
    ]


def _miscounted(expected: CallFigures | None, kept: CallFigures | None) -> str:
    if kept is None:
        return "is not counted"
    if expected is None:
        return "is counted, but is not there"
    wrong = [f for f in CallFigures._fields if getattr(expected, f) != getattr(kept, f)]
    return f"is counted with wrong {', '.join(wrong)}"


def _figures(rows: Sequence[Row]) -> tuple[dict[int, CallFigures], set[int]]:
    """By seq, those of the model calls among events; and the seqs of those that cannot be read."""
    found, unreadable = dict[int, CallFigures](), set[int]()
    for kind, body, *columns in rows:
        if kind != "model_call":
            continue
        head = head_of(columns)
        try:
            event = decode(bytes(body))
        except ValueError:
            event = None
        if isinstance(event, ModelCall):
            found[head.seq] = figures(event, head)
        elif not isinstance(event, Redacted):
            unreadable.add(head.seq)
    return found, unreadable


def _check_blobs(tenant: str, conversation: str) -> Script[list[str]]:
    key = {"tenant": tenant, "conversation": conversation}
    problems = []
    for (hash,) in (yield Ask("blobs", key)):
        rows = yield Ask("blob", {**key, "hash": hash})
        if not rows:
            problems.append(f"{conversation}: the image or file {hash[:12]}… is missing")
        elif blob_hash(bytes(rows[0][0])) != hash:
            problems.append(f"{conversation}: the image or file {hash[:12]}… has changed")
    return problems

"""Appending: from events to rows, in two steps.

`prepare` does what needs no database (encoding, counting tokens, putting the bytes of images aside), before
any lock is taken. The script then reads the head of the branch, folds the events onto it and writes them.
"""

from __future__ import annotations

import hashlib
import logging
import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from everthread.core.branches import ENDLESS, Target
from everthread.core.events import (
    MESSAGES,
    Event,
    ModelCall,
    SessionStarted,
    User,
    bare,
    decode,
    detach,
    encode,
    is_unremembered,
    media_of,
    rememberable,
)
from everthread.core.ids import make_id
from everthread.core.importance import MOST, Worth
from everthread.core.importance import worth as default_worth
from everthread.core.logged import Logged, logged
from everthread.core.parts import blob_hash
from everthread.core.schedules import schedule_of
from everthread.core.times import moment
from everthread.core.tokens import BYTES_A_TOKEN, sizes
from everthread.core.turns import Head, advance
from everthread.errors import (
    BadValue,
    EventTooLarge,
    EverthreadError,
    KeyReused,
    Moved,
    Outrun,
    UnknownBlob,
    UnknownSeq,
)
from everthread.store import conversations
from everthread.store.beside import schedules
from everthread.store.beside.leases import Lease, give_back, under
from everthread.store.beside.usage import figures
from everthread.store.conversations import MAIN, MINUTE
from everthread.store.engine import Ask, Outcome, Row, Script, Tell
from everthread.store.scripts import quote as quoting

_log = logging.getLogger("everthread.tokens")


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """An event on its way in. What is not given is set by the log; imports give what was there before."""

    event: Event
    id: str = ""
    time: int | None = None
    sizes: tuple[int, int] | None = None
    session: int | None = None


class EncodedEvent(NamedTuple):
    event: Event
    kind: str
    body: bytes
    sizes: tuple[int, int]
    importance: int
    draft: Draft
    blobs: tuple[str, ...]


class Basis(NamedTuple):
    """What a marker was made from: the newest of its `kind` that was there, by its seq, and how often something of the
    conversation had been redacted. If either is otherwise by now, it must be made anew."""

    kind: str
    seq: int
    forgotten: int


LEAST_GAP = 60_000_000  # microseconds: no setting lets a shorter pause end a session


class Pausing(EverthreadError):
    """A message comes after a pause that may end a session: the settings say whether it does. Nothing was written."""


class Attempt(NamedTuple):
    """Where a run of a script wanted to write its first and last event, and the first one's id."""

    branch: int
    first: int
    last: int
    id: str


class Tries:
    """What the runs of one script wanted to write. A run whose commit was not confirmed may have succeeded, so
    the next one looks for it first."""

    def __init__(self) -> None:
        self.chance = random.getrandbits(80)  # seeded anew in a forked process
        self.made: list[Attempt] = []

    def landed(self, key: Mapping[str, Any]) -> Script[Attempt | None]:
        """The attempt that is in the log after all, if one is."""
        for attempt in self.made:
            rows = yield Ask("head_at", {**key, "branch": attempt.branch, "seq": attempt.first})
            if rows and rows[0][1] == attempt.id:
                return attempt
        return None


class Written(NamedTuple):
    """What an append has written, and the head of its branch after that."""

    events: list[Logged]
    head: Head


Beside = Callable[[Sequence[Logged]], list[Tell]]


class Batch:
    """Events that are appended together, ready to be numbered. `gives_back`: they end what `under` was taken for. `at`:
    when they happened, where that is not now. `beside`: what is written with them, once they have their numbers."""

    def __init__(
        self,
        items: Sequence[EncodedEvent],
        blobs: dict[str, bytes] | None = None,
        *,
        key: str = "",
        expect: int | None = None,
        basis: Basis | None = None,
        under: Lease | None = None,
        gives_back: bool = False,
        at: int | None = None,
        tries: Tries | None = None,
        beside: Beside = lambda _: [],
    ) -> None:
        self.items = items
        self.blobs = blobs or {}
        self.key = key
        self.expect = expect
        self.basis = basis
        self.under = under
        self.gives_back = gives_back
        self.at = at
        self.tries = tries or Tries()
        self.beside = beside
        self.hash = _hash(items) if key else ""
        self.size = sum([len(item.body) for item in items]) + sum(map(len, self.blobs.values()))  # bytes to write
        self.hashes = {hash for item in items for hash in item.blobs}
        quoting_items = [item.event for item in items if item.kind in quoting.KINDS]
        self.quotes = frozenset(quote for event in quoting_items for quote in quoting.quotes_of(event))
        origins = [item.event.origin for item in items if isinstance(item.event, User) and item.event.origin]
        self.schedules = frozenset(id for origin in origins if (id := schedule_of(origin)))
        self.refers = bool(self.hashes or self.quotes or self.schedules)  # to what must be there


def _hash(items: Sequence[EncodedEvent]) -> str:
    """Of what is said, whether or not memory is told of it."""
    whole = hashlib.sha256()
    for item in items:
        body = encode(rememberable(item.event)) if is_unremembered(item.event) else item.body
        whole.update(len(body).to_bytes(8, "big") + body)
    return whole.hexdigest()


def prepare(
    drafts: Sequence[Draft], *, key: str, expect: int | None, max_bytes: int, worth: Worth = default_worth
) -> Batch:
    blobs: dict[str, bytes] = {}
    items = []
    for draft in drafts:
        event = draft.event
        hashes: tuple[str, ...] = ()
        if media := media_of(event):
            event = detach(event)
            hashes = tuple({part.blob for part in media_of(event) if part.blob})
            blobs |= {blob_hash(part.data): part.data for part in media if part.data is not None}
        body = _body(event)
        largest = max(len(body), *map(len, blobs.values())) if blobs else len(body)
        if largest > max_bytes:
            raise EventTooLarge(size=largest, limit=max_bytes)
        size, important = draft.sizes or _sizes(draft.event, body), _importance(event, worth)
        items.append(EncodedEvent(event, event.kind, body, size, important, draft, hashes))
    return Batch(items, blobs, key=key, expect=expect)


def _sizes(event: Event, body: bytes) -> tuple[int, int]:
    """What cannot be counted is kept all the same, at the size of its stored form."""
    try:
        return sizes(event)
    except Exception:  # noqa: BLE001 - a message is worth more than its size
        _log.warning("An event could not be counted: four bytes of it are taken for a token.", exc_info=True)
        said = encode(bare(event)) if getattr(event, "metadata", None) else body
        return (-(-len(said) // BYTES_A_TOKEN),) * 2 if event.kind in MESSAGES else (0, 0)


def _importance(event: Event, worth: Worth) -> int:
    """Markers are never sent, and make no turn more important."""
    if event.kind not in MESSAGES:
        return 0
    given: object = worth(event)
    if not isinstance(given, int):
        raise BadValue("importance", given, f"a whole number from 0 to {MOST}")
    return min(MOST, max(0, given))


def weight(event: Event) -> int:
    """Characters to count and bytes to hash, roughly and at once."""
    found = [getattr(part, name, "") for part in getattr(event, "parts", ()) for name in ("text", "data")]
    return sum([len(one) for one in (*found, getattr(event, "arguments", "")) if isinstance(one, (str, bytes))])


def marker_batch(events: Sequence[Event], tries: Tries) -> Batch:
    """Markers that the log itself writes, with nothing beside them."""
    return Batch([_marker(event) for event in events], tries=tries)


def _marker(event: Event) -> EncodedEvent:
    return EncodedEvent(event, event.kind, encode(event), (0, 0), 0, Draft(event=event), ())


def _body(event: Event) -> bytes:
    """The stored form, which is read back to be sure that it can be: values do not check what is put into them."""
    try:
        body = encode(event)
        if decode(body) == event:
            return body
        why = "it would come back as another"
    except (AttributeError, TypeError, ValueError) as problem:
        why = str(problem)
    raise BadValue("event", event, f"an event as user(…), assistant(…) and their like make them ({why})")


def append(target: Target, batch: Batch, *, now: int, gap: int, asks: bool = False) -> Script[Outcome[Written]]:
    """The events, written. `asks`: where the gap matters, it has to be asked for; Pausing is raised."""
    where = target._asdict()
    if (before := (yield from _written_before(where, batch))) is not None:
        return before
    if batch.refers:
        yield from _check_content(where, batch)
    branch, head = yield from newest_head(where)
    now = _when(batch.at, now, head)
    if batch.expect is not None:
        _check_expected(batch.expect, head)
    if batch.basis is not None:
        yield from _check_basis({**where, "branch": branch}, batch.basis)
    pause = max(now, head.time) - head.spoken_time if head.session and _speaks_now(batch) else 0
    if asks and pause >= min(gap, LEAST_GAP):
        raise Pausing
    begun = [_marker(SessionStarted(session=head.session + 1))] if pause >= gap else []
    events, heads, writes = number(target._replace(branch=branch), head, batch, now=now, gap=gap, begun=begun)
    writes += batch.beside(events)
    held = under(batch.under, heads[-1].seq if heads else 0) if batch.under else None
    if batch.under and batch.gives_back:
        writes.append(give_back(batch.under))
    written = Written(events[len(begun) :], heads[-1] if heads else head)
    return Outcome(written, writes, to_current=target.branch is None, under=held, news=events)


def _written_before(where: dict[str, Any], batch: Batch) -> Script[Outcome[Written] | None]:
    """What an earlier run of this script, or an earlier append with the same key, has written already."""
    if landed := (yield from batch.tries.landed(where)):
        events = yield from own_events(where, landed.branch, landed.first, landed.last)
        _, head = yield from newest_head(where)
        return Outcome(Written(events, head), news=events)
    if batch.key and (first := (yield from _first_result(where, batch))) is not None:
        _, head = yield from newest_head(where)
        return Outcome(Written(first, head))
    return None


def _check_content(where: dict[str, Any], batch: Batch) -> Script[None]:
    """Whether the images and files that come without their bytes are kept already, what is quoted still stands, and the
    schedule that says it is still there: it goes when what it says is redacted."""
    for hash in batch.hashes - batch.blobs.keys():
        if not re.fullmatch("[0-9a-f]{64}", hash) or not (yield Ask("blob_exists", {**where, "hash": hash})):
            raise UnknownBlob(hash)
    if batch.quotes:
        yield from quoting.check(where, batch.quotes)
    for id in batch.schedules:
        yield from schedules.find(where, id)


def _when(at: int | None, now: int, head: Head) -> int:
    """When something happened that is appended now. Times never go backwards on a branch: sessions are told by them."""
    if at is None:
        return now
    if at > max(now, head.time):
        raise BadValue("at", f"{moment(at)}", "a time that has passed")
    if at < head.time:
        newest = f"{moment(head.time)}, when the newest event of the branch came"
        raise BadValue("at", f"{moment(at)}", f"at least {newest}: append history oldest first")
    return at


def _speaks_now(batch: Batch) -> bool:
    """Whether there is a message in it, and nothing that was said at another time."""
    times = [item.draft.time for item in batch.items]
    return times.count(None) == len(times) and any(item.kind in MESSAGES for item in batch.items)


class NumberedEvents(NamedTuple):
    events: list[Logged]
    heads: list[Head]
    writes: list[Tell]


def number(
    target: Target, head: Head, batch: Batch, *, now: int, gap: int, begun: Sequence[EncodedEvent] = ()
) -> NumberedEvents:
    """The events with their numbers, times and ids after `head`, and the statements that write them. `begun`: what
    stands before them, and is not theirs."""
    before, events, heads, rows, calls = head, [], [], [], []
    for event, kind, body, size, important, draft, _ in (*begun, *batch.items):
        # A clock that runs backwards must not put an event before the one it follows.
        time = max(now, head.time) if draft.time is None else draft.time
        id = draft.id or make_id(time, batch.tries.chance, after=head.id)
        settled = draft.session
        head = advance(head, event, id=id, time=time, sizes=size, importance=important, gap=gap, session=settled)
        heads.append(head)
        if isinstance(event, ModelCall):
            calls.append(target._asdict() | figures(event, head)._asdict())
        rows.append((*target, kind, body, *msgspec.structs.astuple(head)))
        of_head = (head.time, head.turn, head.session, head.tokens, head.settled)
        events.append(Logged(rows[-1][2], head.seq, id, kind, *of_head, body))
    own = events[len(begun) :]
    if own:
        batch.tries.made.append(Attempt(own[0].branch, own[0].seq, own[-1].seq, own[0].id))
    writes = [Tell("insert_event", rows)] if rows else []
    if calls:
        writes.append(Tell("insert_model_call", calls))
    if batch.quotes:
        writes += quoting.note(target._asdict(), events)
    if batch.key or batch.hashes:
        writes = [
            *_blobs(target, batch),
            *writes,
            *_uses(target, batch, own),
            *_receipt(target, batch, own),
        ]
    if head.time // MINUTE != before.time // MINUTE:
        writes.append(
            conversations.stirred(target._asdict(), head.time, first=not before.seq and target.branch == MAIN)
        )
    return NumberedEvents(events, heads, writes)


def _blobs(target: Target, batch: Batch) -> list[Tell]:
    rows = [{**target._asdict(), "hash": hash, "data": data} for hash, data in batch.blobs.items()]
    return [Tell("insert_blob", rows)] if rows else []


def _uses(target: Target, batch: Batch, events: list[Logged]) -> list[Tell]:
    pairs = [(hash, event.seq) for item, event in zip(batch.items, events, strict=True) for hash in item.blobs]
    rows = [{**target._asdict(), "hash": hash, "seq": seq} for hash, seq in pairs]
    return [Tell("insert_blob_use", rows)] if rows else []


def _receipt(target: Target, batch: Batch, events: list[Logged]) -> list[Tell]:
    if not batch.key or not events:
        return []
    span = {"key": batch.key, "first": events[0].seq, "last": events[-1].seq, "hash": batch.hash}
    return [Tell("insert_receipt", [{**target._asdict(), **span}])]


def head_of(row: Row) -> Head:
    """A head from its columns, which the queries give in the order of its fields."""
    return Head(*row)


def newest_head(where: dict[str, Any]) -> Script[tuple[int, Head]]:
    rows = yield Ask("head", where)
    if rows:
        return rows[0][0], head_of(rows[0][1:])
    rows = yield Ask("branch", where)
    if not rows:
        raise (yield from conversations.absence(where["tenant"], where["conversation"]))
    branch, _, parent, at, _ = rows[0]
    rows = (yield Ask("head_at", {**where, "branch": parent, "seq": at})) if parent is not None and at else []
    return branch, head_of(rows[0]) if rows else Head()


def _check_basis(where: dict[str, Any], basis: Basis) -> Script[None]:
    """Whether what a marker was made from is still so. An ancestor's markers never change."""
    span = {"first": 1, "last": ENDLESS, "limit": 1}
    rows = yield Ask("markers_down", {**where, **span, "kind": basis.kind})
    found = rows[0][1] if rows else 0
    if found and found != basis.seq:
        raise Outrun(f"The newest {basis.kind} was expected at seq {basis.seq}, but there is one at seq {found}")
    if (yield from forgotten(where)) != basis.forgotten:
        raise Outrun("Something of the conversation was redacted meanwhile")


def forgotten(where: Mapping[str, Any]) -> Script[int]:
    """How often something of a conversation was redacted."""
    key = {"tenant": where["tenant"], "conversation": where["conversation"]}
    rows = yield Ask("forgotten", key)
    return int(rows[0][0]) if rows else 0


def _check_expected(expected: int, head: Head) -> None:
    if head.spoken > expected:
        raise Moved(expected=expected, found=head.spoken)
    if expected > head.seq:
        raise UnknownSeq(expected, last=head.seq)


def _first_result(where: dict[str, Any], batch: Batch) -> Script[list[Logged] | None]:
    """What the first append with this key wrote, if there was one."""
    rows = yield Ask("receipt", {**where, "key": batch.key})
    if not rows:
        return None
    branch, first, last, hash = rows[0]
    if hash not in (batch.hash, ""):  # empty: the content was redacted, and with it what could be compared
        raise KeyReused(batch.key)
    return (yield from own_events(where, branch, first, last))


def kept(target: Target, key: str) -> Script[list[Logged]]:
    """What was appended with a key."""
    rows = yield Ask("receipt", {**target._asdict(), "key": key})
    return (yield from own_events(target._asdict(), *rows[0][:3])) if rows else []


def own_events(where: dict[str, Any], branch: int, first: int, last: int) -> Script[list[Logged]]:
    span = {**where, "branch": branch, "first": first, "last": last, "limit": last - first + 1}
    rows = yield Ask("events_up", span)
    return logged(rows)

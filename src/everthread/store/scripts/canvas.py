"""The canvas along a line: how it was before an event, and what has changed it since.

The canvas is a fold of events (`core.canvas`). After every `EVERY` of them it is kept beside the log as it was then, so
that hardly more are read however often it has changed. What is kept is derived from the events before it. Redacting
one of these removes it, and whoever redacts keeps it again, folded anew (`keep_again`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from operator import itemgetter
from typing import NamedTuple

import msgspec

from everthread.core.branches import CANVAS, ENDLESS, Line
from everthread.core.canvas import EMPTY, Canvas, Change, fold, read_changes
from everthread.core.canvas.fold import decode, encode
from everthread.core.happenings import CanvasChanged
from everthread.core.logged import Logged, readable
from everthread.store.engine import Ask, Outcome, Script, Tell
from everthread.store.scripts.along import key_of, told
from everthread.store.scripts.append import Basis, forgotten
from everthread.store.scripts.read import newest_markers

EVERY, PAGE = 32, 64


class CanvasRead(NamedTuple):
    """The canvas before some event, and the events that changed it from then on, oldest first. `newest`: the newest of
    all that changed it, by its seq. `since_kept`: how many there were since it was last kept."""

    before: Canvas = EMPTY
    events: Sequence[Logged] = ()
    newest: int = 0
    since_kept: int = 0


class CanvasNow(NamedTuple):
    """The canvas as it is, and what a change of it must be made from, so that nobody else's is passed over."""

    canvas: Canvas
    basis: Basis
    since_kept: int

    def keeping(self, line: Line, changes: Sequence[Change], by: str) -> Callable[[Sequence[Logged]], list[Tell]]:
        """What is written with the event that makes these changes: the canvas after it, where it is time for that."""

        def beside(written: Sequence[Logged]) -> list[Tell]:
            if self.since_kept < EVERY:
                return []
            event = next(one for one in written if one.kind == CANVAS)
            after = encode(fold(self.canvas, changes, seq=event.seq, by=by))
            return [Tell("keep_canvas", [{**key_of(line), "branch": event.branch, "seq": event.seq, "body": after}])]

        return beside


def folded(canvas: Canvas, events: Sequence[Logged]) -> Canvas:
    """The canvas after these events. One that was redacted or is damaged changes nothing."""
    for one in readable(events):
        if isinstance(event := one.event, CanvasChanged):
            canvas = fold(canvas, read_changes(event.data.get("changes")), seq=one.seq, by=event.by)
    return canvas


def canvas_since(line: Line, first: int, *, last: int = ENDLESS) -> Script[CanvasRead]:
    """The canvas before event `first`, and what has changed it up to event `last`."""
    kept, events, newest = yield from _since_kept(line, first, last)
    before = [one for one in events if one.seq < first]
    return CanvasRead(folded(kept, before), events[len(before) :], newest, len(events))


def _since_kept(line: Line, first: int, last: int) -> Script[tuple[Canvas, list[Logged], int]]:
    """The newest canvas that is kept before event `first`, what has changed it from then on, oldest first, and the seq
    of the newest of that."""
    found: list[Logged] = []
    kept, seq, whole = EMPTY, 0, False
    while not (seq or whole):
        page = yield from newest_markers(line, CANVAS, last=found[-1].seq - 1 if found else last, limit=PAGE)
        whole = len(page) < PAGE
        if len(page) > EVERY or found:  # else none was kept
            kept, seq = yield from _kept(line, [one for one in page if one.seq < first])
        found += page
    return kept, [one for one in reversed(found) if one.seq > seq], found[0].seq if found else 0


def canvas_now(line: Line) -> Script[CanvasNow]:
    times = yield from forgotten(key_of(line))
    read = yield from canvas_since(line, ENDLESS)
    return CanvasNow(read.before, Basis(CANVAS, read.newest, times), read.since_kept)


def newest_kept(tenant: str, conversation: str) -> Script[dict[int, int]]:
    """By branch, the newest event after which its canvas is kept."""
    rows = yield Ask("newest_canvases", {"tenant": tenant, "conversation": conversation})
    return {int(branch): int(seq) for branch, seq in rows}


def keep_again(line: Line) -> Script[Outcome[None]]:
    """Keep the canvas after every `EVERY` events of a line, from the newest that is still kept on."""
    canvas, events, _ = yield from _since_kept(line, ENDLESS, ENDLESS)
    rows = []
    for first in range(0, len(events) - EVERY + 1, EVERY):
        some = events[first : first + EVERY]
        canvas = folded(canvas, some)
        rows.append({**key_of(line), "branch": some[-1].branch, "seq": some[-1].seq, "body": encode(canvas)})
    return Outcome(None, [Tell("keep_canvas", rows)] if rows else [])


def _kept(line: Line, events: Sequence[Logged]) -> Script[tuple[Canvas, int]]:
    """The newest canvas that is kept of these events, and its event's seq; 0 where there is none."""
    if not events:
        return EMPTY, 0
    rows = yield Ask("canvases", {**key_of(line), "spots": told({one.seq: one.branch for one in events})})
    for seq, body in sorted(rows, key=itemgetter(0), reverse=True):
        with suppress(ValueError, msgspec.MsgspecError):  # what another version has kept
            return decode(bytes(body)), int(seq)
    return EMPTY, 0

"""Reading a window: one script reads what a plan is made from, has the turns chosen, and fetches those.

It reads as of any seq, and no more rows than are sent. `store.scripts.lookups` answers from the indexes what the choice
depends on.

Most windows take two queries: one for the outlook (`store.scripts.outlook`), and `window_ahead` for what a choice by
size will probably come to. Where the last window (`store.windows`) still begins at the same turn, `news` alone
is enough: it reads what was said since.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Generic, NamedTuple, TypeVar

import msgspec

from everthread.core.branches import CANVAS, OUTCOME, Current, Line
from everthread.core.logged import Logged
from everthread.core.strategies import Choice, Older
from everthread.core.window import Lookups, Start
from everthread.store.engine import Script
from everthread.store.scripts import remembered
from everthread.store.scripts.canvas import CanvasRead, canvas_since
from everthread.store.scripts.lookups import Ahead, Foreseen, Lookup
from everthread.store.scripts.outlook import BRIEF, Asking, LastRead, Outlook, Since, ToldBeside, look_out
from everthread.store.scripts.read import head, newest_markers, onward
from everthread.store.scripts.remembered import Recollection

T = TypeVar("T")
P = TypeVar("P")

NOTHING = Recollection()


class WindowRead(msgspec.Struct, frozen=True, kw_only=True):
    """A window with everything that goes into its context."""

    outlook: Outlook
    choice: Choice | None
    older: tuple[tuple[Older, list[Logged]], ...]
    events: list[Logged]
    brief: Recollection
    recap: Recollection
    beside: ToldBeside = ToldBeside()
    read: LastRead | None = None  # to be kept for the next time


class Planned(NamedTuple, Generic[P]):
    """What is to be read: the turns that `choosing` comes to, and the kind of summary that goes with them. `ahead`:
    what it will probably ask for, where it chooses by size. `made`: the plan itself, for whoever made it."""

    made: P
    choosing: Lookups[Choice]
    memory: str
    recap: bool
    ahead: Ahead | None = None


def window(way: Line | Current, asking: Asking, plan: Callable[[Outlook], Planned[P]]) -> Script[tuple[WindowRead, P]]:
    """Read the window that a plan chooses. `plan` is called with what is known before; what it made is given back with
    the window."""
    outlook, since = yield from look_out(way, asking)
    planned, line = plan(outlook), outlook.line
    if outlook.newest is None:
        empty = WindowRead(outlook=outlook, choice=None, older=(), events=[], brief=NOTHING, recap=NOTHING)
        return empty, planned.made
    memory = planned.memory if outlook.markers.of(planned.memory) > outlook.head.cleared else ""
    look = Lookup(line, outlook.head, outlook.newest)
    if read := since.read:
        look.know(read.begin, [*read.messages, *since.said])
    if planned.ahead:
        yield from look.foresee(planned.ahead, memory, read.foreseen if read else None)
    choice = yield from look.drive(planned.choosing)
    older = yield from _older(line, choice)
    events = yield from look.messages(choice.begin)
    brief = (yield from _brief(look, outlook, memory, choice.begin, read)) if memory else NOTHING
    recap = (yield from _recap(outlook, brief, events[0])) if planned.recap and events else NOTHING
    beside = yield from _beside(outlook, choice.begin.first, since)
    kept = _to_keep(choice, events, look.foreseen, outlook, brief if memory == BRIEF else None)
    seen = WindowRead(
        outlook=outlook,
        choice=choice,
        older=older,
        events=events,
        brief=brief,
        recap=recap,
        beside=beside,
        read=kept._replace(beside=beside),
    )
    return seen, planned.made


def _older(line: Line, choice: Choice) -> Script[tuple[tuple[Older, list[Logged]], ...]]:
    """The turns before the window that are sent, with what was said in them."""
    older: list[tuple[Older, list[Logged]]] = []
    for turn in choice.older:
        said = yield from onward(line, first=turn.start.first, last=turn.last, messages=True)
        older += [(turn, said)] if said else []
    return tuple(older)


def _beside(outlook: Outlook, begin: int, since: Since) -> Script[ToldBeside]:
    """What is told of beside the messages of a window."""
    if since.read and (known := since.read.beside_for(begin, since.beside)):
        return known
    line, last, newest = outlook.line, outlook.head.seq, outlook.markers.of
    drawn = (yield from canvas_since(line, begin, last=last)) if newest(CANVAS) else CanvasRead()
    told = list(drawn.events)
    if newest(OUTCOME):  # also one that came after the last message before the window: it was told to nobody yet
        said = max((yield from head(line, at=begin - 1)).spoken, outlook.head.cleared)
        told += yield from newest_markers(line, OUTCOME, first=said + 1, last=last)
    return ToldBeside(drawn.before, sorted(told, key=attrgetter("seq")))


def _brief(look: Lookup, outlook: Outlook, kind: str, begin: Start, read: LastRead | None) -> Script[Recollection]:
    """The brief or summary of what was said before the window."""
    if read and kind == BRIEF and (same := read.brief_for(outlook, begin.first)):
        return same
    upto, latest, ahead = outlook.head, outlook.markers.of(kind), look.versions(begin)
    if kind == "summary":  # a brief may be one that the user has corrected, which holds at once
        upto, latest = yield from remembered.as_begun(outlook.line, upto, kind, latest)
    return (yield from remembered.brief(outlook.line, upto, kind, begin.first, latest=latest, ahead=ahead))


def _recap(outlook: Outlook, brief: Recollection, first: Logged) -> Script[Recollection]:
    """The recap of the session before, where the brief does not tell of it."""
    line, newest, latest = outlook.line, outlook.head, outlook.markers.of("session_ended")
    if latest <= newest.cleared or (brief.brief and not brief.behind):
        return NOTHING
    upto, _ = yield from remembered.as_begun(line, newest, "session_ended", latest)
    covered = max(newest.cleared, brief.brief.covers if brief.brief else 0)
    return (yield from remembered.recap(line, upto, first, covered))


def _to_keep(
    choice: Choice, events: list[Logged], foreseen: Foreseen | None, outlook: Outlook, brief: Recollection | None
) -> LastRead:
    stays = foreseen is not None and outlook.newest is not None and foreseen.stays(outlook.newest)
    kept = msgspec.structs.replace(outlook, notes="")  # which are read every time, and may be forgotten by themselves
    return LastRead(kept, choice.begin.first, events, foreseen if stays else None, brief)


def look(way: Line | Current, asking: Asking, ask: Callable[[Outlook], Lookups[T]], nothing: T) -> Script[T]:
    """The result of `ask`, whose look-ups are about the turns of a line; `nothing` where there are none."""
    outlook, _ = yield from look_out(way, asking)
    if outlook.newest is None:
        return nothing
    return (yield from Lookup(outlook.line, outlook.head, outlook.newest).drive(ask(outlook)))

"""The four strategies, one interface: from a view of the branch to the turns that are sent.

A strategy is a generator function like `cutoff`: it is given a `View`, yields look-ups and returns a `Choice`.
An application's own is the same thing, or a plain function that returns a `Choice` or just the seq at which
the window should begin. Whatever it chooses, the window stays under the budget: `under_budget` sees to it.

    budget       the newest turns that fit; stepped
    messages     those of the last 15 user and assistant messages
    session      the current session's
    importance   the 20 newest messages', then older ones by score while they fit
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Coroutine, Generator
from typing import Any, NamedTuple

import msgspec

from everthread.core.importance import MOST, score
from everthread.core.window import From as From
from everthread.core.window import Lookups, Room, Start, above, cutoff, rung
from everthread.core.window import Upto as Upto
from everthread.errors import BadValue


class At(NamedTuple):
    """The turn that holds an event: a Start."""

    seq: int


class Back(NamedTuple):
    """The turn that holds the nth newest message since the last clear, or the first turn where there are fewer:
    a Start. `spoken`: counting user and assistant messages only."""

    messages: int
    spoken: bool = False


class Question(NamedTuple):
    """The newest turn before seq `before` that a user message begins: an Older, or None."""

    before: int


class Level(NamedTuple):
    """The highest importance below this one that an older turn has: an int, or None."""

    below: int


class Ranked(NamedTuple):
    """The newest turns of this importance that end before seq `before`, newest first: a list of Older."""

    importance: int
    before: int
    limit: int


class Older(NamedTuple):
    """A turn before the window that is sent nevertheless, and why."""

    start: Start
    last: int
    size: int
    importance: int = 0
    why: str = ""
    score: float = 0.0


class View(msgspec.Struct, frozen=True, kw_only=True):
    """What a strategy sees: the newest turn and its size as it is sent now, the room, and the settings."""

    newest: Start
    size: int
    room: Room
    messages: int  # said on this line so far
    session_first: int  # seq at which the current session began
    last_messages: int = 15
    active_messages: int = 20


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """The turns from `begin` on, some older ones, and what could not be done as asked.

    It has been the same since the excess rose above `above`, and since `messages` messages had been said;
    None: it is new every time. `own`: it was so in the turn `begin`, too. `beside`: what the older turns take.
    """

    begin: Start
    older: tuple[Older, ...] = ()
    notes: tuple[str, ...] = ()
    above: int | None = None
    messages: int = 0
    own: bool = True
    beside: int = 0

    def held(self, turn: int, excess: int, messages: int) -> bool:
        """Whether the choice was this one already when a turn had come so far."""
        if self.above is None or messages < self.messages or excess <= self.above:
            return False
        return self._held_in(turn, fits=excess <= self.begin.before - self.beside)

    def _held_in(self, turn: int, *, fits: bool) -> bool:
        if turn == self.begin.number:
            return self.own and (fits or not self.beside)
        return turn > self.begin.number and fits


Strategy = Callable[[View], Choice | int | Generator[Any, Any, Choice | int]]


def choose(strategy: Strategy, view: View) -> Lookups[Choice]:
    """What a strategy of any form chooses, kept under the budget. BadValue: it returned something else."""
    made = strategy(view)
    chosen: object = (yield from made) if isinstance(made, Generator) else made
    if isinstance(chosen, int) and not isinstance(chosen, bool):
        chosen = Choice(begin=(yield At(chosen)))
    return (yield from under_budget(view, _checked(chosen)))


def _checked(chosen: object) -> Choice:
    if isinstance(chosen, Choice) and isinstance(chosen.begin, Start):
        return chosen
    if isinstance(chosen, Coroutine):
        chosen.close()  # it will never be awaited, and need not complain
    allowed = "a Choice with its begin, or the seq at which the window shall begin; a strategy cannot be async"
    raise BadValue("what the strategy returned", chosen, allowed)


def under_budget(view: View, choice: Choice) -> Lookups[Choice]:
    """The choice, with the window begun later and the least of the older turns left out where it does not fit."""
    taken = _from(view, choice.begin)
    if taken > view.room.room and choice.begin != view.newest:
        cut = yield from _cut(view, choice.notes, wanted=choice.begin)
        return cut if cut.begin == choice.begin else noting(cut, fewer(choice.begin, cut.begin))
    return _with_fewer(choice, view.room.room - taken)


def _with_fewer(choice: Choice, free: int) -> Choice:
    """The choice without the least of its older turns, as many as do not fit."""
    older, since = list(choice.older), choice.above
    beside = sum(turn.size for turn in older)
    while older and beside > free:
        least = min(older, key=lambda turn: (turn.score, turn.start.first))
        older.remove(least)
        since = None if since is None else choice.begin.before - beside
        beside -= least.size
    return msgspec.structs.replace(choice, older=tuple(older), above=since, beside=beside)


def fewer(wanted: Start, begin: Start) -> str:
    """That the window begins later than where a strategy wants it to."""
    return f"fewer turns fit than asked for: the window begins at event {begin.first} instead of {wanted.first}"


def noting(choice: Choice, note: str) -> Choice:
    return msgspec.structs.replace(choice, notes=(*choice.notes, note))


def budget(view: View) -> Lookups[Choice]:
    """The newest turns that fit, begun at the stepped cutoff."""
    return (yield from _cut(view))


def messages(view: View) -> Lookups[Choice]:
    """The turns of the last few user and assistant messages. It moves with every turn, so the cache seldom hits."""
    return Choice(begin=(yield Back(view.last_messages, spoken=True)))


def session(view: View) -> Lookups[Choice]:
    """The turns of the current session."""
    begin = yield At(view.session_first)
    # It may have begun in the middle of a turn, by a late result; markers before that are counted to be safe.
    said = max(0, view.session_first - begin.first) + 1
    return Choice(begin=begin, above=-1, messages=begin.messages + said)


def importance(view: View) -> Lookups[Choice]:
    """The turns of the newest messages, then older ones by score while they fit.

    Both change seldom: the recent part begins at a multiple of half the newest messages' number, and which
    older turns go with it depends on where it begins, not on what was said since.
    """
    active = view.active_messages
    grid = max(1, active // 2)
    line = max(0, view.messages - active) // grid * grid
    begin = yield Back(max(1, view.messages - line))
    if _from(view, begin) > view.room.room:
        return (yield from _just_active(view))
    # What the newest messages took when the recent part began here; twice that is kept for what follows.
    then = yield Back(max(1, view.messages - line - active + 1))
    recent = 2 * max(then.before - begin.before, view.room.room // 16)
    free = view.room.room - view.room.reserve - rung(recent)
    older = tuple((yield from _by_score(begin, free)))
    return Choice(begin=begin, older=older, above=-1, messages=line + active)


def _just_active(view: View) -> Lookups[Choice]:
    """The newest messages where there is no room to let them grow in number: new every time, but all that fits."""
    active = view.active_messages
    begin = yield Back(active)
    free = view.room.room - _from(view, begin)
    if free < 0:
        cut = yield from _cut(view, wanted=begin)
        return msgspec.structs.replace(cut, notes=(f"fewer than the {active} newest messages fit",))
    return Choice(begin=begin, older=tuple((yield from _by_score(begin, free))))


MISFITS = 16  # turns too large for what is left that are passed over before giving up
PAGE = 16
_Walk = tuple[float, int, int, list[Older]]  # by what it is sorted, the importance that is walked, and turns of it


def _by_score(begin: Start, free: int) -> Lookups[list[Older]]:
    """Turns before `begin` from the highest score down while they fit, in time order.

    Among turns of the same importance the newer scores higher, so each importance is walked from its newest
    turn back, and the walks are merged: no more is read than is chosen, and a page.
    """
    if free <= 0:
        return []
    chosen: list[Older] = []
    walks: list[_Walk] = []
    misfits = 0
    below = yield from _look_below(walks, (yield Level(MOST + 1)), begin)
    while walks:
        _, _, level, page = heapq.heappop(walks)
        turn = page.pop(0)
        if turn.size <= free:
            chosen.append(_scored(turn, level, begin))
            free -= turn.size
        elif (misfits := misfits + 1) >= MISFITS:
            break
        if page:
            _push(walks, level, page, begin)
        else:
            yield from _walk_on(walks, level, turn.start.first, begin)
        below = yield from _look_below(walks, below, begin)
    return sorted(chosen, key=lambda turn: turn.start.first)


def _look_below(walks: list[_Walk], below: int | None, begin: Start) -> Lookups[int | None]:
    """Begin a walk for each importance whose best might beat what is at hand. Gives the next importance, if any."""
    while below is not None and (not walks or -walks[0][0] < score(below, 1.0)):
        yield from _walk_on(walks, below, begin.first, begin)
        below = yield Level(below)
    return below


def _scored(turn: Older, level: int, begin: Start) -> Older:
    scored = score(level, _place(turn, begin))
    return turn._replace(why=f"importance {scored:.0f}", score=scored)


def _walk_on(walks: list[_Walk], level: int, before: int, begin: Start) -> Lookups[None]:
    if page := (yield Ranked(level, before, PAGE)):
        _push(walks, level, page, begin)


def _push(walks: list[_Walk], level: int, page: list[Older], begin: Start) -> None:
    heapq.heappush(walks, (-score(level, _place(page[0], begin)), -page[0].start.first, level, page))


def _place(turn: Older, begin: Start) -> float:
    return turn.start.messages / max(1, begin.messages)


def _cut(view: View, notes: tuple[str, ...] = (), *, wanted: Start | None = None) -> Lookups[Choice]:
    """Begun by size; `wanted` is where the strategy would begin, and did while that fitted."""
    cut = yield from cutoff(view.newest, view.size, view.room)
    since = yield from above(cut, view.room)
    # A turn is its own cutoff only while no other fits beside it.
    own = cut.begin == view.newest or since < 0
    return Choice(begin=cut.begin, above=max(since, wanted.before if wanted else -1), own=own, notes=notes)


def _from(view: View, begin: Start) -> int:
    """Tokens from a turn to the end, with what is kept for the newest one."""
    return view.newest.before - begin.before + max(view.size, view.room.reserve)


ASKED = "the user's newest message"  # why a turn is sent that has it, where none in the window has


def question(before: int) -> Lookups[Older | None]:
    """The turn of the user's newest message before seq `before`, where a window begins that has none."""
    found: Older | None = yield Question(before)
    return found._replace(why=ASKED) if found else None


def with_question(choosing: Lookups[Choice], question: Older | None) -> Lookups[Choice]:
    """The choice, with the question among its older turns, unless it is in the window."""
    choice = yield from choosing
    if question is None or question.start.first >= choice.begin.first:
        return choice
    others = [turn for turn in choice.older if turn.start.first != question.start.first]
    older = sorted([*others, question], key=lambda turn: turn.start.first)
    return msgspec.structs.replace(choice, older=tuple(older), above=None)


OWN = "own"  # the name of every strategy that is an application's own


def function_name(function: Callable[..., object]) -> str:
    """The name by which the log knows an application's own function; what it does is not recorded."""
    found = function if hasattr(function, "__qualname__") else type(function)
    return f"{found.__module__}.{found.__qualname__}"


STRATEGIES: dict[str, Strategy] = {
    "budget": budget,
    "messages": messages,
    "session": session,
    "importance": importance,
}

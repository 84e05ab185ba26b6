"""The fold of a branch: what each event makes of turn, session and running sums.

`advance` takes the head of a branch (everything known after its newest event) and the next event, and gives
the next head. The log stores each head beside its event, so that every event knows its turn and session, any
event can become a fork point at once, and the cutoff is one look-up in an index over the first events of
turns. Nothing here is ever recomputed: a head is a pure function of the events before it.

A user message always begins a turn. So does the first message after a clear, and a tool result that arrives
when the agent is idle again (it was approved late, or took long). Turn 0 holds what precedes the first user
message. A session ends when no message came for `gap` microseconds; markers do not count.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from everthread.core.events import (
    MESSAGES,
    AgentKilled,
    Assistant,
    Clear,
    Event,
    Redacted,
    System,
    ToolCall,
    ToolResult,
    User,
    stand_in,
)
from everthread.core.times import moment
from everthread.core.values import Value

State = Literal["open", "waiting", "idle", "interrupted"]

SESSION_GAP = 30 * 60 * 1_000_000


class Head(msgspec.Struct, frozen=True):
    """A branch as of one event. Sums named `…_before` run along the branch's whole line, without this event."""

    seq: int = 0
    id: str = ""
    time: int = 0
    turn: int = 0
    turn_first: int = 0  # seq of the turn's first event; 0 while no message has come
    state: State = "idle"
    pending: int = 0  # tool calls of the turn without a result
    session: int = 0
    session_first: int = 0
    spoken: int = 0  # seq of the newest message: markers in the background do not move it
    spoken_time: int = 0
    cleared: int = 0  # seq of the newest clear
    cleared_sum: int = 0  # settled tokens up to that clear
    tokens: int = 0
    settled: int = 0
    tokens_before: int = 0
    settled_before: int = 0
    messages_before: int = 0
    importance: int = 0  # the highest of the turn's messages so far, without recency
    left_importance: int = 0  # the importance of the turn before this one, complete

    @property
    def is_message(self) -> bool:
        return self.seq > 0 and self.spoken == self.seq

    @property
    def tokens_sum(self) -> int:
        return self.tokens_before + self.tokens

    @property
    def settled_sum(self) -> int:
        return self.settled_before + self.settled

    @property
    def messages_sum(self) -> int:
        return self.messages_before + self.is_message


class Turn(msgspec.Struct, Value, frozen=True, kw_only=True):
    """A turn as the log knows it. `before` is the settled size of the turns before it since the last clear."""

    number: int
    first: int
    last: int
    state: State
    session: int
    time: datetime
    tokens: int
    settled: int
    before: int


class Session(msgspec.Struct, Value, frozen=True, kw_only=True):
    number: int
    first: int
    last: int
    began: datetime
    ended: datetime
    tokens: int
    messages: int


def advance(
    head: Head,
    event: Event,
    *,
    id: str,
    time: int,
    sizes: tuple[int, int],
    importance: int = 0,
    gap: int = SESSION_GAP,
    session: int | None = None,
) -> Head:
    """The head after `event`. `session` overrides the gap: it was settled when the event was first appended."""
    if isinstance(event, Redacted):
        event = stand_in(event)
    seq, message = head.seq + 1, event.kind in MESSAGES
    turn, turn_first, state, pending, highest, left = _turn_before(head, event)
    session = _session(head, message, time, gap) if session is None else session
    spoken, spoken_time = (seq, time) if message else (head.spoken, head.spoken_time)
    cleared, cleared_sum = (seq, head.settled_sum) if isinstance(event, Clear) else (head.cleared, head.cleared_sum)
    return Head(
        seq=seq,
        id=id,
        time=time,
        turn=turn,
        turn_first=turn_first,
        state=_state(state, pending, event),
        pending=_pending(pending, event),
        session=session,
        session_first=seq if session != head.session else head.session_first,
        spoken=spoken,
        spoken_time=spoken_time,
        cleared=cleared,
        cleared_sum=cleared_sum,
        tokens=sizes[0],
        settled=sizes[1],
        tokens_before=head.tokens_sum,
        settled_before=head.settled_sum,
        messages_before=head.messages_sum,
        importance=max(importance, highest),
        left_importance=left,
    )


def _turn_before(head: Head, event: Event) -> tuple[int, int, State, int, int, int]:
    """The turn that `event` belongs to, as it was before it: its number, its first seq, its state, the calls without a
    result, its importance, and the importance of the turn before it."""
    if _begins_turn(head, event):
        number = head.turn if _is_turn_zero(head, event) else head.turn + 1
        return number, head.seq + 1, "idle", 0, 0, head.importance
    return head.turn, head.turn_first, head.state, head.pending, head.importance, head.left_importance


def _begins_turn(head: Head, event: Event) -> bool:
    match event:
        case User():
            return True
        case System() | Assistant() | ToolCall():
            return head.cleared >= head.turn_first
        case ToolResult():
            return head.cleared >= head.turn_first or head.state in ("idle", "interrupted")
        case _:
            return False


def _is_turn_zero(head: Head, event: Event) -> bool:
    return head.turn_first == 0 and not isinstance(event, User)


def _session(head: Head, message: bool, time: int, gap: int) -> int:
    begins = message and (head.session == 0 or time - head.spoken_time >= gap)
    return head.session + begins


def _pending(pending: int, event: Event) -> int:
    match event:
        case ToolCall():
            return pending + 1
        case ToolResult():
            return pending if event.late else max(0, pending - 1)
        case _:
            return pending


def _state(state: State, pending: int, event: Event) -> State:
    """The turn's state after `event`, from the one before it and the calls that had no result yet."""
    match event:
        case User():
            return "open"
        case ToolCall() | ToolResult():
            return "waiting" if _waits(state, pending, event) else "open"
        case Assistant(interrupted=True) | AgentKilled():
            return "interrupted"
        case Assistant() if not pending:
            return "idle"
        case Clear() if state != "idle":
            return "interrupted"
        case _:  # also text beside calls whose results are still to come
            return state


def _waits(state: State, pending: int, event: ToolCall | ToolResult) -> bool:
    """Whether the turn waits after a call or a result. Once it waits, it does so until every call has its result."""
    if isinstance(event, ToolCall):
        return bool(event.waits_for) or state == "waiting"
    return state == "waiting" and _pending(pending, event) > 0


def turn_of(first: Head, last: Head, newest: bool) -> Turn:
    """The turn between its first event and its last. One that was left open by a later turn was interrupted."""
    return Turn(
        number=first.turn,
        first=first.seq,
        last=last.seq,
        state=last.state if newest or last.state != "open" else "interrupted",
        session=first.session,
        time=moment(first.time),
        tokens=last.tokens_sum - first.tokens_before,
        settled=last.settled_sum - first.settled_before,
        before=first.settled_before - first.cleared_sum,
    )


def session_of(first: Head, last: Head) -> Session:
    return Session(
        number=first.session,
        first=first.seq,
        last=last.seq,
        began=moment(first.time),
        ended=moment(last.spoken_time),
        tokens=last.tokens_sum - first.tokens_before,
        messages=last.messages_sum - first.messages_before,
    )

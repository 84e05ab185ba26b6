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
    left_importance: int = 0  # the same of the turn before this one, whole

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


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn as the log knows it. `before` is the settled size of the turns before it since the last clear."""

    number: int
    first: int
    last: int
    state: State
    session: int
    time: int
    tokens: int
    settled: int
    before: int


class Session(msgspec.Struct, frozen=True, kw_only=True):
    number: int
    first: int
    last: int
    began: int
    ended: int
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
    seq = head.seq + 1
    message = event.kind in MESSAGES
    begins_turn = _begins_turn(head, event)
    if session is None:
        session = head.session + (message and (head.session == 0 or time - head.spoken_time >= gap))
    pending = 0 if begins_turn else head.pending
    clears = isinstance(event, Clear)
    settled_before = head.settled_sum
    return Head(
        seq=seq,
        id=id,
        time=time,
        turn=head.turn + (begins_turn and not _is_turn_zero(head, event)),
        turn_first=seq if begins_turn else head.turn_first,
        state=_state("idle" if begins_turn else head.state, pending, event),
        pending=_pending(pending, event),
        session=session,
        session_first=seq if session != head.session else head.session_first,
        spoken=seq if message else head.spoken,
        spoken_time=time if message else head.spoken_time,
        cleared=seq if clears else head.cleared,
        cleared_sum=settled_before if clears else head.cleared_sum,
        tokens=sizes[0],
        settled=sizes[1],
        tokens_before=head.tokens_sum,
        settled_before=settled_before,
        messages_before=head.messages_sum,
        importance=max(importance, 0 if begins_turn else head.importance),
        left_importance=head.importance if begins_turn else head.left_importance,
    )


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
        case ToolResult():
            still = pending if event.late else pending - 1
            return "waiting" if state == "waiting" and still > 0 else "open"
        case ToolCall():
            return "waiting" if event.waits_for or (state == "waiting" and pending) else "open"
        case Assistant(interrupted=True) | AgentKilled():
            return "interrupted"
        case Assistant():
            return state if pending else "idle"  # text beside calls whose results are still to come
        case Clear():
            return "idle" if state == "idle" else "interrupted"
        case _:
            return state


def turn_of(first: Head, last: Head, newest: bool) -> Turn:
    """The turn between its first event and its last. One that was left open by a later turn was interrupted."""
    return Turn(
        number=first.turn,
        first=first.seq,
        last=last.seq,
        state=last.state if newest or last.state != "open" else "interrupted",
        session=first.session,
        time=first.time,
        tokens=last.tokens_sum - first.tokens_before,
        settled=last.settled_sum - first.settled_before,
        before=first.settled_before - first.cleared_sum,
    )


def session_of(first: Head, last: Head) -> Session:
    return Session(
        number=first.session,
        first=first.seq,
        last=last.seq,
        began=first.time,
        ended=last.spoken_time,
        tokens=last.tokens_sum - first.tokens_before,
        messages=last.messages_sum - first.messages_before,
    )

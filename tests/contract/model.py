"""A plain model of a conversation, written from the specification alone.

A branch is a list of all the events along its line, copied when it is forked: wasteful, and too simple to be
wrong. Turns, sessions and sums are derived by walking the list from its start, each time anew.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from everthread.core.events import AgentKilled, Assistant, Clear, Event, Mark, SessionStarted, ToolCall, text_of
from everthread.core.tokens import sizes

SPOKEN = {"system", "user", "assistant", "tool_call", "tool_result"}
IMPORTANCE = {"system": 90, "user": 40, "assistant": 30, "tool_call": 55, "tool_result": 55}


@dataclass(frozen=True)
class Said:
    """An event of the model. `number` is the same on every branch that shares it."""

    number: int
    event: Event
    time: int
    is_hidden: bool = False

    @property
    def kind(self) -> str:
        return self.event.kind

    @property
    def text(self) -> str:
        return "" if self.is_hidden else text_of(self.event)

    @property
    def importance(self) -> int:
        """Settled when it was said: long texts count less, and hiding one changes nothing."""
        return IMPORTANCE.get(self.kind, 0) - (10 if len(text_of(self.event)) > 5_000 else 0)

    @property
    def tokens(self) -> int:
        return sizes(self.event)[0]

    @property
    def settled(self) -> int:
        return sizes(self.event)[1]


@dataclass
class ModelTurn:
    number: int
    first: int
    before: int
    session: int
    events: list[Said] = field(default_factory=list)
    state: str = "idle"

    @property
    def last(self) -> int:
        return self.first + len(self.events) - 1

    @property
    def importance(self) -> int:
        return max(said.importance for said in self.events)

    @property
    def unanswered(self) -> int:
        """Tool calls without a result, which counts once it comes."""
        open_calls = 0
        for said in self.events:
            if said.kind == "tool_call":
                open_calls += 1
            elif said.kind == "tool_result" and open_calls:
                open_calls -= 1
        return open_calls

    def take(self, said: Said) -> None:
        unanswered = self.unanswered
        self.events.append(said)
        event = said.event
        if isinstance(event, Assistant):
            if event.interrupted:
                self.state = "interrupted"
            elif not unanswered:
                self.state = "idle"
        elif isinstance(event, ToolCall):
            still_waits = self.state == "waiting" and unanswered
            self.state = "waiting" if event.waits_for or still_waits else "open"
        elif said.kind == "tool_result":
            self.state = "waiting" if self.state == "waiting" and self.unanswered else "open"
        elif said.kind == "user":
            self.state = "open"
        elif isinstance(event, AgentKilled) or (isinstance(event, Clear) and self.state != "idle"):
            self.state = "interrupted"


@dataclass
class Place:
    """What the specification says about one event of a line."""

    said: Said
    seq: int
    turn: int
    session: int


@dataclass
class Line:
    places: list[Place]
    turns: list[ModelTurn]
    cleared: int


def walk(events: list[Said], gap: int) -> Line:
    """Turns and sessions of a line, from its first event to its last."""
    places: list[Place] = []
    turns: list[ModelTurn] = []
    session, newest_message = 0, 0
    since_clear, cleared, cleared_since_turn = 0, 0, True
    early: list[Said] = []  # markers before any message: in turn 0, but they do not begin it
    for seq, said in enumerate(events, start=1):
        if said.kind in SPOKEN:
            if session == 0 or said.time - newest_message >= gap:
                session += 1
            newest_message = said.time
            late = said.kind == "tool_result" and bool(turns) and turns[-1].state in ("idle", "interrupted")
            if said.kind == "user" or cleared_since_turn or late:
                is_zero = not turns and said.kind != "user"
                number = 0 if is_zero else (turns[-1].number if turns else 0) + 1
                turns.append(ModelTurn(number, seq, since_clear, session))
                cleared_since_turn = False
        if turns:
            turns[-1].take(said)
        else:
            early.append(said)
        since_clear += said.settled
        if isinstance(said.event, Clear):
            since_clear, cleared, cleared_since_turn = 0, seq, True
        places.append(Place(said, seq, turns[-1].number if turns else 0, session))
    for turn in turns[:-1]:
        if turn.state == "open":
            turn.state = "interrupted"
    return Line(places, turns, cleared)


@dataclass
class Model:
    gap: int
    branches: dict[int, list[Said]] = field(default_factory=lambda: {1: []})
    names: dict[int, str] = field(default_factory=lambda: {1: "main"})
    current: int = 1
    count: int = 0

    def append(self, events: list[Event], now: int, branch: int | None = None) -> None:
        line = self.branches[self.current if branch is None else branch]
        spoken = [said.time for said in line if said.kind in SPOKEN]
        pause = max(now, line[-1].time) - spoken[-1] if spoken else 0
        if pause >= self.gap and any(event.kind in SPOKEN for event in events):
            events = [SessionStarted(session=walk(line, self.gap).places[-1].session + 1), *events]
        for event in events:
            self.count += 1
            line.append(Said(self.count, event, max(now, line[-1].time if line else 0)))

    def grow(self, branch: int, at: int, marker: Event, name: str, now: int) -> int:
        number = max(self.branches) + 1
        self.branches[number] = self.branches[branch][:at]
        self.names[number] = name
        self.append([marker], now, number)
        return number

    def marked(self, branch: int, name: str) -> int | None:
        """The seq of the newest mark of that name, unless its name was forgotten."""
        found = None
        for seq, said in enumerate(self.branches[branch], start=1):
            if isinstance(said.event, Mark) and said.event.name == name and not said.is_hidden:
                found = seq
        return found

    def hide(self, branch: int, seq: int) -> None:
        number = self.branches[branch][seq - 1].number
        for line in self.branches.values():
            for place, said in enumerate(line):
                if said.number == number:
                    line[place] = replace(said, is_hidden=True)

    def distinct(self) -> dict[int, Said]:
        """Every event once, whichever branches share it."""
        return {said.number: said for line in self.branches.values() for said in line}

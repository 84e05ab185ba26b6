"""Children: what the log says of one, and what its parent is told of its outcome.

A child has a branch of its own. The command `delegate` with which that begins says whose child it is; the task is the
first user message after it. On the parent's branch stand `flow_started`, and `flow_completed` once the child has ended.
Both name the child's branch, and both repeat something that is said there: what they quote, they are forgotten with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, get_args

import msgspec

from everthread.core.branches import ENDLESS
from everthread.core.deltas import Done
from everthread.core.ended import CANCELLED, LEFT_OPEN, STOPPED
from everthread.core.events import UNANSWERED, AgentKilled, Assistant, Command, Event, User, text_of
from everthread.core.happenings import FlowCompleted, FlowStarted
from everthread.core.logged import Logged
from everthread.errors.turns import AT_ITS_LIMIT

DELEGATE = "delegate"
FIRST = 2  # events of a child's branch up to the command: the fork is before it
TASK = 8  # within so many more the task is said
TITLE = 120  # characters of a task where it is named
TOLD = 4_000  # characters of a result that the parent is told

ChildState = Literal["running", "waiting", "done", "failed", "stopped", "limit", "killed"]
Ended = Literal["done", "failed", "stopped", "limit", "killed"]
ENDED: tuple[str, ...] = get_args(Ended)
_WORDS: dict[str, str] = {
    "done": "is done",
    "failed": "has failed",
    "stopped": "was stopped before it was done",
    "limit": "came to its limit before it was done",
    "killed": "was cut short, because its process ended",
}


class Delegated(msgspec.Struct, frozen=True, kw_only=True):
    """What a child was begun with. `parent`: the branch that it was begun on. `depth`: how many parents it has, of at
    most `deepest`. `agent`: empty where it is the conversation's. `canvas`: whether it may draw on the canvas."""

    parent: int
    depth: int = 1
    deepest: int = 1
    agent: str = ""
    canvas: bool = False

    @property
    def command(self) -> Command:
        return Command(name=DELEGATE, arguments=msgspec.structs.asdict(self))

    def may_use(self, tool: str) -> bool:
        """Whether the child is offered a tool of this name."""
        return (tool != DELEGATE or self.depth < self.deepest) and (self.canvas or not tool.startswith("canvas_"))


def delegated(event: Event) -> Delegated | None:
    """What the command says with which a child's branch begins; None where it is another event."""
    if not isinstance(event, Command) or event.name != DELEGATE:
        return None
    try:
        return msgspec.convert(event.arguments, Delegated)
    except msgspec.ValidationError:  # an application's command of that name
        return None


def task_among(events: Iterable[Logged]) -> Logged | None:
    """The task among the first events of a child's branch. Its kind tells, so it is found when it was redacted."""
    return next((one for one in events if one.kind == "user"), None)


def child_of(event: Event) -> int:
    """The branch of the child whose beginning or outcome this is; 0 where it is of no child."""
    if not isinstance(event, FlowStarted | FlowCompleted):
        return 0
    branch: Any = event.data.get("branch")
    marked = "depth" in event.data if isinstance(event, FlowStarted) else event.data.get("state") in ENDED
    return branch if marked and type(branch) is int and 0 < branch <= ENDLESS else 0


def started_key(branch: int) -> str:
    """The key under which the beginning of a child is written. An application's keys have no line breaks, so none of
    them is this one."""
    return f"child\n{branch}/started"


def ended_key(branch: int) -> str:
    """The key under which its outcome is written: once, whoever is there to do it."""
    return f"child\n{branch}/ended"


def title(text: str) -> str:
    """A task in one line."""
    line = " ".join(text.split())
    return line if len(line) <= TITLE else f"{line[: TITLE - 1]}…"


def outcome_of(
    branch: int, said: Delegated, task: Logged | None, turn: Sequence[Logged], done: Done | None, conversation: str
) -> FlowCompleted:
    """The outcome of a child whose turn is over. `turn`: the last events of it, readable."""
    reply = next((one for one in reversed(turn) if one.kind == "assistant"), None)
    state, why = _ended(turn, done) if task else ("killed", LEFT_OPEN)
    killed = next((one for one in reversed(turn) if why and isinstance(one.event, AgentKilled)), None)
    repeated = [one for one in (task, killed, reply) if one is not None and not _is_gone(one)]
    quotes = [[conversation, one.branch, one.seq] for one in repeated]
    data: dict[str, Any] = {"branch": branch, "agent": said.agent, "state": state, "why": why, "quotes": quotes}
    if done is not None:
        usage = done.usage
        data |= {"calls": done.calls, "input": usage.input, "output": usage.output, "price": done.price}
    name = title(text_of(task.event)) if task is not None and isinstance(task.event, User) else ""
    return FlowCompleted(name=name, result=text_of(reply.event) if reply else "", data=data)


def _is_gone(one: Logged) -> bool:
    return not isinstance(one.event, User | Assistant | AgentKilled)


def _ended(turn: Sequence[Logged], done: Done | None) -> tuple[Ended, str]:
    """How a turn ended, and why where it was before its time."""
    if done is not None and done.state == "idle":
        return "done", ""
    killed = next((one.event for one in reversed(turn) if isinstance(one.event, AgentKilled)), AgentKilled())
    return _state(killed.reason), killed.reason


def _state(reason: str) -> Ended:
    if reason in (STOPPED, CANCELLED):
        return "stopped"
    if reason in (LEFT_OPEN, UNANSWERED):
        return "killed"
    return "limit" if reason.startswith(AT_ITS_LIMIT) else "failed"


def told(event: FlowCompleted) -> str:
    """What the parent's model is told of an outcome, a few thousand characters at most; nothing where it is of no
    child, or was told as the result of a tool."""
    if not child_of(event) or event.data.get("told"):
        return ""
    return in_words(event)


def in_words(event: FlowCompleted, *, most: int = TOLD) -> str:
    """An outcome as a model reads it, with how to open what was left out of its result."""
    data: Mapping[str, Any] = event.data
    by = f" by the agent {data['agent']}" if data.get("agent") else ""
    task = f" “{event.name}”" if event.name else ""
    head = f"The task{task}, delegated{by} on branch {data['branch']}, {_WORDS[data['state']]}."
    why = f" {data['why']}" if data["state"] in ("failed", "limit") else ""
    return f"{head}{why}\n{_result(event, most)}"


def _result(event: FlowCompleted, most: int) -> str:
    if not event.result:
        return "It has said nothing."
    said = "It has said:" if event.data["state"] == "done" else "Until then it had said:"
    if len(event.result) <= most:
        return f"{said}\n{event.result}"
    quotes = event.quotes
    where = f": open_event with “{quotes[-1].seq} on branch {quotes[-1].branch}” gives all" if quotes else ""
    return f"{said}\n{event.result[:most]}\n[{len(event.result) - most:,} more characters{where}]"

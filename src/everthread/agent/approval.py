"""Tool calls that wait for somebody's yes or no, and those that were cut short.

A verdict says which others it leaves waiting, so what waits is found however long ago it was called. A tool may be
killed with its process, stopped with its turn, or approved by somebody whose process then dies. Whether it has done
something nobody knows, so it is never run again unasked: it gets a result that says so, and the model and the user
decide. Without one its turn would wait for it for ever.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence
from typing import NamedTuple

from everthread.agent.results import with_note
from everthread.core.branches import ENDLESS, Line
from everthread.core.events import Command, Event, Redacted, ToolCall, ToolResult, stand_in
from everthread.core.logged import Logged, readable
from everthread.core.parts import Text
from everthread.core.turns import Head
from everthread.core.verdicts import APPROVE, CHANGE, REFUSE, approval_key, changed_arguments, verdict_on
from everthread.errors import AlreadyApproved, BadTool, KeyReused
from everthread.store.log import Log
from everthread.store.scripts.branch import branches
from everthread.tools import Toolbox

FEW, MANY = 2, 256  # commands that are looked at together, at first and at most
CUT_SHORT = "No result: this tool call was cut short. It may have run."
STOPPED_BEFORE = "No result: the turn was stopped before anybody approved this tool call. It has not run."
UNASKED = "No result: this tool call was redacted before anybody approved it. It has not run."


class StillWaiting(NamedTuple):
    """The tool calls up to event `upto` that a verdict leaves waiting, by seq: so nobody looks for them again."""

    upto: int
    seqs: tuple[int, ...]


def verdict(call: Logged, left: StillWaiting, *, approved: bool) -> Command:
    """What somebody has said of a tool call that waited."""
    assert isinstance(call.event, ToolCall)
    about: dict[str, str | int | bool | None] = {"call": call.event.id, "seq": call.seq}
    about |= {"waiting": " ".join(map(str, left.seqs)), "upto": left.upto}
    return Command(name=APPROVE if approved else REFUSE, arguments=about)


def change(call: Logged, arguments: str) -> Command:
    """With which arguments somebody lets it run."""
    assert isinstance(call.event, ToolCall)
    return Command(name=CHANGE, arguments={"call": call.event.id, "seq": call.seq, "arguments": arguments})


def left_by(event: Event) -> StillWaiting | None:
    """What a verdict leaves waiting; None where it does not say."""
    said = event.arguments if isinstance(event, Command) else {}
    upto, seqs = said.get("upto"), said.get("waiting")
    if type(upto) is not int or not isinstance(seqs, str) or not all(seq.isdecimal() for seq in seqs.split()):
        return None
    return StillWaiting(upto, tuple(map(int, seqs.split())))


async def waiting(log: Log, line: Line) -> list[Logged]:
    """The tool calls that wait for approval, oldest first: those of which nobody has said yes or no.

    By the verdicts, not by the results: ids of tool calls repeat, and a tool that was let run may have died of it.
    """
    if not await log.asks(line):
        return []
    settled, left = await _verdicts(log, line)
    calls = await log.asking(line, after=left.upto)
    for seq in left.seqs:
        calls += await log.range(line, seq, seq)
    asks = [one for one in readable(calls) if isinstance(one.event, ToolCall) and one.event.waits_for == "approval"]
    return sorted({one.seq: one for one in asks if one.seq not in settled}.values(), key=lambda one: one.seq)


def key_for(call: Logged) -> str:
    """The key under which a tool call is approved, once for all branches that share it."""
    return approval_key(call.branch, call.seq)


async def approved_here(log: Log, line: Line, call: Logged, writing: Awaitable[list[Logged]]) -> Logged | None:
    """Have a yes written under that key; AlreadyApproved where another branch was faster. The change of arguments that
    was written with it."""
    try:
        logged = await writing
    except KeyReused:
        await check_approved_nowhere(log, line, call)
        raise
    if logged[0].branch != line.branch.number:  # where the very same was said: the key has given that
        await check_approved_nowhere(log, line, call)
    return next((one for one in logged if changed_arguments(one.event)), None)


async def check_approved_nowhere(log: Log, line: Line, call: Logged) -> None:
    """Whether a tool call that waits here was approved on another branch: AlreadyApproved."""
    for said in await log.kept(line, key_for(call)):
        there = await log.ask(lambda: branches(line.tenant, line.conversation))
        name = next((one.name for one in there if one.number == said.branch), str(said.branch))
        raise AlreadyApproved(call.seq, branch=name, at=said.seq)


async def _verdicts(log: Log, line: Line) -> tuple[set[int], StillWaiting]:
    """The seqs of calls that were settled, back to the newest verdict that says what it leaves waiting; and that."""
    settled, last, many = set[int](), ENDLESS, FEW
    while page := await log.markers(line, "command", last=last, limit=many):
        for one in readable(page):
            if seq := verdict_on(one.event):
                settled.add(seq)
                if (left := left_by(one.event)) and left.upto < one.seq:
                    return settled, left
        last, many = page[-1].seq - 1, min(2 * many, MANY)
    return settled, StillWaiting(0, ())


def check_can_run(toolbox: Toolbox, call: ToolCall, *, changed: bool) -> None:
    """BadTool or BadValue where a tool call cannot be approved: its tool is not there, or does not take what somebody
    has made of its arguments."""
    if call.name not in toolbox.names:
        raise BadTool(call.name, "it is not among the tools given; the call goes on waiting")
    if changed:
        toolbox.check_arguments(call)


def is_late(call: Logged, head: Head) -> bool:
    """Whether the turn of a tool call is over: its result begins another."""
    return call.turn != head.turn or head.state == "interrupted"


def refusal(call: ToolCall, why: str = "") -> ToolResult:
    return _result(call, f"The user refused this tool call{f': {why}' if why else '.'}")


def refusals(calls: Sequence[Logged], others: Sequence[Logged], head: Head) -> list[Event]:
    """Verdicts on and results of tool calls that wait, where the turn is stopped before anybody has said yes or no.
    `others` go on waiting."""
    said: list[Event] = []
    for number, one in enumerate(calls, 1):
        left = StillWaiting(head.seq, tuple(other.seq for other in (*others, *calls[number:])))
        said += [verdict(one, left, approved=False), _result(_call(one), STOPPED_BEFORE, late=is_late(one, head))]
    return said


def is_cut_short(event: Event) -> bool:
    """Whether it is the result of a tool call that had begun."""
    return isinstance(event, ToolResult) and event.parts[-1:] == (Text(text=CUT_SHORT),)  # after a note, perhaps


def cut_short(call: ToolCall, *, late: bool = False) -> ToolResult:
    return _result(call, CUT_SHORT, late=late)


def late_result(call: Logged, line: Line, change: Logged | None) -> ToolResult:
    """The same for one of an earlier turn. `change`: how its arguments were changed."""
    return with_note(cut_short(_call(call), late=True), line, change)


async def unfinished(log: Log, line: Line, head: Head) -> list[ToolResult]:
    """Results for those tool calls of the newest turn that nobody runs and that wait for nobody."""
    if head.state not in ("open", "waiting") or not head.pending:
        return []
    turn = readable(await log.range(line, head.turn_first, head.seq))
    verdicts = {verdict_on(one.event): one.event for one in turn}
    found = [(call, _ended(call, verdicts.get(call.seq))) for call in unanswered(turn)]
    return [with_note(result, line, change_of(call.seq, turn)) for call, result in found if result]


async def late_one(log: Log, line: Line, head: Head, at: int) -> ToolResult | None:
    """The result of the tool call of an earlier turn that event `at` approves, and that was cut short."""
    said = readable(await log.range(line, max(1, at - 1), at))
    for one in said[-1:]:
        if 0 < (seq := verdict_on(one.event)) < head.turn_first:
            for call in readable(await log.range(line, seq, seq)):
                return late_result(call, line, change_of(seq, said))
    return None


def change_of(seq: int, events: Iterable[Logged]) -> Logged | None:
    """How somebody changed the arguments of tool call `seq`, if that is among the events."""
    return next((one for one in events if changed_arguments(one.event, seq)), None)


def unanswered(events: Iterable[Logged]) -> list[Logged]:
    """The tool calls that have no result among the events of their turn. Ids repeat: the first open one is meant."""
    calls: list[Logged] = []
    for one in events:
        if one.kind == "tool_call":
            calls.append(one)
        elif one.kind == "tool_result" and calls and not getattr(one.event, "late", False):
            id = getattr(one.event, "id", "")
            calls.remove(next((call for call in calls if _call(call).id == id), calls[0]))
    return calls


def _ended(call: Logged, said: Event | None) -> ToolResult | None:
    """The result of a tool call without one; None where it waits."""
    event = _call(call)
    if isinstance(said, Command):
        return refusal(event) if said.name == REFUSE else cut_short(event)
    if not event.waits_for:
        return cut_short(event)
    if isinstance(call.event, Redacted) and event.waits_for == "approval":
        return _result(event, UNASKED)
    return None


def _call(call: Logged) -> ToolCall:
    event = stand_in(call.event) if isinstance(call.event, Redacted) else call.event
    assert isinstance(event, ToolCall)
    return event


def _result(call: ToolCall, text: str, *, late: bool = False) -> ToolResult:
    return ToolResult(id=call.id, name=call.name, parts=(Text(text=text),), error=True, late=late)

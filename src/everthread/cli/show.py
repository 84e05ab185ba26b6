"""`everthread show`"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from everthread.app import Everthread
from everthread.cli.shared import (
    anywhere,
    console,
    counted,
    find,
    json_text,
    on_branch,
    printable,
    run,
    say_json,
    where_of,
)
from everthread.cli.telling import dollars
from everthread.core.events import (
    AgentKilled,
    Assistant,
    Command,
    Event,
    Fork,
    Mark,
    ModelCall,
    Other,
    Redacted,
    Rewind,
    ScheduleFailed,
    ToolCall,
    media_of,
    text_of,
)
from everthread.core.happenings import FlowCompleted, FlowStarted, Happening
from everthread.core.logged import Logged
from everthread.core.outcomes import child_of, in_words
from everthread.errors import Corrupt
from everthread.store.conversations import BranchTotals
from everthread.talk import Talk
from everthread.transfer.write import event_line

if TYPE_CHECKING:
    from rich.console import Console

STYLES = {"user": "bold cyan", "assistant": "bold green", "system": "bold magenta", "model_call": "dim"}
FAINT = {"model_call": "dim"}  # what was said stands out from what it took
LONGEST = 2_000
INDENT = 29  # columns before what was said: seq, kind, tokens


@click.command("show")
@click.argument("conversation", required=False)
@anywhere
@click.option("--branch", help="A branch by name or number; the current one by default.")
@click.option("--turns", default=20, show_default=True, type=click.IntRange(min=1), help="How many turns from the end.")
@click.option("--after", type=click.IntRange(min=0), help="Instead: a page of events after this seq.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(min=1), help="Events of that page.")
@click.option("--branches", "list_branches", is_flag=True, help="Show the branches instead.")
@click.option("--follow", is_flag=True, help="Go on showing what is said, word by word, until interrupted.")
def show_command(
    conversation: str | None,
    branch: str | None,
    turns: int,
    after: int | None,
    limit: int,
    list_branches: bool,
    follow: bool,
    **rest: Any,
) -> None:
    """Show what was said in a CONVERSATION (its id, or the beginning or end of it; the last active by default)."""
    where = where_of(**rest)

    async def work(et: Everthread) -> None:
        talk = await find(et, where, conversation)
        if list_branches:
            await _branches(talk, where.json)
            return
        talk = await on_branch(talk, branch)
        events = await (talk.tail(turns=turns) if after is None else talk.after(after, limit=limit))
        if not where.json:
            await _heading(talk)
        if follow:
            await _follow(talk, events, where.json)
        else:
            _show(events, where.json)

    run(where, work)


def _show(events: list[Logged], as_json: bool) -> None:
    if as_json:
        say_json(list(map(_as_json, events)))
    else:
        Page().show_all(events)


async def _follow(talk: Talk, events: list[Logged], as_json: bool) -> None:
    from everthread.cli.following import follow

    page = Page(as_json=as_json)
    page.show_all(events)
    await follow(talk, page, after=events[-1].seq if events else 0, as_json=as_json)


def _as_json(event: Logged) -> dict[str, Any]:
    """As exported, with its turn."""
    value: dict[str, Any] = json.loads(event_line(event))
    return {**value, "turn": event.turn}


class Page:
    """Events on a terminal, a dim line between two turns."""

    def __init__(self, *, as_json: bool = False, err: bool = False) -> None:
        self._as_json = as_json
        self._out: Console = console(err=err)
        self._turn: int | None = None

    @property
    def width(self) -> int:
        return self._out.width

    def show_all(self, events: Iterable[Logged]) -> None:
        for event in events:
            self.show(event)

    def show(self, event: Logged) -> None:
        if self._as_json:
            click.echo(json_text(_as_json(event)))
            return
        if event.turn != self._turn:
            time = f"{event.time.astimezone():%Y-%m-%d %H:%M}"
            self._out.rule(f"turn {event.turn} · {time}", style="dim", align="left")
        self._turn = event.turn
        self._line(event)

    def _line(self, event: Logged) -> None:
        from rich.text import Text

        try:
            said = describe(event.event)
        except Corrupt as problem:
            said = f"[{problem}]"
        name = Text(f"{event.seq:>6}  ", style="dim")
        name.append(f"{event.kind:<12}", style=STYLES.get(event.kind, "yellow"))
        name.append(f"{event.tokens or '':>7}  ", style="dim")
        width = max(20, self.width - INDENT)
        lines = Text(printable(said), style=FAINT.get(event.kind, "")).wrap(self._out, width) or [Text("")]
        for number, line in enumerate(lines):
            self._out.print(Text.assemble(name if number == 0 else " " * INDENT, line), no_wrap=True, crop=False)


def describe(event: Event) -> str:
    """One event in words, cut where it is very long."""
    said = _in_words(event)
    return said if len(said) <= LONGEST else f"{said[:LONGEST]}… ({len(said) - LONGEST:,} more characters)"


def _in_words(event: Event) -> str:
    match event:
        case Redacted():
            return "(redacted)"
        case Mark():
            return event.name
        case Fork():
            return f"from branch {event.branch} after event {event.at}"
        case Rewind():
            return f"to event {event.to} of branch {event.branch}"
        case Command():
            return " ".join([event.name, *(f"{k}={v}" for k, v in event.arguments.items())])
        case ModelCall():
            return _called(event)
        case AgentKilled():
            return event.reason
        case ScheduleFailed():
            return _failed(event)
        case FlowStarted() if child := child_of(event):
            return f"{event.name} (delegated on branch {child})"
        case FlowCompleted() if child_of(event):
            return in_words(event)
        case Other(data=said) | Happening(contents=said):
            return json.dumps(said, ensure_ascii=False)
        case _:
            return _message(event)


def _message(event: Event) -> str:
    """What was said, what was shown with it, and whether it broke off."""
    if isinstance(event, ToolCall):
        return text_of(event)
    shown = [f"[{media.media_type or 'image'}]" for media in media_of(event)]
    broken = ["[broken off]"] if isinstance(event, Assistant) and event.interrupted else []
    return " ".join([text_of(event), *shown, *broken]).strip()


def _failed(event: ScheduleFailed) -> str:
    row = f", {event.failures} in a row" if event.failures else ""
    paused = ", and it is paused now" if event.paused else ""
    return f"{event.schedule}{row}{paused}: {event.reason}"


def _called(call: ModelCall) -> str:
    """What a model call took, or why it failed."""
    if call.error:
        return f"{call.model} failed: {call.error}"
    cached = f" ({call.cache_read / call.input:.0%} from the cache)" if call.cache_read and call.input else ""
    price = "" if call.price is None else f", {dollars(call.price)}"
    return f"{call.model}: {call.input:,} tokens in{cached}, {call.output:,} out{price}, {call.ms / 1000:.1f} s"


async def _heading(talk: Talk) -> None:
    line, about = await talk.line(), talk.conversation
    totals = next(b.line for b in await talk.branches() if b.branch.number == line.branch.number)
    said = f"{counted(totals.messages, 'message')}, {counted(totals.tokens, 'token')}"
    name = f"{about.name} · {about.id}" if about.name else about.id
    out = console()
    out.print(name, style="bold", markup=False, soft_wrap=True)
    out.print(f"{about.user} with {about.agent} · branch {line.branch.name} · {said}", markup=False, soft_wrap=True)


async def _branches(talk: Talk, as_json: bool) -> None:
    current, rows = (await talk.line()).branch.number, await talk.branches()
    if as_json:
        say_json([_branch_as_json(row, current) for row in rows])
    else:
        _table_of_branches(rows, current)


def _branch_as_json(row: BranchTotals, current: int) -> dict[str, Any]:
    branch = row.branch
    about = {"number": branch.number, "name": branch.name, "parent": branch.parent, "at": branch.at}
    counts = {"last": row.last, "messages": row.line.messages, "tokens": row.line.tokens}
    return {**about, **counts, "current": branch.number == current}


def _table_of_branches(rows: list[BranchTotals], current: int) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table("", "branch", "from", box=None, header_style="bold", pad_edge=False)
    for name in ("events", "messages", "tokens"):
        table.add_column(name, justify="right")
    names = {row.branch.number: row.branch.name for row in rows}
    for row in rows:
        branch, whole = row.branch, row.line
        origin = f"{names[branch.parent]} after {branch.at}" if branch.parent is not None else "–"
        counts = (f"{whole.events:,}", f"{whole.messages:,}", f"{whole.tokens:,}")
        table.add_row("→" if branch.number == current else "", Text(branch.name), Text(origin), *counts)
    console().print(table)

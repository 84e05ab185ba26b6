"""`everthread memory`: what is remembered of a conversation, to see, correct and delete."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import click

from everthread.app import Everthread
from everthread.cli.lines import text_from
from everthread.cli.shared import anywhere, console, counted, find, printable, run, say_json, somebody_types, where_of
from everthread.context.build import Context
from everthread.core.values import plain
from everthread.errors import BadValue
from everthread.memory.correct import Remembered
from everthread.memory.status import Status
from everthread.talk import Talk

STDIN = "-"


@click.command("memory")
@click.argument("conversation", required=False)
@anywhere
@click.option("--update", is_flag=True, help="First do what memory has to do.")
@click.option("--correct", metavar="TEXT", help="Your own words in place of the brief; - reads them.")
@click.option("--drop", multiple=True, metavar="FACT", help="Leave out facts with this text in them; may be repeated.")
@click.option("--forget", multiple=True, type=int, metavar="EVENT", help="Redact an event, for ever; may be repeated.")
@click.option("--yes", is_flag=True, help="Do not ask before something is redacted.")
@click.option("--notes", metavar="TEXT", help="Another MEMORY.md; - reads it.")
@click.option("--forget-notes", is_flag=True, help="Remove MEMORY.md for ever, with all its versions.")
@click.option("--name", metavar="NAME", help="Another name for the conversation.")
@click.option("--goal", metavar="TEXT", help="What the conversation is for.")
def memory_command(conversation: str | None, forget: tuple[int, ...], yes: bool, **given: Any) -> None:
    """Show what is remembered of a CONVERSATION (the last active by default): the brief, exact facts and which events
    state them, the recap of the session before, MEMORY.md; and how far memory is behind. Or change it."""
    changes = {name: given.pop(name) for name in ("update", "correct", "drop", "forget_notes", "notes", "name", "goal")}
    where = where_of(**given)

    async def work(et: Everthread) -> None:
        talk = await find(et, where, conversation)
        if forget and not yes:
            _ask(forget, where.json)
        for seq in forget:
            await talk.redact(seq)
        await _change(talk, changes)
        found, status = await talk.remembered(), await talk.memory()
        context = await talk.context(lookups=True)
        if where.json:
            say_json(_as_json(talk, found, status) | {"sent": context.sent, "past": context.past})
        else:
            show(talk, found, status, context)

    run(where, work)


async def _change(talk: Talk, changes: dict[str, Any]) -> None:
    if changes["forget_notes"]:
        await talk.forget_notes()
    await _rewrite(talk, changes)
    if changes["update"]:
        await talk.remember()
    text = _text(changes["correct"])
    if text is not None or changes["drop"]:
        await talk.correct(text, drop=changes["drop"])


async def _rewrite(talk: Talk, changes: dict[str, Any]) -> None:
    verbs: dict[str, Callable[[str], Awaitable[Any]]] = {
        "notes": talk.write_notes,
        "name": talk.rename,
        "goal": talk.set_goal,
    }
    for name, verb in verbs.items():
        if (text := _text(changes[name])) is not None:
            await verb(text)


def _as_json(talk: Talk, found: Remembered, status: Status) -> dict[str, Any]:
    facts = [{"kind": fact.kind, "text": fact.text, "event": fact.seq, "by": fact.by} for fact in found.facts]
    said = plain(found)
    return {"conversation": talk.id, **said, "facts": facts, "status": plain(status)}


def _text(given: str | None) -> str | None:
    return text_from(sys.stdin.buffer.read(), "What was piped in") if given == STDIN else given


def _ask(events: tuple[int, ...], as_json: bool) -> None:
    listed = ", ".join(map(str, events))
    if as_json or not somebody_types():
        raise BadValue("--forget", listed, "confirmed with --yes: what is redacted is gone for ever")
    click.confirm(f"Redact {'event' if len(events) == 1 else 'events'} {listed}? This cannot be undone.", abort=True)


def show(talk: Talk, found: Remembered, status: Status, context: Context) -> None:
    """Show what is remembered on a terminal."""
    out = console()
    out.print(printable(found.name or "Untitled"), style="bold", markup=False)
    out.print(f"Conversation {talk.id}", style="dim", markup=False)
    parts = {
        "Goal": found.goal,
        f"Brief, {_about(found)}": found.brief,
        "Facts": "\n".join(fact.line for fact in found.facts),
        "The session before": found.recap,
        "MEMORY.md": found.notes,
    }
    for heading, text in parts.items():
        if text.strip():
            out.print(f"\n{heading}", style="cyan", markup=False)
            out.print(printable(text.strip()), markup=False)
    if not found.covers:
        out.print(f"\nThere is no brief yet: {_sent(context)}.", markup=False)
    out.print(f"\n{_in_words(status)}", style="dim", markup=False)


def _sent(context: Context) -> str:
    """How much of what was said is sent, and what is told of the rest."""
    if not context.past:
        return "what was said is sent as it is"
    told = context.explain().sections.keys() & {"uncovered", "recap", "told before"}
    instead = "an extract of them is sent in their place" if told else "kept, and not sent"
    return f"{context.past:,} of {context.past + context.sent:,} messages are past, {instead}"


def _about(found: Remembered) -> str:
    who = "in your words" if found.by else "in the conversation's own words" if found.extractive else "by a model"
    turns = f", {counted(found.turns, 'turn')}" if found.turns else ""
    return f"{who}: up to event {found.covers}{turns}"


def _in_words(status: Status) -> str:
    if not status.on:
        return "Memory is switched off (setting memory)."
    behind = f"{counted(status.behind, 'message')} not remembered yet" if status.behind else "Up to date"
    said = [behind, f"the next by {status.model}" if status.model else "the next in the conversation's own words"]
    return printable("; ".join([*said, *_work_so_far(status)]) + ".")


def _work_so_far(status: Status) -> Iterator[str]:
    if status.calls:
        yield f"{counted(status.calls, 'model call')} and ${status.dollars:.4f} in the last hour"
    if status.error:
        yield f"failed {counted(status.failures, 'time')}, last: {status.error.rstrip('.')}"
    if status.wait:
        yield f"tried again in {status.wait:.0f} s"

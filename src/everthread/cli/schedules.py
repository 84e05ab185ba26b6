"""`everthread schedules`: what is to be said to agents at a time; to list, add, pause, resume, change and delete."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from everthread.app import Everthread
from everthread.cli.shared import Where, anywhere, console, find, printable, run, say_json, where_of
from everthread.core.schedules import Schedule, zone_of
from everthread.core.values import plain
from everthread.errors import BadValue, UnknownSchedule
from everthread.talk import Talk

SHORT = 8  # characters of an id that are shown: its end, which is chance
LOCALTIME = Path("/etc/localtime")


@click.command("schedules")
@click.argument("conversation", required=False)
@anywhere
@click.option("--add", metavar="TEXT", help="Schedule this message, with --at or --cron.")
@click.option("--change", metavar="ID", help="Change a schedule: --text, --at, --cron, --zone, --missed.")
@click.option("--pause", metavar="ID", help="Say nothing more by a schedule until it is resumed.")
@click.option("--resume", metavar="ID", help="Go on with one that was paused, by you or after failures.")
@click.option("--delete", metavar="ID", help="Delete a schedule for ever; what it has said stays.")
@click.option("--text", metavar="TEXT", help="With --change: another message.")
@click.option("--at", metavar="TIME", help="Once, at a local time such as 2026-12-24T18:00.")
@click.option("--cron", metavar="FIELDS", help="Repeatedly: '0 8 * * 1-5' is 8:00 on working days.")
@click.option("--zone", metavar="ZONE", help="Their time zone, such as Europe/Berlin; for --add, else this machine's.")
@click.option(
    "--missed", type=click.Choice(["once", "skip"]), help="What was due while no worker ran: said once, or not."
)
def schedules_command(conversation: str | None, **given: Any) -> None:
    """List what is scheduled in a CONVERSATION, or in all of yours, with the next times as this machine's clock shows
    them; or change it. Messages are said by whichever process has the store open: an application, a chat, or
    `everthread work`. An ID may be shortened to its beginning or end."""
    acts = {name: given.pop(name) for name in ("add", "change", "pause", "resume", "delete")}
    what = {name: given.pop(name) for name in ("text", "at", "cron", "zone", "missed")}
    where = where_of(**given)

    async def work(et: Everthread) -> None:
        act = _one_of(acts, what)
        if act is None:
            _show(where, await _listed(et, where, conversation))
        else:
            done = await act(et, where, conversation)
            _show(where, done if isinstance(done, list) else [done])

    run(where, work)


Act = Callable[[Everthread, Where, str | None], Awaitable[Schedule | list[Schedule]]]


def _one_of(acts: dict[str, str | None], what: dict[str, Any]) -> Act | None:
    """What is to be done, beside listing."""
    named = {name: value for name, value in acts.items() if value is not None}
    if len(named) > 1:
        raise BadValue("the options", ", ".join(f"--{name}" for name in named), "one of them at a time")
    if not named:
        if stray := [f"--{name}" for name, value in what.items() if value is not None]:
            raise BadValue("the options", ", ".join(stray), "given with --add or --change")
        return None
    [(name, value)] = named.items()

    async def add(et: Everthread, where: Where, conversation: str | None) -> Schedule:
        if what["text"] is not None:
            raise BadValue("--text", what["text"], "given with --change: what is added is the value of --add")
        talk, at, zone = await find(et, where, conversation), _time(what["at"]), what["zone"] or _own_zone()
        more: dict[str, Any] = {"cron": what["cron"] or "", "zone": zone, "missed": what["missed"] or "once"}
        return await talk.schedule(str(value), at=at, **more)

    async def other(et: Everthread, where: Where, conversation: str | None) -> Schedule | list[Schedule]:
        talk, one = await _found(et, where, str(value))
        if name == "change":
            return await talk.change_schedule(one.id, **{**what, "at": _time(what["at"])})
        if name == "delete":
            await talk.unschedule(one.id)
            return await _listed(et, where, conversation)
        return await (talk.pause_schedule if name == "pause" else talk.resume_schedule)(one.id)

    return add if name == "add" else other


def _time(at: str | None) -> datetime | None:
    try:
        return None if at is None else datetime.fromisoformat(at)
    except ValueError:
        raise BadValue("--at", at, "a date and time, such as 2026-12-24T18:00") from None


def _own_zone() -> str:
    """The name of this machine's time zone; UTC where it has none."""
    linked = str(LOCALTIME.resolve()).partition("zoneinfo/")[2] if LOCALTIME.exists() else ""
    for name in (os.environ.get("TZ", "").removeprefix(":"), linked):
        try:
            return zone_of(name).key
        except BadValue:
            continue
    return "UTC"


async def _listed(et: Everthread, where: Where, conversation: str | None) -> list[Schedule]:
    if conversation is not None:
        return await (await find(et, where, conversation)).schedules()
    return await et.schedules(user=where.user, tenant=where.tenant)


SHORTEST = 4  # characters by which a schedule is named: one by an empty variable is nobody's


async def _found(et: Everthread, where: Where, id: str) -> tuple[Talk, Schedule]:
    """A schedule by its id, or the beginning or end of it; and its conversation."""
    if len(id) < SHORTEST:
        raise BadValue("the id", id, f"at least {SHORTEST} characters of it")
    part, own = id.upper(), await et.schedules(user=where.user, tenant=where.tenant)
    matches = [one for one in own if one.id.startswith(part) or one.id.endswith(part)]
    if len(matches) != 1:
        raise UnknownSchedule(id) if not matches else BadValue("the id", id, f"longer: {len(matches)} are like it")
    [one] = matches
    return await et.conversation(user=where.user, tenant=where.tenant, id=one.conversation), one


def _show(where: Where, found: list[Schedule]) -> None:
    if where.json:
        say_json(plain(found))
        return
    from rich.table import Table
    from rich.text import Text

    out = console(table=True)
    if not found:
        out.print(f"Nothing is scheduled {where.whose}: `--add TEXT --at TIME` does it.", markup=False, soft_wrap=True)
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("id", "next", "when", "state"):
        table.add_column(name, no_wrap=True)
    table.add_column("conversation", no_wrap=True)
    table.add_column("message", no_wrap=True, overflow="ellipsis", ratio=1)
    for one in found:
        said = " ".join(printable(one.text).split())
        cells = (one.id[-SHORT:], _next(one), _rule(one), _state(one), one.conversation[-SHORT:], said)
        table.add_row(*map(Text, cells))
    out.print(table)


def _next(one: Schedule) -> str:
    """When it is said next, by this machine's clock."""
    times = [time for time in (one.due, one.look) if time is not None]
    return f"{max(times).astimezone():%a %Y-%m-%d %H:%M}" if times and one.state == "active" else "–"


def _rule(one: Schedule) -> str:
    return f"{one.cron} ({one.zone})" if one.cron else "once"


def _state(one: Schedule) -> str:
    failed = f", failed {one.failures} times" if one.failures > 1 else ", failed" if one.failures else ""
    return f"{one.state}{failed}"

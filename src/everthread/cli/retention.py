"""`everthread retention`: what would be erased, erase it now, and say after how many days for a tenant."""

from __future__ import annotations

import os
from typing import Any

import click
from click.core import ParameterSource

from everthread.app import Everthread
from everthread.cli.shared import at_store, console, counted, printable, run, say_json, where_of
from everthread.config import general_sources, resolve
from everthread.core.values import plain
from everthread.errors import BadValue


@click.command("retention")
@at_store
@click.option("--dry-run", is_flag=True, help="Say what would be erased, and erase nothing.")
@click.option("--set", "days", metavar="DAYS", help="For --tenant: a number, 0 for never, or `default`.")
def retention_command(dry_run: bool, days: str | None, **rest: Any) -> None:
    """Erase the conversations in which nothing has happened for longer than the setting `retention` says, or what the
    tenant says itself (--set); of --tenant, or of all tenants. Off unless it is set. A process that has the store open
    does the same every hour. What is erased is gone for good: look first with --dry-run."""
    where = where_of(**rest)
    if dry_run and days is not None:
        raise click.UsageError("--set changes what is erased, --dry-run looks at it: set first, then look.")
    is_named = click.get_current_context().get_parameter_source("tenant") is not ParameterSource.DEFAULT
    tenant = where.tenant if is_named else ""

    async def work(et: Everthread) -> None:
        retention = et.retention
        resolve(*general_sources(os.environ))  # a bad setting is told here: the store was opened without it
        if days is not None:
            await retention.set_days(where.tenant, _days(days))
            said = await retention.days_of(where.tenant)
            _say(where.json, {"tenant": where.tenant, "days": said}, f"Tenant {where.tenant}: {_after(said)}.")
            return
        if dry_run:
            found = [one async for one in retention.due(tenant)]
        else:
            found = await retention.run(tenant)
        if where.json:
            say_json([plain(one) for one in found])
            return
        for one in found:
            console().print(printable(f"{one.conversation} of {one.user!r} ({one.tenant}): {_idle(one.days)}"))
        did = "would be erased" if dry_run else "erased"
        console().print(f"{counted(len(found), 'conversation')} {did}.")

    run(where, work)


def _say(as_json: bool, about: dict[str, Any], text: str) -> None:
    if as_json:
        say_json(about)
    else:
        console().print(printable(text))


def _idle(days: float) -> str:
    return f"idle for more than {days:g} {'day' if days == 1 else 'days'}"


def _after(days: float) -> str:
    return f"erased after {days:g} idle {'day' if days == 1 else 'days'}" if days else "never erased"


def _days(given: str) -> float | None:
    if given == "default":
        return None
    try:
        return float(given)
    except ValueError:
        raise BadValue("--set", given, "a number of days, 0 for never, or `default`") from None

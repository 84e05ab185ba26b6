"""`everthread work`: the worker apart, for any number of processes that reply."""

from __future__ import annotations

from typing import Any

import click

from everthread.app import Everthread
from everthread.cli.shared import at_store, json_text, printable, run, tell, where_of
from everthread.core.values import plain
from everthread.jobs.worker import Did


@click.command("work")
@at_store
@click.option("--once", is_flag=True, help="End when nothing is left to do.")
@click.option("--all", "everything", is_flag=True, help="Look at every conversation first, not only at reminders.")
def work_command(once: bool, everything: bool, **rest: Any) -> None:
    """Say what is scheduled, and do what memory has to do, for all users of the store, apart from the processes that
    reply: briefs, recaps, summaries, the index of recall. Processes leave both to this command where the setting
    `worker` is `apart` (EVERTHREAD_WORKER=apart). Any number may run; ctrl-C ends one cleanly."""
    where = where_of(**rest)

    def did(one: Did) -> None:
        if where.json:
            click.echo(json_text(plain(one)))
            return
        told = {"name": "from its first message", "schedule": "said, and answered"}
        by = told.get(one.what) or one.model or "in the conversation's own words"
        click.echo(printable(f"{one.conversation} {one.branch}: {one.what}, {by}"))

    async def work(et: Everthread) -> None:
        if not where.json and not once:
            tell(f"Working for {where.store}; ctrl-C ends.")
        await et.work(until_idle=once, all=everything, tell=did)

    run(where, work, makes_store=not once)

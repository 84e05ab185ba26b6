"""`everthread doctor`"""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from typing import Any

import click

from everthread import __version__
from everthread.cli.shared import (
    PATIENCE,
    at_store,
    console,
    counted,
    guarded,
    must_be_there,
    progress,
    say_json,
    where_of,
)
from everthread.errors import StoreError
from everthread.store.log import Log
from everthread.store.open import open_log
from everthread.store.private_files import is_everybodys


@click.command("doctor")
@at_store
def doctor_command(**rest: Any) -> None:
    """Check a store against its own laws: the database's files, and of every conversation of every user whether
    each event can be read, none is missing, all sums are right, and nothing is half-forgotten. Changes nothing; exit
    code 1 if it finds anything."""
    where = where_of(**rest)
    problems: list[str] = []

    async def work(log: Log) -> None:
        conversations: list[tuple[str, str]] = []
        problems.extend(_rights(where.store))
        try:
            problems.extend(await log.problems())
            problems.extend(await log.strays())
            conversations = await log.everything()
        except StoreError as problem:
            problems.append(str(problem))
        events = 0
        with progress(where, "checking conversations") as step:
            for tenant, conversation in conversations:
                try:
                    found, wrong = await log.check(tenant, conversation)
                except StoreError as problem:
                    found, wrong = 0, [f"{conversation} cannot be checked: {problem}"]
                events += found
                problems.extend(wrong)
                step(1)
        report = {
            "everthread": __version__,
            "store": re.sub(r"//[^/@]*@", "//", where.store),
            "conversations": len(conversations),
            "events": events,
            "problems": problems,
        }
        say_json(report) if where.json else _say(report)

    async def opened() -> None:
        must_be_there(where.store)
        # The log alone: a store that is opened as a whole finishes what is half-forgotten, and nothing would be told.
        log = await open_log(where.store, patience=PATIENCE)
        try:
            await work(log)
        finally:
            await log.close()

    guarded(where.json, lambda: asyncio.run(opened()))
    if problems:
        sys.exit(1)


def _rights(store: str) -> list[str]:
    path = store.removeprefix("sqlite:///")
    if path == store or not is_everybodys(Path(path)):
        return []
    return [f"{path} can be read by every account of this machine: `chmod o= {path}` keeps it to yours"]


def _say(report: dict[str, Any]) -> None:
    out = console()
    out.print(f"Everthread {report['everthread']} · {report['store']}", markup=False)
    out.print(f"{counted(report['conversations'], 'conversation')}, {counted(report['events'], 'event')} checked.")
    if not report["problems"]:
        out.print("All is well.", style="green")
        return
    for problem in report["problems"][:50]:
        out.print(f"  ✗ {problem}", style="red", markup=False)
    found = counted(len(report["problems"]), "problem")
    out.print(
        f"{found}. Nothing was changed. `everthread export` saves what can be read; copy the store before repairs."
    )

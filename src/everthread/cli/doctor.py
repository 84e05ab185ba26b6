"""`everthread doctor`"""

from __future__ import annotations

import re
import sys
from typing import Any

import click

from everthread import __version__
from everthread.app import Everthread
from everthread.cli.shared import console, counted, progress, run, say_json, scope_of, scoped
from everthread.errors import StoreError


@click.command("doctor")
@scoped
def doctor_command(**scope: Any) -> None:
    """Check a store against its own laws: the database's files, and of every conversation of every user whether
    each event can be read, none is missing, and all sums are right. Changes nothing; exit code 1 if it finds
    anything."""
    where = scope_of(**scope)
    problems: list[str] = []

    async def work(et: Everthread) -> None:
        conversations: list[tuple[str, str]] = []
        try:
            problems.extend(await et.log.problems())
            conversations = await et.log.everything()
        except StoreError as problem:
            problems.append(str(problem))
        events = 0
        with progress(where, "checking conversations") as step:
            for tenant, conversation in conversations:
                try:
                    found, wrong = await et.log.check(tenant, conversation)
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

    run(where, work)
    if problems:
        sys.exit(1)


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

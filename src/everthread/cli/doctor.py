"""`everthread doctor`"""

from __future__ import annotations

import sys
from typing import Any

import click

from everthread import __version__
from everthread.app import Everthread
from everthread.cli.carry import _progress
from everthread.cli.shared import console, run, say_json, scope_of, scoped


@click.command("doctor")
@scoped
def doctor_command(**scope: Any) -> None:
    """Check a store against its own laws: the database's files, and of every conversation of every user whether
    each event can be read, none is missing, and all sums are right. Changes nothing; exit code 1 if it finds
    anything."""
    where = scope_of(**scope)
    problems: list[str] = []

    async def work(et: Everthread) -> None:
        problems.extend(await et.log.problems())
        conversations = await et.log.everything()
        events = 0
        with _progress(where, "checking conversations") as progress:
            for tenant, conversation in conversations:
                found, wrong = await et.log.check(tenant, conversation)
                events += found
                problems.extend(wrong)
                progress(1)
        report = {
            "everthread": __version__,
            "store": where.store.rpartition("@")[2] if "@" in where.store else where.store,
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
    out.print(f"{report['conversations']:,} conversations, {report['events']:,} events checked.")
    if not report["problems"]:
        out.print("All is well.", style="green")
        return
    for problem in report["problems"][:50]:
        out.print(f"  ✗ {problem}", style="red", markup=False)
    out.print(
        f"{len(report['problems'])} problems. Nothing was changed: make a copy of the store before you repair it."
    )

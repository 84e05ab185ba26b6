"""`everthread archive` and `everthread restore`: conversations that move into files, and come back."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from everthread.app import Everthread
from everthread.archive.catalogue import ArchiveProblem, ArchiveProgress, ListedArchive
from everthread.cli.shared import (
    Where,
    ago,
    anywhere,
    console,
    counted,
    find,
    json_text,
    printable,
    run,
    say_json,
    was_said,
    where_of,
)
from everthread.core.ids import is_id
from everthread.core.values import plain

LIST, VERIFY = "list", "verify"


@click.command("archive")
@click.argument("what", default=LIST, metavar="[CONVERSATION|list|verify]")
@anywhere
@click.option("--idle", is_flag=True, help="Archive what is idle for as long as `archive_after` says, of all users.")
@click.option("--query", default="", metavar="WORDS", help="With list: only those that have some of these words.")
@click.option("--offset", default=0, type=click.IntRange(min=0), help="With list: pass over so many.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(min=1), help="With list: at most so many.")
def archive_command(what: str, idle: bool, query: str, offset: int, limit: int, **rest: Any) -> None:
    """Move a CONVERSATION out of the store into a file, or with --idle all that have long been idle; `list` those that
    are archived (so does the command alone), or `verify` that every archive of all users can be restored: exit code 1
    if one cannot. `everthread restore` brings one back."""
    where = where_of(**rest)
    _check(what, idle)
    bad: list[ArchiveProblem] = []

    async def work(et: Everthread) -> None:
        if idle:
            await _idle(et, where)
        elif what == VERIFY:
            bad.extend(await et.verify_archives())
            _say_problems(where, bad)
        elif what == LIST:
            page: dict[str, Any] = {"query": query, "offset": offset, "limit": limit}
            found = await et.archives(user=where.user, tenant=where.tenant, **page)
            _show(where, found, more=offset + limit if len(found) == limit else 0, query=query)
        else:
            id = what if is_id(what) else (await find(et, where, what)).id
            _show(where, [await et.archive(user=where.user, tenant=where.tenant, id=id)], more=0)

    run(where, work)
    if bad:
        sys.exit(1)


@click.command("restore")
@click.argument("conversation")
@anywhere
def restore_command(conversation: str, **rest: Any) -> None:
    """Bring an archived CONVERSATION back, identical. Whoever opens one restores it as well."""
    where = where_of(**rest)

    async def work(et: Everthread) -> None:
        talk = await et.restore(user=where.user, tenant=where.tenant, id=conversation)
        if where.json:
            say_json({"conversation": talk.id})
        else:
            console().print(f"{talk.id} is back.", markup=False)

    run(where, work)


def _check(what: str, idle: bool) -> None:
    """What does not go together is refused."""
    if idle and was_said("what"):
        raise click.UsageError(f"--idle looks for conversations itself: leave out {what!r}.")
    for name in ("query", "offset", "limit"):
        if was_said(name) and (idle or what != LIST):
            raise click.UsageError(f"--{name} is for the list alone: everthread archive list --{name} …")


async def _idle(et: Everthread, where: Where) -> None:
    def tell(one: ArchiveProgress) -> None:
        if where.json:
            click.echo(json_text(plain(one)))
        elif one.problem:
            click.echo(printable(f"{one.conversation}: not archived: {one.problem}"))
        else:
            click.echo(printable(f"{one.conversation}: archived"))

    done = await et.archive_idle(tell=tell)
    if not where.json:
        click.echo(f"{counted(done, 'conversation')} archived.")


def _say_problems(where: Where, bad: Sequence[ArchiveProblem]) -> None:
    if where.json:
        say_json([plain(one) for one in bad])
        return
    for one in bad:
        of = f" of conversation {one.conversation}" if one.conversation else ""
        console().print(f"  ✗ {one.archive}{of}: {one.problem}", style="red", markup=False, soft_wrap=True)
    if not bad:
        console().print("All archives can be restored.", style="green")


def _show(where: Where, found: Sequence[ListedArchive], *, more: int, query: str = "") -> None:
    from rich.table import Table
    from rich.text import Text

    if where.json:
        say_json([plain(one) for one in found])
        return
    if not found:
        words = " have any of these words" if query else ""
        console().print(f"No archived conversations {where.whose}{words}.", markup=False, soft_wrap=True)
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("conversation", no_wrap=True, min_width=26)
    table.add_column("title", overflow="ellipsis", no_wrap=True, ratio=1)
    for name in ("messages", "bytes", "last said", "archived"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in found:
        counts = (f"{one.messages:,}", f"{one.size:,}", ago(one.newest), ago(one.archived))
        table.add_row(one.conversation, Text(one.title or "–"), *counts)
    out = console(table=True)
    out.print(table)
    if more:
        out.print(f"There may be more: --offset {more}", style="dim", markup=False)

"""`everthread usage`: tokens, price and time of model calls, added up."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click
import msgspec

from everthread.app import Everthread
from everthread.cli.shared import Where, ago, anywhere, console, counted, find, printable, run, say_json, where_of
from everthread.cli.telling import dollars
from everthread.core.values import plain
from everthread.store.beside.usage import By, UsageTotal

NARROW = 80  # columns of a terminal, below which not all figures fit
BY = ("conversation", "branch", "turn", "session", "day", "model", "user")


@click.command("usage")
@click.argument("conversation", required=False)
@anywhere
@click.option("--by", type=click.Choice(BY), help="What to add up by; days by default, turns of a conversation.")
@click.option("--since", type=click.DateTime(["%Y-%m-%d"]), help="From this day on (UTC).")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(min=1), help="How many rows, newest first.")
def usage_command(conversation: str | None, by: By | None, since: datetime | None, limit: int, **rest: Any) -> None:
    """Show what model calls took, of all your conversations or of one CONVERSATION: tokens, cache, price, time."""
    where = where_of(**rest)
    begin = since.replace(tzinfo=UTC) if since else None

    unit: By = by or ("turn" if conversation else "day")

    async def work(et: Everthread) -> None:
        rows = await _rows(et, where, conversation, by=unit, since=begin, limit=limit)
        if where.json:
            say_json(plain(rows))
        else:
            _table(rows, unit)

    run(where, work)


async def _rows(
    et: Everthread, where: Where, conversation: str | None, *, by: By, since: datetime | None, limit: int
) -> list[UsageTotal]:
    if conversation:
        return await (await find(et, where, conversation)).usage(by=by, since=since, limit=limit)
    if by in ("turn", "session", "branch"):
        raise click.UsageError(f"--by {by} is of one conversation: name it.")
    return await et.usage(user=where.user, tenant=where.tenant, by=by, since=since, limit=limit)


def price_shown(row: UsageTotal) -> str:
    """The price of a total, and how many model calls it leaves out because their price is not known."""
    if row.unpriced == row.calls:
        return "price not known"
    return dollars(row.price) + (f" and {row.unpriced:,} without a price" if row.unpriced else "")


def _table(rows: list[UsageTotal], by: str) -> None:
    out = console(table=True)
    if not rows:
        out.print("No model has been called yet.")
        return
    from rich.table import Table
    from rich.text import Text

    headings = _headings(rows, narrow=out.width < NARROW)
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column(by, overflow="ellipsis", no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        figures = _figures(row)
        table.add_row(Text(printable(str(getattr(row, by)))), *map(figures.__getitem__, headings))
    out.print(table)
    if len(rows) > 1:
        out.print(_total(rows), style="dim")


def _total(rows: list[UsageTotal]) -> str:
    calls, unpriced = sum(row.calls for row in rows), sum(row.unpriced for row in rows)
    whole = msgspec.structs.replace(rows[0], calls=calls, unpriced=unpriced, price=sum(row.price for row in rows))
    return f"{counted(calls, 'model call')}, {price_shown(whole)}"


def _figures(row: UsageTotal) -> dict[str, str]:
    """The figures of a row by heading."""
    return {
        "calls": f"{row.calls:,}",
        "failed": f"{row.failed:,}",
        "tokens in": f"{row.input:,}",
        "cached": f"{row.cache_read / row.input:.0%}" if row.input else "–",
        "out": f"{row.output:,}",
        "price": dollars(row.price) if row.unpriced < row.calls else "–",
        "seconds": f"{row.ms / 1000:,.1f}",
        "last": ago(row.last),
    }


def _headings(rows: list[UsageTotal], *, narrow: bool) -> list[str]:
    """The headings that are worth a column; on a narrow terminal the most important of them."""
    left_out = {"cached", "seconds", "last"} if narrow else set()
    if not any(row.failed for row in rows):
        left_out.add("failed")
    return [heading for heading in _figures(rows[0]) if heading not in left_out]

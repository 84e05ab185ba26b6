"""`everthread usage`: tokens, price and time of model calls, added up."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click
import msgspec

from everthread.app import Everthread
from everthread.cli.shared import ago, console, counted, find, printable, run, say_json, scope_of, scoped
from everthread.cli.telling import dollars
from everthread.store.usage import By, Usage

BY = ("conversation", "turn", "session", "day", "model", "user")


@click.command("usage")
@click.argument("conversation", required=False)
@scoped
@click.option("--by", type=click.Choice(BY), help="What to add up by; days by default, turns of a conversation.")
@click.option("--since", type=click.DateTime(["%Y-%m-%d"]), help="From this day on (UTC).")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(min=1), help="How many rows, newest first.")
def usage_command(conversation: str | None, by: By | None, since: datetime | None, limit: int, **scope: Any) -> None:
    """Show what model calls took, of all your conversations or of one CONVERSATION: tokens, cache, price, time."""
    where = scope_of(**scope)
    begin = int(since.replace(tzinfo=UTC).timestamp() * 1_000_000) if since else 0

    async def work(et: Everthread) -> None:
        if conversation:
            talk = await find(et, where, conversation)
            rows = await talk.usage(by=by or "turn", limit=limit)
        else:
            if by in ("turn", "session"):
                raise click.UsageError(f"--by {by} is of one conversation: name it.")
            rows = await et.usage(user=where.user, tenant=where.tenant, by=by or "day", since=begin, limit=limit)
        if where.json:
            say_json(msgspec.to_builtins(rows))
        else:
            _table(rows, by or ("turn" if conversation else "day"))

    run(where, work)


def _table(rows: list[Usage], by: str) -> None:
    out = console(table=True)
    if not rows:
        out.print("No model has been called yet.")
        return
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column(by)
    for heading in ("calls", "tokens in", "from cache", "out", "price", "seconds", "last"):
        table.add_column(heading, justify="right")
    for row in rows:
        cached = f"{row.cache_read / row.input:.0%}" if row.input else "–"
        price = dollars(row.price) if row.unpriced < row.calls else "not known"
        calls = f"{row.calls:,}" + (f" ({row.failed} failed)" if row.failed else "")
        figures = (calls, f"{row.input:,}", cached, f"{row.output:,}", price, f"{row.ms / 1000:,.1f}", ago(row.last))
        table.add_row(printable(str(getattr(row, by))), *figures)
    out.print(table)
    if len(rows) > 1:
        whole = sum(row.price for row in rows)
        out.print(f"{counted(sum(row.calls for row in rows), 'model call')}, {dollars(whole)}", style="dim")

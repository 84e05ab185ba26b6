"""`everthread conversations`"""

from __future__ import annotations

from typing import Any

import click
import msgspec

from everthread.app import Everthread
from everthread.cli.shared import ago, anywhere, console, how_to_find, run, say_json, where_of
from everthread.store.conversations import NEWEST
from everthread.store.listing import ListedConversation
from everthread.transfer.write import timestamp


@click.command("conversations")
@anywhere
@click.option("--agent", default="", help="Only with this agent.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(min=1))
@click.option(
    "--before", default=NEWEST, help="Page on: only those after this cursor or id in the list.", show_default=False
)
def conversations_command(agent: str, limit: int, before: str, **rest: Any) -> None:
    """List conversations, last active first."""
    where = where_of(**rest)

    async def work(et: Everthread) -> None:
        page = await et.conversations(user=where.user, tenant=where.tenant, agent=agent, before=before, limit=limit)
        if where.json:
            say_json([_as_json(one) for one in page])
        elif page:
            _table(page, more=len(page) == limit)
        else:
            hint = await how_to_find(et, where)
            console().print(f"No conversations {where.whose}: {hint}.", markup=False, soft_wrap=True)

    run(where, work)


def _as_json(conversation: ListedConversation) -> dict[str, Any]:
    about, totals = msgspec.to_builtins(conversation), conversation.totals
    del about["totals"]
    counts = {"events": totals.events, "messages": totals.messages, "tokens": totals.tokens}
    newest = timestamp(totals.newest) if totals.newest else None
    return {**about, "began": timestamp(conversation.began), "newest": newest, **counts}


def _table(rows: list[ListedConversation], *, more: bool) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("conversation", no_wrap=True, min_width=26)
    table.add_column("name", overflow="ellipsis", no_wrap=True, ratio=1)
    table.add_column("agent", overflow="ellipsis", no_wrap=True, max_width=20)
    for name in ("messages", "tokens", "last said"):
        table.add_column(name, justify="right", no_wrap=True)
    for c in rows:
        counts = (f"{c.totals.messages:,}", f"{c.totals.tokens:,}", ago(c.totals.newest))
        table.add_row(c.id, Text(c.name or c.alias or "–"), Text(c.agent), *counts)
    out = console(table=True)
    out.print(table)
    if more:
        out.print(f"There may be more: --before {rows[-1].cursor}", style="dim", markup=False)

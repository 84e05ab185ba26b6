"""`everthread recall`: find what was said about something."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import click

from everthread.app import Everthread
from everthread.cli.shared import anywhere, find, printable, run, say_json, where_of
from everthread.core.values import plain
from everthread.store.recall.hits import Hit


@click.command("recall")
@click.argument("query", nargs=-1, required=True)
@anywhere
@click.option("--conversation", metavar="ID", help="Only in this one; in all of yours by default.")
@click.option("--limit", default=5, show_default=True, type=click.IntRange(1, 20), help="How many hits.")
@click.option("--kind", "kinds", multiple=True, help="Only this kind of event, such as user; may be repeated.")
@click.option("--since", type=click.DateTime(["%Y-%m-%d"]), help="From this day on (UTC).")
@click.option("--until", type=click.DateTime(["%Y-%m-%d"]), help="Up to the beginning of this day (UTC).")
def recall_command(
    query: tuple[str, ...],
    conversation: str | None,
    limit: int,
    kinds: tuple[str, ...],
    since: datetime | None,
    until: datetime | None,
    **rest: Any,
) -> None:
    """Find what was said about QUERY, best first: any words, in any language."""
    where = where_of(**rest)
    if not " ".join(query).strip():
        raise click.UsageError("There is nothing to look for: everthread recall WORDS …")
    given: dict[str, Any] = {"limit": limit, "kinds": kinds, "since": _in_utc(since), "until": _in_utc(until)}

    async def work(et: Everthread) -> None:
        talk = await find(et, where, conversation)
        hits = await talk.recall(" ".join(query), scope="conversation" if conversation else "user", **given)
        if where.json:
            say_json(plain(hits))
        else:
            show_all(hits)

    run(where, work)


def _in_utc(day: datetime | None) -> datetime | None:
    return day and day.replace(tzinfo=UTC)


def show_all(hits: Sequence[Hit], *, margin: str = "") -> None:
    for hit in hits:
        show(hit)
    if not hits:
        click.echo(f"{margin}Nothing was found. Try other words, or fewer.")


def show(hit: Hit) -> None:
    """A hit on a terminal: where it stands, what it says, and what stood around it."""
    click.secho(f"{hit.time:%Y-%m-%d %H:%M} · {hit.kind} · {hit.reference}", dim=True)
    click.echo(printable(hit.text))
    for one in hit.neighbours:
        click.secho(printable(f"    {one.kind}: {one.text}"), dim=True)
    click.echo()

"""`everthread children`: which tasks were delegated in a conversation, how they stand, and ending one."""

from __future__ import annotations

from typing import Any

import click

from everthread.agent.children import ListedChild
from everthread.app import Everthread
from everthread.cli.shared import ago, anywhere, console, counted, find, on_branch, printable, run, say_json, where_of
from everthread.cli.telling import dollars
from everthread.core.values import plain
from everthread.talk import Talk


@click.command("children")
@click.argument("conversation", required=False)
@anywhere
@click.option("--branch", help="The branch they were begun on, by name or number; the current one by default.")
@click.option("--show", "shown", metavar="CHILD", help="Show the one on this branch, with what it said.")
@click.option("--stop", "stopped", metavar="CHILD", help="End the one on this branch, in whichever process.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(min=1), help="How many to list.")
def children_command(
    conversation: str | None, branch: str | None, shown: str | None, stopped: str | None, limit: int, **rest: Any
) -> None:
    """List the children of a CONVERSATION (its id, or the beginning or end of it; the last active by default),
    newest first: the tasks that were delegated in it, and how each stands. Show or stop one by the name or number of
    its branch."""
    where = where_of(**rest)

    async def work(et: Everthread) -> None:
        talk = await on_branch(await find(et, where, conversation), branch)
        if child := stopped or shown:
            await _one(talk, child, stop=bool(stopped), as_json=where.json)
        else:
            found = await talk.children(limit=limit)
            say_json(plain(found)) if where.json else _table(found)

    run(where, work)


async def _one(talk: Talk, named: str, *, stop: bool, as_json: bool) -> None:
    child = await talk.child(int(named) if named.isdecimal() else named)
    ended = stop and await child.stop()
    found = await child.look()
    if as_json:
        say_json({**plain(found), **({"stopped": ended} if stop else {})})
        return
    if stop:
        click.echo("It was ended. What it had said is kept." if ended else "It is not running.")
    _show(found)


def _show(found: ListedChild) -> None:
    out = console()
    out.print(printable(f"{found.name} · {found.state} · {found.task}"), style="bold", markup=False)
    out.print(printable(_figures(found)), style="dim", markup=False)
    for text in (found.why, found.result):
        if text:
            out.print(f"\n{printable(text)}", markup=False)


def _figures(found: ListedChild) -> str:
    """Who did it, when, and what it took."""
    agent = [f"agent {found.agent}"] if found.agent else []
    price = [] if found.price is None else [dollars(found.price)]
    took = f"{counted(found.calls, 'model call')}, {found.input:,} tokens in, {found.output:,} out"
    return " · ".join([*agent, f"begun {ago(found.began)}", took, *price])


def _table(found: list[ListedChild]) -> None:
    from rich.table import Table
    from rich.text import Text

    out = console(table=True)
    if not found:
        out.print("No task was delegated here.", markup=False)
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("child", no_wrap=True, overflow="ellipsis", max_width=24)
    table.add_column("state", no_wrap=True)
    table.add_column("agent", no_wrap=True, overflow="ellipsis", max_width=16)
    table.add_column("calls", justify="right", no_wrap=True)
    table.add_column("price", justify="right", no_wrap=True)
    table.add_column("task", overflow="ellipsis", no_wrap=True, ratio=1)
    for one in found:
        price = "–" if one.price is None else dollars(one.price)
        texts = (one.name, one.state, one.agent or "–", str(one.calls), price, one.task)
        table.add_row(*(Text(" ".join(printable(text).split())) for text in texts))
    out.print(table)

"""`everthread canvas`: what is on the canvas of a conversation."""

from __future__ import annotations

from typing import Any

import click

from everthread.app import Everthread
from everthread.cli.shared import anywhere, console, find, on_branch, run, say_json, where_of
from everthread.core.canvas import Canvas
from everthread.core.values import plain


@click.command("canvas")
@click.argument("conversation", required=False)
@anywhere
@click.option("--branch", help="A branch by name or number; the current one by default.")
@click.option("--at", type=click.IntRange(min=1), metavar="SEQ", help="As it was before this event.")
def canvas_command(conversation: str | None, branch: str | None, at: int | None, **rest: Any) -> None:
    """Draw what is on the canvas of a CONVERSATION (its id, or the beginning or end of it; the last active by
    default)."""
    where = where_of(**rest)

    async def work(et: Everthread) -> None:
        talk = await on_branch(await find(et, where, conversation), branch)
        canvas = await talk.canvas(at=at)
        if where.json:
            say_json(plain(canvas))
        else:
            show(canvas)

    run(where, work)


def show(canvas: Canvas) -> None:
    from everthread.cli.drawing import drawn

    console().print(drawn(canvas))

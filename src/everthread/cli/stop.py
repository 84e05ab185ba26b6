"""`everthread stop`"""

from __future__ import annotations

from typing import Any

import click

from everthread.app import Everthread
from everthread.cli.shared import anywhere, find, on_branch, run, say_json, where_of


@click.command("stop")
@click.argument("conversation", required=False)
@anywhere
@click.option("--branch", help="A branch by name or number; the current one by default.")
def stop_command(conversation: str | None, branch: str | None, **rest: Any) -> None:
    """End the turn that runs in a CONVERSATION (its id, or the beginning or end of it; the last active by default), in
    whichever process. What had come of the reply is kept."""
    where = where_of(**rest)

    async def work(et: Everthread) -> None:
        talk = await on_branch(await find(et, where, conversation), branch)
        stopped = await talk.stop()
        if where.json:
            say_json({"conversation": talk.id, "stopped": stopped})
        else:
            kept = "The turn was ended. What had come of the reply is kept."
            click.echo(kept if stopped else "No turn is under way.")

    run(where, work)

"""What all commands share: options, opening the store, finding a conversation, errors, output."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from everthread.app import TENANT, Everthread, Talk
from everthread.core.logged import moment
from everthread.errors import EverthreadError, UnknownConversation
from everthread.store.conversations import NEWEST

if TYPE_CHECKING:
    from rich.console import Console

USER = "me"


class Scope(NamedTuple):
    """The store and whose conversations, from the options."""

    store: str
    user: str
    tenant: str
    json: bool


def scoped(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that say where and whose."""
    options = [
        click.option("--store", envvar="EVERTHREAD_STORE", metavar="ADDRESS", help="sqlite:///… or postgresql://…"),
        click.option("--user", envvar="EVERTHREAD_USER", default=USER, show_default=True, help="Whose."),
        click.option("--tenant", envvar="EVERTHREAD_TENANT", default=TENANT, show_default=True, help="Which tenant's."),
        click.option("--json", "as_json", is_flag=True, help="Write JSON for programs."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def scope_of(store: str | None, user: str, tenant: str, as_json: bool) -> Scope:
    return Scope(store or default_store(), user, tenant, as_json)


def default_store() -> str:
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return f"sqlite:///{Path(base) / 'everthread' / 'everthread.db'}"


def run(scope: Scope, work: Callable[[Everthread], Awaitable[None]]) -> None:
    """Open the store and do the work; an error of ours is a sentence on stderr and exit code 1."""

    async def opened() -> None:
        async with Everthread.open(scope.store) as et:
            await work(et)

    guarded(scope.json, lambda: asyncio.run(opened()))


def guarded(as_json: bool, work: Callable[[], None]) -> None:
    try:
        work()
    except EverthreadError as problem:
        if as_json:
            say_json({"error": {"type": type(problem).__name__, "message": str(problem)}}, file=sys.stderr)
        else:
            click.secho(f"Error: {problem}", fg="red", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # The reader has seen enough (`… | head`); nothing more can be said, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


async def find(et: Everthread, scope: Scope, name: str | None) -> Talk:
    """The conversation with this id or the beginning or end of it; the newest where none is given."""
    found = await et.conversations(user=scope.user, tenant=scope.tenant, limit=1)
    if name is None:
        if not found:
            raise UnknownConversation("(none yet)")
        return Talk(et.log, found[0])
    before, matches = NEWEST, []
    while page := await et.conversations(user=scope.user, tenant=scope.tenant, before=before, limit=500):
        matches += [c for c in page if c.id.startswith(name.upper()) or c.id.endswith(name.upper())]
        before = page[-1].id
    if len(matches) != 1:
        raise UnknownConversation(f"{name} (it fits {len(matches)})" if matches else name)
    return Talk(et.log, matches[0])


def say_json(value: object, file: Any = None) -> None:
    print(json.dumps(value, ensure_ascii=False, indent=2, default=str), file=file or sys.stdout)


def console() -> Console:
    from rich.console import Console

    return Console(highlight=False)


def ago(microseconds: int) -> str:
    """A time as a person would say it."""
    if not microseconds:
        return "–"
    then = moment(microseconds).astimezone()
    seconds = (datetime.now(then.tzinfo) - then).total_seconds()
    for limit, size, word in ((60, 1, "s"), (3600, 60, "min"), (86400, 3600, "h"), (7 * 86400, 86400, "d")):
        if seconds < limit:
            return "just now" if seconds < 10 else f"{int(seconds // size)} {word} ago"
    return f"{then:%Y-%m-%d}"

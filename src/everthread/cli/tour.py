"""`everthread tour`: what a log that loses nothing looks like, in half a minute, on a real store."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from everthread.app import Everthread
from everthread.cli.picture import Picture
from everthread.cli.shared import console, guarded
from everthread.cli.show import Page
from everthread.core.events import assistant, tool_call, tool_result, user
from everthread.talk import Talk

MODEL, BUDGET = "anthropic:claude-sonnet-4-6", 2_000

# What the other process does: it appends, prints what is on disk, and is killed while it goes on.
WRITER = """
import asyncio, sys
from everthread import Everthread, user

async def write(address):
    async with Everthread.open(address) as et:
        talk = await et.conversation(user="ana", agent="helper")
        for number in range(1, 1_000_000):
            [event] = await talk.append(user(f"Message {number} before the lights go out."))
            print(event.seq, flush=True)

asyncio.run(write(sys.argv[1]))
"""


@click.command("tour")
@click.option("--store", help="An empty store to use; a fresh SQLite file by default.")
def tour_command(store: str | None) -> None:
    """A guided tour on a fresh store: append, fork, rewind, kill and reopen, and what a model sees of it."""
    if store is None:
        store = f"sqlite:///{Path(tempfile.mkdtemp(prefix='everthread-tour-'))}/tour.db"
    guarded(False, lambda: asyncio.run(Tour(store).take()))


class Tour:
    def __init__(self, address: str) -> None:
        self._address = address
        self._out = console()
        self._number = 0

    async def take(self) -> None:
        self._out.rule("Everthread", style="bold cyan")
        self._say("Conversations that never end: nothing said is ever lost, however long it gets.")
        async with Everthread.open(self._address) as et:
            talk = await et.conversation(user="ana", agent="helper")
            await self._append(talk)
            await self._fork(talk)
            await self._rewind(talk)
        acknowledged = self._kill()
        async with Everthread.open(self._address) as et:
            talk = await et.conversation(user="ana", agent="helper")
            await self._reopen(talk, acknowledged)
            await self._look(talk)
        self._goodbye()

    async def _append(self, talk: Talk) -> None:
        self._headline("Append: one transaction, on disk when it returns", "await talk.append(user(…), assistant(…))")
        await talk.append(
            user("My son is allergic to walnuts."),
            assistant("Noted. I will keep walnuts out of every recipe."),
        )
        await talk.append(
            user("What may I put into the cake?"),
            tool_call("search_recipes", {"without": ["walnuts"]}, id="call_1"),
            tool_result("almond cake; lemon cake", id="call_1", name="search_recipes"),
            assistant("Lemon is the safe choice; almonds only if he tolerates other nuts."),
        )
        await talk.mark("before the cake")
        await talk.append(user("Almond it is."), assistant("Here is the almond cake."))
        await self._show(talk)

    async def _fork(self, talk: Talk) -> None:
        self._headline("Fork: another way from event 6 on; only its own events are stored", "await talk.fork(at=6)")
        side = await talk.fork(at=6, name="lemon")
        await side.append(user("And the lemon one?"), assistant("Zest of two lemons, no nuts at all."))
        await self._show(side, last=3)

    async def _rewind(self, talk: Talk) -> None:
        self._headline(
            "Rewind: back to a mark; what was said since stays on main",
            'await talk.rewind(to="before the cake")',
        )
        await talk.rewind(to="before the cake")
        await talk.append(user("On second thought: lemon."), assistant("A good choice."))
        await self._show(talk, last=4)
        for b in await talk.branches():
            self._out.print(
                f"      branch {b.branch.name}: {b.line.messages} messages, {b.own.events} events of its own"
            )

    def _kill(self) -> int:
        self._headline("Kill: another process appends as fast as it can, and gets kill -9", "os.kill(pid, SIGKILL)")
        command = [sys.executable, "-c", WRITER, self._address]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout
            lines = [line for _, line in zip(range(200), writer.stdout, strict=False)]
            os.kill(writer.pid, signal.SIGKILL)
            lines += writer.stdout.readlines()
        acknowledged = max((int(line) for line in lines if line.endswith("\n")), default=0)
        self._say(f"The last seq that it was told is on disk: {acknowledged}.")
        return acknowledged

    async def _reopen(self, talk: Talk, acknowledged: int) -> None:
        self._headline("Reopen: every acknowledged event is there, no gap, none twice", "Everthread.open(…)")
        events = await talk.after(limit=1_000_000)
        gapless = [event.seq for event in events] == list(range(1, len(events) + 1))
        if not gapless or len(events) < acknowledged:
            raise SystemExit(f"{len(events)} events, of which {acknowledged} were acknowledged: this is a bug.")
        self._say(f"{len(events)} events in the log, {acknowledged} acknowledged. Nothing is missing.")
        await self._show(talk, last=3)

    async def _look(self, talk: Talk) -> None:
        """What a model would be told of all this, under a small budget."""
        self._headline(
            "Look: what the model sees of all this, and what it does not",
            f'await talk.context(model="{MODEL}", budget={BUDGET:_})',
        )
        context = await talk.context(model=MODEL, budget=BUDGET, instructions="You help people bake.")
        self._out.print()
        Picture(context.explain(), []).draw(talk, everything=False)

    def _goodbye(self) -> None:
        self._out.rule(style="bold cyan")
        self._say("Look around: the store is still there.")
        context = f"context --model {MODEL} --budget {BUDGET} --explain"
        for command in ("conversations", "show --branches", "show --branch main", context, "doctor"):
            line = f"    {sys.argv[0]} {command} --user ana --store {shlex.quote(self._address)}"
            self._out.print(line, style="cyan", markup=False, soft_wrap=True)

    async def _show(self, talk: Talk, *, last: int = 20) -> None:
        page = Page()
        for event in await talk.before(limit=last):
            page.show(event)

    def _headline(self, what: str, code: str) -> None:
        self._number += 1
        self._out.print()
        self._out.print(f"{self._number}. {what}", style="bold")
        self._out.print(f"   {code}", style="cyan", markup=False)

    def _say(self, text: str) -> None:
        self._out.print(f"   {text}", markup=False, soft_wrap=True)

"""`everthread chat`: a plain chat, line by line.

After each reply stands what it took; when the window has moved, a rule says from where on the model still sees the
conversation word for word. Between two turns nothing runs, so lines are read as any program reads them, with history
and editing where the terminal has readline. Into a pipe it chats as well: a line is a message.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from typing import Any

import click

from everthread.app import Everthread
from everthread.cli.ask import talk_of
from everthread.cli.commands import Commands
from everthread.cli.shared import PATIENCE, Scope, console, guarded, own_agents, pairs_of, printable, scope_of, scoped
from everthread.cli.show import Page
from everthread.cli.telling import Teller, price_line
from everthread.context.building import Context
from everthread.core.events import ToolCall
from everthread.core.logged import Logged
from everthread.errors import EverthreadError, NoModel
from everthread.providers.choosing import notice
from everthread.talk import Talk

PROMPT = "you › "
EARLIER = 3  # turns that are shown at the start


@click.command("chat")
@scoped
@click.option("--agent", help="Which agent to speak with.")
@click.option("--agents", metavar="FOLDER", envvar="EVERTHREAD_AGENTS", help="A folder of agents' TOML files.")
@click.option("--conversation", metavar="ID", help="Which conversation; the newest with the agent by default.")
@click.option("--new", is_flag=True, help="Begin another conversation.")
@click.option("--model", metavar="PROVIDER:NAME", help="Such as anthropic:claude-sonnet-4-6 or local:/path/model.gguf.")
@click.option(
    "--set", "pairs", multiple=True, metavar="NAME=VALUE", help="Any setting, for this chat; may be repeated."
)
def chat_command(
    agent: str | None,
    agents: str | None,
    conversation: str | None,
    new: bool,
    model: str | None,
    pairs: tuple[str, ...],
    **scope: Any,
) -> None:
    """Chat with an agent, line by line. /help lists what else can be done."""
    where = scope_of(**scope)

    def work() -> None:
        with asyncio.Runner() as runner:
            chat = Chat(runner, where, model, pairs_of(pairs))
            try:
                runner.run(chat.open(agents, conversation, agent, new=new))
                chat.go()
            finally:
                runner.run(chat.close())

    guarded(where.json, work)


class Chat:
    def __init__(self, runner: asyncio.Runner, where: Scope, model: str | None, settings: dict[str, Any]) -> None:
        self._runner, self._where = runner, where
        self._out = console()
        self._cutoff = 0
        self.model, self.settings = model, settings
        self.et: Everthread
        self.talk: Talk
        self.over = False

    # -- opening and closing -----------------------------------------------------------------------------------

    async def open(self, agents: str | None, conversation: str | None, agent: str | None, *, new: bool) -> None:
        folder = agents or own_agents()
        self.et = await Everthread.open(self._where.store, patience=PATIENCE, agents=folder)
        self.talk = await talk_of(self.et, self._where, conversation, agent, new=new)
        await self._greet()

    async def close(self) -> None:
        if hasattr(self, "et"):
            await self.et.close()

    async def _greet(self) -> None:
        model = await self.model_in_force()
        self._out.rule(f"Everthread · {model}", style="cyan")
        if tiny := notice(model):
            self._out.print(tiny, style="yellow", markup=False)
        self._out.print("/help lists commands; an empty line or ctrl-D ends.", style="dim")
        await self.show_earlier()

    async def show_earlier(self) -> None:
        """The newest turns, with the rule where the window begins."""
        events = await self.talk.tail(turns=EARLIER)
        self._cutoff = await self._cutoff_now()
        page = Page()
        for event in (event for event in events if event.event.kind in ("user", "assistant")):
            page.show(event)

    async def model_in_force(self) -> str:
        try:
            return (await self.context()).model
        except NoModel:
            return (await self.et.default_model()).model

    async def context(self) -> Context:
        """What the model would be told now."""
        try:
            return await self.talk.context(model=self.model, settings=self.settings)
        except NoModel:
            chosen = await self.et.default_model()
            return await self.talk.context(model=chosen.model, settings={"address": chosen.address, **self.settings})

    async def _cutoff_now(self) -> int:
        with suppress(EverthreadError):
            return int((await self.context()).cutoff)
        return 0

    # -- lines -------------------------------------------------------------------------------------------------

    def go(self) -> None:
        """Until an empty line at the prompt, the end of the input, or /quit."""
        if sys.stdin.isatty():
            with suppress(ImportError):
                import readline  # noqa: F401 -- editing and history, where there is one
        commands = Commands(self)
        while not self.over:
            line = self._line()
            if not line:
                return
            try:
                if line.startswith("/"):
                    self._runner.run(commands.obey(line))
                else:
                    self._runner.run(self.turn(line))
            except EverthreadError as problem:
                click.secho(f"Error: {problem}", fg="red", err=True)
            except KeyboardInterrupt:
                click.secho("\nStopped. What had come of the reply is kept.", fg="yellow", err=True)

    def _line(self) -> str:
        """A line of input; one that ends in a backslash goes on in the next."""
        lines: list[str] = []
        try:
            while True:
                prompt = (PROMPT if not lines else "    … ") if sys.stdin.isatty() else ""
                line = input(prompt)
                lines.append(line.removesuffix("\\"))
                if not line.endswith("\\"):
                    return "\n".join(lines).strip()
        except (EOFError, KeyboardInterrupt):
            return "\n".join(lines).strip()

    # -- turns -------------------------------------------------------------------------------------------------

    async def turn(self, text: str) -> None:
        teller = Teller()
        await teller.listen(self.talk.say(text, model=self.model, settings=self.settings))
        await self.ended(teller)

    async def ended(self, teller: Teller) -> None:
        """What a turn took, the rule if it moved, and the questions that wait for an answer."""
        assert teller.done
        if teller.done.calls:
            self._out.print(price_line(teller.done), style="dim", markup=False)
        cutoff = await self._cutoff_now()
        if self._cutoff and cutoff > self._cutoff:
            self._out.rule(
                f"the window begins at event {cutoff} now; what came before is kept, and not sent", style="dim"
            )
        self._cutoff = cutoff
        if teller.done.state == "waiting":
            for call in await self.talk.waiting():
                self._ask_for(call)

    def _ask_for(self, call: Logged) -> None:
        event = call.event
        assert isinstance(event, ToolCall)
        asked = printable(f"{event.name}({event.arguments})")
        click.secho(f"{asked} waits for approval: /approve {call.seq} or /refuse {call.seq}", fg="yellow", err=True)

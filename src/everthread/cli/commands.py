"""The slash commands of the chat: each a method whose docstring is its line in /help."""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import click

from everthread.cli.picture import Picture
from everthread.cli.shared import counted
from everthread.cli.telling import Teller, dollars
from everthread.config import check, parse
from everthread.errors import BadValue

if TYPE_CHECKING:
    from everthread.cli.chat import Chat


class Commands:
    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        found = {name: getattr(self, name) for name in dir(self) if not name.startswith("_") and name != "obey"}
        self._known: dict[str, Callable[..., Awaitable[None]]] = found

    async def obey(self, line: str) -> None:
        """Do what a line beginning with a slash says."""
        try:
            name, *given = shlex.split(line[1:])
        except ValueError as problem:
            raise BadValue("the command", line, f"written with its quotes closed ({problem})") from None
        if name not in self._known:
            raise BadValue("the command", f"/{name}", f"one of {', '.join(f'/{known}' for known in self._known)}")
        try:
            await self._known[name](*given)
        except TypeError as problem:
            if "positional argument" not in str(problem):
                raise
            raise BadValue("the command", line, f"written as /{name} {_takes(self._known[name])}") from None

    # -- looking -----------------------------------------------------------------------------------------------

    async def help(self) -> None:
        """what can be done here"""
        width = max(len(name) for name in self._known) + 12
        for name, command in self._known.items():
            click.echo(f"  {f'/{name} {_takes(command)}':<{width}} {command.__doc__}")
        click.echo("Everything else is said to the agent. A line that ends in \\ goes on in the next.")

    async def context(self) -> None:
        """what the model would be told next, and why"""
        context = await self._chat.context()
        Picture(context.explain(), []).draw(self._chat.talk, everything=False)

    async def usage(self) -> None:
        """what this conversation took so far"""
        found = await self._chat.talk.usage(by="model")
        for row in found:
            price = dollars(row.price) + (f" and {row.unpriced} without a price" if row.unpriced else "")
            click.echo(
                f"  {row.model}: {counted(row.calls, 'model call')}, {row.input:,} in, {row.output:,} out, {price}"
            )
        if not found:
            click.echo("  No model has been called yet.")

    async def branches(self) -> None:
        """the branches of this conversation"""
        line = await self._chat.talk.line()
        for branch in await self._chat.talk.branches():
            here = "→" if branch.branch.number == line.branch.number else " "
            click.echo(f"  {here} {branch.branch.name}  {counted(branch.line.messages, 'message')}")

    async def model(self, name: str = "") -> None:
        """which model replies, or another one from now on"""
        if name:
            check("model", name, "/model")
            self._chat.model = name
        click.echo(f"  {await self._chat.model_in_force()}")

    # -- changing ----------------------------------------------------------------------------------------------

    async def clear(self) -> None:
        """start afresh: what came before is kept, and no longer sent"""
        await self._chat.talk.clear()
        click.echo("  The model begins afresh.")

    async def mark(self, name: str) -> None:
        """name this point"""
        await self._chat.talk.mark(name)
        click.echo(f"  /rewind {name} comes back here.")

    async def rewind(self, to: str) -> None:
        """go back to a mark or an event's number; what is left stays on its branch"""
        self._chat.talk = await self._chat.talk.rewind(to=int(to) if to.isdigit() else to)
        await self._chat.show_earlier()

    async def fork(self, name: str = "") -> None:
        """go on in a branch of its own"""
        side = await self._chat.talk.fork(name=name)
        self._chat.talk = await self._chat.talk.switch((await side.line()).branch.number)
        await self.branches()

    async def switch(self, branch: str) -> None:
        """go on in another branch"""
        self._chat.talk = await self._chat.talk.switch(int(branch) if branch.isdigit() else branch)
        await self._chat.show_earlier()

    async def pin(self, seq: str) -> None:
        """always send the turn with this event"""
        await self._chat.talk.pin(_number(seq))
        click.echo("  Pinned.")

    async def config(self, verb: str = "", name: str = "", value: str = "") -> None:
        """set NAME VALUE: a setting of this branch; without, those in force"""
        if verb not in ("", "set") or (verb and not name):
            raise BadValue("/config", verb, "/config, or /config set NAME VALUE")
        if verb:
            await self._chat.talk.configure(**{name: parse(name, value, "/config") if value else None})
        about = (await self._chat.context()).explain()
        for setting, found in about.settings.items():
            source = about.source_of[setting]
            if (not verb and source != "the default") or setting == name:
                click.echo(f"  {setting} = {found}  ({source})")

    # -- turns -------------------------------------------------------------------------------------------------

    async def approve(self, call: str = "") -> None:
        """let a tool call that waits run"""
        await self._heard(self._chat.talk.approve(_named(call)))

    async def refuse(self, call: str = "", *why: str) -> None:
        """refuse it, and say why"""
        await self._heard(self._chat.talk.refuse(_named(call), " ".join(why)))

    async def retry(self) -> None:
        """go on with a turn that failed or was stopped"""
        await self._heard(self._chat.talk.resume(model=self._chat.model, settings=self._chat.settings))

    async def quit(self) -> None:
        """end the chat; the conversation never does"""
        self._chat.over = True

    async def _heard(self, saying: object) -> None:
        teller = Teller()
        await teller.listen(saying)  # type: ignore[arg-type]
        await self._chat.ended(teller)


def _named(call: str) -> str | int | None:
    return int(call) if call.isdigit() else call or None


def _number(seq: str) -> int:
    if not seq.isdigit():
        raise BadValue("seq", seq, "the number of an event")
    return int(seq)


def _takes(command: Callable[..., Awaitable[None]]) -> str:
    """What a command takes, from its parameters."""
    code = command.__code__
    names = code.co_varnames[1 : code.co_argcount]
    optional = len(command.__defaults__ or ())
    needed = names[: len(names) - optional]
    return " ".join([*(name.upper() for name in needed), *(f"[{name.upper()}]" for name in names[len(needed) :])])

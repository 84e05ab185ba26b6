"""The slash commands of the chat: each a method whose docstring is its line in /help."""

from __future__ import annotations

import inspect
import json
import shlex
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import click

from everthread.cli.canvas import show as show_canvas
from everthread.cli.memory import show as show_memory
from everthread.cli.picture import Picture
from everthread.cli.recall import show_all
from everthread.cli.shared import counted, printable, somebody_types, tell
from everthread.cli.speaking import warn
from everthread.cli.usage import price_shown
from everthread.config import DEFAULT, check, parse
from everthread.errors import BadValue, Conflict, NothingToResume

if TYPE_CHECKING:
    from everthread.cli.chat import Chat

FOR_PROGRAMS = ("approve", "refuse", "retry", "quit")  # those that answer in deltas, or not at all
NONE_WAITS = "No tool call waits for approval."
TAKES = {  # where the parameters do not say it well
    "config": "[set NAME [VALUE]]",
    "approve": '[CALL] [{"NAME": VALUE …}]',
}
AFTERWORD = (
    "Anything else is said to the agent. A line that ends in \\ goes on in the next; one that is to begin with a slash "
    "has two."
)


class Commands:
    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        names = (name for name in vars(Commands) if not name.startswith("_") and name != "obey")
        self._known: dict[str, Callable[..., Awaitable[None]]] = {
            name: getattr(self, name) for name in names if not chat.json or name in FOR_PROGRAMS
        }

    async def obey(self, line: str) -> None:
        """Do what a line beginning with a slash says."""
        name, *given = _words(line.removeprefix("/")) or [""]
        if name not in self._known:
            known = ", ".join(f"/{known}" for known in self._known)
            raise BadValue("the command", f"/{name}", f"one of {known}; begin with // to say it to the agent")
        command = self._known[name]
        try:
            inspect.signature(command).bind(*given)
        except TypeError:
            raise BadValue("the command", line, f"written as /{name} {_takes(command)}".rstrip()) from None
        await command(*given)

    # -- looking -----------------------------------------------------------------------------------------------

    async def help(self) -> None:
        """what can be done here"""
        forms = {f"/{name} {_takes(command)}": command.__doc__ or "" for name, command in self._known.items()}
        formatter = click.HelpFormatter(max_width=100)
        with formatter.indentation():
            formatter.write_dl(list(forms.items()))
        formatter.write_paragraph()
        formatter.write_text(AFTERWORD)
        click.echo(formatter.getvalue(), nl=False)

    async def context(self) -> None:
        """what the model would be told next, and why"""
        context = await self._chat.context()
        Picture(context.explain(), []).draw(self._chat.talk, everything=False)

    async def recall(self, *words: str) -> None:
        """find what was said about something, in this conversation"""
        show_all(await self._chat.talk.recall(" ".join(words)), margin="  ")

    async def brief(self) -> None:
        """what is remembered of what came before, and which events state it"""
        talk = self._chat.talk
        show_memory(talk, await talk.remembered(), await talk.memory(), await self._chat.context())

    async def canvas(self) -> None:
        """what is on the canvas"""
        show_canvas(await self._chat.talk.canvas())

    async def usage(self) -> None:
        """what this conversation took so far"""
        found = await self._chat.talk.usage(by="model")
        for row in found:
            took = f"{counted(row.calls, 'model call')}, {row.input:,} tokens in, {row.output:,} out"
            click.echo(printable(f"  {row.model}: {took}, {price_shown(row)}"))
        if not found:
            click.echo("  No model has been called yet.")

    async def branches(self) -> None:
        """the branches of this conversation"""
        line = await self._chat.talk.line()
        for branch in await self._chat.talk.branches():
            here = "→" if branch.branch.number == line.branch.number else " "
            click.echo(printable(f"  {here} {branch.branch.name}  {counted(branch.line.messages, 'message')}"))

    async def model(self, name: str = "") -> None:
        """which model replies, or another one from now on"""
        if name:
            self._chat.model = check("model", name, "/model")
        model = (await self._chat.context()).model
        click.echo(f"  {model}")
        warn(model)

    # -- changing ----------------------------------------------------------------------------------------------

    async def correct(self, *words: str) -> None:
        """your own words in place of the brief"""
        if not words:
            raise BadValue("the command", "/correct", "written as /correct WORDS …")
        await self._chat.talk.correct(" ".join(words))
        click.echo("  This holds from now on; what is remembered later goes on from it.")

    async def forget(self, event: str) -> None:
        """take what an event says out of the log and of memory, for ever"""
        if not _is_number(event):
            raise BadValue("the event", event, "the number of one, as /brief and /recall show them")
        if somebody_types() and not await self._chat.sure(f"  Take out what event {event} says, for ever?"):
            return
        await self._chat.talk.redact(int(event))
        click.echo("  Gone. What was remembered since, your corrections too, is made anew without it.")

    async def name(self, *words: str) -> None:
        """the conversation's name, or another one"""
        if words:
            await self._chat.talk.rename(" ".join(words))
        click.echo(printable(f"  {self._chat.talk.conversation.name or 'It has none yet.'}"))

    async def goal(self, *words: str) -> None:
        """what the conversation is for, which its brief keeps in mind; a dash takes it back"""
        if words:
            await self._chat.talk.set_goal("" if words == ("-",) else " ".join(words))
        click.echo(printable(f"  {self._chat.talk.conversation.goal or 'No goal is stated.'}"))

    async def clear(self) -> None:
        """start afresh: what came before is kept, and no longer sent"""
        await self._chat.talk.clear()
        click.echo("  The model begins afresh.")

    async def mark(self, name: str) -> None:
        """name this point"""
        await self._chat.talk.mark(name)
        click.echo(printable(f"  /rewind {shlex.quote(name)} comes back here."))

    async def rewind(self, to: str) -> None:
        """go back to a mark or an event; what is left stays on its branch"""
        self._chat.talk = await self._chat.talk.rewind(to=int(to) if _is_number(to) else to)
        await self._chat.show_earlier()

    async def fork(self, name: str = "") -> None:
        """go on in a branch of its own"""
        side = await self._chat.talk.fork(name=name)
        self._chat.talk = await self._chat.talk.switch((await side.line()).branch.number)
        await self.branches()

    async def switch(self, branch: str) -> None:
        """go on in another branch"""
        self._chat.talk = await self._chat.talk.switch(int(branch) if _is_number(branch) else branch)
        await self._chat.show_earlier()

    async def pin(self, event: str) -> None:
        """always send the turn with this event"""
        if not _is_number(event):
            raise BadValue("the event", event, "the number of one, as `everthread show` lists them")
        await self._chat.talk.pin(int(event))
        click.echo("  Pinned.")

    async def config(self, verb: str = "", name: str = "", value: str = "") -> None:
        """a setting of this branch; without a value as it was before; alone, those that are not the default"""
        if verb and (verb != "set" or not name):
            raise BadValue("the command", f"/config {verb}", f"written as /config {TAKES['config']}")
        if name:
            await self._chat.talk.configure(**{name: parse(name, value, "/config") if value else None})
        about = (await self._chat.context()).explain()
        changed = [setting for setting, source in about.source_of.items() if source != DEFAULT]
        for setting in [name] if name else changed:
            click.echo(printable(f"  {setting} = {about.settings[setting]}  ({about.source_of[setting]})"))

    # -- turns -------------------------------------------------------------------------------------------------

    async def approve(self, call: str = "", arguments: str = "") -> None:
        """let a tool call that waits run, with other arguments where they are given"""
        if call.startswith("{"):
            call, arguments = "", call + arguments
        chat, changed, seq = self._chat, _arguments(arguments), await self._waiting(call)
        await chat.hear(chat.talk.approve(seq, arguments=changed, model=chat.model, settings=chat.settings))

    async def refuse(self, call: str = "", *why: str) -> None:
        """refuse it, and say why"""
        chat, seq = self._chat, await self._waiting(call)
        await chat.hear(chat.talk.refuse(seq, " ".join(why), model=chat.model, settings=chat.settings))

    async def retry(self) -> None:
        """go on with a turn that failed or was stopped"""
        try:
            await self._chat.retry()
        except NothingToResume:
            tell("  There is nothing to go on with: no turn was interrupted.")

    async def quit(self) -> None:
        """end the chat; the conversation never does"""
        self._chat.over = True

    async def _waiting(self, named: str) -> int:
        """The seq of the tool call that was named, or of the only one that waits."""
        waiting = await self._chat.talk.waiting()
        found = [call.seq for call in waiting if not named or named in (str(call.seq), getattr(call.event, "id", ""))]
        if len(found) != 1:
            listed = ", ".join(str(call.seq) for call in waiting)
            raise NoSuchCall(f"Name a tool call that waits for approval: {listed}." if listed else NONE_WAITS)
        return found[0]


class NoSuchCall(Conflict):
    """No tool call waits, or it is not clear which one is meant."""


def _words(line: str) -> list[str]:
    """The words of a line, split as a shell would; where a quote is not closed, split at spaces. The JSON object of an
    /approve is one word, as it is written."""
    if line.startswith("approve ") and "{" in line:
        before, brace, rest = line.partition("{")
        return [*before.split(), brace + rest]
    try:
        return shlex.split(line)
    except ValueError:
        return line.split()


def _arguments(text: str) -> dict[str, Any] | None:
    """The arguments of a tool call, from JSON; None where there are none."""
    try:
        found = json.loads(text) if text else None
    except (ValueError, RecursionError):
        found = text
    if found is not None and not isinstance(found, dict):
        raise BadValue("arguments", text, 'a JSON object with all arguments of the tool call, as in {"amount": 20}')
    return found


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 16


def _takes(command: Callable[..., Awaitable[None]]) -> str:
    """What a command takes, from its parameters."""
    return TAKES.get(command.__name__) or " ".join(map(_written, inspect.signature(command).parameters.values()))


def _written(parameter: inspect.Parameter) -> str:
    name = parameter.name.upper()
    if parameter.kind is parameter.VAR_POSITIONAL:
        return f"[{name} …]"
    return name if parameter.default is parameter.empty else f"[{name}]"

"""`everthread chat`: a plain chat, line by line.

At the start stand the newest turns, with the rule where the window begins: what the model sees word for word lies
below it. After each reply stands what it took, and when the window has moved, where it begins now. While the user
types, memory does its work in a loop beside (`cli.beside`). From a pipe it chats as well: a line is a message, and
standard output holds the replies alone.
"""

from __future__ import annotations

import logging
import sys
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime
from typing import Any

import click

from everthread.agent.reply import Reply
from everthread.app import Everthread
from everthread.cli.beside import Beside
from everthread.cli.commands import Commands
from everthread.cli.lines import Lines
from everthread.cli.shared import (
    Where,
    agents_folder,
    anywhere,
    console,
    counted,
    guarded,
    json_text,
    opened,
    somebody_types,
    tell,
    told_to_end,
    where_of,
)
from everthread.cli.show import Page
from everthread.cli.speaking import Partner, loading, partner_of, speaking, talk_of, warn
from everthread.cli.telling import ReplyPrinter, error_as_json, price_line
from everthread.context.build import Context
from everthread.core.deltas import Done
from everthread.core.events import MESSAGES, ToolCall
from everthread.core.logged import Logged
from everthread.core.sections import ago
from everthread.core.turns import State
from everthread.errors import Corrupt, EverthreadError
from everthread.talk import Talk

EARLIER = 3  # turns that are shown at the start
AGAIN = "The message is kept: Enter tries again, or say something else."
SAID = "This was said and had no reply: it is tried again, and not said twice."
NO_END = "The last turn has no end: unless it runs elsewhere, /retry goes on with it."
HISTORY = 200  # messages of the conversation, of which the user's own are in the history of lines


@click.command("chat")
@anywhere
@speaking
def chat_command(**given: Any) -> None:
    """Chat with an agent, line by line; /help lists what else can be done. With --json, each line of input is a message
    and each piece of a reply a line of JSON."""
    partner = partner_of(given)
    where = where_of(**given)

    def work() -> None:
        logging.getLogger("everthread.memory").addHandler(logging.NullHandler())  # /brief tells what went wrong
        with Beside() as beside:
            chat = Chat(beside, where, partner)
            try:
                beside.run(chat.open())
                chat.go()
            finally:
                beside.run(chat.close())
        if chat.failed and not somebody_types():
            sys.exit(1)

    guarded(where.json, work)


class Chat:
    """`failed`: whether a turn or a command has failed. `over`: whether the chat has ended."""

    def __init__(self, beside: Beside, where: Where, partner: Partner) -> None:
        self._beside, self._where, self._partner = beside, where, partner
        self._out = console(err=True)
        self._stack = AsyncExitStack()
        self._cutoff = 0
        self._loaded = ""  # the model that has replied last
        self.model: str | None = None
        self.settings: Any = {}  # `GivenSettings`, by names that `config.parse` has checked
        self.et: Everthread
        self.talk: Talk
        self.failed = self.over = False
        self._again = False  # whether a turn has failed that an empty line tries again

    # -- opening and closing -----------------------------------------------------------------------------------

    async def open(self) -> None:
        asked = self._partner.asked()
        self.model, self.settings = asked["model"], asked["settings"]
        self.et = await self._stack.enter_async_context(opened(self._where, agents_folder(self._partner.folder)))
        self.talk = await talk_of(self.et, self._where, self._partner)
        if not self.json:
            await self._greet()

    async def close(self) -> None:
        await self._stack.aclose()

    @property
    def json(self) -> bool:
        return self._where.json

    async def _greet(self) -> None:
        context, about = await self.context(), self.talk.conversation
        self._cutoff = context.cutoff
        self._out.rule("Everthread", style="cyan")
        tell(f"{about.agent} replies with {context.model}", colour="cyan")
        warn(context.model)
        tell(f"Conversation {about.id}. /help lists commands; ctrl-D ends.")
        if somebody_types():  # a program has read it already
            await self.show_earlier()

    # -- what was said, and what the model sees of it ----------------------------------------------------------

    async def context(self) -> Context:
        """What the model would be told now."""
        return await self.talk.context(model=self.model, settings=self.settings, lookups=True)

    async def show_earlier(self) -> None:
        """The newest turns, with the rule where the window begins, and what waits to be done."""
        tail, context = await self.talk.tail(turns=EARLIER), await self.context()
        self._cutoff = context.cutoff
        before = context.sent + context.past - sum(event.kind in MESSAGES for event in tail)
        shown = [event for event in tail if event.kind in ("user", "assistant")]
        lies_before = before > 0 and self._tell_before(before, context, shown)
        self._show_with_rule(shown, None if lies_before or not context.past else context.cutoff)
        await self._tell_pause(context.settings.session_gap)
        await self._tell_what_waits()

    def _show_with_rule(self, events: list[Logged], cutoff: int | None) -> None:
        """Show events, with the rule before the first that is sent. Without a cutoff there is no rule."""
        page = Page(err=True)
        above = [event for event in events if cutoff is not None and event.seq < cutoff]
        page.show_all(above)
        if cutoff is not None:
            sent = len(events) > len(above)
            self._rule(f"the window begins here{f', at event {cutoff}' if sent else ': nothing above is sent'}")
        page.show_all(events[len(above) :])

    async def _tell_pause(self, minutes: float) -> None:
        """Tell how long ago the last message was, where the next one begins a new session."""
        said = await self.talk.before(limit=1, messages=True)
        pause = (datetime.now(UTC) - said[-1].time).total_seconds() if said else 0
        if pause > minutes * 60:
            tell(f"The last message was {ago(pause)} ago: the next one begins a new session.")

    def _tell_before(self, before: int, context: Context, shown: list[Logged]) -> bool:
        """Tell how many messages lie before those shown. Gives whether the cutoff does too."""
        lies_before = bool(shown) and context.cutoff < shown[0].seq
        if not context.past:
            past = "all in the window"
        else:
            past = f"of which {context.past:,} are past: kept, and not sent" if lies_before else "kept, and not sent"
        tell(f"… {counted(before, 'message')} before, {past}")
        return lies_before

    def _rule(self, words: str) -> None:
        self._out.rule(words, style="green")

    async def _tell_what_waits(self) -> None:
        state, waiting = await self._state(), await self.talk.waiting()
        if state == "interrupted":
            tell("The last turn was interrupted: /retry goes on with it.", colour="yellow")
        elif state == "open" or (state == "waiting" and not waiting):
            tell(NO_END, colour="yellow")
        for call in waiting:
            self._ask_for(call)

    async def _state(self) -> State:
        """The state of the newest turn."""
        newest = await self.talk.turns(limit=1)
        return newest[-1].state if newest else "idle"

    def _ask_for(self, call: Logged) -> None:
        event = call.event
        assert isinstance(event, ToolCall)
        asked = f"{event.name}({event.arguments})"
        tell(f"{asked} waits for approval: /approve {call.seq} or /refuse {call.seq}", colour="yellow")

    # -- lines -------------------------------------------------------------------------------------------------

    def go(self) -> None:
        """Take line after line, until the end of the input or /quit."""
        lines, commands = Lines(self._beside.run(self._history())), Commands(self)
        while not self.over:
            try:
                self._do_next(lines, commands)
            except EverthreadError as problem:
                self._fail(problem)
            except KeyboardInterrupt:
                self.failed = True
                if told_to_end() or not somebody_types():
                    raise

    def _do_next(self, lines: Lines, commands: Commands) -> None:
        line = lines.next(empty=self._again)
        if line is None:
            self.over = True
            return
        self._again = False
        self._beside.run(self._obey(commands, line))

    async def sure(self, question: str) -> bool:
        """Whether the user says yes. Ctrl-C is a no."""
        return await self._beside.ask(lambda: _confirmed(question))

    async def _obey(self, commands: Commands, line: str) -> None:
        if not line:
            await commands.obey("/retry")
        elif line.startswith("/") and not line.startswith("//"):
            await commands.obey(line)
        else:
            await self._say(line.removeprefix("/") if line.startswith("//") else line)

    async def _say(self, text: str) -> None:
        """Say a message. A person who repeats the last one, which had no reply, does not say it twice."""
        if somebody_types() and await self._has_no_reply(text):
            tell(SAID, colour="yellow")
            await self.retry()
        else:
            await self.hear(self.talk.say(text, model=self.model, settings=self.settings))

    async def _has_no_reply(self, text: str) -> bool:
        if await self._state() != "interrupted":
            return False
        messages = [event for event in await self.talk.tail(turns=1) if event.kind in MESSAGES]
        return [event.kind for event in messages] == ["user"] and messages[0].text == text

    async def retry(self) -> None:
        """Go on with a turn that failed or was cut short."""
        await self.hear(self.talk.resume(model=self.model, settings=self.settings))

    async def _history(self) -> list[str]:
        """The user's own messages that fit on one line, oldest first."""
        texts: list[str] = []
        for event in await self.talk.before(limit=HISTORY, messages=True):
            with suppress(Corrupt):  # what is damaged is told where it is shown
                texts += [event.text] if event.kind == "user" and event.text.isprintable() else []
        return texts

    def _fail(self, problem: EverthreadError) -> None:
        self.failed = True
        if self.json:
            click.echo(json_text(error_as_json(problem)))
        else:
            tell(f"Error: {problem}", colour="red")

    # -- turns -------------------------------------------------------------------------------------------------

    async def hear(self, reply: Reply) -> None:
        """Follow a turn to its end; then tell what it took, whether the window moved, and what waits for approval."""
        model = (await self.context()).model
        words = "" if model == self._loaded else loading(model)
        printer = ReplyPrinter(form="json" if self.json else "words", words=words)
        await printer.listen(reply)
        self._loaded = model
        self.failed = self.failed or bool(printer.failed)
        assert printer.done
        if not self.json:
            await self._tell_end(printer.done, printer.failed)

    async def _tell_end(self, done: Done, failed: EverthreadError | None) -> None:
        if done.calls:
            tell(price_line(done))
        self._tell_step(done)
        if failed and failed.kept and somebody_types():
            self._again = True
            tell(AGAIN, colour="yellow")
        if done.state == "waiting":
            await self._tell_what_waits()

    def _tell_step(self, done: Done) -> None:
        if done.cutoff > self._cutoff > 0:
            self._rule(f"the window now begins at event {done.cutoff}")
            tell(f"{counted(done.past, 'message')} before it: kept, and not sent.")
        self._cutoff = done.cutoff or self._cutoff


def _confirmed(question: str) -> bool:
    try:
        return click.confirm(question)
    except click.Abort:
        click.echo(err=True)
        if told_to_end():
            raise KeyboardInterrupt from None
        return False

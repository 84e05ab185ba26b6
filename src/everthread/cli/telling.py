"""The deltas of a turn on a terminal or in a pipe: the reply on standard output, everything else on standard error.

So `everthread ask … > file` holds the reply and nothing but the reply, to the letter. A terminal is shown no
character that would control it.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any, Literal

import click

from everthread.agent.reply import Reply
from everthread.cli.shared import json_text, printable, tell, width_of
from everthread.cli.spinner import Spinner
from everthread.cli.wrapping import Wrapping
from everthread.core.deltas import CallDelta, Delta, Done, Notice, ReasoningDelta, ResultDelta, TextDelta
from everthread.core.values import plain
from everthread.errors import EverthreadError
from everthread.providers.choose import TINY

SHORT = 200  # characters of a tool's arguments or result that are shown
STOPPED = "Stopped. What had come of the reply is kept."
UNSAID = "Stopped. Nothing was said: it was not this message's turn yet."

Form = Literal["words", "json", "silent"]


class ReplyPrinter:
    """Shows deltas as they come, and keeps the reply, the error and the end. `form`: in words, as a line of JSON each,
    or not at all. `words`: what a person is told while nothing has come yet."""

    def __init__(self, *, form: Form = "words", reasoning: bool = False, words: str = "") -> None:
        self._form, self._reasoning = form, reasoning
        self._spinner = Spinner(words)
        self._unfinished: Literal["", "out", "err"] = ""  # where a line is begun and not ended
        self._raw = not sys.stdout.isatty()
        self._wrapping = Wrapping()
        self.text = ""
        self.failed: EverthreadError | None = None
        self.done: Done | None = None

    async def listen(self, reply: Reply) -> None:
        """To the end. However this is left, the turn has ended too, and what had come of it is in the log."""
        async with reply, self._spinner:
            try:
                async for delta in reply:
                    self._keep(delta)
                    self._tell(delta)
            except asyncio.CancelledError:
                self._stopped(STOPPED if reply.is_accepted else UNSAID)
                raise
            except EverthreadError as problem:
                if self.done is None:  # there was no turn
                    raise
                self._fail(problem)
            finally:
                self._end_line()

    def _keep(self, delta: Delta) -> None:
        match delta:
            case TextDelta():
                self.text += delta.text
            case CallDelta() if self.text and not self.text.endswith("\n"):
                self.text += "\n"  # what the model says after the tool call is a reply of its own
            case Done():
                self.done = delta

    def _fail(self, problem: EverthreadError) -> None:
        self.failed = problem
        if self._form == "json":
            click.echo(json_text(error_as_json(problem)))
        elif self._form == "words":
            self._aside(f"Error: {problem.sentence}", colour="red")

    def _tell(self, delta: Delta) -> None:
        if self._form == "json":
            self._spinner.hide()
            click.echo(json_text(plain(delta)))
        elif self._form == "words":
            self._show(delta)

    def _show(self, delta: Delta) -> None:
        match delta:
            case TextDelta():
                self._say(delta.text)
            case ReasoningDelta() if self._reasoning:
                self._think(delta.text)
            case CallDelta():
                self._aside(f"→ {delta.name}({_short(delta.arguments)})")
            case ResultDelta(error=True):
                self._aside(f"✗ {_short(delta.text)}", colour="red")
            case ResultDelta():
                self._aside(f"← {_short(delta.text)}")
            case Notice() if delta.text != TINY:  # which the command says itself, before the first message
                self._aside(delta.text, colour="yellow")

    def _say(self, text: str) -> None:
        if not text:
            return
        if self._unfinished == "err":
            self._end_line()
        self._spinner.hide()
        sys.stdout.write(text if self._raw else self._wrapping.fit(printable(text), width_of(sys.stdout)))
        sys.stdout.flush()
        self._unfinished = "" if text.endswith("\n") else "out"

    def _think(self, text: str) -> None:
        if self._unfinished == "out":
            self._end_line()
        self._spinner.hide()
        click.secho(printable(text), dim=True, err=True, nl=False)
        self._unfinished = "" if text.endswith("\n") else "err"

    def _aside(self, text: str, *, colour: str = "") -> None:
        """A line beside the reply. The spinner comes back after it."""
        self._end_line()
        self._spinner.hide()
        tell(text, colour=colour)
        self._spinner.wait()

    def _stopped(self, words: str) -> None:
        if self._form != "words":
            return
        if self._raw and sys.stderr.isatty():  # the terminal has shown ^C on this line
            click.echo(err=True)
        self._aside(words, colour="yellow")

    def _end_line(self) -> None:
        if self._unfinished:
            click.echo(err=self._unfinished == "err")
            self._unfinished = ""
            self._wrapping = Wrapping()


def error_as_json(problem: EverthreadError) -> dict[str, Any]:
    """An error as JSON. `kept`: the seq of the message, where its turn can be resumed."""
    kept = {"kept": problem.kept} if problem.kept else {}
    return {"kind": "error", "error": problem.sentence, "name": type(problem).__name__, **kept}


def price_line(done: Done) -> str:
    """What a turn took, in one line."""
    usage = done.usage
    cached = f" ({usage.cache_read / usage.input:.0%} from the cache)" if usage.cache_read and usage.input else ""
    price = "" if done.price is None else f" · {dollars(done.price)}"
    calls = f" · {done.calls} model calls" if done.calls > 1 else ""
    return f"{done.model} · {usage.input:,} tokens in{cached}, {usage.output:,} out{price}{calls}"


def dollars(price: float) -> str:
    return "free" if not price else f"${price:.4f}" if price < 1 else f"${price:,.2f}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHORT else f"{line[: SHORT - 1]}…"

"""The deltas of a turn on a terminal or in a pipe: the reply on standard output, everything else on standard error.

So `everthread ask … | less` holds the reply and nothing but the reply.
"""

from __future__ import annotations

import sys

import click

from everthread.cli.shared import printable
from everthread.core.deltas import (
    CallDelta,
    Delta,
    Done,
    Failed,
    Notice,
    ReasoningDelta,
    ResultDelta,
    TextDelta,
    Usage,
)
from everthread.engine.saying import Saying

SHORT = 200  # characters of a tool's arguments or result that are shown


class Teller:
    """Shows deltas as they come, and keeps the reply, the error and the end. `silent`: keeps only."""

    def __init__(self, *, silent: bool = False, reasoning: bool = False) -> None:
        self._silent, self._reasoning = silent, reasoning
        self._at_margin = True
        self.text = ""
        self.failed: Failed | None = None
        self.done: Done | None = None

    async def listen(self, saying: Saying) -> None:
        async for delta in saying:
            self._keep(delta)
            if not self._silent:
                self._show(delta)
        if not self._silent:
            self._to_margin()

    def _keep(self, delta: Delta) -> None:
        match delta:
            case TextDelta():
                self.text += delta.text
            case Notice(restarts=True):
                self.text = ""
            case Failed():
                self.failed = delta
            case Done():
                self.done = delta

    def _show(self, delta: Delta) -> None:
        match delta:
            case TextDelta():
                self._write(delta.text)
            case ReasoningDelta() if self._reasoning:
                self._aside(delta.text, nl=False)
            case CallDelta():
                self._aside(f"→ {delta.name}({_short(delta.arguments)})")
            case ResultDelta():
                self._aside(
                    f"{'✗' if delta.error else '←'} {_short(delta.text)}", colour="red" if delta.error else None
                )
            case Notice():
                self._aside(delta.text, colour="yellow")
            case Failed():
                self._aside(f"Error: {delta.error}", colour="red")

    def _write(self, text: str) -> None:
        shown = printable(text)
        if not shown:
            return
        sys.stdout.write(shown)
        sys.stdout.flush()
        self._at_margin = shown.endswith("\n")

    def _aside(self, text: str, *, colour: str | None = None, nl: bool = True) -> None:
        self._to_margin()
        click.secho(printable(text), fg=colour, dim=colour is None, err=True, nl=nl)

    def _to_margin(self) -> None:
        if not self._at_margin:
            sys.stdout.write("\n")
            sys.stdout.flush()
            self._at_margin = True


def price_line(done: Done) -> str:
    """What a turn took, in one line."""
    usage: Usage = done.usage
    cached = f", {usage.cache_read / usage.input:.0%} from the cache" if usage.cache_read and usage.input else ""
    price = "" if done.price is None else f" · {dollars(done.price)}"
    calls = f" · {done.calls} model calls" if done.calls > 1 else ""
    return f"{done.model} · {usage.input:,} tokens in{cached}, {usage.output:,} out{price}{calls}"


def dollars(price: float) -> str:
    return "free" if not price else f"${price:.4f}" if price < 1 else f"${price:,.2f}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHORT else f"{line[: SHORT - 1]}…"

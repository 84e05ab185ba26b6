"""A conversation while it goes on: events as they come, and between them the words of the reply that runs.

The words stand where the reply's event will stand. When it comes, it is not shown again; only its number is.
"""

from __future__ import annotations

import sys

import click

from everthread.cli.shared import json_text, printable
from everthread.cli.show import INDENT, Page
from everthread.cli.wrapping import Wrapping
from everthread.core.deltas import Delta, TextDelta
from everthread.core.events import MESSAGES, Assistant
from everthread.core.logged import Logged
from everthread.core.values import plain
from everthread.talk import Talk


async def follow(talk: Talk, page: Page, *, after: int, as_json: bool) -> None:
    """Show what is said on the branch, until interrupted."""
    following = Following(page)
    async for heard in talk.listen(after=after):
        if as_json:
            _write_json(page, heard)
        elif isinstance(heard, Logged):
            following.event(heard)
        elif isinstance(heard, TextDelta):
            following.say(heard.text)


def _write_json(page: Page, heard: Logged | Delta) -> None:
    if isinstance(heard, Logged):
        page.show(heard)
    else:
        click.echo(json_text(plain(heard)))


class Following:
    def __init__(self, page: Page) -> None:
        self._page = page
        self._said = ""  # of the reply that runs
        self._wrapping: Wrapping | None = None  # of the line that is begun

    def say(self, text: str) -> None:
        self._said += text
        if self._wrapping is None:
            self._wrapping = Wrapping()
            self._write(f"{'assistant':>17}".ljust(INDENT))
        fitted = printable(text)
        if sys.stdout.isatty():
            fitted = self._wrapping.fit(fitted, self._page.width - INDENT)
        self._write(fitted.replace("\n", "\n" + " " * INDENT))

    def event(self, event: Logged) -> None:
        if event.kind == "assistant" and self._said and event.text.startswith(self._said):
            self._end(event)
        else:
            self._end_line()
            self._page.show(event)
        if event.kind in MESSAGES:  # markers come while it runs
            self._said = ""

    def _end(self, event: Logged) -> None:
        """Show the rest of a reply, and its number."""
        broken = isinstance(event.event, Assistant) and event.event.interrupted
        self.say(f"{event.text[len(self._said) :]}{' [broken off]' if broken else ''} · {event.seq}")
        self._end_line()

    def _end_line(self) -> None:
        if self._wrapping is not None:
            self._wrapping = None
            self._write("\n")

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

"""What the user writes, a message at a time: with editing and history at a terminal, plainly from a pipe.

The history is the conversation's own, held in memory only: what is forgotten there must not stay in a file here.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable
from contextlib import suppress

import click

from everthread.cli.shared import somebody_types, tell, told_to_end
from everthread.errors import BadValue

PROMPT, MORE = "you", "  …"
HINT = "Ctrl-D or /quit ends the chat."
_ESCAPED = range(0xDC80, 0xDD00)  # how Python carries a byte that is no text


class Lines:
    def __init__(self, history: Iterable[str] = ()) -> None:
        self._typed = somebody_types()
        if self._typed and isinstance(sys.stdin, io.TextIOWrapper):
            sys.stdin.reconfigure(errors="surrogateescape")
        self._edited = self._typed and sys.stdout.isatty() and _with_readline(history)

    def next(self, *, empty: bool = False) -> str | None:
        """The next message, not empty unless that is wanted; None at the end. A line that ends in a backslash goes on
        in the next.

        Raises BadValue for a line that is no text; the next one may be.
        """
        while (message := self._uninterrupted()) is not None:
            if empty or message.strip():
                return message.strip()
        return None

    def _uninterrupted(self) -> str | None:
        """The next message; ctrl-C while it is typed begins it anew."""
        while True:
            try:
                return self._message()
            except KeyboardInterrupt:
                if told_to_end() or not self._typed:
                    raise
                click.echo(err=True)
                tell(HINT)

    def _message(self) -> str | None:
        lines: list[str] = []
        while (line := self._typed_line(MORE if lines else PROMPT) if self._typed else _piped_line()) is not None:
            lines.append(line.removesuffix("\\"))
            if not line.endswith("\\"):
                break
        return "\n".join(lines) if lines else None

    def _typed_line(self, prompt: str) -> str | None:
        try:
            if prompt == PROMPT:
                click.echo(err=True)
            if self._edited:
                return _text(input(_prompt(prompt)))
            click.echo(f"{prompt} > ", nl=False, err=True)  # standard output is for the replies
            return _text(input())
        except EOFError:
            click.echo(err=True)
            return None


def _piped_line() -> str | None:
    data = sys.stdin.buffer.readline() if sys.stdin is not None else b""
    return text_from(data, "The line").rstrip("\r\n") if data else None


def text_from(data: bytes, what: str) -> str:
    """Bytes from a pipe, as text. Raises BadValue."""
    try:
        return data.decode(sys.stdin.encoding or "utf-8")
    except UnicodeDecodeError as problem:
        raise _no_text(what, data[problem.start : problem.start + 20], problem.encoding) from None


def _text(line: str) -> str:
    if any(ord(character) in _ESCAPED for character in line):
        raise _no_text("The line", line.encode("utf-8", "surrogateescape")[:20], sys.stdin.encoding)
    return line


def _no_text(what: str, data: bytes, encoding: str) -> BadValue:
    return BadValue(what, data, f"text in {encoding.upper()}; nothing of it was said")


def _with_readline(history: Iterable[str]) -> bool:
    """Whether lines can be edited."""
    with suppress(ImportError):
        import readline

        for message in history:
            readline.add_history(message)
        return True
    return False


def _prompt(words: str) -> str:
    """In colour; readline must be told which characters take no room, or it loses the cursor in long lines."""
    arrow = "›" if (sys.stdout.encoding or "").lower().startswith("utf") else ">"
    if os.environ.get("NO_COLOR"):
        return f"{words} {arrow} "
    return f"\001\x1b[1;36m\002{words} {arrow}\001\x1b[0m\002 "

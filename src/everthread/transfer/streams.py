"""JSON of any size, value by value: one a line, or the items of one list that fills the file.

No more than one value is held at a time, and no value may be larger than `LARGEST`. A list is read with Python's own
decoder on a window of the text: where the window ends within an item it is doubled and the item read again, so that the
work stays in proportion to the text, at the speed of C. Faults name their line.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple

from everthread.errors import BadFormat

PIECE = 256 * 1024  # bytes that are read at once
LARGEST = 256 * 1024 * 1024  # bytes of one line or value
LONG = 4 * 1024 * 1024  # bytes of a first line from which it is not read to find out what it is
_SPACE = " \t\n\r"
_NEAR = 16  # characters before the end of the text within which a fault may come of its end


class JsonLine(NamedTuple):
    """A JSON value of a file and the line it stands on."""

    where: str
    value: Any


Progress = Callable[[int], None]  # called with the number of bytes read since it was last called


def lines(file: BinaryIO, name: str, progress: Progress, *, torn: bool = False) -> Iterator[JsonLine]:
    """One value a line; empty lines are passed over. `torn`: what was being written when its program was killed, a last
    line without an end, is passed over as well."""
    start, number = 0, 0
    while line := file.readline(LARGEST + 1):
        number += 1
        if len(line) > LARGEST:
            raise BadFormat(_too_large("a line"), where=f"line {number}")
        if torn and not line.endswith(b"\n"):
            return
        text = _decoded(line, name, start)
        start += len(line)
        progress(len(line))
        if number == 1:
            text = text.removeprefix("\ufeff")
        if text.strip():
            yield JsonLine(f"line {number}", loads(text, f"line {number}"))


def value(file: BinaryIO, name: str, progress: Progress) -> Iterator[JsonLine]:
    """The items of a list that fills the file, or whatever else does. A list in a list is an item like others."""
    text = _Text(file, name, progress)
    if not (first := text.skip()):
        return
    if first != "[":
        yield JsonLine("line 1", text.value())
    else:
        text.take(1)
        yield from _items(text)
    if text.skip():
        raise BadFormat("not JSON (more follows after its end)", where=text.where)


def _items(text: _Text) -> Iterator[JsonLine]:
    index, next = 0, text.skip()
    while next != "]":
        if index and next != ",":
            raise BadFormat("not JSON (a comma or the end of the list is missing)", where=text.where)
        if index:
            text.take(1)
            text.skip()
        yield JsonLine(f"line 1, [{index}]", text.value())
        index, next = index + 1, text.skip()
    text.take(1)


def is_one_value(file: BinaryIO) -> bool:
    """Whether one value fills a file, and not one a line: its first line that is not empty is its last one, too, or is
    no value by itself."""
    first = b""
    while not first.strip() and (first := file.readline(LONG)):
        pass
    is_long = len(first) == LONG and not first.endswith(b"\n")
    if is_long and first.lstrip().startswith(b"["):
        return True
    while is_long and (piece := file.readline(PIECE)) and not piece.endswith(b"\n"):
        pass
    rest = b""
    while not rest.strip() and (rest := file.read(PIECE)):
        pass
    if is_long or not rest.strip():
        return not rest.strip()
    try:
        loads(first.decode("utf-8-sig"), "")
    except (BadFormat, UnicodeDecodeError):
        return True
    return False


def loads(text: str, where: str) -> Any:
    """The value of a text; without a `where`, a fault is placed on its line of the text."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as problem:
        reason = f"not JSON ({problem.msg} at column {problem.colno})"
        raise BadFormat(reason, where=where or f"line {problem.lineno}") from None
    except ValueError as problem:  # a number of 5,000 digits
        raise BadFormat(f"not JSON ({problem})", where=where) from None
    except RecursionError:
        raise BadFormat("nested too deeply", where=where) from None


def _decoded(line: bytes, name: str, start: int) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as problem:
        reason = f"not UTF-8 text ({problem.reason} at byte {start + problem.start})"
        raise BadFormat(reason, where=name) from None


def _too_large(what: str) -> str:
    return f"{what} is larger than {LARGEST // 1024**2} MB: give each conversation a line, or its messages a list"


class _Text:
    """The text of a file, as much of it as is needed: what was taken is let go."""

    def __init__(self, file: BinaryIO, name: str, progress: Progress) -> None:
        self._file, self._name, self._progress = file, name, progress
        self._decode = codecs.getincrementaldecoder("utf-8-sig")()
        self._raw = json.JSONDecoder().raw_decode
        self._window, self._at, self._read = "", 0, 0
        self._line, self._column = 1, 0  # of where the window begins
        self._ended = False

    @property
    def where(self) -> str:
        return f"line {self._line_at(self._at)}"

    def skip(self) -> str:
        """The next character that is no space; empty at the end."""
        while True:
            while self._at < len(self._window):
                if (next := self._window[self._at]) not in _SPACE:
                    return next
                self._at += 1
            if self._ended:
                return ""
            self._more(PIECE)

    def take(self, count: int) -> None:
        self._at += count

    def value(self) -> Any:
        """The value that begins here."""
        size = PIECE
        while True:
            try:
                found, end = self._raw(self._window, self._at)
            except json.JSONDecodeError as problem:
                if not self._may_go_on(problem):
                    raise self._fault(problem) from None
            except ValueError as problem:
                raise BadFormat(f"not JSON ({problem})", where=self._name) from None
            except RecursionError:
                raise BadFormat("nested too deeply", where=self._name) from None
            else:
                may_go_on = isinstance(found, int | float) and end >= len(self._window) - _NEAR
                if not may_go_on or self._ended:  # of a number the end of the window may have cut off the rest
                    self._at = end
                    return found
            if len(self._window) - self._at > LARGEST:
                raise BadFormat(_too_large("a value"), where=self.where)
            self._more(size)
            size *= 2

    def _may_go_on(self, problem: json.JSONDecodeError) -> bool:
        """Whether a fault may come of the window's end alone."""
        at_end = problem.pos >= len(self._window) - _NEAR or problem.msg.startswith("Unterminated string")
        return at_end and not self._ended

    def _fault(self, problem: json.JSONDecodeError) -> BadFormat:
        line = self._line_at(problem.pos)
        before = self._window.rfind("\n", 0, problem.pos)
        column = problem.pos - before if before >= 0 else self._column + problem.pos + 1
        return BadFormat(f"not JSON ({problem.msg} at column {column})", where=f"line {line}")

    def _line_at(self, place: int) -> int:
        return self._line + self._window.count("\n", 0, place)

    def _more(self, size: int) -> None:
        gone, self._window = self._window[: self._at], self._window[self._at :]
        self._line += gone.count("\n")
        self._column = len(gone) - gone.rfind("\n") - 1 if "\n" in gone else self._column + len(gone)
        self._at = 0
        piece = self._file.read(size)
        self._progress(len(piece))
        try:
            self._window += self._decode.decode(piece, final=not piece)
        except UnicodeDecodeError as problem:
            reason = f"not UTF-8 text ({problem.reason} at byte {self._read + problem.start})"
            raise BadFormat(reason, where=self._name) from None
        self._read += len(piece)
        self._ended = not piece

"""Docstrings, as far as a model should read them: what a function does, and what each parameter means.

Three ways to describe parameters are understood: `Args:` with indented lines `name: text` or `name (type): text`; the
underlined `Parameters` of numpy; and `:param name: text`. Whatever else a docstring says stays in its text.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_HEADING = re.compile(r"(args|arguments|parameters|params):\s*$", re.IGNORECASE)
_UNDERLINED = re.compile(r"(other )?parameters\s*$", re.IGNORECASE)
_LINE = re.compile("-{3,}")
_PARAMETER = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")
_NUMPY = re.compile(r"(\w+)\s*(?::.*)?()$")
_FIELD = re.compile(r":param\s+(?:[\w.\[\]]+\s+)?(\w+):\s*(.*)")


class Described(NamedTuple):
    text: str
    parameters: dict[str, str]


def parsed(docstring: str) -> Described:
    """A docstring, without its indentation, taken apart."""
    lines, at = docstring.splitlines(), 0
    text: list[str] = []
    parameters: dict[str, str] = {}
    while at < len(lines):
        first, at = at, at + 1
        if _HEADING.match(lines[first]):
            at = _end_of_indented(lines, at)
            parameters |= _read(lines[first + 1 : at], _PARAMETER)
        elif _UNDERLINED.match(lines[first]) and _is_underlined(lines, first):
            at = _end_of_underlined(lines, at + 1)
            parameters |= _read(lines[first + 2 : at], _NUMPY)
        elif field := _FIELD.match(lines[first]):
            parameters[field[1]] = field[2].strip()
        else:
            text.append(lines[first])
    return Described(re.sub(r"\n{3,}", "\n\n", "\n".join(text)).strip(), parameters)


def _end_of_indented(lines: list[str], at: int) -> int:
    while at < len(lines) and (not lines[at].strip() or lines[at][0].isspace()):
        at += 1
    return at


def _end_of_underlined(lines: list[str], at: int) -> int:
    """Where the next section begins, or the docstring ends."""
    while at < len(lines) and not _is_underlined(lines, at):
        at += 1
    return at


def _is_underlined(lines: list[str], at: int) -> bool:
    return at + 1 < len(lines) and bool(_LINE.fullmatch(lines[at + 1].strip()))


def _read(section: list[str], naming: re.Pattern[str]) -> dict[str, str]:
    """The parameters that a section describes. Lines that are indented as its first one name them; the others go on
    with the text of the one above."""
    found: dict[str, str] = {}
    name = ""
    lines = [line for line in section if line.strip()]
    for line in lines:
        named = naming.match(line.strip()) if _indent(line) == _indent(lines[0]) else None
        if named:
            name = named[1]
            found[name] = named[2].strip()
        elif name:
            found[name] = f"{found[name]} {line.strip()}".strip()
    return found


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())

"""Docstrings, as far as a model should read them: what a function does, and what each parameter means.

Three ways to describe parameters are understood: `Args:` with indented lines `name: text` or `name (type): text`; the
underlined `Parameters` of numpy; and `:param name: text`. Whatever else a docstring says stays in its text.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_HEADING = re.compile(r"(args|arguments|parameters|params):\s*$", re.IGNORECASE)
_UNDERLINED = re.compile(r"(other )?parameters\s*$", re.IGNORECASE)
_PARAMETER = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")
_NUMPY = re.compile(r"(\w+)\s*(?::.*)?$")
_FIELD = re.compile(r":param\s+(?:[\w.\[\]]+\s+)?(\w+):\s*(.*)")


class Described(NamedTuple):
    text: str
    parameters: dict[str, str]


def described(docstring: str) -> Described:
    """A docstring, without its indentation, taken apart."""
    lines, at = docstring.splitlines(), 0
    text: list[str] = []
    parameters: dict[str, str] = {}
    while at < len(lines):
        line = lines[at]
        below = lines[at + 1] if at + 1 < len(lines) else ""
        if _HEADING.match(line):
            at = _read_indented(lines, at + 1, parameters)
        elif _UNDERLINED.match(line) and re.fullmatch("-{3,}", below.strip()):
            at = _read_numpy(lines, at + 2, parameters)
        elif field := _FIELD.match(line):
            parameters[field[1]] = field[2].strip()
            at += 1
        else:
            text.append(line)
            at += 1
    return Described(re.sub(r"\n{3,}", "\n\n", "\n".join(text)).strip(), parameters)


def _read_indented(lines: list[str], at: int, into: dict[str, str]) -> int:
    """The indented lines from `at` on; those indented further go on with the parameter above. Where they end."""
    depth, name = 0, ""
    while at < len(lines) and (not lines[at].strip() or lines[at][0].isspace()):
        line = lines[at]
        indent = len(line) - len(line.lstrip())
        depth = depth or indent
        found = _PARAMETER.match(line.strip()) if indent == depth else None
        if found:
            name = found[1]
            into[name] = found[2].strip()
        elif name and line.strip():
            into[name] = f"{into[name]} {line.strip()}".strip()
        at += 1
    return at


def _read_numpy(lines: list[str], at: int, into: dict[str, str]) -> int:
    """Names at the margin, their texts indented below. Where the next section or the end is."""
    name = ""
    while at < len(lines) and not re.fullmatch("-{3,}", (lines[at + 1] if at + 1 < len(lines) else "").strip()):
        line = lines[at]
        found = _NUMPY.match(line) if line and not line[0].isspace() else None
        if found:
            name = found[1]
            into[name] = ""
        elif name and line.strip():
            into[name] = f"{into[name]} {line.strip()}".strip()
        at += 1
    return at

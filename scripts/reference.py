"""Writes docs/reference.md from the code: verbs, errors, commands. `--check` says whether it is up to date."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

import click

from everthread import Everthread, Talk, errors
from everthread.cli import COMMANDS, main
from everthread.store.engine import Engine
from everthread.store.log import Log

PAGE = Path(__file__).parents[1] / "docs" / "reference.md"


def page() -> str:
    parts = [
        "# Reference\n\nWritten from the code by `make reference`; a test fails when they differ.",
        _verbs("Everthread", Everthread, "An open store. `Everthread.open(address)` gives one."),
        _verbs("Talk", Talk, "A conversation in the hand, from `et.conversation`, `et.begin`, `talk.fork` …"),
        _verbs("Log", Log, "What `Everthread` and `Talk` stand on (`et.log`)."),
        _verbs("Engine", Engine, "What a database must offer to hold a log."),
        _errors(),
        _commands(),
    ]
    return "\n\n".join(parts) + "\n"


def _verbs(name: str, cls: type, about: str) -> str:
    lines = [f"## {name}", "", about, "", "| verb | what it does |", "| --- | --- |"]
    for verb, function in vars(cls).items():
        function = function.__func__ if isinstance(function, staticmethod) else function
        if verb.startswith("_") or not inspect.isfunction(function):
            continue
        names = [p for p in inspect.signature(function).parameters if p != "self"]
        summary = " ".join((inspect.getdoc(function) or "").split("\n\n")[0].split())
        lines.append(f"| `{verb}({', '.join(names)})` | {summary} |")
    return "\n".join(lines)


def _errors() -> str:
    lines = ["## Errors", "", "All are `everthread.errors.EverthreadError`s.", ""]

    def descend(cls: type, depth: int) -> None:
        about = (cls.__doc__ or "").strip().split("\n")[0]
        lines.append(f"{'  ' * depth}- `{cls.__name__}`{': ' + about if about else ''}")
        children: list[type] = cls.__subclasses__()
        for child in children:
            if child.__module__ == errors.__name__:
                descend(child, depth + 1)

    descend(errors.EverthreadError, 0)
    return "\n".join(lines)


def _commands() -> str:
    parts = ["## Commands"]
    context = click.Context(main, info_name="everthread", terminal_width=100, max_content_width=100)
    for name in COMMANDS:
        command = main.get_command(context, name)
        assert command is not None
        inner = click.Context(command, parent=context, info_name=name, terminal_width=100, max_content_width=100)
        parts.append(f"### everthread {name}\n\n```text\n{command.get_help(inner)}\n```")
    return "\n\n".join(parts)


if __name__ == "__main__":
    if "--check" not in sys.argv:
        PAGE.write_text(page(), "utf-8")
    elif PAGE.read_text("utf-8") != page():
        raise SystemExit("docs/reference.md is not what the code says: run `make reference`.")

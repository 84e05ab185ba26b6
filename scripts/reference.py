"""Writes docs/reference.md from the code: verbs, errors, commands. `--check` says whether it is up to date."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import click
import msgspec

import everthread
from everthread import Everthread, Talk, errors, transfer
from everthread.agent.personas import Agent, Agents
from everthread.agent.reply import Reply
from everthread.cli import COMMANDS, main
from everthread.config import KNOWN
from everthread.context.build import Context
from everthread.context.explain import Explanation, StepLine, TurnLine
from everthread.core.branches import Branch
from everthread.core.deltas import Delta, Usage
from everthread.core.request import Tool
from everthread.core.sections import SECTIONS
from everthread.core.strategies import Choice, View
from everthread.core.turns import Session, Turn
from everthread.server.identity import Identity
from everthread.server.vault import Vault
from everthread.store.conversations import BranchTotals, Conversation, Totals
from everthread.store.engine import Engine
from everthread.store.log import Log
from everthread.store.verbs.accounts import Accounts
from everthread.store.verbs.calibrations import Calibrations
from everthread.store.verbs.conversations import Conversations
from everthread.store.verbs.documents import Documents
from everthread.store.verbs.forgetting import Forgetting
from everthread.store.verbs.imports import Imports
from everthread.store.verbs.leases import Leases
from everthread.store.verbs.mirrors import Mirrors
from everthread.store.verbs.recall import Recall
from everthread.store.verbs.reminders import Reminders
from everthread.store.verbs.usage import UsageTotals
from everthread.testing.scripted import broken, call, script, thought
from everthread.tools import McpServer, Toolbox, tool

PAGE = Path(__file__).parents[1] / "docs" / "reference.md"

LOG = (
    "What `Everthread` and `Talk` stand on (`et.log`): for operators. It does not ask whose a line or place is "
    "that was made by hand, so never make one of what a user sent."
)

SUBJECTS: dict[str, type] = {
    "conversations": Conversations,
    "recall": Recall,
    "forgetting": Forgetting,
    "leases": Leases,
    "documents": Documents,
    "calibrations": Calibrations,
    "usage": UsageTotals,
    "reminders": Reminders,
    "accounts": Accounts,
    "imports": Imports,
    "mirrors": Mirrors,
}


def page() -> str:
    parts = [
        "# Reference\n\nWritten from the code by `make reference`; a test fails when they differ.",
        _verbs("Everthread", Everthread, "An open store. `Everthread.open(address)` gives one."),
        _verbs("Talk", Talk, "A conversation, from `et.conversation`, `et.begin`, `talk.fork` …"),
        _reply(),
        _context(),
        _verbs("Agents", Agents, "The agents of a store (`et.agents`) and their versions."),
        _tools(),
        _verbs("Log", Log, LOG),
        *(_verbs(f"log.{name}", cls, _said(cls)) for name, cls in SUBJECTS.items()),
        _verbs("Identity", Identity, _said(Identity)),
        _verbs("Vault", Vault, _said(Vault)),
        _verbs("Engine", Engine, "What a database must offer to hold a log."),
        _functions(),
        _values(),
        _errors(),
        _settings(),
        _environment(),
        _file_format(),
        _commands(),
    ]
    return "\n\n".join(parts) + "\n"


def _verbs(name: str, cls: type, about: str) -> str:
    lines = [f"## {name}", "", about, "", "| verb | what it does |", "| --- | --- |"]
    for verb, function in _members(cls).items():
        function = function.__func__ if isinstance(function, staticmethod) else function
        if verb.startswith("_") or not inspect.isfunction(function):
            continue
        lines.append(_row(verb, function))
    return "\n".join(lines)


def _members(cls: type) -> dict[str, Any]:
    """What a class has, with what it has from the classes that it is put together from."""
    ours = [part for part in cls.__mro__ if part.__module__.startswith(("everthread.talk", "everthread.server"))]
    return {name: value for part in ours or [cls] for name, value in vars(part).items()}


def _said(cls: type) -> str:
    """What the module of a class says about it."""
    return inspect.getdoc(sys.modules[cls.__module__]) or ""


def _row(name: str, function: Callable[..., object]) -> str:
    given = [_parameter(p) for p in inspect.signature(function).parameters.values() if p.name != "self"]
    summary = " ".join((inspect.getdoc(function) or "").split("\n\n")[0].split())
    return f"| `{name}({', '.join(given)})` | {summary} |".replace("||", "\\|\\|")


def _parameter(parameter: inspect.Parameter) -> str:
    stars = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}.get(parameter.kind.name, "")
    default = parameter.default
    if default is inspect.Parameter.empty:
        return f"{stars}{parameter.name}"
    shown = "…" if len(repr(default)) > 30 or callable(default) else repr(default)
    return f"{parameter.name}={shown}"


# A context's attributes; a test holds them against a context.
CONTEXT = {
    "request": "the provider's request, ready for its SDK. BeyondModel: it is more than the model can take",
    "model": "as provider:name",
    "strategy": "the strategy's name; `own` for a function",
    "budget": "the most tokens of the request: the setting, or the model's own limit where that is less",
    "estimate": "the request's tokens by our own reckoning",
    "over_budget": "the tokens that would be needed; 0 where the request fits",
    "cutoff": "the seq at which the window begins",
    "sent": "how many messages are sent",
    "past": "how many are not",
    "forgotten": "how often something of the conversation had been redacted",
    "line": "the branch that it was built from, with its ancestors",
    "agent": "the name and version of the agent that it was built for; empty where there is none",
    "notes": "MEMORY.md as it was read for it; empty without memory",
    "degraded": "what was given up, in words",
    "repaired": "what was mended in the request, in words",
    "settings": "the settings in force",
    "at": "the seq before which it was built: `context(at=…)` gives it again",
    "memory": "the seq of the newest brief, summary or recap in it; 0 where there is none",
    "factor": "the model's tokens for each of our own, as reckoned here",
    "canonical": "the request's tokens by our own reckoning, before that factor",
    "inputs": "what else went into it: settings, instructions, tools",
    "window": "the most tokens that the model takes, reply included",
    "place": "the model, and its address where that is not its provider's own",
    "redacted": "whether something in it is only a tombstone",
    "about": "what is known of the model",
}


def _context() -> str:
    lines = ["## Context", "", "What `talk.context` gives.", "", "| attribute | meaning |", "| --- | --- |"]
    lines += [f"| `{name}` | {meaning} |" for name, meaning in CONTEXT.items()]
    verbs = [_row("explain", Context.explain), _row("parse", Context.parse)]
    lines += ["", "| verb | what it does |", "| --- | --- |", *verbs, ""]
    lines += ["What the sections are that `explain` and `everthread context` name, where they are there:", ""]
    lines += ["| section | what it holds |", "| --- | --- |"]
    lines += [*(f"| `{name}` | {meaning} |" for name, meaning in SECTIONS.items()), ""]
    return "\n".join([*lines, *(_struct(cls) for cls in (Explanation, TurnLine, StepLine, Tool, View, Choice))])


def _reply() -> str:
    lines = ["## Reply", "", "What `talk.say`, `resume`, `approve` and `refuse` give: deltas, as they come.", ""]
    lines += ["| verb | what it does |", "| --- | --- |"]
    lines += [_row(name, getattr(Reply, name)) for name in ("accepted", "cancel", "aclose")]
    lines += ["| `async for delta in reply` | The turn's deltas; the last is `Done`. |"]
    lines += ["| `await reply` | Listens to the end: `.text` and `.done`, or the error is raised. |", ""]
    return "\n".join([*lines, *(_struct(cls) for cls in get_args(Delta)), _struct(Usage)])


def _tools() -> str:
    lines = ["## Tools", "", "What a model may call: `from everthread import tool, McpServer`.", ""]
    lines += ["| function | what it does |", "| --- | --- |", _row("tool", tool), _row("McpServer", McpServer)]
    lines += [_row(f"Toolbox.{name}", getattr(Toolbox, name)) for name in ("only", "open", "close", "run")]
    lines += [_row(f"testing.scripted.{one.__name__}", one) for one in (script, call, thought, broken)]
    return "\n".join([*lines, "", _struct(Agent)])


def _struct(cls: type[msgspec.Struct]) -> str:
    about = " ".join((inspect.getdoc(cls) or "").split())
    return f"- `{cls.__name__}`: {', '.join(cls.__struct_fields__)}. {about}"


def _functions() -> str:
    lines = ["## Building and converting", "", "| function | what it does |", "| --- | --- |"]
    builders = (everthread.user, everthread.assistant, everthread.system, everthread.tool_call, everthread.tool_result)
    lines += [_row(function.__name__, function) for function in (*builders, everthread.image, everthread.file)]
    happenings = (everthread.artifact_created, everthread.user_edit, everthread.canvas_changed)
    flows = (everthread.flow_started, everthread.flow_completed)
    lines += [_row(function.__name__, function) for function in (*happenings, *flows, everthread.within)]
    lines += [
        _row(f"transfer.{name}", f) for name in transfer.__all__ if inspect.isfunction(f := getattr(transfer, name))
    ]
    return "\n".join(lines)


def _values() -> str:
    lines = ["## Values", "", "Times are `datetime`s in UTC. As JSON, each of these has [one form](howto/json.md).", ""]
    fields = {
        "Logged": ["branch", "seq", "id", "kind", "time", "turn", "session", "tokens", "settled", "event", "text"]
    }
    for cls in (Turn, Session, Totals, BranchTotals, Branch, Conversation):
        fields[cls.__name__] = list(cls.__struct_fields__)
    return "\n".join([*lines, *(f"- `{name}`: {', '.join(names)}" for name, names in fields.items())])


def _settings() -> str:
    about = (
        "From least to most specific: default, file (`EVERTHREAD_CONFIG`), environment (`EVERTHREAD_BUDGET` …), agent, "
        "conversation (`et.begin(settings=…)`, `talk.set_settings`), branch (`talk.configure`), call "
        "(`talk.context(…)`). The most specific wins. What is given to `Everthread.open(settings=…)` takes the "
        "place of file and environment."
    )
    lines = ["## Settings", "", about, "", "| setting | default | allowed | meaning |", "| --- | --- | --- | --- |"]
    for name, default, allowed, meaning in ((s.name, s.default, s.allowed, s.meaning) for s in KNOWN.values()):
        shown = "not set" if default is None else f"`{json.dumps(default)}`"
        lines.append(f"| `{name}` | {shown} | {allowed} | {meaning} |")
    return "\n".join(lines)


def _environment() -> str:
    rows = {
        "EVERTHREAD_CONFIG": "a TOML file of settings; else `everthread/config.toml` in the folder `XDG_CONFIG_HOME`",
        "EVERTHREAD_STORE": "the command line's store; else a file in the data folder (`XDG_DATA_HOME`)",
        "EVERTHREAD_BUS": "the bus of stores in PostgreSQL, such as `redis://host:6379/0`; else PostgreSQL itself",
        "EVERTHREAD_USER": "whose conversations the command line shows; else `me`",
        "EVERTHREAD_TENANT": "of which tenant; else `default`",
        "EVERTHREAD_AGENTS": "a folder of agents for the command line; else `everthread/agents` beside the file",
        "ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY": "the providers' keys; or the file's `[keys]` table",
        "EVERTHREAD_KEY": "the key for the server that `EVERTHREAD_ADDRESS` names; others have theirs in `[keys]`",
        "EVERTHREAD_VAULT_KEY": "master keys of the vault, newest first; else the file `vault.key` beside the settings",
        "EVERTHREAD_SERVERS": "addresses of servers to look for where no model is named; empty for none",
        "EVERTHREAD_TEST_POSTGRES": "a PostgreSQL server for the tests; else a private one is started",
        "EVERTHREAD_DATA": "a folder of recorded conversations for the tests",
    }
    lines = ["## Environment", "", "| variable | meaning |", "| --- | --- |"]
    return "\n".join([*lines, *(f"| `{name}` | {meaning} |" for name, meaning in rows.items())])


def _file_format() -> str:
    return f"## The export format\n\n{inspect.getdoc(transfer)}"


def _errors() -> str:
    lines = ["## Errors", "", "All are `everthread.errors.EverthreadError`s.", ""]

    def descend(cls: type, depth: int) -> None:
        about = (cls.__doc__ or "").strip().split("\n")[0]
        lines.append(f"{'  ' * depth}- `{cls.__name__}`{': ' + about if about else ''}")
        children: list[type] = cls.__subclasses__()
        for child in children:
            if child.__module__.startswith(f"{errors.__name__}."):
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
        for own, each in command.commands.items() if isinstance(command, click.Group) else ():
            within = click.Context(each, parent=inner, info_name=own, terminal_width=100, max_content_width=100)
            parts.append(f"```text\n{each.get_help(within)}\n```")
    return "\n\n".join(parts)


if __name__ == "__main__":
    if "--check" not in sys.argv:
        PAGE.write_text(page(), "utf-8")
    elif PAGE.read_text("utf-8") != page():
        raise SystemExit("docs/reference.md is not what the code says: run `make reference`.")

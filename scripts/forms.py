"""Writes the tables of docs/howto/json.md from the code. `--check` says whether they are up to date."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from everthread.agent.children import ListedChild
from everthread.agent.personas import Agent, Server, Versioned
from everthread.agent.prepare import Rebuilt
from everthread.agent.reply import TurnResult, V
from everthread.archive.catalogue import ArchiveProblem, ArchiveProgress, ListedArchive
from everthread.config import Resolved
from everthread.context.explain import Explanation, StepLine, TurnLine
from everthread.core.accounts import Account, ApiKey, AuditEntry, Caller, ProviderKey
from everthread.core.branches import Branch
from everthread.core.canvas import Canvas, Change, Element, Field, ListItem, Series, Shown
from everthread.core.deltas import Delta, Usage
from everthread.core.events import Event, Other
from everthread.core.happenings import HAPPENINGS, Happening
from everthread.core.logged import FORM
from everthread.core.parts import Part
from everthread.core.quotes import Quote
from everthread.core.request import Tool
from everthread.core.schedules import Schedule
from everthread.core.told import Told
from everthread.core.turns import Session, Turn
from everthread.jobs.worker import Did
from everthread.language.facts import Fact
from everthread.memory.correct import Remembered
from everthread.memory.status import Status
from everthread.providers.choose import Chosen
from everthread.store.beside.usage import UsageTotal
from everthread.store.conversations import BranchTotals, Conversation, Totals
from everthread.store.listing import ListedConversation
from everthread.store.recall.hits import Hit, Neighbour
from everthread.transfer.importing import Imported
from everthread.wire import FrozenContext

PAGE = Path(__file__).parents[1] / "docs" / "howto" / "json.md"
BEGIN, END = "<!-- written by scripts/forms.py -->\n", "<!-- until here -->\n"

CONVERSATIONS = (Conversation, ListedConversation, Totals, BranchTotals, Branch, Turn, Session, UsageTotal)
ARCHIVES = (ListedArchive, ArchiveProgress, ArchiveProblem)
CANVAS = (Canvas, Shown, Series, ListItem, Field)
FOUND = (Hit, Neighbour, Remembered, Fact, Status)
SEEN = (Explanation, TurnLine, StepLine, Tool, Rebuilt, Resolved)
SERVICE = (Caller, Account, ApiKey, AuditEntry, ProviderKey)
OTHERS = (TurnResult, Told, ListedChild, Schedule, Usage, Agent, Server, Versioned, Chosen, Did, Imported)

_WORDS: dict[Any, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    bytes: "base64",
    datetime: "time",
    NoneType: "null",
    Any: "any",
    V: "any",
    Event: "Event",
    Part: "Part",
    Element: "Element",
    Change: "Change",
    Quote: "[conversation, branch, seq]",
}


def tables() -> str:
    """All forms: what an event of the log is, the kinds of events, parts and deltas, then the other values."""
    parts = [
        _table("An event of the log", "value", {"Logged": FORM}),
        _table("Events, by `kind`; keys that say nothing are left out", "kind", dict(map(_event, _members(Event)))),
        _table("Parts of messages, by `type`; the same", "type", {_tag(cls): _fields(cls) for cls in get_args(Part)}),
        _table("Deltas, by `kind`", "kind", {_tag(cls): _fields(cls) for cls in get_args(Delta)}),
        _table("The canvas", "value", _named(CANVAS)),
        _table("Its elements, by `type`", "type", {_tag(cls): _fields(cls) for cls in get_args(Element)}),
        _table("Changes of it, by `do`", "do", {_tag(cls): _fields(cls) for cls in get_args(Change)}),
        _table("Conversations", "value", _named(CONVERSATIONS)),
        _table("Archives", "value", _named(ARCHIVES)),
        _table("What is found and remembered", "value", _named(FOUND)),
        _table(
            "What the model sees",
            "value",
            {"Context": _fields(FrozenContext)} | _named(SEEN),
        ),
        _table("Of the service", "value", _named(SERVICE)),
        _table("Others", "value", _named(OTHERS)),
    ]
    return "\n".join(parts)


def _table(title: str, what: str, rows: dict[str, dict[str, Any]]) -> str:
    lines = [f"**{title}**", "", f"| {what} | keys |", "| --- | --- |"]
    for name, fields in rows.items():
        lines.append(f"| `{name}` | {', '.join(f'`{key}` {_word(wanted)}' for key, wanted in fields.items()) or '–'} |")
    return "\n".join([*lines, ""])


def _named(classes: tuple[Any, ...]) -> dict[str, dict[str, Any]]:
    return {cls.__name__: _fields(cls) for cls in classes}


def _members(union: Any) -> list[Any]:
    """The classes of events, each kind of happening by itself."""
    return [one for cls in get_args(get_args(union)[0]) for one in (HAPPENINGS.values() if cls is Happening else [cls])]


def _event(cls: Any) -> tuple[str, dict[str, Any]]:
    if cls is Other:
        return "your own kind", {"…": "whatever it says"}
    fields = _fields(cls)
    if issubclass(cls, Happening):
        fields = {**{name: wanted for name, wanted in fields.items() if name != "data"}, "…": "what was stored with it"}
    return _tag(cls), fields


def _tag(cls: Any) -> str:
    return str(cls.__struct_config__.tag)


def _fields(cls: Any) -> dict[str, Any]:
    return {field.name: field.type for field in msgspec.structs.fields(cls)}


def _word(wanted: Any) -> str:
    """How a type is written."""
    if isinstance(wanted, str):
        return wanted
    if wanted in _WORDS:
        return _WORDS[wanted]
    origin, given = get_origin(wanted), get_args(wanted)
    if origin is Annotated:
        return _word(given[0])
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(map(_word, given)))
    if origin is Literal:
        return " / ".join(f'"{one}"' for one in given)
    if origin in (list, tuple):
        return f"[{_word(given[0])}]"
    if origin is dict:
        return f"{{{_word(given[1])}}}"
    return str(wanted.__name__)


def page() -> str:
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    return f"{before}{BEGIN}\n{tables()}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    if "--check" not in sys.argv:
        PAGE.write_text(page(), "utf-8")
    elif PAGE.read_text("utf-8") != page():
        raise SystemExit("docs/howto/json.md is not what the code says: run `make reference`.")

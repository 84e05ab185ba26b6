"""The kinds of events: a closed union of frozen values.

To add a kind, write its class here, and name it in its union (`Message`, `Marker` …) and in `_CLASSES`, both below.
"""

from __future__ import annotations

import json
import math
import re
from typing import Annotated, Any, Literal

import msgspec

from everthread.core.happenings import HAPPENINGS, Happening
from everthread.core.parts import File, Image, Part
from everthread.core.quotes import Quote
from everthread.core.values import Family, Value, stored_form
from everthread.errors import BadValue

_KIND = re.compile(r"[a-z][a-z0-9_.:-]{0,63}")


class _Event(
    msgspec.Struct,
    Value,
    frozen=True,
    kw_only=True,
    tag_field="kind",
    omit_defaults=True,
    forbid_unknown_fields=True,
    gc=False,  # read by the thousand, and never part of a cycle
):
    @property
    def kind(self) -> str:
        return str(self.__struct_config__.tag)

    def _form(self) -> dict[str, Any]:
        return stored_form(self)


# Of messages `meta` is Everthread's and the providers' own, and `metadata` the application's (`core.metadata`).


class System(_Event, tag="system", frozen=True):
    parts: tuple[Part, ...] = ()
    meta: dict[str, str] = {}
    metadata: dict[str, Any] = {}


class User(_Event, tag="user", frozen=True):
    """`origin` says who spoke when it was not the user by hand: a schedule, an application."""

    parts: tuple[Part, ...] = ()
    origin: str = ""
    meta: dict[str, str] = {}
    metadata: dict[str, Any] = {}


class Assistant(_Event, tag="assistant", frozen=True):
    """`interrupted`: the reply broke off, and this is what had come."""

    parts: tuple[Part, ...] = ()
    model: str = ""
    interrupted: bool = False
    meta: dict[str, str] = {}
    metadata: dict[str, Any] = {}


class ToolCall(_Event, tag="tool_call", frozen=True):
    """`arguments` is the text that the model wrote, whether or not it is JSON. Ids may repeat."""

    id: str
    name: str
    arguments: str = "{}"
    waits_for: Literal["", "approval", "job"] = ""
    meta: dict[str, str] = {}
    metadata: dict[str, Any] = {}


class ToolResult(_Event, tag="tool_result", frozen=True):
    """`late`: its tool call stands in an earlier turn, which was left waiting. `quotes`: of which events it repeats
    something; it is forgotten with any of them."""

    id: str
    name: str = ""
    parts: tuple[Part, ...] = ()
    error: bool = False
    late: bool = False
    quotes: tuple[Quote, ...] = ()
    meta: dict[str, str] = {}
    metadata: dict[str, Any] = {}


class Clear(_Event, tag="clear", frozen=True):
    """Window, brief, recap and pins start afresh after this; the history stays."""


class Mark(_Event, tag="mark", frozen=True):
    name: str


class Fork(_Event, tag="fork", frozen=True):
    """First event of a branch that was forked from `branch` after event `at`."""

    branch: int
    at: int


class Rewind(_Event, tag="rewind", frozen=True):
    """First event of the branch that goes on after event `to` of `branch`."""

    branch: int
    to: int


class Command(_Event, tag="command", frozen=True):
    """Something that was done to the conversation: a switch of branch, a redaction, a slash command."""

    name: str
    arguments: dict[str, str | int | bool | None] = {}


class SettingsChanged(_Event, tag="settings", frozen=True):
    values: dict[str, str | int | float | bool | None] = {}

    def __post_init__(self) -> None:
        for name, value in self.values.items():
            if isinstance(value, float) and not math.isfinite(value):
                raise BadValue(name, value, "a finite number")


class Pin(_Event, tag="pin", frozen=True):
    """From here on the turn that begins at seq `turn` is always sent; where `pinned` is false, it no longer is."""

    turn: int
    pinned: bool = True


class BriefUpdated(_Event, tag="brief_updated", frozen=True):
    """A version of the brief. It covers everything up to seq `covers`; `facts` are kept beside its prose, as they are
    told, and `known` is all that is known of them. That is written now and then: else in the version `known_at`.

    `base` is the newest version before it that is no extract, and `corrected` the newest before it that the user wrote.
    `by`: who has written this one, where it was not memory.
    """

    text: str
    covers: int
    facts: str = ""
    known: str = ""
    turns: int = 0
    extractive: bool = False
    by: str = ""
    base: int = 0
    known_at: int = 0
    corrected: int = 0


class SessionStarted(_Event, tag="session_started", frozen=True):
    """With the next message a session begins: nothing had been said for a while. The first begins with the branch."""

    session: int = 0


class SessionEnded(_Event, tag="session_ended", frozen=True):
    """The recap of a session that is over."""

    session: int
    recap: str
    extractive: bool = False


class Upload(_Event, tag="upload", frozen=True):
    """Images and files that were handed in before anything was said of them: a message shows them by their hashes."""

    parts: tuple[Image | File, ...] = ()


class Summary(_Event, tag="summary", frozen=True):
    """What happened from seq `first` to seq `covers`."""

    text: str
    covers: int
    first: int = 1
    extractive: bool = False
    base: int = 0  # the newest before it that is no extract
    known: str = ""  # of the facts, as a brief has it
    known_at: int = 0


UNANSWERED = "nobody let the agent reply"  # why a turn was closed that no agent has run


class AgentKilled(_Event, tag="agent_killed", frozen=True):
    """The turn ended before the agent was idle: cancelled, failed, or its process died."""

    reason: str = ""


class ScheduleFailed(_Event, tag="schedule_failed", frozen=True):
    """A message that was due could not be said, or had no reply: `failures` times in a row, 0 where it was refused
    because its user has had the tokens of a day. `paused`: it is not tried again until somebody resumes the
    schedule."""

    schedule: str
    reason: str = ""
    failures: int = 1
    paused: bool = False


LOOKUPS = frozenset({"recall_context", "open_event", "write_memory"})  # memory's own tools
MEMORY = "memory"  # the agent of model calls that are made beside the conversation


class ModelCall(_Event, tag="model_call", frozen=True):
    """One request to a provider, and what came of it.

    It was built before event `at`, with the turns from `cutoff` on, the memory of event `memory` (0: none), the factor
    `factor` (0: none) and the model's window `window`; `sent` and `past` count messages, and `degraded` is what was
    given up. `inputs` are hashes of what else went into it, by name, and `request` is the request's own; so it can be
    built again, or be told what is no longer the same. Tokens are the provider's figures, all of them 0 where it gave
    none, `estimate` is ours; `price` is in US dollars, and times in milliseconds.
    """

    model: str
    at: int
    cutoff: int = 0
    memory: int = 0
    factor: float = 1.0
    window: int = 0
    sent: int = 0
    past: int = 0
    budget: int = 0
    degraded: tuple[str, ...] = ()
    agent: str = ""
    address: str = ""  # of a server that is not the provider's own
    inputs: dict[str, str] = {}
    request: str = ""
    estimate: int = 0
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    price: float | None = None
    first_ms: int = 0
    ms: int = 0
    tries: int = 1
    finish: str = ""
    error: str = ""


class Redacted(_Event, tag="redacted", frozen=True):
    """What is left of an event whose content was taken out on request: its kind and its part in the turn."""

    was: str
    interrupted: bool = False
    waits_for: Literal["", "approval", "job"] = ""

    @property
    def kind(self) -> str:
        return self.was


TOMBSTONE = b'{"kind":"redacted"'  # with which its stored form begins


class Other(msgspec.Struct, Value, frozen=True, kw_only=True):
    """A marker of a kind that this package does not know: an application's, or a later feature's."""

    kind: str
    data: dict[str, Any] = {}

    def __post_init__(self) -> None:
        if not _KIND.fullmatch(self.kind) or self.kind in KINDS or self.kind in HAPPENINGS:
            raise BadValue("kind", self.kind, "a lower-case name that Everthread does not use itself")
        if "kind" in self.data or json.loads(dump(self.data)) != self.data:
            raise BadValue("data", self.data, "plain JSON (lists, not tuples; text keys) without a key 'kind'")

    def _form(self) -> dict[str, Any]:
        return {"kind": self.kind, **self.data}

    @classmethod
    def _schema(cls) -> dict[str, Any]:
        return {"title": "Other", "type": "object", "properties": {"kind": {"type": "string"}}, "required": ["kind"]}

    @classmethod
    def _of_form(cls, form: dict[str, Any]) -> Other:
        return cls(kind=form["kind"], data={name: said for name, said in form.items() if name != "kind"})


Message = System | User | Assistant | ToolCall | ToolResult
Marker = (
    Clear | Mark | Fork | Rewind | Command | SettingsChanged | Pin
    | BriefUpdated | SessionEnded | Summary | SessionStarted | AgentKilled | ModelCall | Redacted
    | ScheduleFailed | Upload
)  # fmt: skip
Event = Annotated[Message | Marker | Happening | Other, Family("an event")]

MESSAGES = ("system", "user", "assistant", "tool_call", "tool_result")
_CLASSES: dict[str, type[Message | Marker]] = {
    str(c.__struct_config__.tag): c
    for c in (
        *(System, User, Assistant, ToolCall, ToolResult),
        *(Clear, Mark, Fork, Rewind, Command, SettingsChanged, Pin, AgentKilled, Redacted),
        *(SessionStarted, BriefUpdated, SessionEnded, Summary, ModelCall, ScheduleFailed, Upload),
    )
}
KINDS = frozenset(_CLASSES)


def is_kind(name: str) -> bool:
    """Whether this may be the name of a kind, Everthread's or an application's."""
    return bool(_KIND.fullmatch(name))


def dump(value: object) -> str:
    """Plain JSON; BadValue where it would not come back as it went in."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as problem:
        raise BadValue("data", value, f"plain JSON ({problem})") from None

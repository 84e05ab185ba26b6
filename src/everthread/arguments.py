"""Checks of what a caller hands to the verbs, before anything else happens.

Each function gives back what may be used, or raises `BadValue` with the argument's name and what it may be: so that
no caller meets an error from the inside, and nothing wrong is accepted silently. Whether what is named exists is for
the log to say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Literal, TypedDict, TypeGuard

from everthread.agent.start import Given
from everthread.config import Source, from_conversation, resolve
from everthread.context.output import output_of
from everthread.context.plan import Asked
from everthread.core.branches import ENDLESS
from everthread.core.events import (
    Fork,
    Redacted,
    Rewind,
    SessionStarted,
    SettingsChanged,
    User,
    is_kind,
    media_of,
    text_of,
    tool_call,
)
from everthread.core.sections import ORDER
from everthread.core.settings import GivenSettings
from everthread.core.strategies import STRATEGIES, Strategy
from everthread.core.times import microseconds
from everthread.core.tokens import Counter
from everthread.errors import BadValue, NoUser
from everthread.providers.client import NO_HEADERS, Headers
from everthread.store.conversations import Owner, check_alias, check_name, owner_of
from everthread.store.engine import Engine
from everthread.transfer.detect import FORMATS, Format

_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,200}")
_HEADER_VALUE = re.compile(r"[!-~]([ -~]*[!-~])?")
_OURS = ("host", "content-type", "content-length", "transfer-encoding", "accept-encoding")  # headers

OPENED = "the settings that the store was opened with"
WhenBusy = Literal["wait", "refuse"]


# -- texts -----------------------------------------------------------------------------------------------


def text(what: str, value: object) -> str:
    if not isinstance(value, str):
        raise BadValue(what, value, "text")
    return value


def name(what: str, value: object, *, empty: bool = False) -> str:
    return check_name(what, text(what, value), empty=empty)


def kind(value: object) -> str:
    if not is_kind(text("kind", value)):
        raise BadValue("kind", value, "the name of a kind: a letter, then letters, digits and _ . : -, in lower case")
    return str(value)


def goal(value: object) -> str:
    return check_name("goal", text("goal", value), most=2_000, empty=True)


def alias(value: object) -> str:
    """An id of the caller's own for a conversation."""
    return check_alias(text("id", value))


def owner(tenant: object, user: object) -> Owner:
    if user is None:
        raise NoUser
    return owner_of(text("tenant", tenant), text("user", user))


def format(value: Format | None) -> Format | None:
    if value is not None and value not in FORMATS:
        raise BadValue("format", value, f"one of {', '.join(map(repr, FORMATS))}, or left out")
    return value


def address(value: Any) -> str | Engine:
    if isinstance(value, str):
        return value
    if not all(callable(getattr(value, verb, None)) for verb in ("read", "write", "close")):
        allowed = "text such as sqlite:///talk.db or postgresql://user@host/database, or an Engine"
        raise BadValue("address", value, allowed)
    engine: Engine = value
    return engine


def bus(value: object) -> str | None:
    if value is not None and not isinstance(value, str):
        raise BadValue("bus", type(value), "text such as redis://host:6379/0")
    return value


# -- numbers ---------------------------------------------------------------------------------------------


def whole(value: object) -> TypeGuard[int]:
    """Whether it is a whole number. Python takes True for one; from a caller it is a mistake."""
    return isinstance(value, int) and not isinstance(value, bool)


def count(what: str, value: int) -> int:
    if not whole(value) or not 0 < value <= ENDLESS:
        raise BadValue(what, value, "a whole number above zero")
    return value


def offset(value: int) -> int:
    """How many of a list are passed over before a page of it."""
    if not whole(value) or not 0 <= value <= ENDLESS:
        raise BadValue("offset", value, "a whole number from zero on")
    return value


def seq(what: str, value: int) -> int:
    """The number of an event; whether there is one, and where a page may begin, is for the log to say."""
    if not whole(value):
        raise BadValue(what, value, "the seq of an event, a whole number")
    return value


def known(what: str, value: int) -> int:
    """The seq of the last event that the caller knows; 0 for none."""
    if seq(what, value) < 0:
        raise BadValue(what, value, "the seq of the last event that you know, or 0")
    return value


def branch(value: str | int) -> str | int:
    if not isinstance(value, str) and not whole(value):
        raise BadValue("branch", value, "the name of a branch, or its number")
    return value


def point(value: int | str) -> int | str:
    if not isinstance(value, str) and not whole(value):
        raise BadValue("to", value, "the seq of an event, or the name of a mark")
    return value


def micros(what: str, value: datetime | None, otherwise: int) -> int:
    """A time as the store has it. Without a zone, it is this machine's."""
    if value is None:
        return otherwise
    if not isinstance(value, datetime):
        raise BadValue(what, value, "a datetime, such as datetime(2026, 1, 31, tzinfo=UTC)")
    try:
        return microseconds(value if value.tzinfo else value.astimezone())
    except (OverflowError, ValueError):
        raise BadValue(what, value, "a time that there is in the zone of this machine") from None


def past(what: str, value: datetime) -> int:
    """A time from 1970 on, in microseconds. Whether it has passed is for the log to say."""
    if (found := micros(what, value, 0)) < 0:
        raise BadValue(what, value, "a time from 1970 on")
    return found


# -- settings --------------------------------------------------------------------------------------------


def settings(given: object) -> dict[str, Any]:
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise BadValue("settings", given, "names and values, as in {'budget': 50_000}")
    return dict(given)


def settings_of_store(given: object) -> dict[str, Any]:
    resolve(Source(OPENED, found := {} if given is None else settings(given)))
    return found


def settings_of_conversation(given: object) -> dict[str, Any]:
    """Names that Everthread does not know are the application's own."""
    resolve(from_conversation(found := settings(given)))
    return found


def appended(events: tuple[Any, ...]) -> tuple[Any, ...]:
    """Events that are to be appended, none of a kind that only Everthread writes, with the settings among them checked
    and as the log keeps them: a list or a mapping as JSON. None takes one back."""
    for event in events:
        if instead := _WRITTEN_BY_US.get(type(event)):
            kind = event.__struct_config__.tag
            raise BadValue("an event's kind", kind, f"one that may be appended: this one {instead}")
    return tuple([_spelt(event) if isinstance(event, SettingsChanged) else event for event in events])


_WRITTEN_BY_US: dict[type, str] = {  # each tells of something that an append of it does not do
    Redacted: "is what `talk.redact` leaves of an event",
    Fork: "begins a branch: see `talk.fork`",
    Rewind: "begins a branch: see `talk.rewind`",
    SessionStarted: "comes by itself with the first message after a pause",
}


def _spelt(event: SettingsChanged) -> SettingsChanged:
    given: dict[str, Any] = {name: value for name, value in event.values.items() if value is not None}
    checked = resolve(Source("the settings given", given)).settings
    spelt = {name: getattr(checked, name) for name, value in given.items() if not isinstance(value, int | float | str)}
    return SettingsChanged(values=event.values | spelt) if spelt else event


def log_options(*, session_gap: Any, max_event_bytes: Any, patience: Any, importance: Any) -> dict[str, Any]:
    """What `Everthread.open` hands on to the log."""
    if not isinstance(session_gap, timedelta) or session_gap <= timedelta(0):
        raise BadValue("session_gap", session_gap, "a timedelta above zero")
    if not callable(importance):
        raise BadValue("importance", importance, "a function that gives a message's worth, from 0 to 100")
    return {
        "session_gap": session_gap // timedelta(microseconds=1),
        "max_event_bytes": count("max_event_bytes", max_event_bytes),
        "patience": seconds("patience", patience),
        "importance": importance,
    }


def seconds(what: str, value: float) -> float:
    if not _is_duration(value):
        raise BadValue(what, value, "seconds from zero up")
    return value


def _is_duration(value: object) -> bool:
    return (whole(value) or isinstance(value, float)) and 0 <= value < float("inf")


def function(what: str, value: Any, about: str) -> Any:
    """A function of the caller's own, or None."""
    if value is not None and not callable(value):
        raise BadValue(what, value, f"a function {about}")
    return value


def own_strategy(value: Any) -> Strategy | None:
    own: Strategy | None = function("strategy", value, "of your own; a strategy by its name is a setting")
    return own


def counters(given: Any) -> dict[str, Counter]:
    """Functions that count the tokens of a text, by patterns of models' names."""
    if not isinstance(given, Mapping) or not all(
        isinstance(name, str) and callable(one) for name, one in given.items()
    ):
        raise BadValue("counters", given, "functions by models, as in {'openai:our-*': count}")
    return {name: _counting(one) for name, one in given.items()}


def _counting(count: Callable[[str], Any]) -> Counter:
    """Refuses what is no number of tokens."""

    def counted(text: str) -> int:
        found = count(text)
        if not whole(found) or found < 0:
            raise BadValue("what the counter returned", found, "a whole number of tokens")
        return found

    return counted


# -- what the model will see -----------------------------------------------------------------------------


def asked(
    given: object,
    *,
    model: str | None,
    budget: int | None = None,
    strategy: Any = None,
    at: int | None = None,
    output: Any = None,
    tool_choice: str | None = None,
    headers: object = None,
) -> Asked:
    """What was asked of `talk.context`: a strategy by its name is a setting like the others, a function is not."""
    name, own = _strategy(strategy)
    wanted = None if output is None else output_of(output)
    beside = {"model": model, "budget": budget, "strategy": name, "output": wanted and wanted.setting}
    return Asked(
        settings=({} if given is None else settings(given))
        | {name: value for name, value in beside.items() if value is not None},
        strategy=own,
        at=None if at is None else seq("at", at),
        output=wanted,
        tool_choice="" if tool_choice is None else text("tool_choice", tool_choice),
        headers=check_headers(headers),
    )


def check_headers(given: object) -> Headers:
    """Headers for the provider. No error repeats a value: it may be a secret."""
    if given is None:
        return NO_HEADERS
    if not isinstance(given, Mapping) or not all(isinstance(one, str) for one in (*given, *given.values())):
        raise BadValue("extra_headers", type(given), "names and values, both text")
    for name, value in given.items():
        if not _HEADER.fullmatch(name) or name.lower() in _OURS:
            raise BadValue("extra_headers", name, f"headers by their names, without {', '.join(_OURS)}")
        if not _HEADER_VALUE.fullmatch(value):
            raise BadValue("extra_headers", name, "given a value of printable ASCII characters, without blank ends")
    return Headers(given)


def _strategy(given: Any) -> tuple[str | None, Strategy | None]:
    """Its name, or the function that it is."""
    if given is None or isinstance(given, str):
        return given, None
    if not callable(given):
        raise BadValue("strategy", given, f"{', '.join(STRATEGIES)}, or a function of your own")
    return None, given


class ForContext(TypedDict, total=False):
    """What `talk.context` takes."""

    model: str | None
    budget: int | None
    strategy: str | Strategy | None
    instructions: str | Mapping[str, str] | None
    tools: Iterable[Any] | None
    lookups: bool
    tool_choice: str | None
    output: Any
    at: int | None
    settings: GivenSettings | None


class _ForTurn(TypedDict, total=False):
    model: str | None
    strategy: str | Strategy | None
    instructions: str | Mapping[str, str] | None
    tools: Iterable[Any] | None
    tool_choice: str | None
    settings: GivenSettings | None
    extra_headers: Mapping[str, str] | None
    when_busy: WhenBusy
    detached: bool


class ForTurn(_ForTurn, total=False):
    """What `talk.say` and the other verbs that run a turn take in addition."""

    output: Any


class ForMessage(_ForTurn, total=False):
    """What `talk.say` takes beside the message and `output`."""

    origin: str
    metadata: dict[str, Any] | None
    key: str


def given(
    *,
    model: str | None = None,
    strategy: str | Strategy | None = None,
    instructions: str | Mapping[str, str] | None = None,
    tools: Iterable[Any] | None = None,
    tool_choice: str | None = None,
    output: Any = None,
    settings: GivenSettings | None = None,
    extra_headers: Mapping[str, str] | None = None,
    when_busy: WhenBusy = "wait",
    detached: bool = False,
) -> Given:
    """The arguments of `ForTurn`, checked."""
    wait = one_of("when_busy", when_busy, ("wait", "refuse")) == "wait"
    told = check_instructions(instructions)
    wanted = asked(
        settings, model=model, strategy=strategy, output=output, tool_choice=tool_choice, headers=extra_headers
    )
    return Given(asked=wanted, instructions=told, tools=tools, wait=wait, detached=detached)


def call_arguments(given: object) -> str:
    """The arguments of a tool call as JSON; empty where none are given."""
    if given is None:
        return ""
    if not isinstance(given, Mapping):
        raise BadValue("arguments", given, "all arguments of the tool call, as in {'amount': 20}")
    return tool_call("", dict(given)).arguments


def message(given: User) -> User:
    if not media_of(given) and not text_of(given).strip():
        raise BadValue("the message", text_of(given), "something to say: text that is not blank, or a picture or file")
    return given


def one_of(what: str, value: object, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise BadValue(what, value, f"{', '.join(choices[:-1])} or {choices[-1]}")
    return str(value)


def check_instructions(given: Any) -> str | dict[str, str] | None:
    if given is None or isinstance(given, str):
        return given
    if not isinstance(given, Mapping) or not all(isinstance(said, str) for said in (*given, *given.values())):
        raise BadValue("instructions", given, f"text, or texts for some of {', '.join(ORDER)}")
    return dict(given)

"""Checks of what a caller hands to the verbs, before anything else happens.

Each function gives back what may be used, or raises `BadValue` with the argument's name and what it may be: so that
no caller meets an error from the inside, and nothing wrong is accepted silently. Whether what is named exists is for
the log to say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, TypeGuard

from everthread.agent.start import Given
from everthread.config import Source, from_conversation, resolve
from everthread.context.plan import Asked
from everthread.core.branches import ENDLESS
from everthread.core.events import SettingsChanged, User, is_kind, media_of, text_of
from everthread.core.logged import microseconds
from everthread.core.sections import ORDER
from everthread.core.strategies import STRATEGIES, Strategy
from everthread.errors import BadValue, NoUser
from everthread.store.conversations import Owner, check_alias, check_name, owner_of

OPENED = "the settings that the store was opened with"


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


def address(value: object) -> str:
    if not isinstance(value, str):
        raise BadValue("address", value, "text such as sqlite:///talk.db or postgresql://user@host/database")
    return value


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


def moment(what: str, value: datetime | int | None, otherwise: int) -> int:
    """A time in microseconds, from a datetime or from microseconds."""
    if value is None:
        return otherwise
    if whole(value):
        return value
    if not isinstance(value, datetime):
        raise BadValue(what, value, "a datetime, or microseconds since 1970")
    try:
        return microseconds(value if value.tzinfo else value.astimezone())
    except (OverflowError, ValueError):
        raise BadValue(what, value, "a time that there is in the zone of this machine") from None


def past(what: str, value: datetime) -> int:
    """A time from 1970 on, in microseconds. Whether it has passed is for the log to say."""
    if (found := moment(what, value, 0)) < 0:
        raise BadValue(what, value, "a time from 1970 on")
    return found


# -- settings --------------------------------------------------------------------------------------------


def settings(given: object) -> dict[str, Any]:
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise BadValue("settings", given, "names and values, as in {'budget': 50_000}")
    return dict(given)


def settings_of_store(given: object) -> dict[str, Any] | None:
    """They replace the file and the environment, so None differs from an empty mapping."""
    if given is None:
        return None
    resolve(Source(OPENED, found := settings(given)))
    return found


def settings_of_conversation(given: object) -> dict[str, Any]:
    """Names that Everthread does not know are the application's own."""
    resolve(from_conversation(found := settings(given)))
    return found


def settings_of_branch(events: Iterable[object]) -> None:
    """Check the settings among events that are to be appended; None takes one back."""
    for event in events:
        if isinstance(event, SettingsChanged):
            given = {name: value for name, value in event.values.items() if value is not None}
            resolve(Source("the settings given", given))


def log_options(*, session_gap: Any, max_event_bytes: Any, patience: Any, importance: Any) -> dict[str, Any]:
    """What `Everthread.open` hands on to the log."""
    if not isinstance(session_gap, timedelta) or session_gap <= timedelta(0):
        raise BadValue("session_gap", session_gap, "a timedelta above zero")
    if not _is_duration(patience):
        raise BadValue("patience", patience, "seconds from zero up")
    if not callable(importance):
        raise BadValue("importance", importance, "a function that gives a message's worth, from 0 to 100")
    return {
        "session_gap": session_gap // timedelta(microseconds=1),
        "max_event_bytes": count("max_event_bytes", max_event_bytes),
        "patience": patience,
        "importance": importance,
    }


def _is_duration(value: object) -> bool:
    return (whole(value) or isinstance(value, float)) and 0 <= value < float("inf")


# -- what the model will see -----------------------------------------------------------------------------


def asked(
    given: object,
    *,
    model: str | None,
    budget: int | None = None,
    strategy: Any = None,
    at: int | None = None,
) -> Asked:
    """What was asked of `talk.context`: a strategy by its name is a setting like the others, a function is not."""
    name, own = _strategy(strategy)
    beside = {"model": model, "budget": budget, "strategy": name}
    return Asked(
        settings=({} if given is None else settings(given))
        | {name: value for name, value in beside.items() if value is not None},
        strategy=own,
        at=None if at is None else seq("at", at),
    )


def _strategy(given: Any) -> tuple[str | None, Strategy | None]:
    """Its name, or the function that it is."""
    if given is None or isinstance(given, str):
        return given, None
    if not callable(given):
        raise BadValue("strategy", given, f"{', '.join(STRATEGIES)}, or a function of your own")
    return None, given


def given(
    *,
    model: str | None = None,
    instructions: str | Mapping[str, str] | None = None,
    tools: Iterable[Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    when_busy: str = "wait",
    detached: bool = False,
) -> Given:
    """What `talk.say` and the other verbs that run a turn take in addition."""
    wait = one_of("when_busy", when_busy, ("wait", "refuse")) == "wait"
    wanted, told = asked(settings, model=model), check_instructions(instructions)
    return Given(asked=wanted, instructions=told, tools=tools, wait=wait, detached=detached)


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

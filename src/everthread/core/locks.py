"""What only operators may set, where callers are not the operators: in a service (docs/decisions/0047).

These settings would have the service call another server, read a file of its machine, or take more of it than it was
given. They are set in the settings file, the environment, what the store was opened with and the operators' own agents.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from everthread.core.events import Event, ModelCall, SettingsChanged
from everthread.errors import Forbidden

LOCKED = frozenset(
    {"address", "extra_body", "threads", "worker", "call_seconds", "tool_seconds", "memory_seconds"}
    | {"memory_calls", "memory_dollars", "mirror", "retention"}
    | {"archive", "archive_after", "archive_place", "archive_encryption"}
)
MODELS = frozenset({"model", "fallback", "summary_model"})
LOCAL = "local:"  # begins the name of a model that runs in the process
IN_THE_WHEEL = f"{LOCAL}smollm2"  # any other name of one is a path


class Lock:
    """What callers may not set, beside what operators have set themselves. `own`: these settings of theirs."""

    def __init__(self, own: Iterable[Mapping[str, object]] = ()) -> None:
        self._own = {
            (_group(name), value) for values in own for name, value in values.items() if is_locked(name, value)
        }

    def keeps(self, name: str, value: object) -> bool:
        return is_locked(name, value) and (_group(name), value) not in self._own


def _group(name: str) -> str:
    """What one setting may name as a model, another may."""
    return "model" if name in MODELS else name


def is_locked(name: str, value: object) -> bool:
    """Whether operators alone may give a setting this value. None takes one back."""
    return value is not None and (name in LOCKED or (name in MODELS and is_file(value)))


def is_file(model: object) -> bool:
    """Whether a model is a file of this machine, by its path."""
    return isinstance(model, str) and model.strip().startswith(LOCAL) and model != IN_THE_WHEEL


def refusal(name: str) -> Forbidden:
    if name in MODELS:
        why = f"A model by the path of its file is set by the operators of this service alone ({name})"
        return Forbidden(why, f"name one of a provider, or {IN_THE_WHEEL}")
    return Forbidden(f"{name} is set by the operators of this service alone", "leave it out, or ask one of them")


def check_open(given: Mapping[str, Any]) -> None:
    """Forbidden: one of these is for operators alone to set."""
    for name, value in given.items():
        if is_locked(name, value):
            raise refusal(name)


def check_event(event: object) -> None:
    """The same of an event that somebody appends: one that changes settings, or a record of a model call, from which
    memory learns where the model is that replies."""
    if isinstance(event, SettingsChanged):
        check_open(event.values)
    if isinstance(event, ModelCall):
        check_open({"address": event.address or None, "model": event.model})


def kept(values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings without those that are for operators alone."""
    return {name: value for name, value in values.items() if not is_locked(name, value)}


def unlocked(event: Event) -> Event:
    """An event without what is for operators alone to say: of what comes from elsewhere."""
    if isinstance(event, SettingsChanged):
        return SettingsChanged(values=kept(event.values))
    if isinstance(event, ModelCall):
        model = "" if is_file(event.model) else event.model
        return msgspec.structs.replace(event, address="", model=model)
    return event

"""What the tests of memory share: what was remembered, what its model was shown, and how a request tells of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import pytest

from everthread import Talk
from everthread.agent.runtime import Runtime
from everthread.core.branches import ENDLESS
from everthread.core.events import ModelCall, SessionEnded, Summary
from everthread.providers.scripted.client import ScriptedReply
from tests.contract.support import Clock

E = TypeVar("E")
Body = dict[str, Any]

LONG_AGO = 1_577_836_800_000_000  # 2020-01-01: a clock that stands still must not be ahead of any machine's


def past_clock() -> Clock:
    return Clock(LONG_AGO)


def only_turns_remind(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker of a store is reminded by `say`, and not by `append`: what is remembered when is up to a test."""
    remind = Runtime.remind

    def in_turns(runtime: Runtime, *given: Any) -> None:
        if runtime.busy:
            remind(runtime, *given)

    monkeypatch.setattr(Runtime, "remind", in_turns)


async def events_of(talk: Talk, kind: type[E]) -> list[E]:
    """The events of a kind along the talk's line, oldest first."""
    return [logged.event for logged in await talk.range(1, ENDLESS) if isinstance(logged.event, kind)]


async def summaries(talk: Talk) -> list[Summary]:
    return await events_of(talk, Summary)


async def recaps(talk: Talk) -> list[SessionEnded]:
    return await events_of(talk, SessionEnded)


async def failures(talk: Talk) -> list[ModelCall]:
    """The model calls of memory that failed."""
    return [call for call in await events_of(talk, ModelCall) if call.agent == "memory" and call.error]


# -- what memory's model was shown -------------------------------------------------------------------------


class Listening:
    """Keeps what a scripted model was sent: `remember(listening.then("A brief."))`."""

    def __init__(self) -> None:
        self.bodies: list[Body] = []

    def then(self, reply: ScriptedReply) -> Callable[[Body], ScriptedReply]:
        def replied(body: Body) -> ScriptedReply:
            self.bodies.append(body)
            return reply

        return replied

    @property
    def told(self) -> list[str]:
        """The instructions of each model call."""
        return [str(body["messages"][0]["content"]) for body in self.bodies]

    @property
    def shown(self) -> list[str]:
        """The material of each model call."""
        return [str(body["messages"][-1]["content"]) for body in self.bodies]


# -- fences ------------------------------------------------------------------------------------------------

# From its first mark to the first that has the same number, as the model is told to read them.
_OPENING = r'<reference-(?P<number>\d{18}|N) kind="(\w+)"(?: covers="events ([^"]*)")?>\n'
_FENCE = re.compile(rf"{_OPENING}(.*?)</reference-(?P=number)>", re.DOTALL)


class Fence(NamedTuple):
    kind: str
    first: int
    last: int
    text: str


def fences(text: str) -> Iterator[Fence]:
    """The fences of a text; each ends where a reader would first take it to end."""
    for found in _FENCE.finditer(text):
        numbers = [int(number) for number in re.findall(r"\d+", found[3] or "")] or [0]
        first = numbers[0] if len(numbers) > 1 else 1
        yield Fence(found[2], first, numbers[-1], found[4])


def outside(text: str) -> str:
    """What stands in no fence."""
    return _FENCE.sub("", text)


def strings(value: object) -> Iterator[str]:
    """All texts of a request, wherever they stand."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)


def fenced_in(request: Body) -> list[Fence]:
    return [fence for text in strings(request) for fence in fences(text)]

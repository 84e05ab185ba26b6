"""A process that brings a turn to each point at which it could be killed, one conversation each, and stays there.

It tells of each conversation once it is there. The tools are those that the tests use as well; here they never end.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

from everthread import Everthread, Talk
from everthread.core.events import Event
from everthread.store.beside.leases import of_turns
from everthread.testing.scripted import call, script
from everthread.tools import tool
from tests.waiting import until

PAY, OTHER, LOOK = call("pay", {"amount": 20}, id="a"), call("pay", {"amount": 20}, id="b"), call("look", id="c")
ENDLESS = "word " * 100_000
PACE = 0.01
CHANGED = {"amount": 15}  # where the model asked for 20


class Point:
    """Where to stay: once events with one of this kind are about to be appended (`before`), or have been; or in a tool;
    or when some of a reply is kept."""

    def __init__(self, *replies: Any, before: str = "", after: str = "", tool: str = "", kept: bool = False) -> None:
        self.replies, self.before, self.after, self.tool, self.kept = replies, before, after, tool, kept
        self.answers: Callable[[Talk, list[Any]], Any] | None = None
        self.parks = False

    def answered(self, answers: Callable[[Talk, list[Any]], Any], *, parks: bool = False) -> Point:
        """Reached when a tool call that waits is answered. `parks`: in the turn after the one that it belongs to."""
        self.answers, self.parks = answers, parks
        return self


def approve(talk: Talk, tools: list[Any]) -> Any:
    return talk.approve("a", tools=tools)


def change(talk: Talk, tools: list[Any]) -> Any:
    return talk.approve("a", arguments=CHANGED, tools=tools)


def refuse(talk: Talk, tools: list[Any]) -> Any:
    return talk.refuse("a", tools=tools)


POINTS = {
    "said": Point(ENDLESS, after="user"),
    "replying": Point(ENDLESS, kept=True),
    "called": Point([LOOK], after="tool_call"),
    "running": Point([LOOK], tool="look"),
    "ran": Point([LOOK], before="tool_result"),
    "answered": Point([LOOK], after="tool_result"),
    "replying again": Point([LOOK], ENDLESS, kept=True),
    "waiting": Point([PAY], after="model_call"),
    "approving": Point([PAY], before="command").answered(approve),
    "approved": Point([PAY], after="command").answered(approve),
    "paying": Point([PAY], tool="pay").answered(approve),
    "paid": Point([PAY], before="tool_result").answered(approve),
    "receipt": Point([PAY], after="tool_result").answered(approve),
    "refused": Point([PAY], after="command").answered(refuse),
    "beside": Point([PAY, LOOK], tool="look"),
    "one of two": Point([PAY, OTHER], tool="pay").answered(approve),
    "late": Point([PAY], "It rains.", tool="pay").answered(approve, parks=True),
    "changing": Point([PAY], before="command").answered(change),
    "changed": Point([PAY], after="command").answered(change),
    "paying changed": Point([PAY], tool="pay").answered(change),
    "paid changed": Point([PAY], before="tool_result").answered(change),
    "one of two changed": Point([PAY, OTHER], tool="pay").answered(change),
    "late changed": Point([PAY], "It rains.", tool="pay").answered(change, parks=True),
}


class Dying:
    def __init__(self, et: Everthread, name: str, point: Point) -> None:
        self._et, self._name, self._point = et, name, point
        self._there = asyncio.Event()
        self._off = point.answers is not None  # until a tool call that waits is answered

    async def go(self, owner: str) -> None:
        point = self._point
        script(self._name, *point.replies, pace=PACE if ENDLESS in point.replies else 0)
        settings = {"model": f"scripted:{self._name}"}
        self.talk = talk = await self._et.begin(user=owner, name=self._name, settings=settings)
        going = asyncio.create_task(self._turns(talk))
        if point.kept:
            await until(self._is_kept)
        else:
            await self._there.wait()
        sys.stdout.write(json.dumps({"name": self._name, "conversation": talk.id}) + "\n")
        sys.stdout.flush()
        await going

    async def _turns(self, talk: Talk) -> None:
        await talk.say("Go.", tools=self._tools(), key="go")
        if self._point.parks:
            await talk.say("How is the weather?", tools=self._tools())
        self._off = False
        if self._point.answers:
            await self._point.answers(talk, self._tools())

    def _tools(self) -> list[Any]:
        @tool(approval=True)
        async def pay(amount: int) -> str:
            return await self._stay("pay")

        async def look() -> str:
            return await self._stay("look")

        return [pay, look]

    async def _stay(self, name: str) -> str:
        if self._point.tool == name:
            await self._reached()
        return "done"

    async def _reached(self) -> None:
        self._there.set()
        await asyncio.Event().wait()

    async def append(self, append: Any, place: Any, events: Sequence[Event], **how: Any) -> Any:
        kinds = set() if self._off else {event.kind for event in events}
        if self._point.before in kinds:
            await self._reached()
        logged = await append(place, events, **how)
        if self._point.after in kinds:
            await self._reached()
        return logged

    async def _is_kept(self) -> bool:
        line = await self.talk.line()
        kept = await self._et.log.leases.partial(line.tenant, of_turns(line.conversation, line.branch.number))
        return kept is not None and "word" in kept.text


async def main(address: str, owner: str) -> None:
    async with Everthread.open(address, settings={"memory": False}, keys={}) as et:
        append, all = et.log.go_on, [Dying(et, name, point) for name, point in POINTS.items()]

        async def appended(place: Any, events: Sequence[Event], **how: Any) -> Any:
            one = next(one for one in all if hasattr(one, "talk") and one.talk.id == place.conversation)
            return await one.append(append, place, events, **how)

        et.log.go_on = appended  # type: ignore[method-assign, assignment]
        await asyncio.gather(*(one.go(owner) for one in all))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

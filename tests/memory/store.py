"""An open store, and a loop to ask it from tests that are no coroutines: properties over conversations of any shape."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from itertools import count
from typing import Any, TypeVar

from everthread import Everthread, Talk
from everthread.store.open import open_log
from everthread.testing.scripted import script
from tests.memory.support import past_clock

T = TypeVar("T")
MODEL = "openai:gpt-4o"
names = count(1)


class Store:
    def __init__(self, address: str) -> None:
        self.loop, self.clock = asyncio.new_event_loop(), past_clock()
        self.et = self.do(self._open(address))

    async def _open(self, address: str) -> Everthread:
        return Everthread(await open_log(address, clock=self.clock), {"memory": True, "model": MODEL, "clock": "off"})

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def begin(self, *, by: str, **own: Any) -> Talk:
        """A new conversation that is summarised by this model of memory, or in its own words."""
        name = f"properties-{next(names)}"
        model = script(name, *[by] * 40) if by else ""
        # Without a model of memory's own, that of the agent says whether there is one.
        own = {"strategy": "importance", "summary_model": model, "model": MODEL if by else "scripted:mute", **own}
        return self.do(self.et.begin(user=name, name="named", settings=own))

    def close(self) -> None:
        self.do(self.et.close())
        self.do(asyncio.sleep(0))
        self.loop.close()

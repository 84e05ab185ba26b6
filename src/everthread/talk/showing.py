"""The canvas: what is on it, and what somebody does on it."""

from __future__ import annotations

from typing import Any

from everthread import arguments
from everthread.agent.canvas import change_canvas
from everthread.core.branches import ENDLESS
from everthread.core.canvas import Canvas, Change, Element, change_of
from everthread.core.happenings import CanvasChanged
from everthread.core.logged import Logged
from everthread.core.quotes import Quote
from everthread.errors import BadValue
from everthread.store.scripts.append import Basis, Beside
from everthread.talk.bound import Bound
from everthread.tools.context import call_that_runs


class Showing(Bound):
    async def canvas(self, *, at: int | None = None) -> Canvas:
        """What is on the canvas of this branch, or was before event `at`."""
        before = ENDLESS if at is None else min(max(1, arguments.seq("at", at)), ENDLESS)
        return await self._log.canvas.at(await self.line(), before=before)

    async def act(self, *changes: Change | Element | dict[str, Any], by: str = "user") -> Logged:
        """Change the canvas: tick a box, fill in a form, close an element; all of it, or nothing where one of them
        cannot be done (BadValue). An element alone is put there, and a dict is read as JSON, as a page sends it.
        Outrun: other processes have changed the canvas again and again meanwhile.

        The model learns of it with the next message. `by`: who does it; empty for the agent itself. What a tool does
        so is forgotten with its call.
        """
        if not changes:
            raise BadValue("changes", changes, "one change at least")
        given, by = [change_of(one) for one in changes], arguments.name("by", by, empty=True)
        line = await self.line()

        async def write(event: CanvasChanged, basis: Basis, beside: Beside) -> Logged:
            return (await self._log.append(line.target, [event], basis=basis, beside=beside))[0]

        call = call_that_runs()
        return await change_canvas(self._log, line, given, write, by=by, quotes=[Quote(*call)] if call else [])

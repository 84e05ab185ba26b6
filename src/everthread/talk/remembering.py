"""What is remembered beside the conversation: brief, facts, recap, MEMORY.md."""

from __future__ import annotations

from collections.abc import Iterable

from everthread import arguments
from everthread.agent.prepare import memory_tools
from everthread.core.events import BriefUpdated, ToolCall, ToolResult
from everthread.errors import BadValue
from everthread.jobs.memory import memory_worker
from everthread.memory.correct import Remembered, correct, remembered
from everthread.memory.due import due
from everthread.memory.status import Status, memory_of, status
from everthread.talk.bound import Bound
from everthread.tools import notes

LOOK_UP_SECONDS = 60.0


class Remembering(Bound):
    async def brief(self) -> BriefUpdated | None:
        """The newest version of what is remembered since the last clear; None where nothing is yet."""
        line = await self.line()
        found = (await self._log.ask(lambda: due(line, capable=False))).brief.event
        return found if isinstance(found, BriefUpdated) else None

    async def look_up(self, call: ToolCall) -> ToolResult:
        """What one of memory's own tools gives (`recall_context`, `open_event`, `write_memory`), for those who call
        models themselves: append it after the call. What is wrong with it, the result says."""
        if not isinstance(call, ToolCall):
            raise BadValue("call", call, "a tool call of the log: the event of what you appended")
        await self._log.conversations.mine(self.conversation)
        return await memory_tools().run(call, self, seconds=LOOK_UP_SECONDS)

    async def notes(self) -> str:
        """MEMORY.md: what the agent keeps of its user for good."""
        return await notes.read(self._log, await self._log.conversations.mine(self.conversation))

    async def write_notes(self, text: str, *, expect: str | None = None) -> int:
        """Replace MEMORY.md; its version from now on. `expect`: what you saw there; Changed if it is another by now."""
        whose = await self._log.conversations.mine(self.conversation)
        written = await notes.write(self._log, whose, arguments.text("text", text), expect=expect)
        return written.version

    async def remember(self) -> bool:
        """Do now what memory has to do on this branch: briefs, recaps, summaries, a name. Whether anything was due."""
        worker = self._runtime.memory or memory_worker(self._runtime)
        return await worker.once(self.conversation, self._branch)

    async def remembered(self) -> Remembered:
        """All that is remembered on this branch: brief, facts and their events, recap, MEMORY.md, name, goal."""
        memory = await memory_of(self._runtime, self.conversation, await self.line())
        return await remembered(memory, notes=await self.notes())

    async def correct(self, brief: str | None = None, *, drop: Iterable[str] = ()) -> BriefUpdated:
        """Put your own words in place of the brief, and drop the facts that have a text in them.

        It holds at once, and what is remembered later goes on from it. To have something gone for good, `redact` the
        event that says it: memory forgets it, too.
        """
        text = None if brief is None else arguments.text("brief", brief)
        listed = [drop] if isinstance(drop, str) else list(drop)
        memory = await memory_of(self._runtime, self.conversation, await self.line())
        return await correct(memory, text, [arguments.text("drop", one) for one in listed])

    async def memory(self) -> Status:
        """How memory stands on this branch: how far behind, what went wrong last, what it took."""
        return await status(self._runtime, self.conversation, (await self.line()).branch.number)

"""What is to be gone for good."""

from __future__ import annotations

from everthread import arguments
from everthread.context.build import drop_turns_around
from everthread.errors import UnknownSeq
from everthread.talk.bound import Bound
from everthread.tools import notes


class Forgetting(Bound):
    async def redact(self, seq: int) -> None:
        """Take the content out of an event for ever; a tombstone keeps its place."""
        line, seq = await self.line(), arguments.seq("seq", seq)
        newest = await self._log.head(line)
        if seq > newest.seq:
            raise UnknownSeq(seq, last=newest.seq)
        try:
            await drop_turns_around(self._runtime.contexts, self._log.forgetting.redact(line, seq))
        finally:
            self._runtime.remind(self.conversation, line.branch.number)
        # It may have been named by what is gone.
        self.conversation = await self._log.conversations.find(self.conversation.owner, self.id)

    async def erase(self) -> None:
        """Erase the conversation for ever."""
        await drop_turns_around(self._runtime.contexts, self._log.forgetting.erase(self.conversation))

    async def forget_notes(self) -> None:
        """Remove MEMORY.md for ever, with all its versions."""
        whose = await self._log.conversations.mine(self.conversation)
        await drop_turns_around(self._runtime.contexts, notes.forget(self._log, whose))

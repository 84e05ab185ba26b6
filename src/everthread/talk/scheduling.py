"""What is to be said to the agent at a time: made, listed, paused, changed, deleted."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any

import msgspec

from everthread import arguments
from everthread.core import schedules
from everthread.core.schedules import Missed, Schedule
from everthread.talk.bound import Bound
from everthread.tools.context import call_that_runs


class Scheduling(Bound):
    async def schedule(
        self, text: str, *, at: datetime | None = None, cron: str = "", zone: str = "", missed: Missed = "once"
    ) -> Schedule:
        """Have something said to the agent `at` a time, or again and again by a `cron` expression in the time zone
        `zone`: `talk.schedule("What is new?", cron="0 8 * * 1-5", zone="Europe/Berlin")`.

        A worker says it, on whichever branch is current then, and the agent replies with the tools that its process
        has. `at` without a time zone of its own is a local time of `zone`. `missed`: whether what was due while no
        worker ran is made up for by one message ("once") or left out ("skip").
        """
        await self._log.conversations.mine(self.conversation)
        new = schedules.scheduled(text, at=at, cron=cron, zone=zone, missed=missed, now=self.now)
        if call := call_that_runs():
            made = {"made_conversation": call.conversation, "made_branch": call.branch, "made_seq": call.seq}
            new = msgspec.structs.replace(new, **made)
        return await self._log.schedules.add(self.conversation, new)

    async def schedules(self) -> list[Schedule]:
        """The conversation's schedules, those made first before the others."""
        return await self._log.schedules.of(await self._log.conversations.mine(self.conversation))

    async def change_schedule(
        self,
        id: str,
        *,
        text: str | None = None,
        at: datetime | None = None,
        cron: str | None = None,
        zone: str | None = None,
        missed: Missed | None = None,
    ) -> Schedule:
        """Change what is given of a schedule, and leave the rest. A new time holds from now on."""
        change: dict[str, Any] = {"text": text, "at": at, "cron": cron, "zone": zone, "missed": missed}
        return await self._change(id, partial(schedules.changed, now=self.now, **change))

    async def pause_schedule(self, id: str) -> Schedule:
        """Say nothing more by a schedule until it is resumed."""
        return await self._change(id, schedules.paused)

    async def resume_schedule(self, id: str) -> Schedule:
        """Go on with a schedule that was paused, by you or after too many failures. What a cron expression called for
        meanwhile is passed over; a single message whose time has come meanwhile is said at once."""
        return await self._change(id, partial(schedules.resumed, now=self.now))

    async def unschedule(self, id: str) -> None:
        """Delete a schedule for ever. What it has said stays."""
        mine = await self._log.conversations.mine(self.conversation)
        await self._log.schedules.remove(mine, arguments.text("id", id))

    async def _change(self, id: str, to: Callable[[Schedule], Schedule]) -> Schedule:
        mine = await self._log.conversations.mine(self.conversation)
        return await self._log.schedules.change(mine, arguments.text("id", id), to)

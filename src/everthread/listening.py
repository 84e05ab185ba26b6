"""Listening to a branch: events of the log in order, and between them the pieces of the reply that runs.

All listeners of a branch in a process share one `Channel`. What this process appends comes with its bell; everything
else the channel reads, once for all of them. It tells of a running reply what the runner in this process tells, or what
has come over the bus, made up for by what was kept. How a turn ended it reads in the log, so that it knows although it
was not there, and whoever ran the turn; one whose runner is gone it has closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from contextvars import copy_context
from typing import NamedTuple, Protocol

from everthread.core.branches import Line
from everthread.core.deltas import Done
from everthread.core.logged import Logged
from everthread.core.partial import Frame, Partial, Place, Placed, read_partial
from everthread.errors import Conflict
from everthread.store.beside.holders import is_dead
from everthread.store.beside.leases import LeaseName, PartialReply, of_turns
from everthread.store.log import Log
from everthread.store.scripts.read import Newest

LOOK = 5.0  # seconds after which a listener looks for itself, should a bell not ring
GAP = 0.25  # seconds after which a listener that misses pieces looks whether they were kept
PAUSE = 0.02  # seconds between two times that listeners are woken
BEHIND = 10_000  # items that wait for a listener before it has to read them from the log again
AHEAD = 2_000  # frames that wait for those before them
JOIN = "join"  # asks a runner elsewhere to keep now what has come
ENDS = ("model_call", "agent_killed")  # kinds of events with which a turn may end

ChannelItem = Logged | Placed | Done


class BranchTopic(NamedTuple):
    """A branch, as the bus knows it."""

    about: str
    branch: int

    @property
    def name(self) -> str:
        return f"live/{self.about}/{self.branch}"


def topic_of(line: Line) -> BranchTopic:
    return BranchTopic(line.about, line.branch.number)


class Running(Protocol):
    """A turn that runs in this process, as far as listeners know of it."""

    partial: Partial | None

    @property
    def is_ours(self) -> bool:
        """Whether it may speak: its lease has not run out."""


class Around(Protocol):
    """What a channel is told by the rest of its process."""

    log: Log

    def running(self, topic: BranchTopic) -> Running | None:
        """The turn that runs on a branch in this process."""

    async def close_left(self, line: Line) -> object:
        """Close a turn whose runner is gone; TurnBusy where it is not."""

    def forget(self, topic: BranchTopic, channel: Channel) -> None:
        """The channel is of no use any more."""


class Ear:
    """One who listens: what was told and is not heard yet. Of turns that ended after event `after` the end is told."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.known = Place()  # up to where the running reply was heard
        self._items: list[ChannelItem] = []
        self._news: asyncio.Future[None] | None = None  # of one who waits for something to hear
        self.begun = self._behind = False
        self.after = 0
        self._problem: Exception | None = None

    async def begin(self, after: int) -> int:
        """Hear everything from now on, and first what has been told of the running reply, or how the newest turn ended.
        `after`: the last event that the listener knows. The seq of the last event that is not heard this way."""
        await asyncio.shield(self._channel.started)
        await self._channel.catch_up_with(after)
        if not self.begun:
            self.after = after
        self._items.extend(self._channel.ends_after(self.after))
        self._items.extend(self._channel.told_since(self.known))
        self.begun, self._behind = True, False
        return self._channel.seq

    def put(self, items: Sequence[ChannelItem]) -> None:
        if not self.begun or self._behind:
            return
        self._items += items
        if len(self._items) > BEHIND:
            self._items.clear()
            self._behind = True

    def fail(self, problem: Exception) -> None:
        self._problem = problem
        self.wake()

    def wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    async def hear(self) -> list[ChannelItem]:
        """All that was told and is not heard yet, as soon as there is anything. Nothing: it was too much to keep."""
        while not self._items and not self._behind:
            if self._problem:
                raise self._problem
            self._news = asyncio.get_running_loop().create_future()
            await self._news
        items, self._items = self._items, []
        return items


class Channel:
    """All who listen to a branch in this process. `seq`: the event up to which they have been told."""

    def __init__(self, live: Around, line: Line) -> None:
        self._live, self._line, self._topic = live, line, topic_of(line)
        self.ears: list[Ear] = []
        self.seq = -1
        self._owes, self._telling = True, False  # whether an end may be untold; whether it is being found out
        self._ended, self._last = 0, list[Done]()  # the end that was told last; that of the newest turn, if it is over
        self._partial: Partial | None = None
        self._told = ("", 0)  # the partial reply that was told last, and up to which offset
        self._over = 0  # partial replies that follow an earlier event than this are over
        self._ahead: list[Frame] = []
        self._loop, self._context = asyncio.get_running_loop(), copy_context()  # whoever rings may be another tenant's
        self._lease = LeaseName(line.tenant, of_turns(line.conversation, self._topic.branch))
        self._gap: asyncio.TimerHandle | None = None
        self._waking: asyncio.TimerHandle | None = None
        self._woken = 0.0
        self.started: asyncio.Future[None] = self._loop.create_future()
        self._reading: asyncio.Task[None] | None = None  # only while there may be news: most of the time there are none
        self._again = self._closed = False
        self._look_again: asyncio.TimerHandle | None = None
        for about in (self._topic.about, self._lease.about):
            live.log.bells.add(about, self._rung)
        self.look()

    def close(self) -> None:
        self._stop_reading()
        self.started.cancel()
        for timer in (self._gap, self._waking):
            if timer:
                timer.cancel()

    def _stop_reading(self) -> None:
        if self._closed:
            return
        self._closed = True
        for about in (self._topic.about, self._lease.about):
            self._live.log.bells.remove(about, self._rung)
        for one in (self._reading, self._look_again):
            if one:
                one.cancel()

    def fail(self, problem: Exception) -> None:
        for ear in self.ears:
            ear.fail(problem)
        if not self.started.done():
            self.started.set_exception(problem)
            self.started.exception()  # seen, whether or not anybody still waits for it
        self._stop_reading()
        self._live.forget(self._topic, self)

    def look(self) -> None:
        """Read what no bell brought along."""
        self._again = True
        if self._reading is not None or self._closed:
            return
        if self._look_again:
            self._look_again.cancel()
        self._reading = self._loop.create_task(self._read(), context=self._context)

    # -- events --------------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        """Until there is nothing new; then again when a bell rings, or after a while."""
        log = self._live.log
        try:
            if not self.started.done():
                await log.watch()
                log.bus.send(self._topic.name, JOIN)
            while self._again:
                self._again = False
                if not await self._read_on():
                    self._again = True
                if not self.started.done():
                    self.started.set_result(None)
        except Exception as problem:  # noqa: BLE001 -- whatever it is, it is told to those who listen
            self.fail(problem)
            return
        self._reading = None
        self._look_again = self._loop.call_later(LOOK, self.look, context=self._context)

    async def _read_on(self) -> bool:
        """Tell what is new. Whether that is all."""
        found = await self._live.log.newest(self._line, after=None if self.seq < 0 else self.seq)
        if self.seq < 0:
            self.seq = found.seq
        # A lease under which nothing has been written yet says that nobody replies. First of all what is over: nothing
        # is told of a reply after the event that holds it.
        running = found.running if found.running and found.running.at else None
        self._over = max(self._over, running.at if running else found.seq)
        for events in _by_turn(found.events):
            if events[0].kind == "user":
                await self._tell_end(events[0].seq - 1)
            self._take(events)
        self._see(running)
        if found.whole:
            await self._attend(found)
        return found.whole

    async def catch_up_with(self, seq: int) -> None:
        """Somebody knows event `seq`: should we not have heard of it yet, read what is there by now."""
        while self.seq < seq and not await self._read_on():
            pass

    def _rung(self, news: Sequence[Logged] | None) -> None:
        if news is None or self.seq < 0 or self._telling:
            self.look()
        elif own := [event for event in news if event.branch == self._topic.branch]:
            begins = self._owes and any(event.kind == "user" for event in own)  # the end before it comes first
            if begins or own[0].seq > self.seq + 1:
                self.look()
            else:
                self._take(own)

    def _take(self, events: Sequence[Logged]) -> None:
        """Tell of events that follow what has been told."""
        new = [event for event in events if event.seq > self.seq]
        if not new:
            return
        self.seq = new[-1].seq
        kinds = [event.kind for event in new]
        if "user" in kinds:
            self._last.clear()
        if "agent_killed" in kinds:
            self._over = max(self._over, *(event.seq for event in new if event.kind == "agent_killed"))
        self._put(new)
        if self._ahead:
            self._catch_up()
        else:
            self.flush()
        if self._owes or any(kind in ENDS for kind in kinds):
            self._owes = True
            self.look()  # a turn may be over

    def _put(self, items: Sequence[ChannelItem]) -> None:
        for ear in self.ears:
            ear.put(items)
        self._wake()

    def _wake(self) -> None:
        """Wake who listens: at once, and then not for a moment, so that what comes thick and fast is heard together."""
        if self._waking is not None:
            return
        rest = self._woken + PAUSE - self._loop.time()
        if rest <= 0:
            self._wake_all()
        else:
            self._waking = self._loop.call_later(rest, self._wake_all)

    def _wake_all(self) -> None:
        self._waking, self._woken = None, self._loop.time()
        for ear in self.ears:
            ear.wake()

    # -- the end of a turn ---------------------------------------------------------------------------------------

    async def _attend(self, found: Newest) -> None:
        """Where nobody runs a turn, tell how the newest ended; have it closed, if its runner is gone."""
        lease, live = found.running, self._live
        if live.running(self._topic) is not None:
            return
        if lease and lease.until > live.log.now and not is_dead(lease.holder):
            return
        if lease:
            with suppress(Conflict):  # somebody else was faster
                await live.close_left(self._line)
        else:
            await self._tell_end(self.seq)

    async def _tell_end(self, seq: int) -> None:
        """Tell how the turn of event `seq` has ended, unless it was told, or has not."""
        if not self._owes:
            return
        self._owes, self._telling = False, True
        try:
            done = await self._live.log.ended(self._line, at=seq)
        finally:
            self._telling = False
        if done is None:
            return
        if seq == self.seq:
            self._last = [done]
        if done.seq > self._ended:
            self._ended = done.seq
            for ear in self.ears:
                if done.seq > ear.after:
                    ear.put([done])
            self._wake()

    def ends_after(self, seq: int) -> list[Done]:
        """How the newest turn ended, if it is over and has events after that."""
        return [done for done in self._last if done.seq > seq]

    # -- the running reply ---------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Tell what has come of the running reply, once the events before it have been told."""
        run = self._live.running(self._topic)
        if run is not None:
            self._partial = run.partial
            if not run.is_ours:
                return
        partial = self._partial
        if partial is None or not self._over <= partial.at <= self.seq:
            return
        self._over = partial.at
        if new := partial.since(self._offset(partial)):
            self._told = (partial.id, new[-1].end)
            self._put(new)

    def _offset(self, partial: Partial) -> int:
        id, offset = self._told
        return offset if id == partial.id else 0

    def told_since(self, known: Place) -> list[Placed]:
        """What has been told of the running reply, after the last piece that somebody knows of it."""
        partial = self._partial
        if partial is None or partial.at < self._over:
            return []
        later = partial.since(known.end if known.reply == partial.id else 0)
        return [placed for placed in later if placed.end <= self._offset(partial)]

    def _see(self, kept: PartialReply | None) -> None:
        """What the row says of a reply that runs in another process."""
        if self._live.running(self._topic) is not None:
            self.flush()
        elif kept is None:
            self._partial = None
        elif kept.at > self.seq:
            self.look()  # events have come meanwhile
        elif kept.at >= self._over and (self._partial is None or self._partial.at <= kept.at):
            self._merge(read_partial(kept.text), kept.at)
            self._catch_up()

    def _merge(self, found: Partial | None, at: int) -> None:
        """What was kept; nothing of it, where the reply that follows event `at` has just begun."""
        if self._partial and self._partial.at < at:
            self._partial = None
        if found is None:
            return
        if self._partial is None or self._partial.id != found.id:
            self._partial = found
            return
        for offset, piece in found.joined():
            self._partial.put(offset, piece)

    def heard(self, heard: Frame) -> None:
        """Pieces that another process has sent."""
        if heard.at < self._over or self._live.running(self._topic) is not None:
            return
        self._ahead.append(heard)
        del self._ahead[:-AHEAD]
        self._catch_up()

    def _catch_up(self) -> None:
        """Put what has come over the bus where it belongs, and tell what follows on what has been told."""
        waiting, self._ahead = self._ahead, []
        for one in waiting:
            if one.at > self.seq:
                self._ahead.append(one)
                self.look()  # the events before it are on their way
            elif one.at >= self._over and not self._fits(one):
                self._ahead.append(one)
                self._look_soon()
        self.flush()

    def _fits(self, one: Frame) -> bool:
        partial = self._partial
        if partial is None or (partial.id != one.id and partial.at <= one.at):
            partial = self._partial = Partial(one.id, one.at)
        if partial.id != one.id:
            return True  # of one that is over
        return partial.take(one)

    def _look_soon(self) -> None:
        if self._gap is None or self._gap.when() <= self._loop.time():
            self._gap = self._loop.call_later(GAP, self.look)


def _by_turn(events: Sequence[Logged]) -> Iterator[Sequence[Logged]]:
    """The events, in stretches that begin with what the user says."""
    start = 0
    for index, event in enumerate(events):
        if index and event.kind == "user":
            yield events[start:index]
            start = index
    if events:
        yield events[start:]

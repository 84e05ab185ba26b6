"""Who runs a turn, and who listens.

A turn has one runner (`Run`) and any number of listeners. What the runner tells is heard at once by those who listen in
its process, over the bus by those in others, and is kept once a second in the row of the turn's lease: so whoever joins
in the middle hears the running reply from its first word, and of a runner that is killed a second of it is lost.

A listener hears the events of the log, in order and each once, and after them the pieces of the reply that runs. What
has been appended is heard as an event, and its pieces no more. All listeners of a branch share one `Channel`, which
reads the log once for all of them, and not at all for what this process appends itself: that comes with its bell.

The log is the truth; bells, bus and row are on its way to the listener and may be late or lost. A partial reply follows
event `at` of the log, and is over once its runner has written another: the row tells, which is read after the events
and so is never older than they are.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from everthread.core.branches import Line
from everthread.core.deltas import Delta, Done
from everthread.core.events import Command
from everthread.core.logged import Logged, readable
from everthread.core.partial import Frame, Partial, Piece, Placed, frame, frames, read, written
from everthread.errors import BadValue, Closed, EverthreadError
from everthread.store.bus import INTERVAL, LARGEST
from everthread.store.leases import Held, Kept
from everthread.store.log import Log

KEEP = 1.0  # seconds after which what has come of a reply is kept
LOOK = 5.0  # seconds after which a listener looks for itself, should a bell not ring
GAP = 0.25  # seconds after which a listener that misses pieces looks whether they were kept
BEHIND = 10_000  # items that wait for a listener before it has to read them from the log again
AHEAD = 2_000  # frames that wait for those before them
LONGEST = LARGEST // 14 - 50  # characters of a frame: each may be fourteen once it is written as JSON twice
STOP = "stop"  # the command by which a turn is ended from anywhere
JOIN = "join"  # asks a runner elsewhere to keep now what has come

Heard = Logged | Delta


def stop_of(runner: str) -> Command:
    """The command that asks the runner of this name, as its lease has it, to end its turn."""
    return Command(name=STOP, arguments={"runner": runner.rpartition("/")[2]})  # without host and process


_log = logging.getLogger("everthread.live")


class Place(NamedTuple):
    """A branch, as the bus knows it."""

    about: str
    branch: int

    @property
    def topic(self) -> str:
        return f"live/{self.about}/{self.branch}"


def place_of(line: Line) -> Place:
    return Place(line.about, line.branch.number)


class Live:
    """The turns that run in this process, and all who listen in it."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self._runs: dict[Place, Run] = {}
        self._channels: dict[Place, Channel] = {}
        self._topics: dict[str, Place] = {}
        log.bus.hear(self._heard, self._lost)

    # -- running -------------------------------------------------------------------------------------------------

    @contextmanager
    def run(self, line: Line, held: Held, running: asyncio.Task[Any]) -> Iterator[Run]:
        """Be the one who runs a turn of this branch, under a lease. `running` is cancelled when somebody stops it."""
        place = place_of(line)
        run = self._runs[place] = Run(self, line, held, running)
        self._topics[place.topic] = place
        attending = asyncio.create_task(run.attend())
        try:
            with self.log.bells.hear(line.about, run.rung):
                yield run
        finally:
            attending.cancel()
            run.send()  # before anybody else's turn begins
            del self._runs[place]
            self._tidy(place)

    def running(self, place: Place) -> Run | None:
        return self._runs.get(place)

    def told(self, place: Place) -> None:
        """A run of this process has something new."""
        if channel := self._channels.get(place):
            channel.flush()

    # -- listening -----------------------------------------------------------------------------------------------

    async def listen(self, line: Line, *, after: int) -> AsyncIterator[Heard]:
        """The events after seq `after`, then the reply that runs from its first word, then whatever comes."""
        with self._joined(line) as ear:
            while True:  # a listener that fell far behind begins anew from where it is
                async for event in self._between(line, after, await ear.begin(after)):
                    after = event.seq
                    yield event
                while items := await ear.hear():
                    for item in items:
                        if isinstance(item, Placed):
                            yield item.piece
                        elif item.seq > after:
                            after = item.seq
                            yield item

    async def _between(self, line: Line, after: int, last: int) -> AsyncIterator[Logged]:
        while after < last:
            page = await self.log.after(line, after, limit=500)
            for event in page:
                if event.seq <= last:
                    yield event
            after = page[-1].seq if page else last

    @contextmanager
    def _joined(self, line: Line) -> Iterator[Ear]:
        place = place_of(line)
        channel = self._channels.get(place)
        if channel is None:
            channel = self._channels[place] = Channel(self, line)
            self._topics[place.topic] = place
        ear = Ear(channel)
        channel.ears.append(ear)
        try:
            yield ear
        finally:
            channel.ears.remove(ear)
            if not channel.ears:
                channel.close()
                self.forget(place, channel)

    def forget(self, place: Place, channel: Channel) -> None:
        """Whoever joins from now on gets another channel."""
        if self._channels.get(place) is channel:
            del self._channels[place]
            self._tidy(place)

    def _tidy(self, place: Place) -> None:
        if place not in self._runs and place not in self._channels:
            self._topics.pop(place.topic, None)

    # -- the bus -------------------------------------------------------------------------------------------------

    def _heard(self, topic: str, message: str) -> None:
        place = self._topics.get(topic)
        if place is None or not message:
            return
        if message == JOIN:
            if run := self._runs.get(place):
                run.keep_now()
        elif (channel := self._channels.get(place)) and (heard := frame(message)):
            channel.heard(heard)

    def _lost(self) -> None:
        for channel in self._channels.values():
            channel.look()

    def close(self) -> None:
        """Let go of everybody who listens."""
        for channel in tuple(self._channels.values()):
            channel.fail(Closed("The store"))


class Run:
    """A turn that runs in this process. Its `partial` is what has been told since it last appended something."""

    def __init__(self, live: Live, line: Line, held: Held, running: asyncio.Task[Any]) -> None:
        self._live, self.line, self._running = live, line, running
        self._place, self._held = place_of(line), held
        self._nonce = secrets.token_hex(6)
        self._before: list[Piece] = []  # what was told before anything was written, or while it is
        self.partial: Partial | None = None
        self._stop = stop_of(held.lease.holder)
        self.stopped = False
        self._forgotten = 0
        self._model = ""
        self._sent = 0  # the offset up to which the bus was told
        self._pause: asyncio.TimerHandle | None = None
        self._kept = 0
        self._wake = asyncio.Event()
        self._hurry, self._look = False, True  # somebody may have asked for the end before we were there

    # -- telling -------------------------------------------------------------------------------------------------

    def tell(self, piece: Piece) -> None:
        """Tell all who listen."""
        if self.partial is None:
            self._before.append(piece)
            return
        self.partial.add(piece)
        self.flush()

    def moves(self) -> None:
        """Something is about to be written: who joins from now on hears what was told as an event, or not at all."""
        self.send()  # before the bell that tells of it
        self.partial = None
        self._live.told(self._place)

    def moved(self, seq: int) -> None:
        """Something was written: what is told from now on follows event `seq`."""
        self.partial = Partial(f"{self._nonce}/{seq}", seq, self._model)
        self._sent = self._kept = 0
        before, self._before = self._before, []
        for piece in before:
            self.partial.add(piece)
        self.flush()

    def replies(self, model: str, *, forgotten: int) -> None:
        """A model replies from now on, to a request that was built when something had been redacted so often."""
        self._model, self._forgotten = model, forgotten
        if self.partial is not None:
            self.partial.model = model

    def flush(self) -> None:
        """Pass on what was told, unless the lease has run out: it may be another's turn by now."""
        if not self._is_ours:
            return
        self._live.told(self._place)
        if self._pause is None:
            self.send()

    @property
    def _is_ours(self) -> bool:
        return not self._held.lost and self._live.log.now < self._held.until

    def send(self) -> None:
        """Tell other processes now what they have not been told, and then not for a moment: texts are joined."""
        if self.partial is None or self.partial.length == self._sent or not self._is_ours:
            return
        for one in frames(self.partial, self._sent, longest=LONGEST):
            with suppress(BadValue):  # longer than the bus takes: those elsewhere read it from the row
                self._live.log.bus.send(self._place.topic, one.written())
        self._sent = self.partial.length
        if self._pause is None:
            self._pause = asyncio.get_running_loop().call_later(INTERVAL, self._go_on)

    def _go_on(self) -> None:
        self._pause = None
        self.send()

    # -- keeping, and being stopped ------------------------------------------------------------------------------

    def rung(self, news: Sequence[Logged] | None) -> None:
        """Something was written in the conversation."""
        if news is None:
            self._look = True
            self._wake.set()
        else:
            self._check(news)

    def keep_now(self) -> None:
        self._hurry = True
        self._wake.set()

    def _check(self, events: Sequence[Logged]) -> None:
        commands = readable(one for one in events if one.kind == "command")
        if not self.stopped and any(one.event == self._stop for one in commands):
            self.stopped = True
            self._running.cancel()

    async def attend(self) -> None:
        """Once a second keep what has come; and look whether somebody has asked for the end."""
        log, clock = self._live.log, asyncio.get_running_loop().time  # which nobody sets back
        await log.watch()
        looked = kept = clock()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(KEEP):
                    await self._wake.wait()
            self._wake.clear()
            self.flush()  # what waited for the lease to be renewed
            try:
                if self._look or clock() - looked > LOOK:
                    self._look, looked = False, clock()
                    self._check(await log.markers(self.line, "command", limit=5))
                if self._hurry or clock() - kept >= KEEP:
                    self._hurry, kept = False, clock()
                    await self._keep()
            except EverthreadError as problem:
                _log.debug("What has come of a reply is not kept yet: %s", problem)

    async def _keep(self) -> None:
        partial = self.partial
        if partial is None or partial.length == self._kept:
            return
        length = partial.length
        conversation, log = self.line.conversation, self._live.log
        await log.keep(self._held.lease, conversation, at=partial.at, text=written(partial), forgotten=self._forgotten)
        if partial is self.partial:
            self._kept = length


class Ear:
    """One who listens: what was told and is not heard yet."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._known: Placed | None = None  # the last piece that was heard
        self._items: list[Logged | Placed] = []
        self._news: asyncio.Future[None] | None = None  # of one who waits for something to hear
        self._begun = self._behind = False
        self._problem: Exception | None = None

    async def begin(self, after: int) -> int:
        """Hear everything from now on, and first what has been told of the running reply. `after`: the last event that
        the listener knows. The seq of the last event that is not heard this way."""
        await asyncio.shield(self._channel.started)
        await self._channel.catch_up_with(after)
        self._items.extend(self._channel.told_since(self._known) if self._begun else self._channel.runs())
        self._begun, self._behind = True, False
        return self._channel.seq

    def put(self, items: Sequence[Logged | Placed]) -> None:
        if not self._begun or self._behind:
            return
        self._items += items
        if len(self._items) > BEHIND:
            self._items.clear()
            self._behind = True
        self._wake()

    def fail(self, problem: Exception) -> None:
        self._problem = problem
        self._wake()

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    async def hear(self) -> list[Logged | Placed]:
        """All that was told and is not heard yet, as soon as there is anything. Nothing: it was too much to keep."""
        while not self._items and not self._behind:
            if self._problem:
                raise self._problem
            self._news = asyncio.get_running_loop().create_future()
            await self._news
        items, self._items = self._items, []
        self._known = next((item for item in reversed(items) if isinstance(item, Placed)), self._known)
        return items


class Channel:
    """All who listen to a branch in this process. `seq`: the event up to which they have been told."""

    def __init__(self, live: Live, line: Line) -> None:
        self._live, self._line, self._place = live, line, place_of(line)
        self.ears: list[Ear] = []
        self.seq = -1
        self._partial: Partial | None = None
        self._told = ("", 0)  # the partial reply that was told last, and up to which offset
        self._over = 0  # partial replies that follow an earlier event than this are over
        self._ahead: list[Frame] = []
        self._bell = asyncio.Event()
        self._gap: asyncio.TimerHandle | None = None
        self.started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._reading = asyncio.create_task(self._read())

    def close(self) -> None:
        self._reading.cancel()
        self.started.cancel()
        if self._gap:
            self._gap.cancel()

    def fail(self, problem: Exception) -> None:
        for ear in self.ears:
            ear.fail(problem)
        if not self.started.done():
            self.started.set_exception(problem)
            self.started.exception()  # seen, whether or not anybody still waits for it
        self._reading.cancel()
        self._live.forget(self._place, self)

    def look(self) -> None:
        self._bell.set()

    # -- events --------------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        """Read what no bell brought along, whenever one rings."""
        log = self._live.log
        try:
            with log.bells.hear(self._place.about, self._rung):
                await log.watch()
                log.bus.send(self._place.topic, JOIN)
                while True:
                    self._bell.clear()
                    whole = await self._read_on()
                    if not self.started.done():
                        self.started.set_result(None)
                    if whole:
                        with suppress(TimeoutError):
                            async with asyncio.timeout(LOOK):
                                await self._bell.wait()
        except Exception as problem:  # noqa: BLE001 -- whatever it is, it is told to those who listen
            self.fail(problem)

    async def _read_on(self) -> bool:
        """Tell what is new. Whether that is all."""
        found = await self._live.log.newest(self._line, after=None if self.seq < 0 else self.seq)
        if self.seq < 0:
            self.seq = found.seq
        # A lease under which nothing has been written yet says that nobody replies. First of all what is over: nothing
        # is told of a reply after the event that holds it.
        running = found.running if found.running and found.running.at else None
        self._over = max(self._over, running.at if running else found.seq)
        self._take(found.events)
        self._see(running)
        return found.whole

    async def catch_up_with(self, seq: int) -> None:
        """Somebody knows event `seq`: should we not have heard of it yet, read what is there by now."""
        while self.seq < seq and not await self._read_on():
            pass

    def _rung(self, news: Sequence[Logged] | None) -> None:
        own = None if news is None else [event for event in news if event.branch == self._line.branch.number]
        if own is None or self.seq < 0 or (own and own[0].seq > self.seq + 1):
            self._bell.set()
        elif own:
            self._take(own)

    def _take(self, events: Sequence[Logged]) -> None:
        """Tell of events that follow what has been told."""
        new = [event for event in events if event.seq > self.seq]
        if new:
            self.seq = new[-1].seq
            self._put(new)
            self._catch_up()

    def _put(self, items: Sequence[Logged | Placed]) -> None:
        for ear in self.ears:
            ear.put(items)

    # -- the running reply ---------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Tell what has come of the running reply, once the events before it have been told."""
        run = self._live.running(self._place)
        if run is not None:
            self._partial = run.partial
        partial = self._partial
        if partial is None or partial.at > self.seq:
            return
        if new := partial.since(self._offset(partial)):
            self._told = (partial.id, new[-1].end)
            self._put(new)

    def _offset(self, partial: Partial) -> int:
        id, offset = self._told
        return offset if id == partial.id else 0

    def runs(self) -> list[Placed]:
        """What has been told of the running reply; nothing where its turn is over."""
        told = self.told_since(None)
        return [] if told and isinstance(told[-1].piece, Done) else told

    def told_since(self, known: Placed | None) -> list[Placed]:
        """What has been told of the running reply, after the last piece that somebody knows of it."""
        partial = self._partial
        if partial is None:
            return []
        later = partial.since(known.end if known and known.id == partial.id else 0)
        return [placed for placed in later if placed.end <= self._offset(partial)]

    def _see(self, kept: Kept | None) -> None:
        """What the row says of a reply that runs in another process."""
        if self._live.running(self._place) is not None:
            self.flush()
        elif kept is None:
            self._partial = None
        elif kept.at > self.seq:
            self._bell.set()  # events have come meanwhile
        elif kept.at >= self._over and (self._partial is None or self._partial.at <= kept.at):
            self._merge(read(kept.text), kept.at)
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
        if heard.at < self._over or self._live.running(self._place) is not None:
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
                self._bell.set()  # the events before it are on their way
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
        offset = one.offset
        for piece in one.pieces:
            if not partial.put(offset, piece):
                return False
            offset = partial.length
        return True

    def _look_soon(self) -> None:
        if self._gap is None or self._gap.when() <= asyncio.get_running_loop().time():
            self._gap = asyncio.get_running_loop().call_later(GAP, self._bell.set)

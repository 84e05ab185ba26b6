"""Who runs a turn, and who listens: read this first, then `listening`.

A turn has one runner and any number of listeners. What the runner tells its `LiveTurn` is heard at once by those who
listen in its process, over the bus by those in others, and is kept once a second in the row of the turn's lease: so
whoever joins in the middle hears the running reply from its first word, and a runner that is killed loses a second of
it.

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
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager, suppress
from typing import Any

from everthread.core.branches import Line
from everthread.core.deltas import Done
from everthread.core.events import Command
from everthread.core.logged import Logged, readable
from everthread.core.partial import LiveDelta, Partial, Place, Placed, frame, frames, write_partial
from everthread.core.told import Told
from everthread.errors import BadValue, Closed, EverthreadError, NotFound
from everthread.listening import JOIN, LOOK, BranchTopic, Channel, ChannelItem, Ear, topic_of
from everthread.store.beside.leases import Held
from everthread.store.bus.base import INTERVAL, LARGEST, NoBus
from everthread.store.log import Log

KEEP = 1.0  # seconds after which what has come of a reply is kept
TOGETHER = 100  # events that are read together for one who catches up
LARGE = 256 * 1024  # bytes of events from which they are told in several messages
LONGEST = LARGEST // 14 - 50  # characters of a frame: each may be fourteen once it is written as JSON twice
ASKED = 60_000_000  # microseconds before a turn began in which nobody can have asked for its end: clocks differ
STOP = "stop"  # the command by which a turn is ended from anywhere


def stop_of(runner: str) -> Command:
    """The command that asks the runner of this name, as its lease has it, to end its turn."""
    return Command(name=STOP, arguments={"runner": runner.rpartition("/")[2]})  # without host and process


_log = logging.getLogger("everthread.live")


class Live:
    """The turns that run in this process, and all who listen in it."""

    def __init__(self, log: Log, *, close: Callable[[Line], Awaitable[object]]) -> None:
        """`close` closes a turn whose runner is gone; TurnBusy where it is not."""
        self.log, self._close = log, close
        self._runs: dict[BranchTopic, LiveTurn] = {}
        self._channels: dict[BranchTopic, Channel] = {}
        self._topics: dict[str, BranchTopic] = {}
        self._leave_bus: Callable[[], None] | None = None  # heard only while there is a topic: we may be dropped

    # -- running -------------------------------------------------------------------------------------------------

    @contextmanager
    def run(self, line: Line, held: Held, running: asyncio.Task[Any]) -> Iterator[LiveTurn]:
        """Be the one who runs a turn of this branch, under a lease. `running` is cancelled when somebody stops it."""
        topic = topic_of(line)
        run = self._runs[topic] = LiveTurn(self, line, held, running)
        self._attend_to(topic)
        attending = asyncio.create_task(run.attend())
        try:
            with self.log.bells.hear(line.about, run.rung):
                yield run
        finally:
            attending.cancel()
            run.moves()  # whatever was told is an event by now, or was in vain
            del self._runs[topic]
            self._tidy(topic)
            if channel := self._channels.get(topic):
                channel.look()  # how the turn ended is told once nobody runs it, and its last bell has rung by now

    def running(self, topic: BranchTopic) -> LiveTurn | None:
        return self._runs.get(topic)

    async def close_left(self, line: Line) -> None:
        """Close a turn whose runner is gone."""
        await self._close(line)

    def told(self, topic: BranchTopic) -> None:
        """A run of this process has something new."""
        if channel := self._channels.get(topic):
            channel.flush()

    # -- listening -----------------------------------------------------------------------------------------------

    async def listen(self, branch: Callable[[], Awaitable[Line]], *, after: Place) -> AsyncGenerator[Told, None]:
        """The events after a place, then the reply that runs, from its first word or from that place, then whatever
        comes; each with the place after it. It stays on the branch that is given when somebody begins to listen."""
        async with aclosing(self.listen_together(branch, after=after)) as several:
            async for some in several:
                for one in some:
                    yield one
                del some, one  # what was told last may be large, and nothing more may come for days

    async def listen_together(
        self, branch: Callable[[], Awaitable[Line]], *, after: Place
    ) -> AsyncGenerator[list[Told], None]:
        """The same, all that is there at a moment together: whoever has fallen behind is told with one message what
        would else take many."""
        line, place = await branch(), after
        with self._joined(line) as ear:
            ear.known = after
            while True:  # a listener that fell far behind begins anew from where it is
                async for events in self._between(line, place.seq, await ear.begin(place.seq)):
                    place = Place(events[-1].seq)
                    yield [Told(str(Place(event.seq)), event) for event in events]
                    del events
                while items := await ear.hear():
                    told, place = _placed(items, place, ear)
                    items.clear()
                    if told:
                        yield told
                    del told  # it may be large, and nothing more may come for days

    async def _between(self, line: Line, after: int, last: int) -> AsyncIterator[list[Logged]]:
        """The events between two, as many together as are not too large."""
        while after < last:
            page = await self.log.after(line, after, limit=TOGETHER)
            for some in _not_too_large([event for event in page if event.seq <= last]):
                yield some
                await asyncio.sleep(0)  # who catches up with much is not to keep others waiting, or has gone meanwhile
            after = page[-1].seq if page else last

    @contextmanager
    def _joined(self, line: Line) -> Iterator[Ear]:
        topic = topic_of(line)
        channel = self._channels.get(topic)
        if channel is None:
            channel = self._channels[topic] = Channel(self, line)
            self._attend_to(topic)
        ear = Ear(channel)
        channel.ears.append(ear)
        try:
            yield ear
        finally:
            channel.ears.remove(ear)
            if not channel.ears:
                channel.close()
                self.forget(topic, channel)

    def forget(self, topic: BranchTopic, channel: Channel) -> None:
        """Whoever joins from now on gets another channel."""
        if self._channels.get(topic) is channel:
            del self._channels[topic]
            self._tidy(topic)

    def _attend_to(self, topic: BranchTopic) -> None:
        self._topics[topic.name] = topic
        if self._leave_bus is None:
            self._leave_bus = self.log.bus.hear(self._heard, self._lost)

    def _tidy(self, topic: BranchTopic) -> None:
        if topic not in self._runs and topic not in self._channels:
            self._topics.pop(topic.name, None)
        if not self._topics and self._leave_bus is not None:
            self._leave_bus()
            self._leave_bus = None

    # -- the bus -------------------------------------------------------------------------------------------------

    def _heard(self, name: str, message: str) -> None:
        topic = self._topics.get(name)
        if topic is None or not message:
            return
        if message == JOIN:
            if run := self._runs.get(topic):
                run.keep_now()
        elif (channel := self._channels.get(topic)) and (heard := frame(message)):
            channel.heard(heard)

    def _lost(self) -> None:
        for channel in self._channels.values():
            channel.look()

    def close(self) -> None:
        """Let go of everybody who listens."""
        for channel in tuple(self._channels.values()):
            channel.fail(Closed("The store"))


def _not_too_large(events: Sequence[Logged]) -> Iterator[list[Logged]]:
    some, size = list[Logged](), 0
    for event in events:
        some.append(event)
        size += len(event.body)
        if size > LARGE:
            yield some
            some, size = [], 0
    if some:
        yield some


def _placed(items: Sequence[ChannelItem], place: Place, ear: Ear) -> tuple[list[Told], Place]:
    """What was heard, each with the place after it, and the last place. Events that are known are left out."""
    told = []
    for item in items:
        if isinstance(item, Placed):
            ear.known = place = Place(place.seq, item.id, item.end)
            told.append(Told(str(place), item.piece))
        elif isinstance(item, Done):
            ear.after = item.seq
            told.append(Told(str(place), item))
        elif item.seq > place.seq:
            place = Place(item.seq)
            told.append(Told(str(place), item))
    return told, place


class LiveTurn:
    """A turn that runs in this process. Its `partial` is what has been told since it last appended something."""

    def __init__(self, live: Live, line: Line, held: Held, running: asyncio.Task[Any]) -> None:
        self._live, self.line, self._running = live, line, running
        self._topic, self.held = topic_of(line), held
        self._nonce = secrets.token_hex(6)
        self._before: list[LiveDelta] = []  # what was told before anything was written, or while it is
        self.partial: Partial | None = None
        self._stop = stop_of(held.lease.holder)
        self.stopped = False
        self._forgotten = 0
        self._model = ""
        self._alone = isinstance(live.log.bus, NoBus)  # nobody elsewhere would hear it
        self._sent = 0  # the offset up to which the bus was told
        self._pause: asyncio.TimerHandle | None = None
        self._kept = 0
        self._wake = asyncio.Event()
        self._looked, self._since = 0, live.log.now - ASKED  # the newest command that was looked at; and since when
        self._hurry, self._look = False, True  # somebody may have asked for the end before we were there

    # -- telling -------------------------------------------------------------------------------------------------

    def tell(self, piece: LiveDelta) -> None:
        """Tell all who listen."""
        if self.partial is None:
            self._before.append(piece)
            return
        self.partial.add(piece)
        self.flush()

    def moves(self) -> None:
        """Something is about to be written: who joins from now on hears what was told as an event, or not at all."""
        self.send()  # before the bell that tells of it, and before anybody else's turn begins
        self.partial = None
        self._live.told(self._topic)

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
        if not self.is_ours:
            return
        self._live.told(self._topic)
        if self._pause is None:
            self.send()

    @property
    def is_ours(self) -> bool:
        """Whether the turn is ours for certain: the lease has not run out."""
        return not self.held.lost and self._live.log.now < self.held.until

    def send(self) -> None:
        """Tell other processes now what they have not been told, and then not for a moment: texts are joined."""
        if self._alone or self.partial is None or self.partial.length == self._sent or not self.is_ours:
            return
        for one in frames(self.partial, self._sent, longest=LONGEST):
            with suppress(BadValue):  # longer than the bus takes: those elsewhere read it from the row
                self._live.log.bus.send(self._topic.name, one.written())
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
                    await log.head(self.line)
                    self._check(await self._commands())
                if self._hurry or clock() - kept >= KEEP:
                    self._hurry, kept = False, clock()
                    await self._keep()
            except NotFound:  # erased: nothing of the reply may stay, so none of it should come
                self._running.cancel()
                return
            except EverthreadError as problem:
                _log.debug("What has come of a reply is not kept yet: %s", problem)

    async def _commands(self) -> list[Logged]:
        """The newest commands, back to the one that was looked at last, or to a while before the turn began."""
        limit = 5
        while True:
            found = await self._live.log.markers(self.line, "command", limit=limit)
            if len(found) < limit or found[-1].seq <= self._looked or found[-1].micros < self._since:
                break
            limit *= 4
        self._looked = max([self._looked, *(one.seq for one in found[:1])])
        return found

    async def _keep(self) -> None:
        partial = self.partial
        if partial is None or partial.length == self._kept:
            return
        length = partial.length
        conversation, log = self.line.conversation, self._live.log
        await log.leases.keep(
            self.held.lease, conversation, at=partial.at, text=write_partial(partial), forgotten=self._forgotten
        )
        if partial is self.partial:
            self._kept = length

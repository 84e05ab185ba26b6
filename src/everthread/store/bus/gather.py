"""What every bus does before it sends and after it hears, whatever carries its messages.

Messages are gathered for a moment and sent together, as payloads of ASCII JSON:

    [sender, [[topic, message], …], number]

`sender` is a random name of the bus, by which it knows its own. The numbers rise, so that no two payloads are alike
(PostgreSQL delivers only one of two that are) and one that had to be sent again is heard once. A payload without
messages says that its sender has dropped some.

Connections come and go. What cannot be sent is tried once more and then dropped, and a connection that is lost is made
again after a pause that grows. The caller of `send` notices nothing.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import chain, count
from json.encoder import encode_basestring_ascii as quoted
from typing import Any, ClassVar, NamedTuple

from everthread.errors import BadValue
from everthread.store.bus.base import INTERVAL, LARGEST, Lost, OnMessage

PAYLOAD = 7_999  # bytes, the most that PostgreSQL takes
ENVELOPE = 50  # of them, at most, for all but the messages
WAITING = 8_000_000  # characters that may wait for a connection before they are dropped
PATIENCE = 5.0  # seconds for an answer, after which a connection counts as lost
PING = 10.0  # seconds of silence after which a connection is tried
SENDERS = 1_000  # processes of which we remember what we heard last

_log = logging.getLogger("everthread.bus")


class GatheringBus(ABC):
    WARN_AFTER: ClassVar[float] = 0.0  # seconds of an outage

    def __init__(self, shown: str) -> None:
        """`shown`: the address as it may be logged."""
        self.sender = secrets.token_hex(8)
        self._gathered = _Gathered()
        self._dropped = False  # and nobody has been told yet
        self._numbers = count(1)
        self._newest: dict[str, int] = {}  # number of each sender
        self._hearers: tuple[tuple[OnMessage, Lost], ...] = ()
        self._sending: asyncio.Task[None] | None = None
        self._listening: asyncio.Task[None] | None = None
        self._tried = asyncio.Event()
        self._closing = asyncio.Event()
        self._unsent = Outage(f"Sending to {shown}", warn_after=self.WARN_AFTER)
        self._unheard = Outage(f"Listening to {shown}", warn_after=self.WARN_AFTER)

    # -- what carries the messages -------------------------------------------------------------------------

    @abstractmethod
    async def _publish(self, payloads: list[str]) -> None:
        """Send all of them at once and in order, over a connection that is made if there is none."""

    @abstractmethod
    async def _attend(self, listening: Callable[[], None]) -> None:
        """Make a connection, call `listening` once it listens, and hand on payloads to `_receive` until it is lost."""

    @abstractmethod
    async def _let_go(self) -> None:
        """Close the connection that sends."""

    # -- the contract --------------------------------------------------------------------------------------

    def send(self, topic: str, message: str = "") -> None:
        entry = f"[{quoted(topic)},{quoted(message)}]"
        if len(entry) - len("[,]") > LARGEST:
            raise BadValue("message", message, f"at most {LARGEST:,} characters with its topic, as ASCII JSON")
        if self._closing.is_set():
            return
        if self._gathered.size > WAITING:
            self._gathered = _Gathered()
            self._dropped = True
        self._gathered.add(entry, bell=not message)
        if self._sending is None:
            self._sending = asyncio.create_task(self._send_all())

    def hear(self, heard: OnMessage, lost: Lost) -> Callable[[], None]:
        hearer = (heard, lost)
        self._hearers = (*self._hearers, hearer)  # another one, because somebody may be told at this moment

        def leave() -> None:
            self._hearers = tuple(one for one in self._hearers if one is not hearer)

        return leave

    async def watch(self) -> None:
        if self._closing.is_set():
            return
        if self._listening is None:
            self._listening = asyncio.create_task(self._listen())
        await self._tried.wait()

    async def close(self) -> None:
        self._closing.set()
        if self._sending:
            await asyncio.wait([self._sending], timeout=PATIENCE)
        tasks = {task for task in (self._sending, self._listening) if task}
        while tasks:  # more than once: before Python 3.12 `wait_for`, which drivers use, may swallow a cancellation
            for task in tasks:
                task.cancel()
            _, tasks = await asyncio.wait(tasks, timeout=INTERVAL)
        await self._let_go()

    # -- sending -------------------------------------------------------------------------------------------

    async def _send_all(self) -> None:
        try:
            pause = INTERVAL
            while self._gathered or self._dropped:
                await self._rest(pause)
                pause = await self._send_gathered()
                if pause > INTERVAL and self._closing.is_set():
                    return
        finally:
            self._sending = None

    async def _send_gathered(self) -> float:
        """Send what there is, or drop it. The pause before the next time."""
        payloads = self._payloads()
        self._gathered, self._dropped = _Gathered(), False
        try:
            try:
                await self._publish(payloads)
            except Exception:  # noqa: BLE001 — the connection may have died long ago, while nothing was sent
                await self._publish(payloads)
        except Exception as problem:  # noqa: BLE001 — drivers raise all kinds of errors, and none is the sender's
            self._dropped = True
            return INTERVAL + self._unsent.goes_on(problem)
        self._unsent.is_over()
        return INTERVAL

    def _payloads(self) -> list[str]:
        pieces = _packed(self._gathered, PAYLOAD - ENVELOPE)
        if self._dropped:
            pieces = chain([""], pieces)
        return [f'["{self.sender}",[{piece}],{next(self._numbers)}]' for piece in pieces]

    async def _rest(self, seconds: float) -> None:
        """Wait, but not while somebody waits for us to close."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closing.wait()

    # -- hearing -------------------------------------------------------------------------------------------

    async def _listen(self) -> None:
        try:
            while True:
                try:
                    await self._attend(self._listens)
                except Exception as problem:  # noqa: BLE001 — whatever it was, hearing has to come back
                    self._tried.set()
                    await asyncio.sleep(self._unheard.goes_on(problem))
        finally:
            self._tried.set()

    def _listens(self) -> None:
        self._unheard.is_over()
        self._tell_lost()
        self._tried.set()

    def _receive(self, text: str | bytes) -> None:
        payload = _read(text)
        if payload is None:
            _log.debug("something else than a bus sent %d characters", len(text))
        elif payload.sender != self.sender and self._is_new(payload):
            self._tell(payload)

    def _tell(self, payload: Payload) -> None:
        for topic, message in payload.messages:
            for heard, _ in self._hearers:
                _call(heard, topic, message)
        if not payload.messages:
            self._tell_lost()

    def _tell_lost(self) -> None:
        for _, lost in self._hearers:
            _call(lost)

    def _is_new(self, payload: Payload) -> bool:
        newest = self._newest.pop(payload.sender, 0)
        self._newest[payload.sender] = max(newest, payload.number)
        if len(self._newest) > SENDERS:
            del self._newest[next(iter(self._newest))]  # from which we have heard nothing for longest
        return payload.number > newest


class Payload(NamedTuple):
    sender: str
    messages: list[list[str]]
    number: int


class Outage:
    """How long something has been away: what is logged of it, and how long to wait before the next try."""

    FIRST, LONGEST = 0.1, 2.0  # seconds

    def __init__(self, what: str, *, warn_after: float) -> None:
        """`warn_after`: seconds for which it may be away before that is worth a warning."""
        self._what = what
        self._warn_after = warn_after
        self._began: float | None = None
        self._told = False
        self._pause = self.FIRST

    def goes_on(self, problem: Exception) -> float:
        now = time.monotonic()
        if self._began is None:
            self._began = now
        if not self._told and now - self._began >= self._warn_after:
            self._told = True
            why = str(problem) or type(problem).__name__
            _log.warning("%s failed (%s): other processes hear of news later; it is tried again.", self._what, why)
        pause, self._pause = self._pause, min(self.LONGEST, self._pause * 2)
        return pause * random.uniform(0.5, 1.5)

    def is_over(self) -> None:
        if self._told:
            _log.info("%s works again.", self._what)
        self._began, self._told, self._pause = None, False, self.FIRST


class _Gathered:
    """What is to be sent, in order; a bell stands where it was sent last, never before what was sent before it."""

    def __init__(self) -> None:
        self._entries: dict[str | int, str] = {}
        self._messages = count()
        self.size = 0

    def add(self, entry: str, *, bell: bool) -> None:
        key = entry if bell else next(self._messages)
        self.size += len(entry) - len(self._entries.pop(key, ""))
        self._entries[key] = entry

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries.values())

    def __bool__(self) -> bool:
        return bool(self._entries)


def _packed(entries: Iterable[str], room: int) -> Iterator[str]:
    """Entries joined to pieces of at most `room` characters."""
    piece: list[str] = []
    size = 0
    for entry in entries:
        if piece and size + len(entry) > room:
            yield ",".join(piece)
            piece, size = [], 0
        piece.append(entry)
        size += len(entry) + len(",")
    if piece:
        yield ",".join(piece)


def _read(text: str | bytes) -> Payload | None:
    """A payload, or None where a stranger sent something else."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    match found:
        case [str(sender), list(messages), int(number)] if all(_is_message(message) for message in messages):
            return Payload(sender, messages, number)
    return None


def _is_message(message: object) -> bool:
    match message:
        case [str(), str()]:
            return True
    return False


def _call(hearer: Callable[..., None], *arguments: Any) -> None:
    try:
        hearer(*arguments)
    except Exception:  # noqa: BLE001 — whatever it is, the others are to hear, too
        _log.exception("a hearer of the bus failed")

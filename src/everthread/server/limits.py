"""How much a caller may ask for: requests a minute, the size of a body, connections, turns at once, tokens a day.

Rates, connections and turns are counted in each process by itself, so that no request waits for it: with `--workers N`
a caller may have up to N times as many. Tokens are counted in the store, from what model calls took since midnight UTC,
forgotten ones included. What runs without a request of its own is held to the same: a child counts as a turn of whoever
had it begun, and what is scheduled as one of its user's (`admit`, the gate of `agent.runtime`).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Any

import msgspec

from everthread.agent.delegate import AT_ONCE, DEPTH
from everthread.agent.reply import Reply
from everthread.agent.runtime import Runtime
from everthread.core.accounts import Caller
from everthread.errors import BadValue, TooMany
from everthread.store.conversations import Owner

MINUTE, DAY = 60.0, 86_400.0
KNOWN = 10_000  # callers whose rates are remembered
FRESH = 5.0  # seconds for which a day's tokens are taken to be what they were
MICROS = 1_000_000

_counted_as: ContextVar[str] = ContextVar("counted_as", default="")  # who asked for what runs here


@contextmanager
def counted_as(caller: Caller) -> Iterator[None]:
    """Turns that are begun meanwhile, by a model as well, count as this caller's."""
    before = _counted_as.set(_name(caller))
    try:
        yield
    finally:
        _counted_as.reset(before)


class Allowance(msgspec.Struct, frozen=True, kw_only=True):
    """What one caller, a user or a key, may have. 0 is no limit."""

    requests: int = 600  # a minute
    body: int = 32 * 1024 * 1024  # bytes
    connections: int = 50  # that last: streams and WebSockets
    turns: int = 8  # at once
    tokens: int = 0  # a day, of input and output


class Meter:
    """What callers have used of their limits, in this process."""

    def __init__(
        self,
        limits: Allowance,
        tokens_today: Callable[[Owner], Awaitable[int]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limits, self._tokens_today, self._clock = limits, tokens_today, clock
        self._buckets: dict[str, tuple[float, float]] = {}  # what is left of a minute's requests, and as of when
        self._connections: Counter[str] = Counter()
        self._turns: Counter[str] = Counter()
        self._tokens: dict[str, tuple[float, int]] = {}

    def request(self, caller: Caller) -> None:
        """Count a request. TooMany: there were too many in the last minute."""
        most = self.limits.requests
        if not most:
            return
        now = self._clock()
        left, since = self._buckets.get(_name(caller), (float(most), now))
        left = min(most, left + (now - since) * most / MINUTE)
        if left < 1:
            raise TooMany("requests a minute", limit=most, seconds=(1 - left) * MINUTE / most)
        if len(self._buckets) >= KNOWN:
            self._buckets.clear()
        self._buckets[_name(caller)] = (left - 1, now)

    @contextmanager
    def connection(self, caller: Caller) -> Iterator[None]:
        """While a stream or WebSocket is open."""
        self._take(self._connections, _name(caller), "open connections", self.limits.connections)
        try:
            yield
        finally:
            self._give_back(self._connections, _name(caller))

    @asynccontextmanager
    async def turn(self, caller: Caller) -> AsyncIterator[Callable[[Reply], None]]:
        """Around the beginning of a turn: what is given here keeps it counted until it is over."""
        over = await self._begin(Owner(caller.tenant, caller.user), _name(caller))
        kept: list[Reply] = []
        try:
            yield kept.append
        except BaseException:
            over()
            raise
        if kept and (task := kept[0]._task) is not None:
            task.add_done_callback(lambda _: over())
        else:
            over()

    async def admit(self, owner: Owner) -> Callable[[], None]:
        """Let a turn begin that no request asks for, a child's or a schedule's, or raise TooMany. What is given is
        called when it is over."""
        return await self._begin(owner, _counted_as.get() or _whose(owner))

    def check_child(self, given: Mapping[str, Any]) -> None:
        """Before a child begins: how many run at once, and how deep, is the store's to say; a caller may ask for less
        than that alone."""
        for name, most in {"at_once": AT_ONCE, "depth": DEPTH}.items():
            if isinstance(asked := given.get(name), int) and asked > most:
                raise BadValue(name, asked, f"{most} at most")

    async def _begin(self, owner: Owner, name: str) -> Callable[[], None]:
        """Count a turn; what is given ends it, once."""
        await self._check_tokens(owner)
        self._take(self._turns, name, "turns at once", self.limits.turns)
        counted = [name]

        def over() -> None:
            if counted:
                self._give_back(self._turns, counted.pop())

        return over

    async def _check_tokens(self, owner: Owner) -> None:
        most = self.limits.tokens
        if not most:
            return
        now, whose = self._clock(), _whose(owner)  # as tokens are counted, whichever key was used
        read, used = self._tokens.get(whose, (-FRESH, 0))
        if now - read >= FRESH:
            used = await self._tokens_today(owner)
            if len(self._tokens) >= KNOWN:
                self._tokens.clear()
            self._tokens[whose] = (now, used)
        if used >= most:
            raise TooMany("tokens a day", limit=most, seconds=DAY - time.time() % DAY)

    def _take(self, counter: Counter[str], name: str, what: str, most: int) -> None:
        if most and counter[name] >= most:
            raise TooMany(what, limit=most, seconds=1)
        counter[name] += 1

    def _give_back(self, counter: Counter[str], name: str) -> None:
        counter[name] -= 1
        if not counter[name]:
            del counter[name]


def _name(caller: Caller) -> str:
    """A user is counted together with all sign-ins and keys, an application by its key."""
    return caller.id if caller.application else _whose(Owner(caller.tenant, caller.user))


def _whose(owner: Owner) -> str:
    return f"{owner.tenant}/{owner.user}"


def held_to(runtime: Runtime, limits: Allowance) -> Meter:
    """A meter for the turns of an open store, which whatever it runs by itself is held to as well."""

    async def tokens_today(owner: Owner) -> int:
        midnight = int(time.time() // DAY * DAY) * MICROS
        return await runtime.log.usage.tokens(owner, since=midnight)

    meter = Meter(limits, tokens_today)
    runtime.gate = meter.admit
    return meter

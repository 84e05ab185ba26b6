"""One model call, a turn's or memory's: made, and made again while it may still succeed.

A call that failed before anything came of the reply is made again after a pause that doubles, with chance in it so that
many callers do not come back together, or after the time that the provider asks for. Once a piece of the reply has
been told, it is not: what came is kept, and the turn ends as interrupted. Every call leaves its record.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, assert_never

import msgspec

from everthread.config import Settings, without_secrets
from everthread.context.build import Context
from everthread.context.plan import Asked
from everthread.context.record import record
from everthread.core.deltas import Delta, Notice, ReasoningDelta, TextDelta, Usage
from everthread.core.events import ModelCall
from everthread.errors import BrokenOff, ModelError, TooLong, WrongKey
from everthread.providers.choose import host_of
from everthread.providers.client import NO_HEADERS, Headers, Replied, StreamPiece
from everthread.providers.models import Model
from everthread.providers.prices import price_of

if TYPE_CHECKING:
    from everthread.agent.runtime import Runtime
    from everthread.providers.client import Client

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
SHRINK = 0.95  # of what should fit after the provider found a request too long
MOST_PATIENCE = 120.0  # seconds that a provider may ask to wait; beyond that the call has failed


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """What a model call sends, and to which model. `record`: what the log keeps of it; made once the call is over,
    because no request should wait for its hashes."""

    tenant: str
    model: str
    about: Model
    settings: Settings
    request: dict[str, Any]
    headers: Headers = NO_HEADERS
    record: Callable[[], ModelCall]


def sent_with(context: Context, *, agent: str, headers: Headers) -> Sent:
    """What a turn sends."""
    return Sent(
        tenant=context.line.tenant,
        model=context.model,
        about=context.about,
        settings=context.settings,
        headers=headers,
        request=context.request,  # or it is more than the model can take: then there is no call
        record=lambda: record(context, agent=agent),
    )


def _nobody_hears(_: Delta) -> None:
    pass


class Calling:
    def __init__(self, runtime: Runtime, sent: Sent, *, tell: Callable[[Delta], None] = _nobody_hears) -> None:
        self._runtime, self._sent, self._tell = runtime, sent, tell
        self._finished: ModelCall | None = None
        self._said: list[str] = []
        self._thought = False
        self._tries = 0
        self.pieces = 0  # of the reply that have come
        self._began = time.monotonic()
        self._first = 0.0
        self.model, self.about = sent.model, sent.about

    @property
    def said(self) -> str:
        """What has come of the reply's text so far."""
        return "".join(self._said)

    @property
    def record(self) -> ModelCall:
        """The record of the call, complete once it has replied."""
        return self._finished or self._timed()

    def failed(self, why: str) -> ModelCall:
        """The record of a call that came to nothing, or broke off."""
        return msgspec.structs.replace(self.record, error=why)

    async def reply(self) -> Replied:
        """The whole reply. Raises ModelError."""
        with self._runtime.observers.model_call(self):
            return await self._whole()

    async def _whole(self) -> Replied:
        async with self._runtime.reach(self.model, self._sent.settings, tenant=self._sent.tenant) as client:
            return await self._tried(client)

    async def _tried(self, client: Client) -> Replied:
        while True:
            self._tries += 1
            try:
                replied = await self._once(client)
            except ModelError as problem:
                problem.args = (self._sent.headers.hidden_in(problem.sentence),)
                self._name_server(problem)
                pause = self._pause(problem)
                if not self._may_go_on(problem, pause):
                    raise
                failed = str(problem).partition(":")[0]
                self._tell(Notice(text=f"{failed}: trying again in {pause:.1f} s.", restarts=self._thought))
                self._thought = False
                await asyncio.sleep(pause)
            else:
                self._finish(replied)
                return replied

    def _may_go_on(self, problem: ModelError, pause: float) -> bool:
        """Whether the call is made again after a pause."""
        left = self._sent.settings.retries - self._tries
        return problem.again and not self._said and left >= 0 and pause <= MOST_PATIENCE

    async def _once(self, client: Client) -> Replied:
        replied: Replied | None = None
        async with client.reply(self._sent.request, **_beside(self._sent.headers)) as pieces:
            async for piece in pieces:  # to the very end, or the connection could not be used again
                self._first = self._first or time.monotonic()
                self.pieces += 1
                replied = self._heard(piece) or replied
        if replied is None:
            raise BrokenOff(self._sent.about.provider, "it ended without an end")
        return replied

    def _heard(self, piece: StreamPiece) -> Replied | None:
        """Tell a piece of the reply; the last piece is the whole of it."""
        match piece:
            case TextDelta():
                self._said.append(piece.text)
                self._tell(piece)
            case ReasoningDelta():
                self._thought = True
                self._tell(piece)
            case Replied():
                return piece
            case _:
                assert_never(piece)
        return None

    def _name_server(self, problem: ModelError) -> None:
        """Add to an error the address of the server, where it is the user's own, and where its key belongs."""
        address = without_secrets(self._sent.settings.address)
        if not address or address in str(problem):
            return
        key = f' Its key stands in the settings file: [keys] "{host_of(address)}" = "…".'
        more = f" The server is {address}.{key if isinstance(problem, WrongKey) else ''}"
        problem.args = (f"{problem}{more}",)

    def _pause(self, problem: ModelError) -> float:
        if problem.after is not None:
            return problem.after
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (self._tries - 1))
        return float(pause * random.uniform(0.5, 1.5))

    def _finish(self, replied: Replied) -> None:
        usage, sent = replied.usage, self._sent
        self._finished = msgspec.structs.replace(
            self._timed(),
            **msgspec.structs.asdict(usage),
            price=self._runtime.price(sent.about, usage, ttl=sent.settings.cache_ttl),
            finish=replied.finish,
        )

    def _timed(self) -> ModelCall:
        now = time.monotonic()
        return msgspec.structs.replace(
            self._sent.record(),
            first_ms=round(((self._first or now) - self._began) * 1000),
            ms=round((now - self._began) * 1000),
            tries=max(1, self._tries),
        )


async def counted(runtime: Runtime, context: Context, headers: Headers) -> int | None:
    """The provider's own count of a context, where it has an endpoint for that. Raises ModelError."""
    try:
        async with runtime.reach(context.model, context.settings, tenant=context.line.tenant) as client:
            return await client.count(context.request, **_beside(headers))
    except ModelError as problem:
        problem.args = (headers.hidden_in(problem.sentence),)
        raise


def _beside(headers: Headers) -> dict[str, Any]:
    """Headers, where there are any: clients that know nothing of them are not told."""
    return {"headers": headers} if headers else {}


def recorded(context: Context, reply: Any, took: tuple[float, float], error: str) -> ModelCall:
    """The record of a model call that the application made itself. `took`: in all, and until the first piece came."""
    from everthread.transfer.objects import finish_of, usage_of  # only for those who call models themselves

    usage = Usage() if reply is None else usage_of(reply)
    whole, first = took
    return msgspec.structs.replace(
        record(context, agent=context.agent),
        **msgspec.structs.asdict(usage),
        price=price_of(context.about.provider, context.about.name, usage, ttl=context.settings.cache_ttl),
        first_ms=round((first or whole) * 1000),
        ms=round(whole * 1000),
        finish="" if reply is None else finish_of(reply),
        error=error,
    )


def of_fallback(asked: Asked, fallback: str) -> Asked:
    """The same of another model. What was meant for the first one's provider alone does not go to it."""
    settings = asked.settings | {"model": fallback, "address": "", "extra_body": ""}
    return msgspec.structs.replace(asked, settings=settings, headers=NO_HEADERS)


def smaller(asked: Asked, context: Context, problem: TooLong) -> Asked:
    """The same with a budget that should fit, from the provider's own figures where it gave them."""
    return msgspec.structs.replace(asked, settings=asked.settings | {"budget": _smaller_budget(context, problem)})


def _smaller_budget(context: Context, problem: TooLong) -> int:
    needed = problem.needed or context.estimate
    limit = problem.limit or int(needed * 0.75)
    room = max(1, limit - context.settings.reply_tokens) if problem.limit else limit
    return max(1, int(min(context.budget, context.estimate) * min(1.0, room / needed) * SHRINK))

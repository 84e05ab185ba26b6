"""What all turns of an open store share: the log, the making of contexts, the providers' clients, what was learnt.

A client is made when its provider is first called and kept, because a connection that is open answers sooner. What is
learnt from reported usage (how many tokens a model counts for each of our own) is written down beside the conversation:
no turn waits for it. It is learnt for the model at its address: any conversation may name another address, and what is
said there must not change what others are sent.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

import msgspec

from everthread.agent.abandoned import close
from everthread.agent.children import Children
from everthread.agent.clients import Clients
from everthread.agent.lease import Queues
from everthread.agent.observer import Observers
from everthread.agent.personas import Agents, Versioned, kept_as, servers, source, versioned
from everthread.config import (
    DEFAULT,
    Resolved,
    Settings,
    Source,
    from_branch,
    from_conversation,
    given_source,
    resolve,
    usable,
)
from everthread.context.budget import in_force
from everthread.context.build import Context, Contexts
from everthread.context.plan import Asked
from everthread.core import calibration, events
from everthread.core.branches import Current, Line
from everthread.core.deltas import Usage
from everthread.core.logged import readable
from everthread.core.strategies import Strategy
from everthread.errors import Conflict, EverthreadError, NoModel
from everthread.live import Live
from everthread.providers.choose import Chosen, access_of, default_model, notice, with_a_key_of_its_own
from everthread.providers.client import Client
from everthread.providers.models import Model
from everthread.providers.prices import price_of
from everthread.providers.registry import provider
from everthread.store.beside.documents import Document
from everthread.store.conversations import Conversation, Owner
from everthread.store.engine import Script
from everthread.store.log import Log
from everthread.store.scripts.read import newest_markers, own_calls
from everthread.tools import Toolbox

FRESH = 1.0  # seconds for which an agent that was read is taken to be as it was
KNOWN = 1_000  # agents that are remembered
CHANGES = 2_000  # newest changes of a branch's settings that are looked at
DEFAULT_AGENT = "default"
MINUTE = 60_000_000  # microseconds
LEAST_WINDOW = 1_000  # tokens: a provider that says less has misspoken

_log = logging.getLogger("everthread.agent")

T = TypeVar("T")


Summarise = Callable[[str, str], "str | Awaitable[str]"]  # from instructions and what was said to a summary
KeysOf = Callable[[str], Awaitable[Mapping[str, str]]]  # from a tenant to its keys, by provider or host and port
Gate = Callable[[Owner], Awaitable[Callable[[], None]]]  # lets a turn begin, or raises TooMany; gives what ends it


async def no_keys(_: str) -> Mapping[str, str]:
    return {}


class MemoryWorker(Protocol):
    """Whoever keeps briefs and recaps up to date, as far as a turn knows of it."""

    def remind(self, conversation: Conversation, branch: int) -> None:
        """Something may be due on a branch. Returns at once."""
        ...

    async def once(self, conversation: Conversation, branch: int | None = None, *, all: bool = True) -> bool:
        """Do what is due on a branch. Whether anything was. Not `all`: extracts only once they are worth it."""
        ...


class Runtime:
    def __init__(
        self,
        log: Log,
        contexts: Contexts,
        *,
        toolbox: Toolbox | None = None,
        strict: bool = False,
        environ: Mapping[str, str] = MappingProxyType({}),
        keys: KeysOf = no_keys,
        strategy: Strategy | None = None,
        summarise: Summarise | None = None,
    ) -> None:
        self.log, self.contexts = log, contexts
        self.strategy, self.summarise = strategy, summarise  # the application's own, where it has any
        self._strict = strict  # whether an agent of which nothing is known is a mistake
        self._agents: dict[tuple[str, str], tuple[float, Versioned | None]] = {}
        self.agents, self.queues = Agents(log, changed=self._agents.clear, locks=lambda: self.locks), Queues()
        self.children = Children()
        self.observers = Observers()
        self.gate: Gate | None = None  # of a service, for turns that no request asks for
        self.live = Live(log, close=self.close_left)
        self._toolbox = toolbox or Toolbox()
        self._toolboxes: dict[tuple[str, str], tuple[str, Toolbox]] = {}
        self._environ, self._keys = environ, keys
        self.memory: MemoryWorker | None = None
        self._clients = Clients(self.beside)
        self._chosen: Chosen | None = None
        self.replies_from: dict[str, dict[str, Any]] = {}
        self._told: set[str] = set()
        self._running: set[asyncio.Task[Any]] = set()
        self._beside: set[asyncio.Task[None]] = set()
        self._calibrations: dict[str, dict[int, int]] | None = None

    # -- agents and tools --------------------------------------------------------------------------------------

    async def agent(self, tenant: str, name: str) -> Versioned | None:
        """The newest version of an agent, as of a moment ago."""
        read, found = self._agents.get((tenant, name), (0.0, None))
        if not read or time.monotonic() - read > FRESH:
            await self.agents.bring(tenant)
            found = self.know(tenant, name, await self.log.documents.get(*kept_as(tenant, name)))
        if found is None and self._strict and name != DEFAULT_AGENT:
            return await self.agents.must_be(tenant, name)
        return found

    def know(self, tenant: str, name: str, document: Document | None) -> Versioned | None:
        """Keep in mind an agent as it was just read."""
        found = versioned(document) if document else None
        if len(self._agents) >= KNOWN:
            self._agents.clear()
        self._agents[tenant, name] = (time.monotonic(), found)
        return found

    def toolbox_of(self, tenant: str, found: Versioned | None) -> Toolbox:
        """The tools of an agent: those that it names, and its own MCP servers'. All there are, where there is none."""
        if found is None:
            return self._toolbox
        named = self._toolbox.only(found.agent.tools)
        if not found.agent.mcp:
            return named
        whose, now = (tenant, found.agent.name), found.agent.hash
        hash, toolbox = self._toolboxes.get(whose, ("", named))
        if hash != now:
            if hash:
                self.beside(toolbox.close())  # the servers of an earlier version
            toolbox = Toolbox([named, *servers(found.agent)])
            self._toolboxes[whose] = (now, toolbox)
        return toolbox

    async def session_gap(
        self, conversation: Conversation, branch: int | None, given: Mapping[str, Any] = MappingProxyType({})
    ) -> int | None:
        """The pause that ends a session on a branch, in microseconds; None where no setting says."""
        try:
            now = await self.log.conversations.find(conversation.owner, conversation.id)
            found = await self.resolved_of(now, await self.log.line(now, branch), given)
        except EverthreadError:  # whatever is wrong with the settings is told when they are used
            return None
        return round(found.settings.session_gap * MINUTE) if found.source_of["session_gap"] != DEFAULT else None

    async def settings_of(self, conversation: Conversation, line: Line) -> Settings:
        """The settings in force on a branch, with the model that replied there last where none is named."""
        return (await self.resolved_of(conversation, line)).settings

    async def resolved_of(
        self, conversation: Conversation, line: Line, given: Mapping[str, Any] = MappingProxyType({})
    ) -> Resolved:
        """The same, with where each was set. `given`: for one call alone."""
        found = await self.agent(conversation.tenant, conversation.agent)
        return await self.log.ask(lambda: self.resolving(conversation, line, found, given))

    async def in_force(self, found: Resolved, tenant: str) -> Resolved:
        """Settings with the budget that a context has under them; where they name no model, with the default one's."""
        named = found.settings.model
        model = named or (await self.default_model(tenant)).model
        settings = msgspec.structs.replace(found.settings, model=model)
        told = in_force(Resolved(settings, found.source_of), self.contexts.learnt.windows)
        return Resolved(msgspec.structs.replace(told.settings, model=named), told.source_of)

    def resolving(
        self,
        conversation: Conversation,
        line: Line,
        found: Versioned | None,
        given: Mapping[str, Any] = MappingProxyType({}),
    ) -> Script[Resolved]:
        """The same as a script, for an agent that was found before."""
        changes = yield from newest_markers(line, "settings", limit=CHANGES)
        branch = [one.event for one in reversed(readable(changes)) if isinstance(one.event, events.SettingsChanged)]
        own = (source(found.agent),) if found else ()
        sources = (
            (yield from self._replied(line)),
            *self.contexts.sources(),
            *own,
            usable(from_conversation(conversation.settings)),
            from_branch(branch),
            given_source(given),
        )
        return resolve(*sources)

    def _replied(self, line: Line) -> Script[Source]:
        """The model and the address that a conversation was answered from last, as far as they are known. What a log
        says of an address may have been put there, and where callers are not the operators it is not gone to."""
        name = "the model that replied last"
        if line.about in self.replies_from:
            return Source(name, self.replies_from[line.about])
        made = yield from own_calls(line)
        if not made:
            return Source(name, {})
        model, address = made[0].call.model or None, made[0].call.address or None
        known = address is None or not self.locks or (self._chosen is not None and address == self._chosen.address)
        return Source(
            name, {"model": model, "address": address} if known else {}, whose="operators" if address else "log"
        )

    @property
    def locks(self) -> bool:
        """Whether callers are not the operators."""
        return any(source.locks for source in self.contexts.sources())

    def replies(self, line: Line, context: Context) -> None:
        """Keep in mind which model replies in a conversation, and from where: the call may have named them."""
        if len(self.replies_from) >= KNOWN:
            self.replies_from.clear()
        self.replies_from[line.about] = {"model": context.model, "address": context.settings.address or None}

    # -- models ------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def reach(self, model: str, settings: Settings, *, tenant: str) -> AsyncIterator[Client]:
        """The client for a model, with the tenant's key, and the address and the patience of these settings: for as
        long as the block lasts. Clients are told apart by the key as well: nobody calls with another tenant's."""
        access = access_of(
            model,
            settings.address,
            self._environ,
            await self._keys(tenant),
            seconds=settings.call_seconds,
            threads=settings.threads,
            window=settings.model_window,
        )
        async with self._clients.lend(access) as client:
            yield client

    async def default_model(self, tenant: str) -> Chosen:
        """Which model replies where none is named, and why: one for which the tenant has a key of its own, if any."""
        if own := with_a_key_of_its_own(await self._keys(tenant)):
            return own
        if self._chosen is None:
            self._chosen = await default_model(self._environ)
        return self._chosen

    async def build(self, way: Line | Current, asked: Asked) -> tuple[Context, Asked]:
        """The context, and what was asked: with the default model, where neither it nor a setting names one."""
        return await self.with_a_model(asked, partial(self.contexts.build, self.log, way), tenant=way.tenant)

    async def with_a_model(
        self, asked: Asked, work: Callable[[Asked], Awaitable[T]], *, tenant: str
    ) -> tuple[T, Asked]:
        """Do something that needs a model; the tenant's default one, where none is named."""
        try:
            return await work(asked), asked
        except NoModel:
            asked = await self._with_default_model(asked, tenant)
            return await work(asked), asked

    async def _with_default_model(self, asked: Asked, tenant: str) -> Asked:
        chosen = await self.default_model(tenant)
        found = Source("the default model", {"model": chosen.model, "address": chosen.address or None})
        return msgspec.structs.replace(asked, sources=(found, *asked.sources))

    def news_of(self, model: str) -> str:
        """What must be said of a model before it first replies; nothing the second time."""
        news = notice(model) if model not in self._told else ""
        if len(self._told) >= KNOWN:  # any text can be a model's name
            self._told.clear()
        self._told.add(model)
        return news

    def price(self, about: Model, usage: Usage, *, ttl: str = "5m") -> float | None:
        return price_of(about.provider, about.name, usage, ttl=ttl)

    # -- what is learnt ----------------------------------------------------------------------------------------

    async def recollect(self) -> None:
        """Read what was learnt earlier, once."""
        if self._calibrations is None:
            self._calibrations = await self.log.calibrations.all()
            for place in self._calibrations:
                self._refactor(place)

    async def learn(self, context: Context, reported: int) -> None:
        """Compare the provider's count of a request with ours, where ours is not exact."""
        about, tools = context.about, context.inputs["tools"]
        if not about.calibrate or (tools and provider(about.provider).leaves_out_tools):
            return  # what was reported is not of all that was counted
        twentieths = calibration.twentieths_of(reported - (about.hidden if tools else 0), context.canonical)
        if twentieths is None:
            return
        await self.recollect()
        assert self._calibrations is not None
        counts = self._calibrations.setdefault(context.place, {})
        counts[twentieths] = counts.get(twentieths, 0) + 1
        self._refactor(context.place)
        await self.log.calibrations.add(context.place, twentieths)

    def learn_window(self, context: Context, limit: int) -> None:
        """The most tokens that a model takes, where its provider told it; until this process ends. Not where that would
        leave less for the request than for the reply: then it is built smaller each time."""
        if limit >= max(LEAST_WINDOW, 2 * context.settings.reply_tokens):
            windows = self.contexts.learnt.windows
            windows[context.place] = min(limit, windows.get(context.place, limit))

    def _refactor(self, place: str) -> None:
        assert self._calibrations is not None
        factor = calibration.factor(self._calibrations[place])
        if factor is not None:
            self.contexts.learnt.factors[place] = factor

    # -- beside the conversation, and the end ------------------------------------------------------------------

    def remind(self, conversation: Conversation, branch: int) -> None:
        """A turn may be over, or something forgotten: memory may have something to do."""
        if self.memory is not None:
            self.memory.remind(conversation, branch)

    def beside(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something that no turn waits for; what goes wrong with it is logged."""
        task = asyncio.create_task(_quietly(work))
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    @property
    def busy(self) -> bool:
        """Whether a turn of this process is under way."""
        return bool(self._running)

    async def idle(self) -> None:
        """Wait until no turn of this process is under way."""
        while running := self._running - {asyncio.current_task()}:
            await asyncio.wait(running)

    async def admit(self, conversation: Conversation) -> Callable[[], None]:
        """Before a turn that nobody asks a service for, a child's or a schedule's: TooMany. To be called when it is
        over."""
        return await self.gate(conversation.owner) if self.gate else _nothing

    @asynccontextmanager
    async def running(self, conversation: Conversation) -> AsyncIterator[asyncio.Task[Any]]:
        """While a turn runs, in this task: closing the store ends it first. What goes wrong with it is logged: who
        began it may have gone."""
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        try:
            with self.observers.turn(conversation):
                yield task
        except Conflict as refused:
            _log.info("A turn of conversation %s was refused: %s", conversation.id, refused)
            raise
        except Exception as problem:
            _log.warning("A turn of conversation %s failed: %s", conversation.id, problem)
            raise
        finally:
            self._running.discard(task)

    async def close_left(self, line: Line) -> bool:
        """Close a turn whose runner is gone. Whether there was one; TurnBusy: somebody runs it."""
        closed = await close(self.log, self.queues, line)
        if closed:
            self.observers.taken_over()
        return closed

    async def interrupt(self) -> None:
        """End the turns that run: what has come of their replies is kept."""
        running = self._running - {asyncio.current_task()}
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)

    async def close(self) -> None:
        """End the turns that run, finish what is under way beside them, and let go of the connections."""
        await self.interrupt()
        self.live.close()
        if self._beside:
            await asyncio.wait(self._beside, timeout=5)
        async with AsyncExitStack() as stack:
            for toolbox in (self._toolbox, *(toolbox for _, toolbox in self._toolboxes.values())):
                stack.push_async_callback(toolbox.close)
            for client in self._clients.take_all():
                stack.push_async_callback(client.close)


def _nothing() -> None:
    """What ends a turn that nobody counts."""


async def _quietly(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except Exception:  # noqa: BLE001 -- whatever it was, no turn may suffer from it
        _log.warning("Something beside the conversation failed", exc_info=True)

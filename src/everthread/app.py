"""Everthread as a library: open a store, hold a conversation.

    async with Everthread.open("sqlite:///talk.db") as et:
        talk = await et.conversation(user="ana", agent="helper")
        async for delta in talk.say("What may I put into the cake?"):
            print(delta, end="")

This is where everything is put together: the log, the settings, the making of contexts, agents, tools and the
providers' clients. What can be done with a conversation is `Talk`.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from everthread import arguments
from everthread.agent.personas import Agents
from everthread.agent.runtime import KeysOf, Runtime, Summarise
from everthread.archive.move import Archiver
from everthread.config import Source, general_sources, keys_of, resolve
from everthread.context.build import Contexts, drop_turns_around
from everthread.core.ids import is_id
from everthread.core.importance import Worth, worth
from everthread.core.metadata import check_metadata
from everthread.core.schedules import Schedule
from everthread.core.settings import GivenSettings
from everthread.core.strategies import Strategy
from everthread.core.tokens import Counter
from everthread.core.turns import SESSION_GAP
from everthread.errors import BadSetting, BadSettingsFile, UnknownConversation
from everthread.jobs.archiver import ArchiveWorker
from everthread.jobs.children import ChildWorker
from everthread.jobs.memory import memory_worker
from everthread.jobs.retention import RetentionWorker
from everthread.jobs.schedules import ScheduleWorker
from everthread.jobs.worker import Did
from everthread.moving import AGENT as AGENT
from everthread.moving import TENANT as TENANT
from everthread.moving import Moving
from everthread.opening import Opening
from everthread.providers.choose import Chosen
from everthread.store.beside.usage import By, UsageTotal
from everthread.store.conversations import NEWEST, Conversation, Totals
from everthread.store.engine import Engine
from everthread.store.home import Home
from everthread.store.listing import ListedConversation
from everthread.store.log import MAX_EVENT_BYTES, Log
from everthread.store.open import archives_beside, open_log, takes_bus
from everthread.store.reach import as_operator
from everthread.store.times import FOREVER
from everthread.talk import Talk
from everthread.tools import Toolbox

if TYPE_CHECKING:
    from everthread.jobs.mirror import MirrorWorker

_log = logging.getLogger("everthread")


class Own(NamedTuple):
    """An application's own functions, in place of Everthread's: docs/howto/extending.md."""

    strategy: Strategy | None = None
    summarise: Summarise | None = None
    counters: Mapping[str, Counter] = MappingProxyType({})


NOTHING_OWN = Own()


class Everthread(Moving):
    """An open store of conversations."""

    def __init__(
        self,
        log: Log,
        settings: Mapping[str, Any] | None = None,
        *,
        environment: bool = True,
        tools: Iterable[Any] = (),
        keys: Mapping[str, str] | KeysOf | None = None,
        strict: bool = False,
        locked: bool = False,
        own: Own = NOTHING_OWN,
        beside: str = "",
    ) -> None:
        """`beside`: the folder for archives where no setting names another."""
        self.log = log  # the operator's door: it does not ask whose a line or place is
        self._home = Home("The store")
        self._settings, self._environment, self._locked = settings or {}, environment, locked
        self._read: tuple[Source, ...] | None = None
        self._given_keys = keys
        self._runtime = Runtime(
            log,
            Contexts(self._sources, own.counters),
            toolbox=Toolbox(tools),
            strict=strict,
            environ=os.environ,
            keys=self._keys,
            strategy=own.strategy,
            summarise=own.summarise,
        )
        self.memory = self._runtime.memory = memory_worker(self._runtime)
        self._scheduled = ScheduleWorker(self._runtime, self.talk)
        self._left = ChildWorker(self._runtime)
        self._mirror: MirrorWorker | None = None
        self.retention = RetentionWorker(log, 0.0, self._runtime.contexts)
        self._archiver = Archiver(log, lambda: self._archive_rules(beside))
        self._archiving = ArchiveWorker(self._archiver, lambda: resolve(*self._sources()).settings)
        log.on_archived(self._archiver.restore)
        log.forgetting.followers.append(self._archiver.delete_owed)

    @staticmethod
    def open(
        address: str | Engine,
        *,
        settings: GivenSettings | None = None,
        environment: bool = True,
        tools: Iterable[Any] = (),
        agents: str | Path | None = None,
        keys: Mapping[str, str] | KeysOf | None = None,
        importance: Worth = worth,
        strategy: Strategy | None = None,
        summarise: Summarise | None = None,
        counters: Mapping[str, Counter] = MappingProxyType({}),
        session_gap: timedelta = timedelta(microseconds=SESSION_GAP),
        max_event_bytes: int = MAX_EVENT_BYTES,
        patience: float = 30.0,
        bus: str | None = None,
        locked: bool = False,
    ) -> Opening[Everthread]:
        """Open the store at an address: `async with Everthread.open(…) as et`, or `et = await Everthread.open(…)`. In
        place of the address: an engine of your own.

        `settings`: they win over those of the configuration file and the environment, which hold beside them unless
        `environment` is False; keys are no settings. `tools`: what agents may use: functions with type hints, objects
        with name, schema and execute, MCP servers. `agents`: a folder of agents' TOML files, for all tenants; an agent
        must then be one of them, or one that was saved. `keys`: by provider, or by host and port for servers of your
        own; else those of the configuration file and the environment. Or an async function that gives them for a
        tenant, asked before each model call: a tenant's calls are made with its own; one for which it gives none has
        the file's and the environment's. `importance`: what a message is worth, from 0 to 100, in place of the default
        scores; it is asked once, when the message is appended. `strategy`: a function of your own that chooses the
        turns that are sent, wherever no call names another. `summarise`: a function that writes memory's summaries, in
        place of a model: of the instructions and of what was said. `counters`: functions that count the tokens of a
        text, by models' names or patterns of these.
        `session_gap`: the pause that ends a session, where no setting says. `patience`: seconds to wait for a locked
        file or for a server that is restarting. `bus`: what carries news between the processes of a store in
        PostgreSQL, as redis://host:6379/0; else the one that EVERTHREAD_BUS names, else PostgreSQL itself, which ""
        chooses as well. `locked`: for a service, whose callers are not its operators: what would have it call other
        servers or read files (address, extra_body, models by path, MCP servers of saved agents …) comes from the file,
        the environment, `settings` and `agents` alone. Given for a call it raises Forbidden; where a conversation or
        branch says it, it is passed over.
        """
        options = arguments.log_options(
            session_gap=session_gap, max_event_bytes=max_event_bytes, patience=patience, importance=importance
        )
        where, given = arguments.address(address), arguments.settings_of_store(settings)
        own = Own(
            strategy=arguments.own_strategy(strategy),
            summarise=arguments.function("summarise", summarise, "of the instructions and of what was said"),
            counters=arguments.counters(counters),
        )
        if (by := arguments.bus(bus)) is None:
            by = os.environ.get("EVERTHREAD_BUS", "") if takes_bus(where) else ""

        async def opened() -> Everthread:
            log = await open_log(where, bus=by, **options)
            et = Everthread(
                log,
                given,
                environment=environment,
                tools=tools,
                keys=keys,
                strict=agents is not None,
                locked=locked,
                own=own,
                beside=archives_beside(where),
            )
            et._home.loop()
            try:
                with as_operator():  # whoever opens it: what a crash left may be any tenant's
                    await log.forgetting.finish_later()
                if agents is not None:
                    await et.agents.spread(Path(agents))
            except BaseException:
                await et.close()
                raise
            et._scheduled.begin_soon()
            et._left.begin_soon()
            et._begin_moving()
            et._archiving.begin_soon()
            return et

        return Opening(opened)

    async def conversation(
        self, *, user: str, agent: str = AGENT, id: str | None = None, begin: bool = True, tenant: str = TENANT
    ) -> Talk:
        """The user's newest conversation with the agent, begun if there is none; or the one with this id.

        `id`: Everthread's, of a conversation that is there; or one of your own, such as "thread-17": then it is begun
        with the agent if this user has none with that id. `begin`: False begins none; where there is none,
        UnknownConversation is raised, as a web service wants it of an address that is wrong or was deleted.
        """
        owner, conversations = arguments.owner(tenant, user), self.log.conversations
        if id is not None and is_id(arguments.text("id", id)):
            return self.talk(await conversations.find(owner, id))
        alias = "" if id is None else arguments.alias(id)
        arguments.name("agent", agent)
        found = await (conversations.by_alias(owner, alias) if alias else conversations.newest(owner, agent))
        if found is None and not begin:
            raise UnknownConversation(alias, agent="" if alias else agent)
        return self.talk(found or await conversations.begin(owner, agent=agent, alias=alias, unless_one=True))

    async def begin(
        self,
        *,
        user: str,
        agent: str = AGENT,
        name: str = "",
        goal: str = "",
        settings: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
        id: str | None = None,
        tenant: str = TENANT,
    ) -> Talk:
        """Begin another conversation; from now on it is the user's newest with this agent.

        `metadata`: a JSON object of your own, kept with it and never sent. `id`: one of your own, by which
        `et.conversation` finds it; AlreadyExists where this user has one with that id.
        """
        owner = arguments.owner(tenant, user)
        details: dict[str, Any] = {
            "agent": arguments.name("agent", agent),
            "name": arguments.name("name", name, empty=True),
            "goal": arguments.goal(goal),
            "settings": arguments.settings_of_conversation({} if settings is None else settings),
            "metadata": check_metadata({} if metadata is None else metadata),
            "alias": "" if id is None else arguments.alias(id),
        }
        return self.talk(await self.log.conversations.begin(owner, **details))

    def talk(self, conversation: Conversation) -> Talk:
        """The talk for one of `et.conversations`."""
        return Talk(self.log, conversation, runtime=self._runtime)

    async def _keys(self, tenant: str) -> Mapping[str, str]:
        """The keys with which model calls of a tenant are made."""
        given = self._given_keys
        if isinstance(given, Mapping):
            return given
        return (await given(tenant) if given else None) or self._keys_of_file

    @cached_property
    def _keys_of_file(self) -> Mapping[str, str]:
        return keys_of(os.environ)

    def _sources(self) -> tuple[Source, ...]:
        """Where settings come from that are no conversation's: the file and the environment, read once, and `open`."""
        if self._read is None:
            around = general_sources(os.environ) if self._environment else ()
            self._read = (*around, Source(arguments.OPENED, self._settings, locks=self._locked))
            resolve(*self._read)
        return self._read

    async def conversations(
        self,
        *,
        user: str,
        agent: str = "",
        metadata: dict[str, Any] | None = None,
        before: str = NEWEST,
        limit: int = 50,
        tenant: str = TENANT,
    ) -> list[ListedConversation]:
        """A page of a user's conversations, last active first, with their counts. Without a user there are none.

        `metadata`: only those that have these values under these names. The next page is `before` the `cursor` of the
        last one; what comes in between moves its conversation to the top, and moves no other.
        """
        if not user:
            return []
        return await self.log.conversations.listed(
            arguments.owner(tenant, user),
            agent=arguments.name("agent", agent, empty=True),
            metadata=check_metadata({} if metadata is None else metadata),
            before=arguments.name("before", before),
            limit=arguments.count("limit", limit),
        )

    async def totals(self, *, user: str, tenant: str = TENANT) -> Totals:
        """Conversations, events, messages and tokens of a user."""
        return await self.log.conversations.user_totals(arguments.owner(tenant, user))

    async def erase_user(self, *, user: str, tenant: str = TENANT) -> int:
        """Erase all of a user's conversations for ever, and the user's account of a service, where there is one. How
        many conversations there were."""
        return await drop_turns_around(
            self._runtime.contexts, self.log.forgetting.erase_user(arguments.owner(tenant, user))
        )

    # -- agents, models, usage ---------------------------------------------------------------------------------

    @property
    def agents(self) -> Agents:
        """The agents that are known, and their versions."""
        return self._runtime.agents

    async def default_model(self, *, tenant: str = TENANT) -> Chosen:
        """The model that replies where none is named, and why it is this one. A tenant that has keys of its own gets
        one of their providers."""
        return await self._runtime.default_model(arguments.name("tenant", tenant))

    async def usage(
        self,
        *,
        user: str,
        by: By = "conversation",
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 50,
        tenant: str = TENANT,
    ) -> list[UsageTotal]:
        """Tokens, price and time of a user's model calls, by conversation, day, model or user.

        From `since` until just before `until`.
        """
        owner, count = arguments.owner(tenant, user), arguments.count("limit", limit)
        first, end = arguments.micros("since", since, 0), arguments.micros("until", until, FOREVER)
        return await self.log.usage.of_owner(owner, by=by, since=first, until=end, limit=count)

    async def schedules(self, *, user: str, tenant: str = TENANT) -> list[Schedule]:
        """All schedules of a user's conversations, those made first before the others. Without a user there are
        none."""
        return await self.log.schedules.of_owner(arguments.owner(tenant, user)) if user else []

    async def work(
        self, *, until_idle: bool = False, all: bool = False, tell: Callable[[Did], None] | None = None
    ) -> None:
        """Be the worker apart: say what is scheduled, tell of children whose process was killed, and do what memory has
        to do in the conversations of which the processes that reply have written reminders (setting `worker`), and
        archive what has long been idle (setting `archive`), until cancelled or, `until_idle`, until there is nothing
        left.

        `all`: look at every conversation first. `tell` hears of each piece of work. Works for all users and tenants.
        """
        if all:
            with as_operator():
                await self.log.reminders.add_all()
        if until_idle:
            await self._left.look()
            await self._scheduled.drain(tell=tell)
            await self.memory.serve(until_idle=True, tell=tell)
            await self._archiving.look()
            return
        serving = (self._scheduled.serve(tell=tell), self._left.serve(), self._archiving.serve())
        beside = set(map(asyncio.create_task, serving))
        try:
            await self.memory.serve(tell=tell)
        finally:
            for task in beside:
                task.cancel()
            await asyncio.wait(beside)

    def _begin_moving(self) -> None:
        """Mirror the store and keep to its retention, where operators have set that. A bad setting is told when it is
        used for a turn."""
        with suppress(BadSetting, BadSettingsFile):
            around = general_sources(os.environ) if self._environment else ()
            settings = resolve(*around, Source(arguments.OPENED, self._settings)).settings
            if settings.mirror:
                from everthread.jobs.mirror import MirrorWorker  # with the readers and writers of lines

                self._mirror = MirrorWorker(self.log, Path(settings.mirror).expanduser().absolute())
                self._mirror.begin()
            self.retention.days = settings.retention
            self.retention.begin_soon()

    async def idle(self) -> None:
        """Wait until no turn of this process is under way."""
        await self._runtime.idle()

    async def close(self) -> None:
        """Finish what is under way and let go of the store."""
        self._home.loop()
        await self._archiving.close()
        await self._left.close()
        await self._scheduled.close()
        await self.retention.close()
        try:
            with suppress(BadSetting):  # which was told when it was used
                await self.memory.close(resolve(*self._sources()).settings.memory_seconds)
            await self.memory.close(0)
        finally:
            try:
                await self._runtime.close()
                if self._mirror:
                    await self._mirror.close()
            finally:
                await self.log.close()

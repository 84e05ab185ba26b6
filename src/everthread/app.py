"""Everthread as a library: open a store, hold a conversation.

    async with Everthread.open("sqlite:///talk.db") as et:
        talk = await et.conversation(user="ana", agent="helper")
        await talk.append(user("My son is allergic to walnuts."), assistant("Noted."))

A `Talk` is a conversation in the hand. It reads and writes the conversation's current branch, wherever that
points at the moment, unless it was made for one branch (`talk.on("main")`, or what `fork` returns).
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Generator, Iterable, Mapping, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any

import msgspec

from everthread.config import Source, check, general_sources, resolve
from everthread.context.building import Context, Contexts
from everthread.context.explain import StepLine
from everthread.context.planning import Asked, tools_of
from everthread.core.branches import ENDLESS, Line
from everthread.core.events import Clear, Event, Mark, Pin, Settings, media_of
from everthread.core.importance import Worth, worth
from everthread.core.logged import Logged
from everthread.core.request import Tool
from everthread.core.strategies import Strategy
from everthread.core.turns import SESSION_GAP, Session, Turn
from everthread.errors import BadValue, UnknownSeq
from everthread.store.appending import Place
from everthread.store.conversations import (
    NEWEST,
    BranchTotals,
    Conversation,
    Totals,
    check_name,
    owner_of,
)
from everthread.store.log import MAX_EVENT_BYTES, Log
from everthread.store.opening import open_log

TENANT = "default"
AGENT = "default"
OPENED = "the settings that the store was opened with"


class Everthread:
    """An open store of conversations."""

    def __init__(self, log: Log, settings: dict[str, Any] | None = None) -> None:
        self.log = log
        self._settings = settings
        self._read: tuple[Source, ...] | None = None
        self._contexts = Contexts(self._sources)

    @staticmethod
    def open(
        address: str,
        *,
        settings: dict[str, Any] | None = None,
        importance: Worth = worth,
        session_gap: timedelta = timedelta(microseconds=SESSION_GAP),
        max_event_bytes: int = MAX_EVENT_BYTES,
        patience: float = 30.0,
    ) -> Opening:
        """Open the store at an address: `async with Everthread.open(…) as et`, or `et = await Everthread.open(…)`.

        `settings`: instead of those in the configuration file and the environment. `importance`: what a message
        is worth, from 0 to 100, in place of the default scores; it is asked once, when the message is appended.
        `session_gap`: the pause that ends a session. `patience`: seconds to wait for a locked file or for a
        server that is restarting.
        """
        if session_gap <= timedelta(0):
            raise BadValue("session_gap", session_gap, "a time above zero")
        if max_event_bytes < 1:
            raise BadValue("max_event_bytes", max_event_bytes, "a number above zero")
        if not 0 <= patience < float("inf"):
            raise BadValue("patience", patience, "seconds from zero up")
        gap = session_gap // timedelta(microseconds=1)
        options = {"session_gap": gap, "max_event_bytes": max_event_bytes, "importance": importance}
        return Opening(address, settings, patience=patience, **options)

    async def conversation(self, *, user: str, agent: str = AGENT, id: str | None = None, tenant: str = TENANT) -> Talk:
        """The user's newest conversation with the agent, begun if there is none; or the one with this id."""
        owner = owner_of(tenant, user)
        if id is not None:
            return self.talk(await self.log.find(owner, id))
        check_name("agent", agent)
        found = await self.log.newest_conversation(owner, agent)
        return self.talk(found or await self.log.begin(owner, agent=agent, unless_one=True))

    async def begin(
        self,
        *,
        user: str,
        agent: str = AGENT,
        name: str = "",
        goal: str = "",
        settings: dict[str, Any] | None = None,
        tenant: str = TENANT,
    ) -> Talk:
        """Begin another conversation; from now on it is the user's newest with this agent."""
        owner = owner_of(tenant, user)
        details: dict[str, Any] = {"name": _name(name), "goal": _goal(goal), "settings": settings or {}}
        return self.talk(await self.log.begin(owner, agent=check_name("agent", agent), **details))

    def talk(self, conversation: Conversation) -> Talk:
        """A conversation of `et.conversations` in the hand."""
        return Talk(self.log, conversation, contexts=self._contexts)

    def _sources(self) -> tuple[Source, ...]:
        """Where settings come from that are no conversation's: the file and the environment, read once."""
        if self._read is None:
            self._read = general_sources(os.environ) if self._settings is None else (Source(OPENED, self._settings),)
            resolve(*self._read)
        return self._read

    async def conversations(
        self, *, user: str, agent: str = "", before: str = NEWEST, limit: int = 50, tenant: str = TENANT
    ) -> list[Conversation]:
        """A page of a user's conversations, newest first. Without a user there are none."""
        if not user:
            return []
        check_name("agent", agent, empty=True)
        check_name("before", before)
        limit = _count("limit", limit)
        return await self.log.conversations(owner_of(tenant, user), agent=agent, before=before, limit=limit)

    async def totals(self, *, user: str, tenant: str = TENANT) -> Totals:
        """Conversations, events, messages and tokens of a user."""
        return await self.log.user_totals(owner_of(tenant, user))

    async def erase_user(self, *, user: str, tenant: str = TENANT) -> int:
        """Erase all of a user's conversations for ever. How many there were."""
        self._contexts.forget()
        return await self.log.erase_user(owner_of(tenant, user))

    async def close(self) -> None:
        """Finish what is under way and let go of the store."""
        await self.log.close()


class Opening:
    """What `Everthread.open` returns: awaited, or entered with `async with`."""

    def __init__(self, address: str, settings: dict[str, Any] | None = None, **options: Any) -> None:
        self._address = address
        self._settings = settings
        self._options = options
        self._opened: Everthread | None = None

    def __await__(self) -> Generator[Any, None, Everthread]:
        return self._open().__await__()

    async def __aenter__(self) -> Everthread:
        self._opened = await self._open()
        return self._opened

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._opened:
            await self._opened.close()

    async def _open(self) -> Everthread:
        return Everthread(await open_log(self._address, **self._options), self._settings)


class Talk:
    """A conversation in the hand, on its current branch or on one of its own choosing."""

    def __init__(
        self,
        log: Log,
        conversation: Conversation,
        branch: int | None = None,
        *,
        contexts: Contexts | None = None,
    ) -> None:
        self._log = log
        self._branch = branch
        self._contexts = contexts or Contexts()
        self.conversation = conversation

    def __repr__(self) -> str:
        where = "its current branch" if self._branch is None else f"branch {self._branch}"
        return f"<Talk {self.id} of {self.conversation.user!r} with {self.conversation.agent!r}, on {where}>"

    @property
    def id(self) -> str:
        return self.conversation.id

    # -- saying --------------------------------------------------------------------------------------------

    async def append(self, *events: Event, key: str = "", expect: int | None = None) -> list[Logged]:
        """Append events in one transaction; they are on disk when this returns.

        `key` makes it safe to repeat: the same key and events again give the first result. `expect` is the
        seq of the newest message that you know of: if somebody has said more since, `Moved` is raised.
        """
        if key:
            check_name("key", key)
        return await self._log.append(self._place, events, key=key, expect=expect)

    async def clear(self) -> Logged:
        """Start afresh: what came before is no longer sent, but stays and can be found."""
        return (await self.append(Clear()))[0]

    async def mark(self, name: str) -> Logged:
        """Name this point, to come back to with `rewind`."""
        return (await self.append(Mark(name=check_name("mark", name))))[0]

    # -- branches ------------------------------------------------------------------------------------------

    async def line(self) -> Line:
        """The branch that is read and written, with its ancestors: what the verbs of `et.log` take."""
        return await self._log.line(self.conversation, self._branch)

    async def branches(self) -> list[BranchTotals]:
        """All branches, each with its sums: along its whole line, and what it added itself."""
        return await self._log.branches(self.conversation)

    async def on(self, branch: str | int) -> Talk:
        """The same conversation on one of its branches, by name or number."""
        line = await self._log.line(self.conversation, branch)
        return self._at(line.branch.number)

    async def fork(self, *, at: int | None = None, name: str = "") -> Talk:
        """A new branch from event `at` (the newest by default). The current branch stays current."""
        line = await self.line()
        seq = (await self._log.head(line)).seq if at is None else at
        grown = await self._log.fork(line, at=seq, name=check_name("name", name, empty=True))
        return self._at(grown.branch.number)

    async def rewind(self, *, to: int | str, name: str = "") -> Talk:
        """Go back to an earlier seq or mark and go on from there, on a new branch that becomes the current one."""
        grown = await self._log.rewind(await self.line(), to=to, name=check_name("name", name, empty=True))
        return self._pointing_at(grown)

    async def switch(self, branch: str | int) -> Talk:
        """Make a branch the current one."""
        return self._pointing_at(await self._log.switch(await self._log.line(self.conversation, branch)))

    # -- reading -------------------------------------------------------------------------------------------

    async def tail(self, *, turns: int = 20) -> list[Logged]:
        """The events of the newest turns, whole. Reads what was said, across a clear as well."""
        return await self._log.tail(await self.line(), turns=_count("turns", turns))

    async def before(self, seq: int = ENDLESS, *, limit: int = 50, messages: bool = False) -> list[Logged]:
        """The page of events that ends just before `seq`; the newest page where none is given."""
        return await self._log.before(await self.line(), seq, limit=_count("limit", limit), messages=messages)

    async def after(self, seq: int = 0, *, limit: int = 50, messages: bool = False) -> list[Logged]:
        """The page of events that begins just after `seq`; the first page where none is given."""
        return await self._log.after(await self.line(), seq, limit=_count("limit", limit), messages=messages)

    async def range(self, first: int, last: int) -> list[Logged]:
        """The events from seq `first` to seq `last`."""
        return await self._log.range(await self.line(), first, last)

    async def follow(self, *, after: int = 0) -> AsyncIterator[Logged]:
        """What came after `after`, then what comes, as it comes. Stays on the branch that is current now."""
        async for event in self._log.follow(await self.line(), after=after):
            yield event

    async def turns(self, *, limit: int = 50) -> list[Turn]:
        """The newest turns, oldest first, with their sizes and states."""
        return await self._log.turns(await self.line(), limit=_count("limit", limit))

    async def sessions(self, *, limit: int = 50) -> list[Session]:
        """The newest sessions, oldest first."""
        return await self._log.sessions(await self.line(), limit=_count("limit", limit))

    async def totals(self) -> Totals:
        """Events, messages and tokens of the whole conversation, each counted once."""
        return await self._log.totals(self.conversation)

    async def blob(self, hash: str) -> bytes:
        """The bytes of an image or file, by the hash in its part."""
        return await self._log.blob(await self.line(), hash)

    async def blobs(self, events: Iterable[Logged]) -> dict[str, bytes]:
        """The bytes of all images and files that these events show: `to_openai(events, blob=blobs.get)`."""
        hashes = {media.blob for event in events for media in media_of(event.event) if media.blob}
        return {hash: await self.blob(hash) for hash in sorted(hashes)}

    # -- what the model sees -------------------------------------------------------------------------------

    async def context(
        self,
        *,
        model: str | None = None,
        budget: int | None = None,
        strategy: str | Strategy | None = None,
        instructions: str | Mapping[str, str] | None = None,
        tools: Sequence[Tool | Mapping[str, Any]] = (),
        at: int | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> Context:
        """What the model would be told now, as a request for its provider; or before event `at`.

        `strategy`: budget, messages, session, importance, or a function of your own. `instructions`: a text, or
        texts for persona, user, memory and skills. `tools`: name, description and JSON Schema of the arguments.
        `settings`: any others, for this context alone.
        """
        asked = _asked(settings, model, budget, strategy, instructions=instructions, tools=tools_of(tools), at=at)
        return await self._contexts.build(self._log, await self.line(), asked)

    async def steps(
        self,
        *,
        model: str | None = None,
        budget: int | None = None,
        instructions: str | Mapping[str, str] | None = None,
        tools: Sequence[Tool | Mapping[str, Any]] = (),
        at: int | None = None,
        settings: Mapping[str, Any] | None = None,
        limit: int = 20,
    ) -> list[StepLine]:
        """The newest steps of the cutoff under these settings, oldest first: when it moved, what left the window."""
        asked = _asked(settings, model, budget, None, instructions=instructions, tools=tools_of(tools), at=at)
        limit = _count("limit", limit)
        return await self._contexts.steps(self._log, await self.line(), asked, limit=limit)

    async def pin(self, seq: int) -> Logged:
        """Always send the turn that holds event `seq`, up to the share of the room that pins have."""
        return (await self.append(Pin(turn=await self._turn_of(seq))))[0]

    async def unpin(self, seq: int) -> Logged:
        """No longer."""
        return (await self.append(Pin(turn=await self._turn_of(seq), pinned=False)))[0]

    async def configure(self, **settings: str | int | float | bool | None) -> Logged:
        """Set settings of this branch from here on; None takes one back."""
        for name, value in settings.items():
            if value is not None:
                check(name, value, "the settings given")
        return (await self.append(Settings(values=settings)))[0]

    async def _turn_of(self, seq: int) -> int:
        line = await self.line()
        head = await self._log.head(line, at=seq)
        if not head.turn_first:
            raise UnknownSeq(seq, last=(await self._log.head(line)).seq)
        return head.turn_first

    # -- changing and forgetting ---------------------------------------------------------------------------

    async def rename(self, name: str) -> None:
        """Give the conversation a name."""
        self.conversation = await self._log.change(self.conversation, name=_name(name))

    async def set_goal(self, goal: str) -> None:
        """Say what the conversation is for."""
        self.conversation = await self._log.change(self.conversation, goal=_goal(goal))

    async def set_settings(self, settings: dict[str, Any]) -> None:
        """Replace the conversation's settings: any JSON object."""
        self.conversation = await self._log.change(self.conversation, settings=settings)

    async def redact(self, seq: int) -> None:
        """Take the content out of an event for ever; a tombstone keeps its place."""
        self._contexts.forget()
        await self._log.redact(await self.line(), seq)

    async def erase(self) -> None:
        """Erase the conversation for ever."""
        self._contexts.forget()
        await self._log.erase(self.conversation)

    def _pointing_at(self, line: Line) -> Talk:
        self.conversation = msgspec.structs.replace(self.conversation, current=line.branch.number)
        return self._at(None)

    def _at(self, branch: int | None) -> Talk:
        return Talk(self._log, self.conversation, branch, contexts=self._contexts)

    @property
    def _place(self) -> Place:
        return Place(self.conversation.tenant, self.conversation.id, self._branch)


def _asked(
    settings: Mapping[str, Any] | None, model: str | None, budget: int | None, strategy: Any, **rest: Any
) -> Asked:
    """What was asked for: a strategy by its name is a setting like the others, a function is not."""
    named = strategy if isinstance(strategy, str) else None
    own = None if isinstance(strategy, str) else strategy
    given = {"model": model, "budget": budget, "strategy": named}
    said = {name: value for name, value in given.items() if value is not None}
    return Asked(settings={**(settings or {}), **said}, strategy=own, **rest)


def _name(name: str) -> str:
    return check_name("name", name, empty=True)


def _goal(goal: str) -> str:
    return check_name("goal", goal, most=2_000, empty=True)


def _count(what: str, value: int) -> int:
    if not 0 < value <= ENDLESS:
        raise BadValue(what, value, "a number above zero")
    return value

"""Everthread as a library: open a store, hold a conversation.

    async with Everthread.open("sqlite:///talk.db") as et:
        talk = await et.conversation(user="ana", agent="helper")
        await talk.append(user("My son is allergic to walnuts."), assistant("Noted."))

A `Talk` is a conversation in the hand. It reads and writes the conversation's current branch, wherever that
points at the moment, unless it was made for one branch (`talk.on("main")`, or what `fork` returns).
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import msgspec

from everthread import arguments
from everthread.config import Source, check, general_sources, resolve
from everthread.context.building import Context, Contexts
from everthread.context.explain import StepLine
from everthread.core.branches import ENDLESS, Line
from everthread.core.events import Clear, Event, Mark, Pin, Settings, media_of
from everthread.core.importance import Worth, worth
from everthread.core.logged import Logged
from everthread.core.request import Tool
from everthread.core.strategies import Strategy
from everthread.core.turns import SESSION_GAP, Head, Session, Turn
from everthread.errors import BadValue, UnknownSeq
from everthread.opening import Opening
from everthread.store.appending import Place
from everthread.store.conversations import NEWEST, BranchTotals, Conversation, Totals
from everthread.store.log import MAX_EVENT_BYTES, Log
from everthread.store.opening import open_log

TENANT = "default"
AGENT = "default"

T = TypeVar("T")
Tools = Sequence[Tool | Mapping[str, Any]]


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
    ) -> Opening[Everthread]:
        """Open the store at an address: `async with Everthread.open(…) as et`, or `et = await Everthread.open(…)`.

        `settings`: instead of those in the configuration file and the environment. `importance`: what a message
        is worth, from 0 to 100, in place of the default scores; it is asked once, when the message is appended.
        `session_gap`: the pause that ends a session. `patience`: seconds to wait for a locked file or for a
        server that is restarting.
        """
        options = arguments.log_options(
            session_gap=session_gap, max_event_bytes=max_event_bytes, patience=patience, importance=importance
        )
        where, given = arguments.address(address), arguments.settings_of_store(settings)

        async def opened() -> Everthread:
            return Everthread(await open_log(where, **options), given)

        return Opening(opened)

    async def conversation(self, *, user: str, agent: str = AGENT, id: str | None = None, tenant: str = TENANT) -> Talk:
        """The user's newest conversation with the agent, begun if there is none; or the one with this id."""
        owner = arguments.owner(tenant, user)
        if id is not None:
            return self.talk(await self.log.find(owner, arguments.text("id", id)))
        arguments.name("agent", agent)
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
        owner = arguments.owner(tenant, user)
        details: dict[str, Any] = {
            "agent": arguments.name("agent", agent),
            "name": arguments.name("name", name, empty=True),
            "goal": arguments.goal(goal),
            "settings": arguments.settings_of_conversation({} if settings is None else settings),
        }
        return self.talk(await self.log.begin(owner, **details))

    def talk(self, conversation: Conversation) -> Talk:
        """A conversation of `et.conversations` in the hand."""
        return Talk(self.log, conversation, contexts=self._contexts)

    def _sources(self) -> tuple[Source, ...]:
        """Where settings come from that are no conversation's: the file and the environment, read once."""
        if self._read is None:
            self._read = (
                general_sources(os.environ) if self._settings is None else (Source(arguments.OPENED, self._settings),)
            )
            resolve(*self._read)
        return self._read

    async def conversations(
        self, *, user: str, agent: str = "", before: str = NEWEST, limit: int = 50, tenant: str = TENANT
    ) -> list[Conversation]:
        """A page of a user's conversations, newest first. Without a user there are none."""
        if not user:
            return []
        return await self.log.conversations(
            arguments.owner(tenant, user),
            agent=arguments.name("agent", agent, empty=True),
            before=arguments.name("before", before),
            limit=arguments.count("limit", limit),
        )

    async def totals(self, *, user: str, tenant: str = TENANT) -> Totals:
        """Conversations, events, messages and tokens of a user."""
        return await self.log.user_totals(arguments.owner(tenant, user))

    async def erase_user(self, *, user: str, tenant: str = TENANT) -> int:
        """Erase all of a user's conversations for ever. How many there were."""
        return await _forgotten(self._contexts, self.log.erase_user(arguments.owner(tenant, user)))

    async def close(self) -> None:
        """Finish what is under way and let go of the store."""
        await self.log.close()


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
        arguments.name("key", key, empty=True)
        if expect is not None:
            arguments.seq("expect", expect)
        return await self._log.append(self._place, events, key=key, expect=expect)

    async def clear(self) -> Logged:
        """Start afresh: what came before is no longer sent, but stays and can be found."""
        return (await self.append(Clear()))[0]

    async def mark(self, name: str) -> Logged:
        """Name this point, to come back to with `rewind`."""
        return (await self.append(Mark(name=arguments.name("mark", name))))[0]

    # -- branches ------------------------------------------------------------------------------------------

    async def line(self) -> Line:
        """The branch that is read and written, with its ancestors: what the verbs of `et.log` take."""
        return await self._log.line(self.conversation, self._branch)

    async def branches(self) -> list[BranchTotals]:
        """All branches, each with its sums: along its whole line, and what it added itself."""
        return await self._log.branches(self.conversation)

    async def on(self, branch: str | int) -> Talk:
        """The same conversation on one of its branches, by name or number."""
        line = await self._log.line(self.conversation, arguments.branch(branch))
        return self._at(line.branch.number)

    async def fork(self, *, at: int | None = None, name: str = "") -> Talk:
        """A new branch from event `at` (the newest by default). The current branch stays current."""
        line = await self.line()
        seq = (await self._log.head(line)).seq if at is None else arguments.seq("at", at)
        grown = await self._log.fork(line, at=seq, name=arguments.name("name", name, empty=True))
        return self._at(grown.branch.number)

    async def rewind(self, *, to: int | str, name: str = "") -> Talk:
        """Go back to an earlier seq or mark and go on from there, on a new branch that becomes the current one."""
        to, name = arguments.point(to), arguments.name("name", name, empty=True)
        grown = await self._log.rewind(await self.line(), to=to, name=name)
        return self._pointing_at(grown)

    async def switch(self, branch: str | int) -> Talk:
        """Make a branch the current one."""
        line = await self._log.line(self.conversation, arguments.branch(branch))
        return self._pointing_at(await self._log.switch(line))

    # -- reading -------------------------------------------------------------------------------------------

    async def tail(self, *, turns: int = 20) -> list[Logged]:
        """The events of the newest turns, whole. Reads what was said, across a clear as well."""
        return await self._log.tail(await self.line(), turns=arguments.count("turns", turns))

    async def before(self, seq: int = ENDLESS, *, limit: int = 50, messages: bool = False) -> list[Logged]:
        """The page of events that ends just before `seq`; the newest page where none is given."""
        seq, limit = arguments.seq("seq", seq), arguments.count("limit", limit)
        return await self._log.before(await self.line(), seq, limit=limit, messages=messages)

    async def after(self, seq: int = 0, *, limit: int = 50, messages: bool = False) -> list[Logged]:
        """The page of events that begins just after `seq`; the first page where none is given."""
        seq, limit = arguments.seq("seq", seq), arguments.count("limit", limit)
        return await self._log.after(await self.line(), seq, limit=limit, messages=messages)

    async def range(self, first: int, last: int) -> list[Logged]:
        """The events from seq `first` to seq `last`."""
        first, last = arguments.seq("first", first), arguments.seq("last", last)
        return await self._log.range(await self.line(), first, last)

    async def follow(self, *, after: int = 0) -> AsyncIterator[Logged]:
        """What came after `after`, then what comes, as it comes. Stays on the branch that is current now."""
        after = arguments.seq("after", after)
        async for event in self._log.follow(await self.line(), after=after):
            yield event

    async def turns(self, *, limit: int = 50) -> list[Turn]:
        """The newest turns, oldest first, with their sizes and states."""
        return await self._log.turns(await self.line(), limit=arguments.count("limit", limit))

    async def sessions(self, *, limit: int = 50) -> list[Session]:
        """The newest sessions, oldest first."""
        return await self._log.sessions(await self.line(), limit=arguments.count("limit", limit))

    async def totals(self) -> Totals:
        """Events, messages and tokens of the whole conversation, each counted once."""
        return await self._log.totals(self.conversation)

    async def blob(self, hash: str) -> bytes:
        """The bytes of an image or file, by the hash in its part."""
        return await self._log.blob(await self.line(), arguments.text("hash", hash))

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
        tools: Tools | None = None,
        at: int | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> Context:
        """What the model would be told now, as a request for its provider; or before event `at`.

        `strategy`: budget, messages, session, importance, or a function of your own. `instructions`: a text, or
        texts for persona, user, memory and skills; without a persona, the configured one. `tools`: name, description
        and JSON Schema of the arguments, or as OpenAI or Anthropic take them; they are sent in the order of their
        names. `settings`: any others, for this context alone.
        """
        given: dict[str, Any] = {"instructions": instructions, "tools": tools, "at": at}
        asked = arguments.asked(settings, model=model, budget=budget, strategy=strategy, **given)
        return await self._contexts.build(self._log, await self.line(), asked)

    async def steps(
        self,
        *,
        model: str | None = None,
        budget: int | None = None,
        instructions: str | Mapping[str, str] | None = None,
        tools: Tools | None = None,
        at: int | None = None,
        settings: Mapping[str, Any] | None = None,
        limit: int = 20,
    ) -> list[StepLine]:
        """The newest steps of the cutoff under these settings, oldest first: when it moved, what left the window."""
        given: dict[str, Any] = {"instructions": instructions, "tools": tools, "at": at}
        asked = arguments.asked(settings, model=model, budget=budget, **given)
        limit = arguments.count("limit", limit)
        return await self._contexts.steps(self._log, await self.line(), asked, limit=limit)

    async def pin(self, seq: int) -> Logged:
        """Always send the turn that holds event `seq`, up to the share of the room that pins have."""
        turn, newest = await self._turn_of(seq)
        if turn <= newest.cleared:
            allowed = f"an event after the last clear, which is event {newest.cleared}: nothing before it is sent"
            raise BadValue("seq", seq, allowed)
        return (await self.append(Pin(turn=turn)))[0]

    async def unpin(self, seq: int) -> Logged:
        """No longer."""
        turn, _ = await self._turn_of(seq)
        return (await self.append(Pin(turn=turn, pinned=False)))[0]

    async def configure(self, **settings: str | int | float | bool | None) -> Logged:
        """Set settings of this branch from here on; None takes one back."""
        for name, value in settings.items():
            if value is not None:
                check(name, value, "the settings given")
        return (await self.append(Settings(values=settings)))[0]

    async def _turn_of(self, seq: int) -> tuple[int, Head]:
        """The first seq of the turn that holds an event, and the newest head."""
        line = await self.line()
        head = await self._log.head(line, at=arguments.seq("seq", seq))
        newest = await self._log.head(line)
        if not head.seq:
            raise UnknownSeq(seq, last=newest.seq)
        if not head.turn_first:
            raise BadValue("seq", seq, "an event of a turn; this one came before the first message")
        return head.turn_first, newest

    # -- changing and forgetting ---------------------------------------------------------------------------

    async def rename(self, name: str) -> None:
        """Give the conversation a name."""
        self.conversation = await self._log.change(self.conversation, name=arguments.name("name", name, empty=True))

    async def set_goal(self, goal: str) -> None:
        """Say what the conversation is for."""
        self.conversation = await self._log.change(self.conversation, goal=arguments.goal(goal))

    async def set_settings(self, settings: dict[str, Any]) -> None:
        """Replace the conversation's settings: any JSON object, where Everthread's own have values that it takes."""
        settings = arguments.settings_of_conversation(settings)
        self.conversation = await self._log.change(self.conversation, settings=settings)

    async def redact(self, seq: int) -> None:
        """Take the content out of an event for ever; a tombstone keeps its place."""
        line, seq = await self.line(), arguments.seq("seq", seq)
        await _forgotten(self._contexts, self._log.redact(line, seq))

    async def erase(self) -> None:
        """Erase the conversation for ever."""
        await _forgotten(self._contexts, self._log.erase(self.conversation))

    def _pointing_at(self, line: Line) -> Talk:
        self.conversation = msgspec.structs.replace(self.conversation, current=line.branch.number)
        return self._at(None)

    def _at(self, branch: int | None) -> Talk:
        return Talk(self._log, self.conversation, branch, contexts=self._contexts)

    @property
    def _place(self) -> Place:
        return Place(self.conversation.tenant, self.conversation.id, self._branch)


async def _forgotten(contexts: Contexts, work: Awaitable[T]) -> T:
    """The work done, and nothing of it in memory: a context that was made meanwhile has read what is gone now."""
    contexts.forget()
    try:
        return await work
    finally:
        contexts.forget()

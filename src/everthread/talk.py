"""A conversation, and all that can be done with it.

A `Talk` reads and writes the conversation's current branch, wherever that points at the moment, unless it was made for
one branch (`talk.on("main")`, or what `fork` returns).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import Any

import msgspec

from everthread import arguments
from everthread.agent.approval import waiting
from everthread.agent.prepare import Rebuilt, memory_tools, prepared, rebuilt
from everthread.agent.reply import Reply
from everthread.agent.runtime import Runtime
from everthread.agent.start import Act, settling, start
from everthread.agent.stop import stop
from everthread.agent.turn import TurnRunner
from everthread.context.build import Context, Contexts, forgotten
from everthread.context.explain import StepLine
from everthread.context.pins import turn_of
from everthread.core.branches import ENDLESS, Line
from everthread.core.deltas import Delta
from everthread.core.events import BriefUpdated, Event, ToolCall, ToolResult, kinds, media_of, user
from everthread.core.logged import Logged
from everthread.core.parts import Part
from everthread.core.strategies import Strategy
from everthread.core.turns import Session, Turn
from everthread.errors import UnknownSeq
from everthread.jobs.memory import memory_worker
from everthread.memory.correct import Remembered, correct, remembered
from everthread.memory.due import due
from everthread.memory.standing import Status, memory_of, status
from everthread.store.beside.usage import By, UsageTotal
from everthread.store.conversations import BranchTotals, Conversation, Totals
from everthread.store.log import Log
from everthread.store.recall.hits import TOKENS, Branches, Hit, Scope, recall
from everthread.store.scripts.append import Place
from everthread.store.times import FOREVER
from everthread.tools import ToolContext, notes

LOOK_UP_SECONDS = 60.0


class Talk(ToolContext):
    """A conversation, on its current branch or on one that was chosen."""

    def __init__(
        self, log: Log, conversation: Conversation, branch: int | None = None, *, runtime: Runtime | None = None
    ) -> None:
        self._log = log
        self._branch = branch
        self._runtime = runtime or Runtime(log, Contexts())
        self.conversation = conversation
        self.notes_seen: str | None = None  # MEMORY.md as the model was told of it last

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
        seq of the newest message that you know of: if somebody has said more since, `Moved` is raised. A result of
        `look_up` that quotes what was redacted meanwhile raises `Outrun`: look it up again.
        """
        arguments.name("key", key, empty=True)
        if expect is not None:
            arguments.seq("expect", expect)
        arguments.settings_of_branch(events)
        await self._log.conversations.mine(self.conversation)
        gap = partial(self._runtime.session_gap, self.conversation, self._branch)
        logged = await self._log.append(self._place, events, key=key, expect=expect, gap=gap)
        if any(one.kind == "assistant" for one in logged):
            self._runtime.remind(self.conversation, logged[-1].branch)
        return logged

    async def clear(self) -> Logged:
        """Start afresh: what came before is no longer sent, but stays and can be found."""
        return (await self.append(kinds.Clear()))[0]

    async def mark(self, name: str) -> Logged:
        """Name this point, to come back to with `rewind`."""
        return (await self.append(kinds.Mark(name=arguments.name("mark", name))))[0]

    # -- branches ------------------------------------------------------------------------------------------

    async def line(self) -> Line:
        """The branch that is read and written, with its ancestors: what the verbs of `et.log` take."""
        return await self._log.line(self.conversation, self._branch)

    async def branches(self) -> list[BranchTotals]:
        """All branches, each with its sums: along its whole line, and what it added itself."""
        return await self._log.conversations.branches(self.conversation)

    async def on(self, branch: str | int) -> Talk:
        """The same conversation on one of its branches, by name or number."""
        line = await self._log.line(self.conversation, arguments.branch(branch))
        return self._at(line.branch.number)

    async def another(self, id: str) -> Talk:
        """Another conversation of the same user."""
        owner = self.conversation.owner
        return Talk(
            self._log, await self._log.conversations.find(owner, arguments.text("id", id)), runtime=self._runtime
        )

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

    def listen(self, *, after: int = 0) -> AsyncIterator[Logged | Delta]:
        """The events after seq `after`, then the reply that runs from its first word, then deltas and events as they
        come, whoever runs the turn: without gap, and nothing twice. Stays on the branch that is current now.

        What is an event is told as one: of tool calls and their results there are no deltas here. Come back with the
        seq of the last event that you have heard.
        """
        return self._runtime.live.listen(self.line, after=arguments.known("after", after))

    async def turns(self, *, limit: int = 50) -> list[Turn]:
        """The newest turns, oldest first, with their sizes and states."""
        return await self._log.turns(await self.line(), limit=arguments.count("limit", limit))

    async def sessions(self, *, limit: int = 50) -> list[Session]:
        """The newest sessions, oldest first."""
        return await self._log.sessions(await self.line(), limit=arguments.count("limit", limit))

    async def totals(self) -> Totals:
        """Events, messages and tokens of the whole conversation, each counted once."""
        return await self._log.conversations.totals(self.conversation)

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
        tools: Iterable[Any] | None = None,
        at: int | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> Context:
        """What the model would be told now, as a request for its provider; or before event `at`.

        `strategy`: budget, messages, session, importance, or a function of your own. `instructions`: a text, or
        texts for persona, user, memory and skills; without a persona, the agent's or the configured one. `tools`: as
        for `say`, or only told of: name, description and JSON Schema of the arguments, or as OpenAI or Anthropic take
        them; they are sent in the order of their names. `settings`: any others, for this context alone.
        """
        asked = arguments.asked(settings, model=model, budget=budget, strategy=strategy, at=at)
        told, way = arguments.check_instructions(instructions), await self._log.way(self.conversation, self._branch)
        async with prepared(self._runtime, self.conversation, asked, told, tools) as ready:
            context = await self._runtime.contexts.build(self._log, way, ready.asked)
            self.notes_seen = context.notes  # by whoever calls the model with it
            return context

    async def steps(
        self,
        *,
        model: str | None = None,
        budget: int | None = None,
        instructions: str | Mapping[str, str] | None = None,
        tools: Iterable[Any] | None = None,
        at: int | None = None,
        settings: Mapping[str, Any] | None = None,
        limit: int = 20,
    ) -> list[StepLine]:
        """The newest steps of the cutoff under these settings, oldest first: when it moved, what left the window."""
        asked = arguments.asked(settings, model=model, budget=budget, at=at)
        told, limit = arguments.check_instructions(instructions), arguments.count("limit", limit)
        way = await self._log.way(self.conversation, self._branch)
        async with prepared(self._runtime, self.conversation, asked, told, tools) as ready:
            return await self._runtime.contexts.steps(self._log, way, ready.asked, limit=limit)

    async def pin(self, seq: int) -> Logged:
        """Always send the turn that holds event `seq`, up to the share of the room that pins have."""
        turn = await turn_of(self._log, await self.line(), arguments.seq("seq", seq), to_pin=True)
        return (await self.append(kinds.Pin(turn=turn)))[0]

    async def unpin(self, seq: int) -> Logged:
        """Stop sending the turn that holds event `seq` once it has left the window."""
        turn = await turn_of(self._log, await self.line(), arguments.seq("seq", seq))
        return (await self.append(kinds.Pin(turn=turn, pinned=False)))[0]

    async def configure(self, **settings: str | int | float | bool | None) -> Logged:
        """Set settings of this branch from here on; None takes one back."""
        return (await self.append(kinds.SettingsChanged(values=settings)))[0]

    async def recall(
        self,
        query: str,
        *,
        limit: int = 5,
        tokens: int = TOKENS,
        neighbours: int = 1,
        scope: Scope = "conversation",
        branches: Branches = "line",
        kinds: Iterable[str] = (),
        since: datetime | int | None = None,
        until: datetime | int | None = None,
        session: int | None = None,
    ) -> list[Hit]:
        """What was said about something, best first: any words, in any language, with what stood around it.

        `scope`: this conversation, or all of the user's. `branches`: this branch's own line, or all of them. `tokens`:
        the most that all hits together may have.
        """
        return await recall(
            self._log,
            self.conversation.owner,
            await self.line(),
            arguments.text("query", query),
            limit=arguments.count("limit", limit),
            tokens=arguments.count("tokens", tokens),
            neighbours=neighbours,
            scope=scope,
            branches=branches,
            kinds=tuple(kinds),
            since=arguments.moment("since", since, -FOREVER),
            until=arguments.moment("until", until, FOREVER),
            session=session,
        )

    async def brief(self) -> BriefUpdated | None:
        """The newest version of what is remembered since the last clear; None where nothing is yet."""
        line = await self.line()
        found = (await self._log.ask(lambda: due(line, capable=False))).brief.event
        return found if isinstance(found, BriefUpdated) else None

    async def look_up(self, call: ToolCall) -> ToolResult:
        """What one of memory's own tools gives (`recall_context`, `open_event`, `write_memory`), for those who call
        models themselves: append it after the call. What is wrong with it, the result says."""
        await self._log.conversations.mine(self.conversation)
        return await memory_tools().run(call, self, seconds=LOOK_UP_SECONDS)

    async def notes(self) -> str:
        """MEMORY.md: what the agent keeps of its user for good."""
        return await notes.read(self._log, await self._log.conversations.mine(self.conversation))

    async def forget_notes(self) -> None:
        """Remove MEMORY.md for ever, with all its versions."""
        whose = await self._log.conversations.mine(self.conversation)
        await forgotten(self._runtime.contexts, notes.forget(self._log, whose))

    async def write_notes(self, text: str, *, expect: str | None = None) -> int:
        """Replace MEMORY.md; its version from now on. `expect`: what you saw there; Changed if it is another by now."""
        whose = await self._log.conversations.mine(self.conversation)
        written = await notes.write(self._log, whose, arguments.text("text", text), expect=expect)
        return written.version

    async def remember(self) -> bool:
        """Do now what memory has to do on this branch: briefs, recaps, summaries, a name. Whether anything was due."""
        worker = self._runtime.memory or memory_worker(self._runtime)
        return await worker.once(self.conversation, self._branch)

    async def remembered(self) -> Remembered:
        """All that is remembered on this branch: brief, facts and their events, recap, MEMORY.md, name, goal."""
        memory = await memory_of(self._runtime, self.conversation, await self.line())
        return await remembered(memory, notes=await self.notes())

    async def correct(self, brief: str | None = None, *, drop: Iterable[str] = ()) -> BriefUpdated:
        """Put your own words in place of the brief, and drop the facts that have a text in them.

        It holds at once, and what is remembered later goes on from it. To have something gone for good, `redact` the
        event that says it: memory forgets it, too.
        """
        text = None if brief is None else arguments.text("brief", brief)
        listed = [drop] if isinstance(drop, str) else list(drop)
        memory = await memory_of(self._runtime, self.conversation, await self.line())
        return await correct(memory, text, [arguments.text("drop", one) for one in listed])

    async def memory(self) -> Status:
        """How memory stands on this branch: how far behind, what went wrong last, what it took."""
        return await status(self._runtime, self.conversation, (await self.line()).branch.number)

    # -- speaking with the model -------------------------------------------------------------------------------

    def say(
        self,
        *pieces: str | Part,
        model: str | None = None,
        instructions: str | Mapping[str, str] | None = None,
        tools: Iterable[Any] | None = None,
        settings: Mapping[str, Any] | None = None,
        when_busy: str = "wait",
        detached: bool = False,
        origin: str = "",
        key: str = "",
    ) -> Reply:
        """Say something to the model, and hear its reply: `async for delta in talk.say("…")`, or `await` the whole.

        The message is on disk before its turn does anything else. `tools`: functions with type hints, objects with
        name, schema and execute, MCP servers; without any, the agent's. `when_busy`: wait for a turn of this branch
        that is under way, or "refuse". `detached`: begin at once, and go on without the caller; else who stops
        listening ends the turn. `origin`: who speaks, when it is not the user by hand. `key`: said again with the same
        key, it is appended once. What goes wrong is raised.
        """
        message = arguments.message(user(*pieces, origin=arguments.text("origin", origin)))
        arguments.name("key", key, empty=True)
        given: dict[str, Any] = {"model": model, "instructions": instructions, "tools": tools, "settings": settings}
        given |= {"when_busy": when_busy, "detached": detached}
        return self._start(lambda turn: turn.say(message, key=key), **given)

    def resume(self, **given: Any) -> Reply:
        """Go on with a turn that failed or was interrupted, without saying anything anew. Takes what `say` takes beside
        the message."""
        return self._start(TurnRunner.resume, **given)

    async def stop(self) -> bool:
        """End the turn that runs on this branch, in whichever process; what had come of the reply is kept. Whether
        there was one. Returns when it has ended."""
        return await stop(self._runtime, await self.line())

    async def waiting(self) -> list[Logged]:
        """The tool calls that wait for approval, oldest first."""
        return await waiting(self._log, await self.line())

    def approve(self, call: str | int | None = None, **given: Any) -> Reply:
        """Let a waiting tool call run (by its id or seq; the only one, where none is named) and go on. Takes what `say`
        takes: give it the same tools."""
        return self._start(settling(self._log, call, approved=True), **given)

    def refuse(self, call: str | int | None = None, why: str = "", **given: Any) -> Reply:
        """Refuse it; the model is told why, and goes on."""
        return self._start(settling(self._log, call, approved=False, why=arguments.text("why", why)), **given)

    async def usage(self, *, by: By = "conversation", limit: int = 50) -> list[UsageTotal]:
        """Tokens, price and time of this conversation's model calls, by conversation, turn, session, day or model."""
        owner = (await self._log.conversations.mine(self.conversation)).owner
        return await self._log.usage.of_owner(owner, by=by, conversation=self.id, limit=arguments.count("limit", limit))

    async def count(self, **asked: Any) -> int | None:
        """The provider's own count of a context, where it has an endpoint for that. Takes what `context` takes."""
        context = await self.context(**asked)
        return await (await self._runtime.client(context)).count(context.request)

    async def rebuild(self, seq: int) -> Rebuilt:
        """The request of the model call that event `seq` records, built again, and what is no longer the same."""
        return await rebuilt(self._runtime, self.conversation, await self.line(), arguments.seq("seq", seq))

    def _start(self, act: Act, **given: Any) -> Reply:
        return start(self._runtime, self, self._place, act, arguments.given(**given))

    # -- changing and forgetting ---------------------------------------------------------------------------

    async def rename(self, name: str) -> None:
        """Give the conversation a name."""
        given = arguments.name("name", name, empty=True)
        self.conversation = await self._log.conversations.change(self.conversation, name=given)

    async def set_goal(self, goal: str) -> None:
        """Say what the conversation is for."""
        self.conversation = await self._log.conversations.change(self.conversation, goal=arguments.goal(goal))

    async def set_settings(self, settings: dict[str, Any]) -> None:
        """Replace the conversation's settings: any JSON object, where Everthread's own have values that it takes."""
        settings = arguments.settings_of_conversation(settings)
        self.conversation = await self._log.conversations.change(self.conversation, settings=settings)

    async def redact(self, seq: int) -> None:
        """Take the content out of an event for ever; a tombstone keeps its place."""
        line, seq = await self.line(), arguments.seq("seq", seq)
        newest = await self._log.head(line)
        if seq > newest.seq:
            raise UnknownSeq(seq, last=newest.seq)
        try:
            await forgotten(self._runtime.contexts, self._log.forgetting.redact(line, seq))
        finally:
            self._runtime.remind(self.conversation, line.branch.number)
        # It may have been named by what is gone.
        self.conversation = await self._log.conversations.find(self.conversation.owner, self.id)

    async def erase(self) -> None:
        """Erase the conversation for ever."""
        await forgotten(self._runtime.contexts, self._log.forgetting.erase(self.conversation))

    def _pointing_at(self, line: Line) -> Talk:
        self.conversation = msgspec.structs.replace(self.conversation, current=line.branch.number)
        return self._at(None)

    def _at(self, branch: int | None) -> Talk:
        return Talk(self._log, self.conversation, branch, runtime=self._runtime)

    @property
    def _place(self) -> Place:
        return Place(self.conversation.tenant, self.conversation.id, self._branch)

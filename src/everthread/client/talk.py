"""A conversation that a service keeps, with all the verbs of the library's `Talk`.

Most are made from the table of routes. By hand are those that listen, those that the library makes of other verbs, and
what has to be done before a request and after its answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any, NoReturn, Self

import msgspec

from everthread import arguments as check
from everthread import talk, wire
from everthread.agent.call import recorded
from everthread.agent.reply import Reply
from everthread.arguments import ForTurn
from everthread.client.calls import TABLE, in_path, request_of
from everthread.client.child import Child
from everthread.client.connection import Answer, Asked
from everthread.client.contexts import Context
from everthread.client.listening import Listening
from everthread.client.moving import exported
from everthread.client.remote import Given, Remote, remote
from everthread.client.turns import Turn
from everthread.client.visit import Visit
from everthread.context import build
from everthread.context.output import output_of
from everthread.core.branches import Branch, Line
from everthread.core.canvas import change_of
from everthread.core.deltas import Delta
from everthread.core.events import ToolCall, user
from everthread.core.ids import is_id
from everthread.core.logged import Logged
from everthread.core.partial import place_of
from everthread.core.told import Told, items
from everthread.errors import BadValue, UnknownBranch, UnknownConversation
from everthread.routes import TALK, WARNING, Route
from everthread.store.conversations import Conversation
from everthread.talk.writing import as_events

OF_A_TURN = tuple(ForTurn.__optional_keys__)
NO_STORE = "The store is the service's, and is not reached from here: ask for what you need with a verb."


@remote("talk")
class Talk(Remote, talk.Talk):
    """A conversation, on its current branch or on one that was chosen."""

    def __init__(self, visit: Visit, conversation: Conversation, branch: int | None = None) -> None:
        self._visit, self._branch = visit, branch
        self.conversation = conversation
        self.notes_seen: str | None = None  # MEMORY.md as the model was told of it last

    @property
    def _where(self) -> Mapping[str, str]:
        return {"conversation": self.id}

    @property
    def _on(self) -> int | None:
        return self._branch

    def _for(self, given: Given) -> str:
        return self._visit.acting_for(self.conversation.user, self.conversation.tenant)

    def __getattr__(self, name: str) -> NoReturn:
        if name in ("_log", "_runtime"):
            raise AttributeError(NO_STORE)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _before(self, verb: str, given: Given) -> Given:
        if verb == "append":
            given = {**given, "events": check.appended(as_events(given.get("events", ())))}
        if verb == "act":
            given = {**given, "changes": [change_of(one) for one in given.get("changes", ())]}
        if verb == "look_up" and not isinstance(given["call"], ToolCall):
            raise BadValue("call", given["call"], "a tool call of the log: the event of what you appended")
        if given.get("output") is not None:
            given = {**given, "output": output_of(given["output"]).schema}
        return given

    async def _after(self, verb: str, given: Given, value: Any, answer: Answer) -> Any:
        match verb:
            case "before" | "after" if WARNING in answer.headers and value:
                return await self._rest_of_page(verb, given, value)
            case "fork":
                return type(self)(self._visit, value.conversation, value.branch)
            case "rewind" | "switch":
                self.conversation = value.conversation
                return self._at(None)
            case "rename" | "set_goal" | "set_metadata" | "set_settings":
                self.conversation = (await self._call("look")).conversation
            case "delegate":
                return Child(self, value)
        return value

    async def _rest_of_page(self, verb: str, given: Given, page: list[Logged]) -> list[Logged]:
        """What the service has left out of a page, to be answered in time."""
        missing = given.get("limit", 50) - len(page)
        if missing <= 0:
            return page
        beside = {name: value for name, value in given.items() if name not in ("self", "seq", "limit")}
        rest = await self._call(verb, page[0 if verb == "before" else -1].seq, limit=missing, **beside)
        return [*rest, *page] if verb == "before" else [*page, *rest]

    # -- branches, and other conversations ---------------------------------------------------------------------

    def _at(self, branch: int | None) -> Self:
        return type(self)(self._visit, self.conversation, branch)

    async def line(self) -> Line:
        """The branch that is read and written. Its ancestors stay with the service."""
        branch: Branch = await self._call("branch")
        return Line(tenant=self.conversation.tenant, conversation=self.id, branch=branch)

    async def on(self, branch: str | int) -> Self:
        if check.branch(branch) == "":
            raise UnknownBranch(branch, ", ".join(one.branch.name for one in await self.branches()))
        asked = self._asked("branch")._replace(query={"branch": str(branch)})
        found = wire.loads(Branch, (await self._visit.connection.ask(asked)).body)
        return self._at(found.number)

    def _asked(self, verb: str) -> Asked:
        """The request for a verb without arguments."""
        asked = request_of(TABLE[f"talk.{verb}"], self._where, {}, branch=self._on)
        return asked._replace(user=self._for({}))

    async def another(self, id: str) -> Self:
        if not is_id(check.text("id", id)):
            raise UnknownConversation(id)
        there = type(self)(self._visit, msgspec.structs.replace(self.conversation, id=id))
        return type(self)(self._visit, (await there._call("look")).conversation)

    # -- turns -------------------------------------------------------------------------------------------------

    def _begin(self, route: Route, given: Given) -> Reply:
        """What a verb gives that runs a turn. What is wrong with its arguments is told at once, as in the library."""
        checked = check.given(**{name: given[name] for name in OF_A_TURN if name in given})
        if says := route.verb.__name__ == "say":
            origin = check.text("origin", given.get("origin", ""))
            check.message(user(*given.get("pieces", ()), origin=origin, metadata=given.get("metadata")))
            check.name("key", given.get("key", ""), empty=True)
        asked = request_of(route, self._where, self._before(route.name, given), branch=self._on)
        turn = Turn(self._visit, asked._replace(user=self._for({})), self, says=says)
        work = partial(turn.run, detached=checked.detached)
        return Reply(work, detached=checked.detached, output=checked.asked.output)

    # -- listening ---------------------------------------------------------------------------------------------

    def listen(self, *, after: int = 0) -> AsyncIterator[Logged | Delta]:
        return items(self.told(after=check.known("after", after)))

    def told(self, *, after: int | str = 0) -> AsyncIterator[Told]:
        query = {} if self._branch is None else {"branch": str(self._branch)}
        asked = Asked("GET", f"{TALK.format_map(self._where)}/listen", query, user=self._for({}))
        return Listening(self._visit.connection, asked, str(place_of(after))).told()

    # -- what comes in other ways than the table says ------------------------------------------------------------

    configure = talk.Talk.configure  # which appends, and checks what it appends

    async def context(self, **asked: Any) -> Context:
        frozen, line = await asyncio.gather(self._call("context", **asked), self.line())
        self.notes_seen = frozen.notes
        wanted = asked.get("output")
        return Context(frozen, line, None if wanted is None else output_of(wanted))

    async def record(
        self, context: build.Context, usage: Any, *, seconds: float = 0.0, first_seconds: float = 0.0, error: str = ""
    ) -> Logged:
        took = check.seconds("seconds", seconds), check.seconds("first_seconds", first_seconds)
        if not isinstance(context, Context):
            raise BadValue("context", context, "what `talk.context` gave, and not its JSON form")
        if context.line.conversation != self.id:
            raise BadValue("context", context, "a context of this conversation")
        call = recorded(context, usage, took, check.text("error", error))
        return (await self._at(context.line.branch.number).append(call))[0]

    async def child(self, branch: int | str) -> Child:
        number = (await self.on(branch))._branch
        asked = request_of(TABLE["child.look"], {**self._where, "branch": str(number)}, {})._replace(user=self._for({}))
        return Child(self, wire.loads(TABLE["child.look"].gives, (await self._visit.connection.ask(asked)).body))

    def export(self) -> AsyncIterator[bytes]:
        return exported(self._visit, Asked("GET", f"{TALK.format_map(self._where)}/export", user=self._for({})))

    async def blob(self, hash: str) -> bytes:
        path = f"{TALK.format_map(self._where)}/blobs/{in_path('hash', check.text('hash', hash))}"
        return (await self._visit.connection.ask(Asked("GET", path, user=self._for({})))).body

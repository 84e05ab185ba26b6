"""Children: to have a task done by an agent on a branch of its own, in the background; and the tool by which a model
does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypedDict, Unpack

from everthread import arguments as check
from everthread.agent.child import Child
from everthread.agent.children import ListedChild, listed
from everthread.agent.delegate import AT_ONCE, DEPTH, Order, begin
from everthread.agent.family import begun_on, ended, family
from everthread.config import Settings
from everthread.core.branches import ENDLESS
from everthread.core.events import SettingsChanged, user
from everthread.core.outcomes import DELEGATE, in_words
from everthread.core.parts import Text
from everthread.core.settings import GivenSettings
from everthread.errors import Conflict, InputError, NotFound, TooMany, UnknownChild
from everthread.store.beside.usage import UsageTotal, added
from everthread.talk.bound import Bound
from everthread.tools.functions import Approval
from everthread.tools.results import MOST, Quoting
from everthread.tools.toolbox import ToolFailed
from everthread.tools.toolbox import listed as listed_tools

LONGER, LONGEST = 60.0, 86_400.0  # seconds that the tool waits longer than its child may take; and at most
ABOUT = (
    "Has a task done by another agent, which works on its own in the background and knows what was said here until now."
    " Use it for work that is large or can be done side by side. Call it several times at once for several tasks."
)
TASK = "What to do, complete in itself, and what to say at the end: only that comes back."
WAIT = "True: the result is the outcome. False: go on meanwhile; you are told of the outcome when it is there."
BEGUN = "Begun on branch {}. You will be told of the outcome when it is there; go on meanwhile."
GONE = "It has ended, and its outcome was redacted."
WAITS = "It is on branch {} and waits for the user's approval. You will be told of the outcome when it is there."


class ForChild(TypedDict, total=False):
    """What `talk.delegate` takes beside the task."""

    agent: str
    model: str | None
    instructions: str | Mapping[str, str] | None
    tools: Iterable[Any] | None
    settings: GivenSettings | None
    calls: int | None
    seconds: float | None
    dollars: float | None
    fresh: bool
    canvas: bool
    depth: int
    at_once: int
    name: str


class Delegating(Bound):
    async def delegate(
        self,
        task: str,
        *,
        agent: str = "",
        model: str | None = None,
        instructions: str | Mapping[str, str] | None = None,
        tools: Iterable[Any] | None = None,
        settings: GivenSettings | None = None,
        calls: int | None = None,
        seconds: float | None = None,
        dollars: float | None = None,
        fresh: bool = False,
        canvas: bool = False,
        depth: int = DEPTH,
        at_once: int = AT_ONCE,
        name: str = "",
    ) -> Child:
        """Have a task done by a child: an agent on a branch of its own, which begins at the newest event, in the
        background. Returns once it has begun; `await child` waits for its outcome.

        `agent`: whose instructions, settings and tools it has; the conversation's by default. `model`, `instructions`,
        `tools`, `settings`: as for `say`; model and settings stay those of its branch. `calls`, `seconds`, `dollars`:
        the most model calls, time and US dollars that it may take: its turn_calls, turn_seconds and turn_dollars.
        `fresh`: it begins with nothing of what was said before. `canvas`: whether it may draw on the canvas. `depth`:
        how deep children may be nested below the conversation; TooDeep beyond that. `at_once`: how many of the
        conversation's may run at once; TooManyChildren beyond that. `name`: of its branch.

        Its beginning and its outcome are events of this branch, and the model is told of the outcome with its next
        model call. The current branch stays current. Where its process is killed, the outcome says so.
        """
        given: ForChild = {"agent": agent, "model": model, "instructions": instructions, "tools": tools, "name": name}
        given |= {"settings": settings, "calls": calls, "seconds": seconds, "dollars": dollars}
        given |= {"fresh": fresh, "canvas": canvas, "depth": depth, "at_once": at_once}
        return await self._begin_child(task, given)

    async def _begin_child(self, task: str, given: ForChild, *, awaited: bool = False) -> Child:
        """`awaited`: a tool of this branch's waits for it, and tells the outcome."""
        order = Order(
            task=check.message(user(check.text("task", task), origin=DELEGATE)),
            agent=check.name("agent", given.get("agent", ""), empty=True),
            name=check.name("name", given.get("name", ""), empty=True),
            settings=_settings(given),
            fresh=bool(given.get("fresh", False)),
            canvas=bool(given.get("canvas", False)),
            depth=check.known("depth", given.get("depth", DEPTH)),
            at_once=check.known("at_once", given.get("at_once", AT_ONCE)),
            awaited=awaited,
        )
        tools = given.get("tools")
        tools = tools if tools is None else listed_tools(tools)  # which are looked at more than once
        of_turn = check.given(instructions=given.get("instructions"), tools=tools, detached=True)
        await self._log.conversations.mine(self.conversation)
        return Child(self._runtime, self.conversation, await begin(self._runtime, self, order, of_turn))

    async def children(self, *, limit: int = 50) -> list[ListedChild]:
        """The newest children that were begun along this branch's line, newest first: running or ended."""
        return await listed(self._runtime, self.conversation, await self.line(), limit=check.count("limit", limit))

    async def child(self, branch: int | str) -> Child:
        """One of the conversation's children, by the number or name of its branch."""
        line = await self._log.line(self.conversation, check.branch(branch))
        if await begun_on(self._log, line) is None:
            raise UnknownChild(branch)
        return Child(self._runtime, self.conversation, line)

    async def spent(self) -> UsageTotal | None:
        """Tokens, price and time of the model calls on this branch together with those of its children, and of theirs;
        None where there were none. What its ancestors took before it began is theirs."""
        line = await self.line()
        branches = await family(self._log, self.conversation, line)
        rows = await self._log.usage.of_owner(self.conversation.owner, by="branch", conversation=self.id, limit=ENDLESS)
        return added([row for row in rows if row.branch in branches], branch=line.branch.number)


def _settings(given: ForChild) -> dict[str, Any]:
    """The settings of a child's branch, checked and as the log keeps them."""
    values = check.settings(given.get("settings") or {})
    limits: dict[str, Any] = {"turn_calls": given.get("calls"), "turn_seconds": given.get("seconds")}
    limits |= {"turn_dollars": given.get("dollars"), "model": given.get("model")}
    values |= {name: one for name, one in limits.items() if one is not None}
    (event,) = check.appended((SettingsChanged(values=values),))
    return dict(event.values)


# -- the tool --------------------------------------------------------------------------------------------------


def delegate_tool(
    *, agents: Iterable[str] = (), approval: Approval = False, **given: Unpack[ForChild]
) -> dict[str, Any]:
    """The tool `delegate`, by which a model has tasks done by children: `talk.say(…, tools=[delegate_tool()])`, or
    among the tools that the store is opened with.

    `agents`: those that it may choose from; without any, the conversation's own. `approval`: as for `tool`. The others
    are what `talk.delegate` takes, for every child. A child at the greatest depth is not offered the tool.
    """
    names = [check.name("agents", one) for one in agents]
    wait = float(given.get("seconds") or Settings().turn_seconds) + LONGER

    async def execute(arguments: dict[str, Any], talk: Any) -> Quoting | str:
        if not isinstance(talk, Delegating):
            raise ToolFailed((Text(text="There is no conversation here to delegate in."),))
        options = given | ({"agent": arguments["agent"]} if names else {})
        try:
            child = await talk._begin_child(arguments["task"], options, awaited=arguments["wait"])
        except (Conflict, InputError, NotFound, TooMany) as refused:
            raise ToolFailed((Text(text=str(refused)),)) from refused
        return await _awaited(talk, child) if arguments["wait"] else BEGUN.format(child.branch)

    schema = _schema(names)
    return {"name": DELEGATE, "description": ABOUT, "schema": schema, "execute": execute} | {
        "approval": approval,
        "seconds": min(wait, LONGEST),
    }


def _schema(agents: list[str]) -> dict[str, Any]:
    properties: dict[str, Any] = {"task": {"type": "string", "description": TASK}}
    if agents:
        properties["agent"] = {"type": "string", "enum": agents, "description": "Who does it."}
    properties["wait"] = {"type": "boolean", "description": WAIT}
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


async def _awaited(talk: Delegating, child: Child) -> Quoting | str:
    """The outcome as the result of the tool, which is forgotten with what it quotes."""
    try:
        found = await child.outcome()
        if found.state == "waiting":
            return WAITS.format(child.branch)
        event = await ended(talk._log, child._line)
        return Quoting.of(in_words(event, most=MOST), event.quotes) if event else GONE
    finally:
        talk._runtime.children.leave(child._line)

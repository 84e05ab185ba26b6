"""The toolbox: which tools a model is offered, and running what it calls.

A tool is a function with type hints (as it is, or through `tool`), a mapping or an object with name, description,
schema and execute, or an MCP server, which brings its own once the toolbox is open. `run` always gives a tool result:
what goes wrong is told to the model in words that let it correct itself, and to the log of the program with its
traceback, or in one line where the tool has only refused what it was given. Only cancellation passes: a tool that
calls `sys.exit` has failed, and the program goes on.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from typing import Any, NamedTuple, Self

import msgspec

from everthread.context.tools import tools_of
from everthread.core.canvas import Change
from everthread.core.events import ToolCall, ToolResult
from everthread.core.parts import Part, Text
from everthread.core.request import Tool, object_of
from everthread.errors import BadTool, BadValue, Conflict, EverthreadError, InputError, NotFound
from everthread.tools import schemas
from everthread.tools.context import ToolContext
from everthread.tools.functions import Approval, Fits, FunctionTool, ToolOptions
from everthread.tools.mcp_servers import Listed, McpServer, names_for
from everthread.tools.results import Drawing, Quoting, in_a_line, parts_of, shortened
from everthread.tools.running import Ended, OutOfTime, in_time, outcome_of

ALL = "*"
AGAIN = 60.0  # seconds after which a server that could not be reached is tried again
_KEYS = ("execute", "approval", "seconds")
_FORMS = "give a function, an McpServer, or name, description, schema and execute"

logger = logging.getLogger("everthread.tools")


class ToolFailed(Exception):
    """A tool has failed, and has said so in parts of a result."""

    def __init__(self, parts: tuple[Part, ...]) -> None:
        super().__init__()
        self.parts = parts


class ToolOutcome(NamedTuple):
    """What came of a tool call: its result, and the changes of the canvas that the tool asks for, if it draws."""

    result: ToolResult
    changes: tuple[Change, ...] = ()


class BoundTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool, ready to run. `bind` turns what the model wrote into arguments, or raises Misfit; `call` takes these and
    the conversation. `fits`: as in `ToolOptions`."""

    offered: Tool
    bind: Callable[[dict[str, Any]], dict[str, Any]]
    call: Callable[[dict[str, Any], ToolContext | None], Any]
    is_async: bool
    approval: Approval = False
    seconds: float | None = None
    fits: Fits | None = None


def listed(given: Any) -> list[Any]:
    """Tools as a list, also where one was given by itself."""
    return list(given) if isinstance(given, Iterable) and not isinstance(given, str | Mapping) else [given]


class Toolbox:
    """Tools by their names. MCP servers are opened with it, and closed. A toolbox may be made of others, which it
    opens too, and leaves to their owners to close."""

    def __init__(self, tools: Iterable[Any] = ()) -> None:
        self._servers: list[McpServer] = []
        self._listed: dict[McpServer, tuple[Listed, ...]] = {}
        self._failed: dict[McpServer, tuple[str, float]] = {}  # what went wrong, and when to try again
        self._opened: set[McpServer] = set()
        self._own: dict[str, BoundTool] = {}
        self._inner: list[Toolbox] = []
        self._tools: dict[str, BoundTool] = {}
        for given in listed(tools):
            self._take(given)
        self._settle()

    def _take(self, given: Any) -> None:
        if isinstance(given, McpServer):
            self._servers.append(given)
        elif isinstance(given, Toolbox):
            self._refuse_taken(given._tools)
            self._inner.append(given)
        else:
            bound = _bound(given)
            self._refuse_taken([bound.offered.name])
            self._own[bound.offered.name] = bound

    def _refuse_taken(self, names: Iterable[str]) -> None:
        taken = {*self._own, *(name for inner in self._inner for name in inner._tools)}
        for name in names:
            if name in taken:
                raise BadTool(name, "there is another of this name; name one of them differently")

    @property
    def offered(self) -> tuple[Tool, ...]:
        """What the model is told, in the order of names: another order would cost the prompt cache."""
        return tuple(bound.offered for bound in self._tools.values())

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._tools)

    def only(self, names: Iterable[str]) -> Toolbox:
        """A view of some of these tools; "*" is all of them. What it does not find, its `open` says."""
        return _View(self, tuple(names))

    # -- MCP servers -----------------------------------------------------------------------------------------

    async def open(self) -> tuple[str, ...]:
        """Connect to the servers that are not connected yet. What went wrong, in sentences: a server that cannot be
        reached has no tools, and is tried again by an `open` a minute later. Raises MissingExtra."""
        inner = [problem for box in self._inner for problem in await box.open()]
        if len(self._listed) < len(self._servers):
            await self._connect()
        if self._inner:
            self._settle()
        return (*inner, *(problem for problem, _ in self._failed.values()))

    async def _connect(self) -> None:
        now = asyncio.get_running_loop().time()
        rested = [server for server in self._servers if now >= self._failed.get(server, ("", now))[1]]
        waiting = [server for server in rested if server not in self._listed]
        self._opened.update(waiting)
        outcomes = await asyncio.gather(*(server.open(self) for server in waiting), return_exceptions=True)
        for server, outcome in zip(waiting, outcomes, strict=True):
            if isinstance(outcome, BadTool):
                self._failed[server] = (str(outcome), now + AGAIN)
            elif isinstance(outcome, BaseException):
                raise outcome
            else:
                self._listed[server] = outcome
                self._failed.pop(server, None)
        self._settle()

    async def close(self) -> None:
        """Let go of the servers: each ends when the last toolbox that opened it lets go."""
        opened, self._opened = self._opened, set()
        async with AsyncExitStack() as stack:
            for server in opened:
                self._listed.pop(server, None)
                stack.push_async_callback(server.close, self)
        self._settle()

    async def __aenter__(self) -> Self:
        for problem in await self.open():
            logger.warning(problem)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _settle(self) -> None:
        """List the tools: the toolbox's own keep their names, those of servers get names that are free."""
        found = dict(self._own)
        for inner in self._inner:
            found = inner._tools | found
        for name, server, listed in names_for(self._listed, taken=set(found)):
            if (bound := _of_server(name, server, listed)) is not None:
                found[name] = bound
        self._tools = dict(sorted(found.items()))

    # -- running ---------------------------------------------------------------------------------------------

    def needs_approval(self, call: ToolCall, talk: ToolContext | None = None) -> bool:
        """Whether somebody must agree before this runs. No, if it would not run at all. `talk`: where it would."""
        bound, given = self._tools.get(call.name), object_of(call.arguments)
        if bound is None or given is None or not bound.approval:
            return False
        try:
            arguments = bound.bind(given)
        except schemas.Misfit:
            return False
        try:
            if bound.fits is not None and talk is not None and not bound.fits(arguments, talk):
                return False
            return bound.approval is True or bool(bound.approval(arguments))
        except BaseException:  # it may not end the program either
            logger.exception("Whether the tool %s needs approval could not be told, so it does", call.name)
            return True

    def check_arguments(self, call: ToolCall) -> None:
        """BadValue where one of these tools does not take the arguments of a call."""
        bound, given = self._tools[call.name], object_of(call.arguments) or {}
        try:
            schemas.check(bound.offered.schema, given)
            bound.bind(given)
        except schemas.Misfit as problem:
            allowed = f"what {call.name} takes ({shortened(str(problem), 2_000)})"
            raise BadValue("arguments", call.arguments, allowed) from None

    async def run(self, call: ToolCall, talk: ToolContext | None, *, seconds: float) -> ToolResult:
        """The tool's result, or what went wrong. `talk`: the conversation, if there is one. `seconds`: how long it may
        take, unless it has a limit of its own."""
        return (await self.outcome(call, talk, seconds=seconds)).result

    async def outcome(self, call: ToolCall, talk: ToolContext | None, *, seconds: float) -> ToolOutcome:
        """The same, with what the tool draws: whoever runs it puts that on the canvas, together with the result."""
        bound = self._tools.get(call.name)
        if bound is None:
            return _wrong(call, f"The tool {call.name!r} cannot be called: {_absent(self)}.")
        given = object_of(call.arguments)
        if given is None:
            return _wrong(call, "The arguments are not a JSON object. Call the tool again with valid JSON.")
        try:
            arguments = bound.bind(given)
        except schemas.Misfit as problem:
            why = f"The arguments do not fit: {shortened(str(problem), 2_000)}. Correct them, and try again."
            return _wrong(call, f"{why}{_takes(bound.offered)}")
        limit = seconds if bound.seconds is None else bound.seconds
        return await _ran(call, bound, arguments, talk, limit)


class _View(Toolbox):
    """Some of the tools of a toolbox, by their names."""

    def __init__(self, whole: Toolbox, names: tuple[str, ...]) -> None:
        self._whole, self._names = whole, names
        super().__init__()

    async def open(self) -> tuple[str, ...]:
        problems = await self._whole.open()
        self._settle()
        missing = [name for name in self._names if name != ALL and name not in self._tools]
        return (*problems, *(str(BadTool(name, _absent(self._whole))) for name in missing))

    def _settle(self) -> None:
        tools = self._whole._tools
        self._tools = tools if ALL in self._names else {name: tools[name] for name in tools if name in self._names}


def _absent(toolbox: Toolbox) -> str:
    return f"there is no such tool; there are: {', '.join(tool.name for tool in toolbox.offered) or 'none'}"


def _takes(tool: Tool) -> str:
    """The arguments that a tool takes, with their values where there are only a few."""
    told = []
    for name, about in tool.schema.get("properties", {}).items():
        few = about.get("enum") if isinstance(about, dict) else None
        told.append(f"{name} ({', '.join(map(repr, few))})" if isinstance(few, list) else name)
    return shortened(f" It takes: {', '.join(told)}.", 2_000) if told else ""


async def _ran(
    call: ToolCall, bound: BoundTool, arguments: dict[str, Any], talk: ToolContext | None, seconds: float
) -> ToolOutcome:
    work = outcome_of(lambda: bound.call(arguments, talk), is_async=bound.is_async)
    try:
        return _right(call, await in_time(work, seconds))
    except ToolFailed as failed:
        return ToolOutcome(ToolResult(id=call.id, name=call.name, parts=failed.parts, error=True))
    except OutOfTime as late:
        logger.warning("The tool %s did not end within %g s", call.name, seconds)
        goes_on = late.goes_on or not bound.is_async
        lost = " It goes on in the background; what it gives is lost." if goes_on else ""
        return _wrong(call, f"The tool did not end within {seconds:g} s.{lost}")
    except asyncio.CancelledError:
        if _is_cancelled():
            raise
        return _wrong(call, "The tool was cancelled from within.")
    except Ended as ended:
        logger.warning("The tool %s tried to end the program", call.name, exc_info=True)
        return _wrong(call, f"{_told(ended.problem)}. A tool cannot end the program that runs it.")
    except (Conflict, InputError, NotFound) as refused:
        logger.warning("The tool %s refused: %s", call.name, in_a_line(refused))
        return _wrong(call, _told(refused))
    except Exception as problem:
        logger.warning("The tool %s failed", call.name, exc_info=True)
        return _wrong(call, _told(problem))


def _is_cancelled() -> bool:
    """Whether the turn is being ended; else a tool has raised CancelledError by itself."""
    task = asyncio.current_task()
    return task is None or bool(task.cancelling())


def _told(problem: BaseException) -> str:
    """An exception in words: its type and its message, or those of a group."""
    if isinstance(problem, BaseExceptionGroup):
        return shortened("\n".join(_told(one) for one in problem.exceptions[:5]), 5_000)
    kind, words = type(problem).__name__, in_a_line(problem)
    return words if words == kind or isinstance(problem, EverthreadError) else f"{kind}: {words}"


def _right(call: ToolCall, given: tuple[Part, ...] | Drawing) -> ToolOutcome:
    if isinstance(given, Drawing):
        return ToolOutcome(ToolResult(id=call.id, name=call.name, parts=parts_of(given)), given.changes)
    quotes = given.quotes if isinstance(given, Quoting) else ()
    return ToolOutcome(ToolResult(id=call.id, name=call.name, parts=tuple(given), quotes=quotes))


def _wrong(call: ToolCall, sentence: str) -> ToolOutcome:
    return ToolOutcome(ToolResult(id=call.id, name=call.name, parts=(Text(text=sentence),), error=True))


# -- tools in the forms that people have them in ------------------------------------------------------------


def _bound(given: Any) -> BoundTool:
    if isinstance(given, FunctionTool):
        return _of_function(given.function, given.said)
    if isinstance(given, Mapping):
        return _of_mapping(given)
    if hasattr(given, "execute"):
        keys = ("name", "description", "schema", *_KEYS)
        return _of_mapping({key: getattr(given, key) for key in keys if hasattr(given, key)})
    if callable(given) and not isinstance(given, type):
        return _of_function(given, ToolOptions())
    raise BadTool(getattr(given, "name", given), f"it cannot be run; {_FORMS}")


def _of_function(function: Callable[..., Any], said: ToolOptions) -> BoundTool:
    name = said.name or getattr(getattr(function, "func", function), "__name__", type(function).__name__)
    if name == "<lambda>":
        raise BadTool(name, "it has no name; give it one with tool(…, name=…)")
    takes = schemas.arguments_of(function, name)

    def call(arguments: dict[str, Any], talk: ToolContext | None) -> Any:
        return function(**arguments, **({takes.talk: talk} if takes.talk else {}))

    return BoundTool(
        offered=_offered({"name": name, "description": said.description or takes.description, "schema": takes.schema}),
        bind=takes.bind,
        call=call,
        is_async=_is_async(function),
        approval=_approval(name, said.approval),
        seconds=_seconds(name, said.seconds),
        fits=said.fits,
    )


def _of_mapping(given: Mapping[str, Any]) -> BoundTool:
    """`execute` is given the arguments in one dict, and the conversation where it has a parameter `talk`."""
    name = given.get("name", given)
    execute = given.get("execute")
    if not callable(execute):
        raise BadTool(name, f"it has no execute to run; {_FORMS}")
    offered = _offered({key: value for key, value in given.items() if key not in _KEYS})
    wants_talk = _has_parameter(execute, "talk")

    def bind(arguments: dict[str, Any]) -> dict[str, Any]:
        schemas.check(offered.schema, arguments)
        return arguments

    def call(arguments: dict[str, Any], talk: ToolContext | None) -> Any:
        return execute(arguments, talk=talk) if wants_talk else execute(arguments)

    return BoundTool(
        offered=offered,
        bind=bind,
        call=call,
        is_async=_is_async(execute),
        approval=_approval(offered.name, given.get("approval", False)),
        seconds=_seconds(offered.name, given.get("seconds")),
    )


def _of_server(name: str, server: McpServer, listed: Listed) -> BoundTool | None:
    """A server's tool; None where no provider would take it."""
    try:
        offered = _offered({"name": name, "description": listed.description, "schema": listed.schema})
    except BadTool as problem:
        logger.warning("Left out of the tools of %s: %s", server.name, problem)
        return None

    async def call(arguments: dict[str, Any], _talk: ToolContext | None) -> Any:
        parts, error = await server.call(listed.name, arguments)
        if error:
            raise ToolFailed(parts)
        return list(parts)

    approval = server.needs_approval(listed.name)
    return BoundTool(offered=offered, bind=lambda arguments: arguments, call=call, is_async=True, approval=approval)


def _offered(given: dict[str, Any]) -> Tool:
    name = str(given.get("name"))
    try:
        (tool,) = tools_of([given])
    except BadValue as problem:
        raise BadTool(name, str(problem).removesuffix(".")) from None
    return msgspec.structs.replace(tool, schema=schemas.accepted(tool.schema, tool.name))


def _has_parameter(function: Callable[..., Any], name: str) -> bool:
    try:
        return name in inspect.signature(function).parameters
    except (TypeError, ValueError):  # of some built-in ones nothing is known
        return False


def _is_async(function: Any) -> bool:
    """Whether a call of it only makes a coroutine or an asynchronous generator."""
    looks = (inspect.iscoroutinefunction, inspect.isasyncgenfunction)
    return any(look(function) or look(getattr(function, "__call__", None)) for look in looks)  # noqa: B004


def _approval(name: str, given: Any) -> Approval:
    if not isinstance(given, bool) and (not callable(given) or inspect.iscoroutinefunction(given)):
        raise BadTool(name, "its approval must be true, false, or a plain function of the arguments")
    return given  # type: ignore[no-any-return]


def _seconds(name: str, given: Any) -> float | None:
    right = isinstance(given, int | float) and not isinstance(given, bool) and 0 < given <= 86_400
    if given is not None and not right:
        raise BadTool(name, "its seconds must be a number above 0, up to 86,400")
    return None if given is None else float(given)

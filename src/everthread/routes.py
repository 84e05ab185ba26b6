"""Which verb answers at which address: what the service serves and what its client asks for, told once.

A route names a verb of the library, a method and a path below `/api`. What it takes and gives is read from the verb's
own signature, so the two cannot differ: in GET and DELETE the arguments are in the query, else in a JSON object, and
those that the path names in the path. Everything that a verb returns has its JSON form (`everthread.wire`).

    GET    /api/conversations/{conversation}/turns?limit=20            Talk.turns
    POST   /api/conversations/{conversation}/marks {"name": "here"}     Talk.mark

Every route below a conversation also takes `branch`, by name or number; without it, it is about the current branch.
What stays in the process of the caller, such as tools that are functions, is no argument here. Who calls is known by
its key or sign-in: `user` and `tenant` are no arguments either.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints, is_typeddict

import msgspec

from everthread.agent.child import Child
from everthread.agent.children import ListedChild
from everthread.agent.personas import Agents, Versioned
from everthread.agent.reply import Reply
from everthread.app import Everthread
from everthread.core.accounts import Scope
from everthread.core.branches import Branch
from everthread.core.canvas import Change
from everthread.core.events import Event
from everthread.core.parts import Part
from everthread.core.value_schemas import FormOf
from everthread.core.values import Value
from everthread.store.conversations import Conversation
from everthread.talk import Talk

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Of = Literal["store", "talk", "child", "agents", "identity", "vault"]
Carrier = Literal["path", "query", "body"]  # in which of a request's parts an argument comes

# What a service and whoever calls it have to agree on.
PREFIX = "/api"  # before the paths of all routes
PORT = 8321  # unless another is chosen
FOR_USER = "Everthread-User"  # the header in which an application's key names for whom it acts
WARNING = "Everthread-Warning"  # the header which says that a page was made smaller, because it took too long
EVENTS = "text/event-stream"  # the type of what is told bit by bit, asked for and answered with
LEAVING = 1012  # the code with which a WebSocket is closed by a process that is about to end

TALK = "/conversations/{conversation}"
OUTCOME_SECONDS = 45.0  # less than proxies and clients wait for an answer
CHILD = f"{TALK}/children/{{branch}}"
# Arguments that come by no request, because they are known, or make sense in one process only.
HERE = frozenset({"self", "user", "tenant", "extra_headers", "detached"})
OF_IDENTITY = frozenset({"self", "by", "address", "et"})
_NAMED = re.compile(r"\{(\w+)\}")


class Opened(msgspec.Struct, Value, frozen=True):
    """A talk, as others know it: its conversation, and the number of its branch; None for whichever is current."""

    conversation: Conversation
    branch: int | None = None


class Argument(NamedTuple):
    """`type`: of its JSON form. `many`: the verb takes any number of them one after another."""

    name: str
    type: Any
    where: Carrier
    required: bool = False
    default: Any = None
    many: bool = False


class Route(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """`verb`: a method, or a function whose first argument is what it is about. `takes`: arguments whose JSON form is
    another than its signature says; None for those that no request gives."""

    method: Method
    path: str
    verb: Callable[..., Any]
    of: Of
    scope: Scope
    takes: Mapping[str, Any] = {}

    @property
    def name(self) -> str:
        """The verb, and what it is one of: `talk.mark`."""
        return f"{self.of}.{self.verb.__name__}"

    @property
    def runs(self) -> bool:
        """Whether it runs a turn, whose deltas can be listened to."""
        return self.gives is Reply

    @property
    def gives(self) -> Any:
        """What the verb gives: a type that has a JSON form, or Reply."""
        return _given(self.verb)

    @property
    def arguments(self) -> tuple[Argument, ...]:
        return _arguments(self)

    @property
    def asks(self) -> frozenset[str]:
        """The names of all that the verb takes, by request or not."""
        return _asks(self.verb)

    @property
    def about(self) -> str:
        """What the verb does, in its own words."""
        return inspect.getdoc(self.verb) or ""


# -- the table -----------------------------------------------------------------------------------------------


def routes(of: Of, path: str, *rows: tuple[Any, ...]) -> list[Route]:
    """Rows of the table: method, the rest of the path, verb, scope, and `takes` where that is needed."""
    made = []
    for method, below, verb, scope, *takes in rows:
        more = takes[0] if takes else {}
        made.append(Route(method=method, path=path + below, verb=verb, of=of, scope=scope, takes=more))
    return made


async def look(self: Talk) -> Opened:
    """A conversation as it is now: its name, goal, settings and metadata."""
    return Opened((await self.another(self.id)).conversation)


async def branch(self: Talk) -> Branch:
    """The branch that is read and written: the one that was chosen, else the one that is current."""
    return (await self.line()).branch


async def outcome(self: Child) -> ListedChild:
    """Wait until the child has ended, or waits for approval, for most of a minute; and how it stands then. Where it
    still runs, ask again."""
    try:
        async with asyncio.timeout(OUTCOME_SECONDS):
            return await self.outcome()
    except TimeoutError:
        return await self.look()


SETTINGS = dict[str, Any]  # checked by the verbs themselves
CHANGE = Annotated[dict[str, Any], FormOf(Change)]
_TURN = {"tools": None}
_TOLD = {"tools": list[dict[str, Any]] | None}

ROUTES: tuple[Route, ...] = (
    *routes(
        "store",
        "",
        ("GET", "/conversations", Everthread.conversations, "read"),
        ("POST", "/conversations", Everthread.begin, "write"),
        ("POST", "/conversation", Everthread.conversation, "write"),
        ("GET", "/totals", Everthread.totals, "read"),
        ("GET", "/usage", Everthread.usage, "read"),
        ("GET", "/schedules", Everthread.schedules, "read"),
        ("GET", "/default-model", Everthread.default_model, "read"),
        ("GET", "/archives", Everthread.archives, "read"),
        ("POST", "/archives/{id}", Everthread.archive, "write"),
        ("POST", "/archives/{id}/restore", Everthread.restore, "write"),
        ("POST", "/forget-me", Everthread.erase_user, "forget"),
    ),
    *routes(
        "agents",
        "/agents",
        ("GET", "", Agents.list, "read"),
        ("GET", "/{name}", Agents.get, "read"),
        ("GET", "/{name}/versions", Agents.history, "read"),
        ("POST", "", Agents.save, "admin"),
    ),
    *routes(
        "talk",
        TALK,
        ("GET", "", look, "read"),
        # what was said
        ("GET", "/before", Talk.before, "read"),
        ("GET", "/after", Talk.after, "read"),
        ("GET", "/tail", Talk.tail, "read"),
        ("GET", "/range", Talk.range, "read"),
        ("GET", "/markers", Talk.markers, "read"),
        ("GET", "/turns", Talk.turns, "read"),
        ("GET", "/sessions", Talk.sessions, "read"),
        ("GET", "/totals", Talk.totals, "read"),
        ("GET", "/usage", Talk.usage, "read"),
        ("GET", "/spent", Talk.spent, "read"),
        ("POST", "/recall", Talk.recall, "read"),
        # turns
        ("POST", "/say", Talk.say, "write", {**_TURN, "pieces": list[str | Part]}),
        ("POST", "/resume", Talk.resume, "write", _TURN),
        ("POST", "/approve", Talk.approve, "write", _TURN),
        ("POST", "/refuse", Talk.refuse, "write", _TURN),
        ("POST", "/stop", Talk.stop, "write"),
        ("GET", "/waiting", Talk.waiting, "read"),
        # what is written without a model
        ("POST", "/events", Talk.append, "write", {"events": list[Event]}),
        ("POST", "/clear", Talk.clear, "write"),
        ("POST", "/marks", Talk.mark, "write"),
        ("POST", "/pin", Talk.pin, "write"),
        ("POST", "/unpin", Talk.unpin, "write"),
        ("POST", "/configure", Talk.configure, "write"),
        ("PUT", "/name", Talk.rename, "write"),
        ("PUT", "/goal", Talk.set_goal, "write"),
        ("PUT", "/metadata", Talk.set_metadata, "write"),
        ("GET", "/settings", Talk.settings, "read"),
        ("PUT", "/settings", Talk.set_settings, "write"),
        # branches
        ("GET", "/branch", branch, "read"),
        ("GET", "/branches", Talk.branches, "read"),
        ("POST", "/fork", Talk.fork, "write"),
        ("POST", "/rewind", Talk.rewind, "write"),
        ("POST", "/switch", Talk.switch, "write"),
        # what the model sees
        ("POST", "/context", Talk.context, "read", _TOLD),
        ("POST", "/steps", Talk.steps, "read", _TOLD),
        ("POST", "/count", Talk.count, "read", _TOLD),
        ("POST", "/rebuild", Talk.rebuild, "read", {**_TOLD, "strategy": None}),
        # the canvas
        ("GET", "/canvas", Talk.canvas, "read"),
        ("POST", "/canvas", Talk.act, "write", {"changes": list[CHANGE]}),
        # memory
        ("GET", "/brief", Talk.brief, "read"),
        ("GET", "/remembered", Talk.remembered, "read"),
        ("GET", "/memory", Talk.memory, "read"),
        ("POST", "/remember", Talk.remember, "write"),
        ("POST", "/correct", Talk.correct, "write"),
        ("POST", "/look-up", Talk.look_up, "write"),
        ("GET", "/notes", Talk.notes, "read"),
        ("PUT", "/notes", Talk.write_notes, "write"),
        # schedules
        ("GET", "/schedules", Talk.schedules, "read"),
        ("POST", "/schedules", Talk.schedule, "write"),
        ("PATCH", "/schedules/{id}", Talk.change_schedule, "write"),
        ("POST", "/schedules/{id}/pause", Talk.pause_schedule, "write"),
        ("POST", "/schedules/{id}/resume", Talk.resume_schedule, "write"),
        ("DELETE", "/schedules/{id}", Talk.unschedule, "write"),
        # children
        ("GET", "/children", Talk.children, "read"),
        ("POST", "/children", Talk.delegate, "write", _TURN),
        # what is gone for good
        ("POST", "/redact", Talk.redact, "forget"),
        ("DELETE", "/notes", Talk.forget_notes, "forget"),
        ("DELETE", "", Talk.erase, "forget"),
    ),
    *routes(
        "child",
        CHILD,
        ("GET", "", Child.look, "read"),
        ("GET", "/outcome", outcome, "read"),
        ("POST", "/stop", Child.stop, "write"),
    ),
)


# -- from signatures -----------------------------------------------------------------------------------------


@cache
def _given(verb: Callable[..., Any]) -> Any:
    gives = get_type_hints(verb).get("return")
    if get_origin(gives) is Reply or gives is Reply:
        return Reply
    if gives is Child:
        return ListedChild
    named = str(inspect.signature(verb).return_annotation)
    if named in ("Self", "Talk"):
        return Opened
    return {"Found": list[Versioned]}.get(named, gives)


@cache
def _asks(verb: Callable[..., Any]) -> frozenset[str]:
    return frozenset(inspect.signature(verb).parameters)


@cache
def _arguments(route: Route) -> tuple[Argument, ...]:
    named = _NAMED.findall(route.path)
    hints = get_type_hints(route.verb)
    found: list[Argument] = []
    for given in inspect.signature(route.verb).parameters.values():
        if given.kind is inspect.Parameter.VAR_KEYWORD:
            options = get_type_hints(get_args(hints[given.name])[0])
            found += [Argument(name, wanted, "body") for name, wanted in options.items()]
        else:
            found.append(_argument(given, hints.get(given.name, Any)))
    in_query = route.method in ("GET", "DELETE")
    return tuple([_placed(one, route, named, in_query) for one in found if _comes(one, route)])


def _argument(given: inspect.Parameter, wanted: Any) -> Argument:
    if given.kind is inspect.Parameter.VAR_POSITIONAL:
        return Argument(given.name, list[wanted], "body", required=True, many=True)
    needed = given.default is inspect.Parameter.empty
    return Argument(given.name, wanted, "body", required=needed, default=None if needed else given.default)


def _comes(argument: Argument, route: Route) -> bool:
    if f"{{{argument.name}}}" in route.path:
        return True
    here = OF_IDENTITY if route.of in ("identity", "vault") else HERE
    return argument.name not in here and not (argument.name in route.takes and route.takes[argument.name] is None)


def _placed(argument: Argument, route: Route, named: Sequence[str], in_query: bool) -> Argument:
    where: Carrier = "path" if argument.name in named else "query" if in_query else "body"
    return argument._replace(where=where, type=route.takes.get(argument.name) or json_type(argument.type))


def json_type(wanted: Any) -> Any:
    """The type of what stands in JSON where a verb takes this type: functions do not, and a list is one of any kind."""
    origin, given = get_origin(wanted), get_args(wanted)
    if origin is Annotated:
        return json_type(given[0])
    if origin in (Union, UnionType):
        kept = [json_type(one) for one in given if not _is_function(one)]
        return Union[tuple(kept)] if len(kept) > 1 else kept[0]  # noqa: UP007 -- the types are known only here
    if is_typeddict(wanted):
        return SETTINGS
    if _is(origin, Mapping):
        return dict.__class_getitem__((str, json_type(given[1])))
    if _is(origin, Iterable) and not _is(origin, tuple):
        return list.__class_getitem__(json_type(given[0]))
    return wanted


def _is_function(wanted: Any) -> bool:
    return _is(get_origin(wanted), Callable)


def _is(origin: Any, kind: Any) -> bool:
    return isinstance(origin, type) and issubclass(origin, kind)

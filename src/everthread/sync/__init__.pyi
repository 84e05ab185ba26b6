"""Written by scripts/sync_stub.py from the asynchronous classes: `make reference`."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, Unpack, overload

from everthread import app
from everthread.agent import reply
from everthread.agent.children import ListedChild
from everthread.agent.personas import Agent, Found, Versioned
from everthread.agent.prepare import Rebuilt
from everthread.agent.reply import V
from everthread.agent.runtime import KeysOf, Summarise
from everthread.archive.catalogue import ArchiveProblem, ArchiveProgress, ListedArchive
from everthread.arguments import ForContext, ForMessage, ForTurn
from everthread.config import Resolved
from everthread.context.build import Context
from everthread.context.explain import StepLine
from everthread.core.branches import Line
from everthread.core.canvas import Canvas, Change, Element
from everthread.core.deltas import Delta
from everthread.core.events import BriefUpdated, Event, ToolCall, ToolResult
from everthread.core.importance import Worth
from everthread.core.logged import Logged
from everthread.core.parts import Part
from everthread.core.schedules import Missed, Schedule
from everthread.core.settings import GivenSettings
from everthread.core.strategies import Strategy
from everthread.core.tokens import Counter
from everthread.core.told import Told
from everthread.core.turns import Session, Turn
from everthread.jobs.worker import Did
from everthread.memory.correct import Remembered
from everthread.memory.status import Status
from everthread.providers.choose import Chosen
from everthread.store.beside.usage import By, UsageTotal
from everthread.store.conversations import BranchTotals, Conversation, Totals
from everthread.store.engine import Engine
from everthread.store.listing import ListedConversation
from everthread.store.recall.hits import Branches, Hit, Scope
from everthread.transfer.detect import Format
from everthread.transfer.importing import Imported, OnProgress

__all__ = ["Agents", "Child", "Everthread", "Reply", "Stream", "Talk"]

T = TypeVar("T")

class Stream(Generic[T]):
    """What comes bit by bit: `for item in stream`. Leaving the loop closes the stream; `close`, from any thread, ends
    the loop."""
    def __iter__(self) -> Iterator[T]: ...
    def pulse(self, seconds: float) -> Iterator[T | None]:
        """The same items, and None whenever nothing has come for `seconds`: time to send a sign of life, or to see
        whether anybody is still there."""
    def close(self) -> None:
        """Stop listening."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None: ...

class Agents:
    """The agents of every tenant, with their versions, in a store."""
    def get(self, tenant: str, name: str, version: int | None = None) -> Versioned | None:
        """An agent's newest version, or one by number; None where there is none."""
    def must_be(self, tenant: str, name: str) -> Versioned:
        """The same; raises UnknownAgent where there is none."""
    def list(self, tenant: str) -> Found:
        """The newest version of each, by name."""
    def history(self, tenant: str, name: str) -> Found:
        """The versions of an agent, newest first."""
    def save(self, tenant: str, agent: Agent) -> Versioned:
        """Write an agent's next version; one that says what the newest says already is not written again. Where callers
        are not the operators: Forbidden, if it has MCP servers, or settings that are for operators alone."""
    def spread(self, folder: Path) -> None:
        """Have every tenant know the agents of a folder, one that is made later as well: each gets them when it is
        first met. Nothing is written where any of them is wrong."""
    def bring(self, tenant: str) -> None:
        """Write what changed in that folder since, for a tenant that this process has not met yet."""
    def sync(self, folder: Path, *, tenant: str = ...) -> Found:
        """Write what changed in a folder since; what changed. Nothing is written where any of them is wrong."""

class Child:
    """A child: `outcome()` waits until it has ended. `talk.on(child.branch)` is its own talk, with every verb."""
    @property
    def branch(self) -> int:
        """The number of its branch, by which it is known in its conversation."""
    @property
    def name(self) -> str:
        """The name of its branch."""
    def look(self) -> ListedChild:
        """The child as it stands. Raises UnknownChild."""
    def outcome(self) -> ListedChild:
        """Wait until the child has ended, in whichever process, or waits for approval; and how it stands then."""
    def listen(self, *, after: int | None = None) -> Stream[Logged | Delta]:
        """What the child says and does, from its task on or after event `after`, as `talk.listen` has it."""
    def told(self, *, after: int | str | None = None) -> Stream[Told]:
        """As `listen`, each item with its place, as `talk.told` has it."""
    def stop(self) -> bool:
        """End the child and its own children, in whichever process, and return when they have ended. Whether any of
        them ran or waited for approval. What had come of a reply is kept, and is part of the outcome."""

class Everthread:
    """An open store of conversations."""
    @overload
    def run(self, work: Callable[[app.Everthread], AsyncIterator[T]]) -> Stream[T]:
        """Do something asynchronous with the store: `et.run(lambda et: et.log.strays())`. What comes bit by bit is a
        `Stream`."""
    @overload
    def run(self, work: Callable[[app.Everthread], Awaitable[T]]) -> T: ...
    def close(self) -> None:
        """Finish what is under way and let go of the store."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    @staticmethod
    def open(
        address: str | Engine,
        *,
        settings: GivenSettings | None = None,
        environment: bool = True,
        tools: Iterable[Any] = ...,
        agents: str | Path | None = None,
        keys: Mapping[str, str] | KeysOf | None = None,
        importance: Worth = ...,
        strategy: Strategy | None = None,
        summarise: Summarise | None = None,
        counters: Mapping[str, Counter] = ...,
        session_gap: timedelta = ...,
        max_event_bytes: int = ...,
        patience: float = 30.0,
        bus: str | None = None,
        locked: bool = False,
    ) -> Everthread:
        """Open the store at an address: `with Everthread.open(…) as et`, or `et = Everthread.open(…)`. In
        place of the address: an engine of your own.

        `settings`: they win over those of the configuration file and the environment, which hold beside them unless
        `environment` is False; keys are no settings. `tools`: what agents may use: functions with type hints, objects
        with name, schema and execute, MCP servers. `agents`: a folder of agents' TOML files, for all tenants; an agent
        must then be one of them, or one that was saved. `keys`: by provider, or by host and port for servers of your
        own; else those of the configuration file and the environment. Or an function that gives them for a
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
        branch says it, it is passed over."""
    def conversation(
        self, *, user: str, agent: str = ..., id: str | None = None, begin: bool = True, tenant: str = ...
    ) -> Talk:
        """The user's newest conversation with the agent, begun if there is none; or the one with this id.

        `id`: Everthread's, of a conversation that is there; or one of your own, such as "thread-17": then it is begun
        with the agent if this user has none with that id. `begin`: False begins none; where there is none,
        UnknownConversation is raised, as a web service wants it of an address that is wrong or was deleted."""
    def begin(
        self,
        *,
        user: str,
        agent: str = ...,
        name: str = "",
        goal: str = "",
        settings: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
        id: str | None = None,
        tenant: str = ...,
    ) -> Talk:
        """Begin another conversation; from now on it is the user's newest with this agent.

        `metadata`: a JSON object of your own, kept with it and never sent. `id`: one of your own, by which
        `et.conversation` finds it; AlreadyExists where this user has one with that id."""
    def talk(self, conversation: Conversation) -> Talk:
        """The talk for one of `et.conversations`."""
    def conversations(
        self,
        *,
        user: str,
        agent: str = "",
        metadata: dict[str, Any] | None = None,
        before: str = ...,
        limit: int = 50,
        tenant: str = ...,
    ) -> list[ListedConversation]:
        """A page of a user's conversations, last active first, with their counts. Without a user there are none.

        `metadata`: only those that have these values under these names. The next page is `before` the `cursor` of the
        last one; what comes in between moves its conversation to the top, and moves no other."""
    def totals(self, *, user: str, tenant: str = ...) -> Totals:
        """Conversations, events, messages and tokens of a user."""
    def erase_user(self, *, user: str, tenant: str = ...) -> int:
        """Erase all of a user's conversations for ever, and the user's account of a service, where there is one. How
        many conversations there were."""
    @property
    def agents(self) -> Agents:
        """The agents that are known, and their versions."""
    def default_model(self, *, tenant: str = ...) -> Chosen:
        """The model that replies where none is named, and why it is this one. A tenant that has keys of its own gets
        one of their providers."""
    def usage(
        self,
        *,
        user: str,
        by: By = "conversation",
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 50,
        tenant: str = ...,
    ) -> list[UsageTotal]:
        """Tokens, price and time of a user's model calls, by conversation, day, model or user.

        From `since` until just before `until`."""
    def schedules(self, *, user: str, tenant: str = ...) -> list[Schedule]:
        """All schedules of a user's conversations, those made first before the others. Without a user there are
        none."""
    def work(self, *, until_idle: bool = False, all: bool = False, tell: Callable[[Did], None] | None = None) -> None:
        """Be the worker apart: say what is scheduled, tell of children whose process was killed, and do what memory has
        to do in the conversations of which the processes that reply have written reminders (setting `worker`), and
        archive what has long been idle (setting `archive`), until cancelled or, `until_idle`, until there is nothing
        left.

        `all`: look at every conversation first. `tell` hears of each piece of work. Works for all users and tenants."""
    def idle(self) -> None:
        """Wait until no turn of this process is under way."""
    def archives(
        self, *, user: str, query: str = "", offset: int = 0, limit: int = 50, tenant: str = ...
    ) -> list[ListedArchive]:
        """A page of a user's archived conversations, archived last first, without opening their files; the next page
        has an `offset` of as many more. Without a user there are none. `query`: those that have words of it, best
        first, by the few words that are kept of each."""
    def archive(self, *, user: str, id: str, tenant: str = ...) -> ListedArchive:
        """Move a conversation out of the database into a file, now, however lately it was active. Whoever reads or
        writes it next restores it. NotArchivable: a turn of it runs, a tool call waits, or a message is scheduled."""
    def restore(self, *, user: str, id: str, tenant: str = ...) -> Talk:
        """Bring an archived conversation back, identical. ArchiveError: it cannot be, and stays as it is."""
    def archive_idle(self, *, tell: Callable[[ArchiveProgress], None] | None = None) -> int:
        """Archive all conversations that have been idle for as long as the setting `archive_after` says. How many. One
        that fails keeps no other back. `tell` hears of each. Works for all users and tenants."""
    def verify_archives(self) -> list[ArchiveProblem]:
        """Read and check every archive of all users and tenants; what is wrong. Restores nothing."""
    def export(self, *, user: str, tenant: str = ...) -> Stream[bytes]:
        """All conversations of a user, and MEMORY.md with its versions, as JSON Lines, one after another. Outdated:
        something was redacted meanwhile that may stand in what came: begin anew."""
    def import_file(
        self,
        path: str | Path,
        *,
        user: str,
        agent: str = ...,
        format: Format | None = None,
        keep_users: bool = False,
        progress: OnProgress | None = None,
        tenant: str = ...,
    ) -> Imported:
        """Import conversations from a file: an Everthread export (same ids and times), a data export of ChatGPT or
        Claude (the zip file, too), or message lists of OpenAI, Anthropic or Gemini; or from a folder of these, such as
        a mirror. It is read piece by piece. A fault anywhere imports nothing (BadFormat, AlreadyExists); the same file
        again adds nothing, and finishes what was cut short.

        All becomes the user's; with `keep_users` an Everthread export goes back to those whose it was. `agent`: with
        whom, for histories of other programs. `format` is found out unless it is given. `progress` is told, from
        another thread, what is being done, and how many bytes of how many are."""

class Reply(Stream[Delta], Generic[V]):
    """What `say` gives: the deltas of a turn, `for delta in reply`, or the whole, `reply.result()`.

    The turn begins when somebody listens or waits. Leaving the loop early, by `break` or by an error, ends it, and so
    does Ctrl-C; what had come of the reply is kept."""
    def result(self) -> reply.TurnResult[V]:
        """Listen to the end: the text of the reply, and what it took."""
    @property
    def value(self) -> V: ...
    @property
    def is_accepted(self) -> bool:
        """Whether the message is in the log."""
    def accepted(self) -> Logged:
        """The message as it stands in the log, as soon as it does. Raises what went wrong before that."""
    def cancel(self) -> None:
        """End the turn; what had come of the reply is in the log when this returns."""

class Talk:
    """A conversation, on its current branch or on one that was chosen."""
    @overload
    def say(self, *pieces: str | Part, output: None = None, **given: Unpack[ForMessage]) -> Reply[None]:
        """Say something to the model, and hear its reply: `for delta in talk.say("…")`, or `result()` for the whole.

        The message is on disk before its turn does anything else. `strategy`: as for `context`. `tools`: functions with
        type hints, objects with name, schema and execute, MCP servers; without any, the agent's. `tool_choice`: of the
        first model call: auto, none, required, or the name of a tool. `output`: what the reply must be, as a Pydantic
        model, dataclass, msgspec Struct, TypedDict or JSON Schema; the reply's `value` is one. `extra_headers`: for the
        provider; kept nowhere. `when_busy`: "wait" for a turn of this branch that is under way, or "refuse".
        `detached`: begin at once, and go on without the caller; otherwise the turn ends when the caller stops
        listening. `origin`: who speaks, if not the user in person. `metadata`: a JSON object of your own, kept with the
        message and never sent. `key`: a message that is said again with the same key is appended only once. Errors are
        raised where the reply is awaited or read."""
    @overload
    def say(self, *pieces: str | Part, output: type[V], **given: Unpack[ForMessage]) -> Reply[V]: ...
    @overload
    def say(self, *pieces: str | Part, output: Any, **given: Unpack[ForMessage]) -> Reply: ...
    def resume(self, **given: Unpack[ForTurn]) -> Reply:
        """Go on with a turn that failed or was interrupted, without a new message. Takes what `say` takes beside
        the message."""
    def stop(self, *, children: bool = False) -> bool:
        """End the turn that runs on this branch, in whichever process, and return when it has ended. What has come of
        its reply is kept. `children`: end those that were begun on this branch, too; else they go on. Returns whether
        there was a turn."""
    def waiting(self) -> list[Logged]:
        """The tool calls that wait for approval, oldest first."""
    def approve(
        self, call: str | int | None = None, *, arguments: Mapping[str, Any] | None = None, **given: Unpack[ForTurn]
    ) -> Reply:
        """Let a waiting tool call run (by its id or seq; the only one, where none is named) and go on. Takes what `say`
        takes: give it the same tools.

        `arguments`: what it runs with, in place of all the model's arguments. The log keeps both, and the model is told
        with the result. Redacting the tool call forgets both."""
    def refuse(self, call: str | int | None = None, why: str = "", **given: Unpack[ForTurn]) -> Reply:
        """Refuse a waiting tool call; the model is told why, and goes on."""
    def context(
        self,
        *,
        model: str | None = None,
        budget: int | None = None,
        strategy: str | Strategy | None = None,
        instructions: str | Mapping[str, str] | None = None,
        tools: Iterable[Any] | None = None,
        lookups: bool = False,
        tool_choice: str | None = None,
        output: Any = None,
        at: int | None = None,
        settings: GivenSettings | None = None,
    ) -> Context:
        """What the model would be told now, as a request for its provider; or before event `at`.

        `strategy`: budget, messages, session, importance, or a function of your own. `instructions`: a text, or
        texts for persona, user, memory and skills; without a persona, the agent's or the configured one. `tools`: as
        for `say`, or only told of: name, description and JSON Schema of the arguments, or as OpenAI or Anthropic take
        them; they are sent in the order of their names. `lookups`: with memory's own tools, which `say` always offers;
        who calls the model answers them with `look_up`. `tool_choice`, `output`: as for `say`; `context.parse` reads
        the value from a reply. `settings`: any others, for this context alone. Where no model is named, it is the one
        that `say` would choose."""
    def steps(
        self,
        *,
        model: str | None = None,
        budget: int | None = None,
        instructions: str | Mapping[str, str] | None = None,
        tools: Iterable[Any] | None = None,
        lookups: bool = False,
        at: int | None = None,
        settings: GivenSettings | None = None,
        limit: int = 20,
    ) -> list[StepLine]:
        """The newest steps of the cutoff under these settings, oldest first: when it moved, what left the window."""
    def settings(self) -> Resolved:
        """The settings in force on this branch, and where each was set: default, file, environment, agent, conversation
        or branch. The budget is the one that a context has: where the model takes less than is set, or has one of its
        own, the model is its source."""
    def count(self, *, extra_headers: Mapping[str, str] | None = None, **asked: Unpack[ForContext]) -> int | None:
        """The provider's own count of a context, where it has an endpoint for that. Takes what `context` takes, and
        `extra_headers` as `say` does: `context` sends nothing, so it needs none."""
    def rebuild(
        self,
        seq: int,
        *,
        strategy: Strategy | None = None,
        instructions: str | Mapping[str, str] | None = None,
        tools: Iterable[Any] | None = None,
        tool_choice: str | None = None,
        output: Any = None,
        settings: GivenSettings | None = None,
    ) -> Rebuilt:
        """The request of the model call that event `seq` records, built again, and what is no longer the same.

        What was given for that call alone the log knows by its hash only: give it again. `strategy`: the function that
        chose its window, where that was your own. The others: as for `context`. A choice of tool counts where the call
        had one, which in a turn is the first."""
    def canvas(self, *, at: int | None = None) -> Canvas:
        """What is on the canvas of this branch, or was before event `at`."""
    def act(self, *changes: Change | Element | dict[str, Any], by: str = "user") -> Logged:
        """Change the canvas: tick a box, fill in a form, close an element; all of it, or nothing where one of them
        cannot be done (BadValue). An element alone is put there, and a dict is read as JSON, as a page sends it.
        Outrun: other processes have changed the canvas again and again meanwhile.

        The model learns of it with the next message. `by`: who does it; empty for the agent itself. What a tool does
        so is forgotten with its call."""
    def tail(self, *, turns: int = 20, messages: bool = False) -> list[Logged]:
        """The events of the newest turns, whole, or only the messages. Reads what was said, across a clear as well."""
    def export(self) -> Stream[bytes]:
        """The conversation as JSON Lines, with all its branches, images and files, one after another. Outdated:
        something was redacted meanwhile that may stand in what came: begin anew."""
    def before(
        self,
        seq: int = ...,
        *,
        limit: int = 50,
        messages: bool = False,
        metadata: dict[str, Any] | None = None,
        within: int = ...,
    ) -> list[Logged]:
        """The page of events that ends just before `seq`; the newest page where none is given.

        `metadata`: of the messages that have these values under these names. They are not indexed: the `within` events
        before `seq` are looked through. Where that gives less than a full page, go on from `seq - within`."""
    def after(
        self,
        seq: int = 0,
        *,
        limit: int = 50,
        messages: bool = False,
        metadata: dict[str, Any] | None = None,
        within: int = ...,
    ) -> list[Logged]:
        """The page of events that begins just after `seq`; the first page where none is given. `metadata`: as for
        `before`, among the `within` events after `seq`."""
    def markers(self, kind: str, *, limit: int = 50) -> list[Logged]:
        """The newest markers of a kind, an application's own or one of Everthread's, newest first."""
    def range(self, first: int, last: int) -> list[Logged]:
        """The events from seq `first` to seq `last`."""
    def listen(self, *, after: int = 0) -> Stream[Logged | Delta]:
        """The events after seq `after`, then the reply that runs from its first word, then deltas and events as they
        come, whoever runs the turn: without gap, and nothing twice. Stays on the branch that is current now.

        What is an event is told as one: of tool calls and their results there are no deltas here. Come back with the
        seq of the last event that you have heard."""
    def told(self, *, after: int | str = 0) -> Stream[Told]:
        """As `listen`, each item with its place: give the last one as `after`, and you go on just behind it, in the
        middle of a reply as well."""
    def turns(self, *, limit: int = 50) -> list[Turn]:
        """The newest turns, oldest first, with their sizes and states."""
    def sessions(self, *, limit: int = 50) -> list[Session]:
        """The newest sessions, oldest first."""
    def totals(self) -> Totals:
        """Events, messages and tokens of the whole conversation, each counted once."""
    def usage(
        self, *, by: By = "conversation", since: datetime | None = None, until: datetime | None = None, limit: int = 50
    ) -> list[UsageTotal]:
        """Tokens, price and time of this conversation's model calls, by conversation, turn, session, day or model; from
        `since` until just before `until`."""
    def blob(self, hash: str) -> bytes:
        """The bytes of an image or file, by the hash in its part."""
    def blobs(self, events: Iterable[Logged]) -> dict[str, bytes]:
        """The bytes of all images and files that these events show: `to_openai(events, blob=blobs.get)`."""
    def recall(
        self,
        query: str,
        *,
        limit: int = 5,
        tokens: int = ...,
        neighbours: int = 1,
        scope: Scope = "conversation",
        branches: Branches = "line",
        kinds: Iterable[str] = ...,
        since: datetime | None = None,
        until: datetime | None = None,
        session: int | None = None,
    ) -> list[Hit]:
        """What was said about something, best first: any words, in any language, with what stood around it.

        `scope`: this conversation, or all of the user's. `branches`: this branch's own line, or all of them. `tokens`:
        the most that all hits together may have."""
    def append(
        self, *events: Event | Any, key: str = "", expect: int | None = None, at: datetime | None = None
    ) -> list[Logged]:
        """Append events in one transaction; they are on disk when this returns.

        What an SDK of Anthropic, OpenAI or Google gives (a reply, a message, a content), and LangChain's messages, go
        in as they are: what they say becomes events, and so do their tool calls, with what the provider wants back.
        `key` makes it safe to repeat: the same key and events again give the first result. `expect` is the
        seq of the newest message that you know of: if somebody has said more since, `Moved` is raised. A result of
        `look_up` that quotes what was redacted meanwhile raises `Outrun`: look it up again. `at`: when it happened, for
        history that is older than now, appended oldest first: a time before the branch's newest event is refused.
        Refused, too, is what only `redact`, `fork`, `rewind` and the log itself write."""
    def upload(self, data: bytes, *, name: str = "", media_type: str = "") -> Logged:
        """Hand in an image or a file before anything is said of it; a message then shows it: `talk.say("Look.",
        *logged.event.parts)`. It is an event, and is forgotten as one: with `redact`.

        What its first bytes say is an image becomes one; everything else is a file of the type that is given."""
    def record(
        self, context: Context, usage: Any, *, seconds: float = 0.0, first_seconds: float = 0.0, error: str = ""
    ) -> Logged:
        """Record a model call that you made with a context, as `say` does: what it was built from, its tokens, price
        and time. What the provider counted makes later estimates better.

        `usage`: the SDK's reply or its usage, or a `Usage`; None where there was none, as of a call that failed.
        `seconds`: how long it took; `first_seconds`: until the first piece came. `error`: why it failed."""
    def clear(self) -> Logged:
        """Start afresh: what came before is no longer sent, but stays and can be found."""
    def mark(self, name: str) -> Logged:
        """Name this point, to come back to with `rewind`."""
    def pin(self, seq: int) -> Logged:
        """Always send the turn that holds event `seq`, up to the share of the room that pins have."""
    def unpin(self, seq: int) -> Logged:
        """Stop sending the turn that holds event `seq` once it has left the window."""
    def configure(self, **settings: Unpack[GivenSettings]) -> Logged:
        """Set settings of this branch from here on; None takes one back."""
    def rename(self, name: str) -> None:
        """Give the conversation a name."""
    def set_goal(self, goal: str) -> None:
        """Say what the conversation is for."""
    def set_metadata(self, metadata: dict[str, Any]) -> None:
        """Replace the conversation's metadata: a JSON object of your own, by which `et.conversations` finds it."""
    def set_settings(self, settings: dict[str, Any]) -> None:
        """Replace the conversation's settings: any JSON object, where Everthread's own have values that it takes."""
    def branches(self) -> list[BranchTotals]:
        """All branches, each with its sums: along its whole line, and what it added itself."""
    def on(self, branch: str | int) -> Self:
        """The same conversation on one of its branches, by name or number."""
    def another(self, id: str) -> Self:
        """Another conversation of the same user."""
    def fork(self, *, at: int | None = None, name: str = "") -> Self:
        """A new branch from event `at` (the newest by default). The current branch stays current."""
    def rewind(self, *, to: int | str, name: str = "") -> Self:
        """Go back to an earlier seq or mark and go on from there, on a new branch that becomes the current one."""
    def switch(self, branch: str | int) -> Self:
        """Make a branch the current one."""
    def delegate(
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
        depth: int = ...,
        at_once: int = ...,
        name: str = "",
    ) -> Child:
        """Have a task done by a child: an agent on a branch of its own, which begins at the newest event, in the
        background. Returns once it has begun; `child` waits for its outcome.

        `agent`: whose instructions, settings and tools it has; the conversation's by default. `model`, `instructions`,
        `tools`, `settings`: as for `say`; model and settings stay those of its branch. `calls`, `seconds`, `dollars`:
        the most model calls, time and US dollars that it may take: its turn_calls, turn_seconds and turn_dollars.
        `fresh`: it begins with nothing of what was said before. `canvas`: whether it may draw on the canvas. `depth`:
        how deep children may be nested below the conversation; TooDeep beyond that. `at_once`: how many of the
        conversation's may run at once; TooManyChildren beyond that. `name`: of its branch.

        Its beginning and its outcome are events of this branch, and the model is told of the outcome with its next
        model call. The current branch stays current. Where its process is killed, the outcome says so."""
    def children(self, *, limit: int = 50) -> list[ListedChild]:
        """The newest children that were begun along this branch's line, newest first: running or ended."""
    def child(self, branch: int | str) -> Child:
        """One of the conversation's children, by the number or name of its branch."""
    def spent(self) -> UsageTotal | None:
        """Tokens, price and time of the model calls on this branch together with those of its children, and of theirs;
        None where there were none. What its ancestors took before it began is theirs."""
    def schedule(
        self, text: str, *, at: datetime | None = None, cron: str = "", zone: str = "", missed: Missed = "once"
    ) -> Schedule:
        """Have something said to the agent `at` a time, or again and again by a `cron` expression in the time zone
        `zone`: `talk.schedule("What is new?", cron="0 8 * * 1-5", zone="Europe/Berlin")`.

        A worker says it, on whichever branch is current then, and the agent replies with the tools that its process
        has. `at` without a time zone of its own is a local time of `zone`. `missed`: whether what was due while no
        worker ran is made up for by one message ("once") or left out ("skip")."""
    def schedules(self) -> list[Schedule]:
        """The conversation's schedules, those made first before the others."""
    def change_schedule(
        self,
        id: str,
        *,
        text: str | None = None,
        at: datetime | None = None,
        cron: str | None = None,
        zone: str | None = None,
        missed: Missed | None = None,
    ) -> Schedule:
        """Change what is given of a schedule, and leave the rest. A new time holds from now on."""
    def pause_schedule(self, id: str) -> Schedule:
        """Say nothing more by a schedule until it is resumed."""
    def resume_schedule(self, id: str) -> Schedule:
        """Go on with a schedule that was paused, by you or after too many failures. What a cron expression called for
        meanwhile is passed over; a single message whose time has come meanwhile is said at once."""
    def unschedule(self, id: str) -> None:
        """Delete a schedule for ever. What it has said stays."""
    def brief(self) -> BriefUpdated | None:
        """The newest version of what is remembered since the last clear; None where nothing is yet."""
    def look_up(self, call: ToolCall) -> ToolResult:
        """What one of memory's own tools gives (`recall_context`, `open_event`, `write_memory`), for those who call
        models themselves: append it after the call. What is wrong with it, the result says."""
    def notes(self) -> str:
        """MEMORY.md: what the agent keeps of its user for good."""
    def write_notes(self, text: str, *, expect: str | None = None) -> int:
        """Replace MEMORY.md; its version from now on. `expect`: what you saw there; Changed if it is another by now."""
    def remember(self) -> bool:
        """Do now what memory has to do on this branch: briefs, recaps, summaries, a name. Whether anything was due."""
    def remembered(self) -> Remembered:
        """All that is remembered on this branch: brief, facts and their events, recap, MEMORY.md, name, goal."""
    def correct(self, brief: str | None = None, *, drop: Iterable[str] = ...) -> BriefUpdated:
        """Put your own words in place of the brief, and drop the facts that have a text in them.

        It holds at once, and what is remembered later goes on from it. To have something gone for good, `redact` the
        event that says it: memory forgets it, too."""
    def memory(self) -> Status:
        """How memory stands on this branch: how far behind, what went wrong last, what it took."""
    def redact(self, seq: int) -> None:
        """Take the content out of an event for ever; a tombstone keeps its place."""
    def erase(self) -> None:
        """Erase the conversation for ever."""
    def forget_notes(self) -> None:
        """Remove MEMORY.md for ever, with all its versions."""
    @property
    def id(self) -> str: ...
    @property
    def now(self) -> datetime:
        """What time it is, by the store's clock."""
    def line(self) -> Line:
        """The branch that is read and written, with its ancestors: what the verbs of `et.log` take."""
    @property
    def conversation(self) -> Conversation: ...
    @property
    def notes_seen(self) -> str | None: ...

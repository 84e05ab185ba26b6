"""What all commands share: options, opening the store, finding a conversation, errors, output."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
import textwrap
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO, TypeVar

import click

from everthread.app import TENANT, Everthread
from everthread.config import keys_of, parse
from everthread.core.ids import is_id
from everthread.errors import BadValue, EverthreadError, NotFound, UnknownConversation
from everthread.language.shown import counted as counted
from everthread.language.shown import printable as printable
from everthread.opening import Opening
from everthread.providers.choose import host_of
from everthread.store.conversations import NEWEST, Conversation, is_name
from everthread.talk import Talk

if TYPE_CHECKING:
    from rich.console import Console

    from everthread import client

T = TypeVar("T")

USER = "me"
SOON = 0.5  # seconds after which the end of a program is worth a word
PATIENCE = 5.0  # seconds that a locked store is waited for: somebody sits at the terminal


class Where(NamedTuple):
    """The store or service (`url`) and whose conversations, from the options."""

    store: str
    user: str
    tenant: str
    json: bool
    url: str = ""

    @property
    def whose(self) -> str:
        """Whose conversations and in which store, for use in a sentence."""
        tenant = f" (tenant {self.tenant!r})" if self.tenant != TENANT else ""
        store = re.sub(r"(://[^/:@]*:)[^@]*@", r"\1…@", self.store)  # never a password
        return f"of {self.user!r}{tenant} {f'at {self.url}' if self.url else f'in {store}'}"


URL = "EVERTHREAD_URL"


def at_store(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that say where and whose; it needs the store itself."""
    return _with_options(click.option("--url", hidden=True, expose_value=False, callback=_refuse_url), command)


def anywhere(command: Callable[..., Any]) -> Callable[..., Any]:
    """The same for a command that a service can be asked for as well."""
    url = click.option("--url", envvar=URL, metavar="ADDRESS", help="A service, https://…, in place of a store.")
    return _with_options(url, command)


def _with_options(url: Callable[..., Any], command: Callable[..., Any]) -> Callable[..., Any]:
    options = [
        click.option("--store", envvar="EVERTHREAD_STORE", metavar="ADDRESS", help="sqlite:///… or postgresql://…"),
        url,
        click.option("--user", envvar="EVERTHREAD_USER", default=USER, show_default=True, help="Whose."),
        click.option("--tenant", envvar="EVERTHREAD_TENANT", default=TENANT, show_default=True, help="Which tenant's."),
        click.option("--json", "as_json", is_flag=True, help="Write JSON for programs."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def _refuse_url(context: click.Context, _option: click.Parameter, given: str | None) -> None:
    """Nor is a store taken that nobody named while the environment names a service; `serve` is the service."""
    if given is not None:
        raise click.UsageError(f"{context.info_name} needs the store itself: run it where that is, without --url.")
    if os.environ.get(URL) and not context.params.get("store") and context.info_name != "serve":
        raise click.UsageError(f"{context.info_name} needs the store itself, and {URL} names a service: give --store.")


def where_of(store: str | None, user: str, tenant: str, as_json: bool, url: str | None = None) -> Where:
    """What the options say. A service is asked whose the key is, where no user is named."""
    url = _chosen_url(store, url)
    if url and not was_said("user"):
        user, tenant = guarded(as_json, lambda: asyncio.run(_caller_at(url, user, tenant)))
    return Where(store or default_store(), user, tenant, as_json, url)


def _chosen_url(store: str | None, url: str | None) -> str:
    """The service that was chosen; none where a store was, and the environment alone names a service."""
    if not (store and url):
        return url or ""
    if was_said("url") and was_said("store"):
        raise click.UsageError("--store names a store, --url a service: give one of them.")
    return url if was_said("url") else ""


def was_said(option: str) -> bool:
    """Whether an option was given on the command line."""
    source = click.get_current_context().get_parameter_source(option)
    return source is click.core.ParameterSource.COMMANDLINE


async def _caller_at(url: str, user: str, tenant: str) -> tuple[str, str]:
    async with _service(url) as et:
        return et.caller.user or user, et.caller.tenant or tenant


def _service(url: str, user: str = "") -> Opening[client.Everthread]:
    """The service at an address, with the key of the environment, or of the settings file under its host and port."""
    from everthread.client.app import KEY, Everthread

    key = os.environ.get(KEY) or keys_of(os.environ).get(host_of(url), "")
    return Everthread.open(url, key=key, user=user)


def default_store() -> str:
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return f"sqlite:///{Path(base) / 'everthread' / 'everthread.db'}"


def run(
    where: Where,
    work: Callable[[Everthread], Awaitable[None]],
    *,
    makes_store: bool = False,
    agents: Path | None = None,
    **options: Any,
) -> None:
    """Open the store and do the work; an EverthreadError is a sentence on stderr and exit code 1.

    `agents`: the folder whose agents the store should know as they are now. `options`: of `Everthread.open`.
    """

    async def worked() -> None:
        if not makes_store and not where.url:
            must_be_there(where.store)
        async with opened(where, agents, **options) as et:
            await work(et)

    guarded(where.json, lambda: asyncio.run(worked()))


@asynccontextmanager
async def opened(where: Where, agents: Path | None = None, **options: Any) -> AsyncIterator[Everthread]:
    if where.url:  # which has agents of its own
        async with _service(where.url) as there:
            yield there
        return
    async with Everthread.open(where.store, **{"patience": PATIENCE, **options}) as et:
        if agents is not None:
            await et.agents.sync(agents, tenant=where.tenant)
        yield et
        if not await et.memory.drain(SOON):
            tell("Finishing what is remembered; ctrl-C leaves it for later.")


def agents_folder(given: str | None = None) -> Path | None:
    """The folder of agents: the one given, the one that the environment names, or the user's own if it exists."""
    if named := given or os.environ.get("EVERTHREAD_AGENTS"):
        return Path(named)
    own = own_agents()
    return own if own.is_dir() else None


def own_agents() -> Path:
    """The folder where a user's agents are looked for by default."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "everthread" / "agents"


def how_to_write(where: Where, agent: str) -> str:
    """What to do for there to be an agent, for use in a sentence."""
    if where.url:
        return "see to it where the service runs, which is given its agents there"
    return f"write {own_agents() / f'{agent}.toml'}, or name a folder with --agents"


def pairs_of(given: Iterable[str]) -> dict[str, Any]:
    """Settings that were written as NAME=VALUE."""
    return dict(map(_pair, given))


def _pair(given: str) -> tuple[str, Any]:
    name, equals, value = given.partition("=")
    if not equals:
        raise BadValue("--set", given, "NAME=VALUE, such as --set clock=off")
    return name, parse(name, value, "--set")


def must_be_there(store: str) -> None:
    """Looking into a store must not make one: a mistyped path would look like an empty store."""
    if is_new(store):
        raise NoStore(store)


def is_new(store: str) -> bool:
    """Whether opening a store would make its file."""
    path = store.removeprefix("sqlite:///")
    return path != store and not Path(path).exists()


class NoStore(NotFound):
    def __init__(self, store: str) -> None:
        super().__init__(f"There is no store at {store}: name one with --store, or begin one with `everthread chat`.")


_told_to_end: list[int] = []


def told_to_end() -> bool:
    """Whether the program was asked to end, by its terminal or by another process."""
    return bool(_told_to_end)


@contextmanager
def _ending_in_order() -> Iterator[None]:
    """Treat a closed terminal or a request to end like ctrl-C, for good: what had come of a reply is kept."""

    def ends(number: int, _frame: object) -> None:
        _told_to_end.append(number)
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background of a script
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGINT)

    names = ("SIGTERM", "SIGHUP") if threading.current_thread() is threading.main_thread() else ()
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    before = {number: signal.signal(number, ends) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def guarded(as_json: bool, work: Callable[[], T]) -> T:
    try:
        with _ending_in_order():
            return work()
    except KeyboardInterrupt:
        sys.exit(128 + _told_to_end[-1] if _told_to_end else 130)
    except BrokenPipeError:
        # The reader has seen enough (`… | head`); nothing more can be said, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except (EverthreadError, OSError) as problem:
        if as_json:
            say_json({"error": {"type": type(problem).__name__, "message": str(problem)}}, file=sys.stderr)
        else:
            tell(f"Error: {problem}", colour="red")
        sys.exit(1)


def somebody_types() -> bool:
    """Whether standard input is a terminal. It may be closed altogether."""
    return sys.stdin is not None and sys.stdin.isatty()


def width_of(terminal: TextIO) -> int:
    """The columns of a terminal; 80 where it does not say."""
    return os.get_terminal_size(terminal.fileno()).columns or 80


def tell(text: str, *, colour: str = "") -> None:
    """A sentence on standard error, dim unless in a colour: wrapped on a terminal, in one line for a program."""
    if sys.stderr.isatty():
        width = width_of(sys.stderr)
        text = "\n".join(textwrap.fill(line, width, break_on_hyphens=False) for line in text.split("\n"))
    click.secho(printable(text), fg=colour or None, dim=None if colour else True, err=True)


async def find(et: Everthread, where: Where, name: str | None) -> Talk:
    """The conversation with this id, the application's own or Everthread's, the beginning or end of one of these, or
    this name; where none is given, the last active, which the list has first."""
    whose: Any = {"user": where.user, "tenant": where.tenant}
    if name and is_name(name):
        with suppress(UnknownConversation, BadValue):  # it is no id, then
            return await et.conversation(id=name, begin=False, **whose)
    if name is not None and is_id(name.upper()):
        return await et.conversation(id=name.upper(), **whose)
    found = await (_last_active(et, where) if name is None else every_conversation(et, where))
    if not found:
        raise NoConversation(f"There are no conversations {where.whose}: {await how_to_find(et, where)}.")
    return et.talk(found[0] if name is None else _called(name, found, where))


async def how_to_find(et: Everthread, where: Where) -> str:
    """What to do where a user has no conversations, for use in a sentence."""
    if await et.archives(user=where.user, tenant=where.tenant, limit=1):
        return "`everthread archive` lists those that are archived, and `everthread restore` brings one back"
    return "name whose with --user"


async def _last_active(et: Everthread, where: Where) -> Sequence[Conversation]:
    return await et.conversations(user=where.user, tenant=where.tenant, limit=1)


async def every_conversation(et: Everthread, where: Where) -> list[Conversation]:
    """All that the user has, begun last first."""
    found: list[Conversation] = []
    before = NEWEST
    while page := await et.conversations(user=where.user, tenant=where.tenant, before=before, limit=500):
        found += page
        before = page[-1].cursor
    return sorted(found, key=lambda one: one.id, reverse=True)


def _called(name: str, conversations: Sequence[Conversation], where: Where) -> Conversation:
    """The only conversation with this name, or with an id that begins or ends with it."""
    part = name.upper()
    matches = [c for c in conversations if c.name == name or c.id.startswith(part) or c.id.endswith(part)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise NoConversation(f"There are {len(matches)} conversations {name!r} {where.whose}: give more of the id.")
    hint = "`everthread conversations` lists those there are"
    raise NoConversation(f"There is no conversation {name!r} {where.whose}: {hint}.")


async def on_branch(talk: Talk, branch: str | None) -> Talk:
    """The conversation on a branch, by name or number; on the current one where none is named."""
    return talk if branch is None else await talk.on(int(branch) if branch.isdigit() else branch)


class NoConversation(NotFound):
    pass


def say_json(value: object, file: Any = None) -> None:
    print(json_text(value, indent=2), file=file or sys.stdout)


def json_text(value: object, *, indent: int | None = None) -> str:
    text = json.dumps(value, ensure_ascii=False, indent=indent, default=str)
    try:
        text.encode(sys.stdout.encoding)
    except UnicodeEncodeError:  # a lone surrogate, or a terminal that knows few characters: JSON can spell them all
        return json.dumps(value, indent=indent, default=str)
    return text


def console(*, table: bool = False, err: bool = False) -> Console:
    from rich.console import Console

    # Into a pipe no table is shortened: a program reads it.
    width = 1_000 if table and not sys.stdout.isatty() and "COLUMNS" not in os.environ else None
    return Console(highlight=False, width=width, stderr=err)


def ago(time: datetime | None) -> str:
    """A time as a person would say it."""
    if time is None:
        return "–"
    then = time.astimezone()
    seconds = (datetime.now(then.tzinfo) - then).total_seconds()
    for limit, size, word in ((60, 1, "s"), (3600, 60, "min"), (86400, 3600, "h"), (7 * 86400, 86400, "d")):
        if seconds < limit:
            return "just now" if seconds < 10 else f"{int(seconds // size)} {word} ago"
    return f"{then:%Y-%m-%d}"


@contextmanager
def progress(where: Where, what: str) -> Iterator[Callable[[int], None]]:
    """A counter on stderr while something long goes on, for people only."""
    if where.json or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TextColumn("{task.completed:,}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda steps: bar.advance(task, steps)

"""What a database must offer to hold a log, and the form in which the log talks to it.

The log's verbs are scripts: generators that ask questions by name (`Ask`), get rows, and in the end return
their result together with what is to be written (`Outcome`). A script never sees a connection, so the same
one runs on every engine, inside SQLite's write transaction or over PostgreSQL's wire. Reads come first and
all writes are made at once, atomically; when another writer was faster, the engine simply runs the script
again. What the names mean is written in `sql/queries.sql`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib.resources import files
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from everthread.core.logged import Logged
from everthread.store.bus.base import Bus

Row = Sequence[Any]
T = TypeVar("T")


class Ask(NamedTuple):
    """A question: the name of a query and the values of its parameters."""

    name: str
    values: Mapping[str, Any]


class Tell(NamedTuple):
    """A statement to carry out once for each row of values: by name, or a tuple in the statement's own order."""

    name: str
    rows: Sequence[Mapping[str, Any] | tuple[Any, ...]]


class Outcome(NamedTuple, Generic[T]):
    """What a script comes to. `under`: the lease that must still be held for the writes to be made (the values of the
    statement `write_under`); else TakenOver. `news`: the events that it appends, or that an earlier run appended whose
    commit was not confirmed; None where those who listen must look for themselves. `landed`: it is done already, and
    maybe by an earlier run of the script that rang no bell."""

    result: T
    writes: Sequence[Tell] = ()
    to_current: bool = False  # written to whichever branch was current
    under: Mapping[str, Any] | None = None
    news: Sequence[Logged] | None = None
    landed: bool = False

    @property
    def changes(self) -> bool:
        return bool(self.writes or self.under or self.news or self.landed)


Script = Generator[Ask, Sequence[Row], T]


class Engine(Protocol):
    """A database that runs scripts. All errors are `StoreError`s; whatever fails leaves nothing behind."""

    bells: Bells
    bus: Bus

    async def read(self, script: Callable[[], Script[T]], *, large: bool = False) -> T:
        """Run a script that only asks. `large`: it may take long, so keep it off the event loop."""

    async def write(
        self,
        script: Callable[[], Script[Outcome[T]]],
        *,
        about: str,
        large: bool = False,
        alone: bool = False,
        durable: bool = True,
    ) -> T:
        """Run a script and make its writes durable. `about` names the conversation, or what else it concerns.

        The script may be run several times: when a key shows that another writer was faster, and when the
        answer to a commit was lost. `alone`: no key would show it, so scripts about the same take turns. Without
        `durable` the writes need not outlive the machine on which they are made, only the process.
        """

    async def watch(self) -> None:
        """From now on ring the bells for what other processes write, too."""

    async def scrub(self, *, patient: bool = True) -> None:
        """Make sure that what was deleted is gone from the disk as well, as far as the engine can; else NotYetGone.
        Not `patient`: without waiting for those who still read it."""

    async def problems(self) -> list[str]:
        """What the engine's own check of its files finds."""

    async def close(self) -> None: ...


OnNews = Callable[[Sequence[Logged] | None], None]


class Bells:
    """Who waits for news of which conversation. A bell is a hint to look again; the log is the truth.

    What this process appends comes with its bell, in the order of the commits, so that nobody need read it again.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, list[OnNews]] = {}
        self._all: list[Callable[[str], None]] = []

    @contextmanager
    def hear_all(self, heard: Callable[[str], None]) -> Iterator[None]:
        """Call `heard` with whatever something was written about; with "" where that is not known."""
        self._all.append(heard)
        try:
            yield
        finally:
            self._all.remove(heard)

    @contextmanager
    def hear(self, about: str, heard: OnNews) -> Iterator[None]:
        """Call `heard` with the events that were appended, or with None where something else may have changed."""
        self.add(about, heard)
        try:
            yield
        finally:
            self.remove(about, heard)

    def add(self, about: str, heard: OnNews) -> None:
        self._waiting.setdefault(about, []).append(heard)

    def remove(self, about: str, heard: OnNews) -> None:
        self._waiting[about].remove(heard)
        if not self._waiting[about]:
            del self._waiting[about]

    @contextmanager
    def listen(self, *about: str) -> Iterator[asyncio.Event]:
        """An event that is set when something is written about one of these."""
        bell = asyncio.Event()
        with ExitStack() as heard:
            for one in about:
                heard.enter_context(self.hear(one, lambda _: bell.set()))
            yield bell

    def ring(self, about: str, news: Sequence[Logged] | None = None) -> None:
        for heard in tuple(self._waiting.get(about, ())):
            heard(news)
        for hears_all in self._all:
            hears_all(about)

    def ring_all(self) -> None:
        for hears_all in self._all:
            hears_all("")
        for about in tuple(self._waiting):
            self.ring(about)

    def __bool__(self) -> bool:
        return bool(self._waiting or self._all)


class SqlStatement(NamedTuple):
    sql: str
    names: tuple[str, ...]

    def bind(self, values: Mapping[str, Any] | tuple[Any, ...]) -> tuple[Any, ...]:
        return values if isinstance(values, tuple) else tuple([values[name] for name in self.names])


@cache
def statements(placeholder: str) -> dict[str, SqlStatement]:
    """The queries by name. `placeholder` is how the engine writes its nth parameter, such as "${n}"."""
    text = files("everthread.store").joinpath("sql/queries.sql").read_text("utf-8")
    found = re.split(r"^-- name: (\w+)\n", text, flags=re.MULTILINE)[1:]
    return {name: _statement(body, placeholder) for name, body in zip(found[::2], found[1::2], strict=True)}


# A join that is to be made row by row. SQLite joins in the order that is written; PostgreSQL has to be held to it.
_LATERAL_LEFT = re.compile(
    r"LATERAL \(\s+SELECT (\w)\.\* FROM (\w+ AS \1)\s+WHERE ((?:(?!LATERAL).)*?)\s+OFFSET 0\) AS \1 ON true", re.DOTALL
)
_LATERAL = re.compile(
    r"LATERAL \(\s+SELECT (\w)\.\* FROM (\w+ AS \1)\s+WHERE (.*?)\s+OFFSET 0\) AS \1\n((?:LEFT JOIN .*?\n)?)WHERE",
    re.DOTALL,
)

# SQLite knows the numbers of a JSON object as such, and is slower for being told; PostgreSQL has to be.
_NUMBERS = re.compile(r"CAST\(CAST\(j\.(value) AS text\) AS bigint\)|(?<=e\.branch = )CAST\(j\.(key) AS integer\)")


def _statement(body: str, placeholder: str) -> SqlStatement:
    sql = "\n".join(line for line in body.splitlines() if not line.startswith("--")).strip()
    if placeholder.startswith("?"):
        sql = _LATERAL_LEFT.sub(r"\2 ON \3", sql)
        sql = _LATERAL.sub(r"\2\n\4WHERE \3 AND", sql)
        sql = _NUMBERS.sub(lambda found: f"j.{found[1] or found[2]}", sql)
        sql = sql.removesuffix(" FOR UPDATE")  # whoever writes to a file holds all of it
    names: list[str] = []

    def number(match: re.Match[str]) -> str:
        if match[1] not in names:
            names.append(match[1])
        return placeholder.format(n=names.index(match[1]) + 1)

    return SqlStatement(re.sub(r":(\w+)", number, sql), tuple(names))

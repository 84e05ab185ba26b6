"""MCP servers: programs beside this one, or services elsewhere, that bring tools of their own.

A server is connected to when it is opened, and its tools are listed once, so that what the model is told stays the
same. A server that dies in the middle of a tool call makes an error result of it, and is connected to again at the
next. The SDK is imported only when a server is opened (`mcp_sessions`).
"""

from __future__ import annotations

import asyncio
import importlib
import os
import re
import string
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import msgspec

from everthread.core.parts import Part
from everthread.errors import BadTool, MissingExtra

if TYPE_CHECKING:
    from everthread.tools.mcp_sessions import McpSession


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as its server lists it."""

    name: str
    description: str = ""
    schema: dict[str, Any] = {}


class McpServer:
    """An MCP server: `McpServer(["npx", "some-server"])`, which is started and spoken to through its standard input
    and output, or `McpServer(url="https://…")`.

    `env` is added to a few harmless variables of this program, and `headers` go with every request; in both, `$NAME`
    is this program's own variable, so that keys need not be written down. `approval`: whether its tools need it, or
    the names of those that do. `seconds`: how long connecting may take.
    """

    def __init__(
        self,
        command: Sequence[str] = (),
        *,
        url: str = "",
        name: str = "",
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        headers: Mapping[str, str] | None = None,
        approval: bool | Collection[str] = False,
        seconds: float = 30.0,
    ) -> None:
        self.name = name or _name_of(command, url)
        _check_way(self.name, command, url)
        self.command, self.url, self.cwd = tuple(command), url, cwd
        self.env, self.headers = dict(env or {}), dict(headers or {})
        self.approval, self.seconds = approval, seconds
        self._session: McpSession | None = None
        self._tools: tuple[Listed, ...] | None = None
        self._opening = asyncio.Lock()
        self._holders: set[object] = set()  # who has opened it, and not let go of it

    def __repr__(self) -> str:  # never keys
        return f"<McpServer {self.name}>"

    @property
    def is_open(self) -> bool:
        return self._session is not None

    async def open(self, holder: object = None) -> tuple[Listed, ...]:
        """Connect, unless that is done already, and return the server's tools. Raises BadTool and MissingExtra.

        `holder`: for whom; it stays open until the last of them has closed it.
        """
        self._holders.add(holder)
        session = await self._connected()
        if self._tools is None:
            self._tools = session.tools
        return self._tools

    async def call(self, name: str, arguments: dict[str, Any]) -> tuple[tuple[Part, ...], bool]:
        """The parts that a tool returns, and whether they tell of an error. Raises what `open` raises."""
        session = await self._connected()
        return await session.call(name, arguments)

    async def close(self, holder: object = None) -> None:
        """End the session, and the program where it is one, unless somebody else has opened it as well."""
        self._holders.discard(holder)
        async with self._opening:
            if not self._holders:
                await self._end()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def needs_approval(self, tool: str) -> bool:
        return self.approval if isinstance(self.approval, bool) else tool in self.approval

    def filled(self, values: Mapping[str, str]) -> dict[str, str]:
        """Values of `env` or `headers` with the variables that they name."""
        try:
            return {key: string.Template(value).substitute(os.environ) for key, value in values.items()}
        except KeyError as missing:
            raise BadTool(self.name, f"the variable {missing.args[0]} is not set") from None
        except ValueError:
            raise BadTool(self.name, "a lone $ stands in its env or headers; write $$ for the sign itself") from None

    async def _connected(self) -> McpSession:
        async with self._opening:
            if self._session is None or self._session.lost:
                await self._end()
                sessions = await _sdk()
                self._session = await sessions.begin(self)
            return self._session

    async def _end(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.end()


async def _sdk() -> Any:
    """The module that imports the SDK: in a thread, because that takes a second."""
    try:
        return await asyncio.to_thread(importlib.import_module, "everthread.tools.mcp_sessions")
    except ModuleNotFoundError as problem:
        if problem.name is None or problem.name.startswith("everthread"):
            raise
        raise MissingExtra("mcp") from None


def _check_way(name: str, command: Sequence[str], url: str) -> None:
    """There must be one way to reach a server."""
    if isinstance(command, str) or not all(isinstance(word, str) for word in command):
        raise BadTool(name, "its command must be a list of words, as in ['npx', 'some-server']")
    if bool(command) == bool(url):
        raise BadTool(name, "an MCP server has either a command or a url")


# -- names -------------------------------------------------------------------------------------------------


def _name_of(command: Sequence[str], url: str) -> str:
    """A name for a server: its host, or the last word of its command that is not an option."""
    words = [word for word in command if not word.startswith("-")]
    host = re.match(r"\w+://(?:[^/@]*@)?([^/:?#]+)", url)
    return _mended(host[1] if host else Path(words[-1]).stem if words else "server")


def _mended(name: str) -> str:
    """A name that every provider takes."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "_", name)
    return (plain if re.match("[A-Za-z_]", plain) else f"_{plain}")[:64]


def names_for(
    listed: Mapping[McpServer, Sequence[Listed]], *, taken: set[str]
) -> Iterator[tuple[str, McpServer, Listed]]:
    """A name for every tool of every server: its own, mended, with the server's in front where two have the same."""
    counts = Counter(_mended(tool.name) for tools in listed.values() for tool in tools)
    taken = set(taken)
    for server, tools in listed.items():
        for tool in tools:
            name = _mended(tool.name)
            if name in taken or counts[name] > 1:
                name = _mended(f"{server.name}_{tool.name}")
            name = next(one for one in _numbered(name) if one not in taken)
            taken.add(name)
            yield name, server, tool


def _numbered(name: str) -> Iterator[str]:
    yield name
    number = 1
    while True:
        number += 1
        yield f"{name[: 63 - len(str(number))]}_{number}"

"""A session with an MCP server, through the official SDK, which only this module imports.

The SDK's scopes must be left by the task that entered them, so each session lives in a task of its own from beginning
to end. Tool calls are made from the tasks that want them, several at a time if need be, and may be cancelled there.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import math
import os
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from typing import Any, TextIO

import anyio
import httpx2
import mcp_types as types
from mcp import Client, MCPError, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from everthread.core.parts import Part, Text, file, image
from everthread.errors import BadTool
from everthread.tools.mcp_servers import Listed, McpServer
from everthread.tools.results import in_a_line, parts_of

LAST_WORDS = 0.5  # seconds that what a program said last is waited for: its own children may keep the pipe open
_PAGES = 100  # of a server's list of tools
_GONE = (types.CONNECTION_CLOSED, types.INVALID_REQUEST)  # the second is what an unknown session is told

logger = logging.getLogger("everthread.tools.mcp")


class McpSession:
    """A session. `lost`: it has ended, or its connection is broken. `tools`: what the server listed."""

    def __init__(self, server: McpServer) -> None:
        self._server = server
        self._client: Client | None = None
        self._ready = asyncio.Event()
        self._end = asyncio.Event()
        self._why: BaseException | None = None
        self._heard: deque[str] = deque(maxlen=5)
        self._broken = False
        self._scope = anyio.CancelScope(deadline=anyio.current_time() + server.seconds)
        self._task = asyncio.create_task(self._live(), name=f"mcp {server.name}")
        self.tools: tuple[Listed, ...] = ()

    @property
    def lost(self) -> bool:
        return self._broken or self._task.done()

    async def begun(self) -> None:
        """Wait until tools can be called. Raises BadTool."""
        try:
            await self._ready.wait()
        except asyncio.CancelledError:
            await self.end()
            raise
        if self._client is None:
            await self.end()
            if isinstance(self._why, BadTool):
                raise self._why
            said = f"; it said: {' / '.join(self._heard)}" if self._heard else ""
            raise BadTool(self._server.name, f"it is an MCP server that gives no tools ({_reason(self._why)}){said}")

    async def end(self) -> None:
        self._end.set()
        if not self._ready.is_set():
            self._scope.cancel()
        await asyncio.wait({self._task})

    async def call(self, name: str, arguments: dict[str, Any]) -> tuple[tuple[Part, ...], bool]:
        assert self._client is not None
        try:
            result = await self._client.call_tool(name, arguments)
        except MCPError as problem:
            self._broken = self._broken or problem.code in _GONE
            return self._failed(problem), True
        except (RuntimeError, ValueError) as problem:  # a result that is not what the server promised
            return self._failed(problem), True
        except (OSError, httpx2.HTTPError, anyio.ClosedResourceError, anyio.BrokenResourceError) as problem:
            self._broken = True
            return self._failed(problem), True
        return _parts(result), result.is_error

    def _failed(self, problem: Exception) -> tuple[Part, ...]:
        again = " It is connected to again at the next call." if self.lost else ""
        return (Text(text=f"The MCP server {self._server.name} failed: {in_a_line(problem)}.{again}"),)

    async def _live(self) -> None:
        """The whole session, in one task. A scope, not the task's own cancellation, ends it early: that is what the
        SDK can clean up after."""
        try:
            with self._scope:
                async with AsyncExitStack() as stack:
                    client = await stack.enter_async_context(_client(self._server, self._heard, stack))
                    self.tools = await _listed(client)
                    self._scope.deadline = math.inf
                    self._client = client
                    self._ready.set()
                    await self._end.wait()
        except Exception as problem:  # `begun` tells it to whoever waits
            self._why = problem
            logger.debug("The session with %s ended", self._server.name, exc_info=True)
        finally:
            if self._scope.cancelled_caught and self._why is None:
                self._why = TimeoutError(f"it did not answer within {self._server.seconds:g} s")
            self._ready.set()


async def begin(server: McpServer) -> McpSession:
    """A session in which tools can be called. Raises BadTool."""
    session = McpSession(server)
    await session.begun()
    return session


def _client(server: McpServer, heard: deque[str], stack: AsyncExitStack) -> AbstractAsyncContextManager[Client]:
    if server.url:
        # No time limit for reading: how long a tool may take is for who calls it.
        timeout = httpx2.Timeout(server.seconds, read=None)
        http = httpx2.AsyncClient(headers=server.filled(server.headers), timeout=timeout)
        stack.push_async_callback(http.aclose)
        return Client(streamable_http_client(server.url, http_client=http))
    program, *words = server.command
    started = StdioServerParameters(command=program, args=words, env=server.filled(server.env), cwd=server.cwd)
    return Client(stdio_client(started, errlog=stack.enter_context(_overheard(server.name, heard))))


@contextmanager
def _overheard(name: str, heard: deque[str]) -> Iterator[TextIO]:
    """A standard error for a program: its lines go to the log, and the last ones are kept."""
    out, into = os.pipe()

    def listen() -> None:
        with os.fdopen(out, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                heard.append(line.strip())
                logger.debug("%s: %s", name, line.rstrip())

    listener = threading.Thread(target=listen, name=f"mcp-{name}", daemon=True)
    listener.start()
    with os.fdopen(into, "w") as writing:
        yield writing
    listener.join(LAST_WORDS)


async def _listed(client: Client) -> tuple[Listed, ...]:
    found: list[Listed] = []
    cursor: str | None = None
    for _ in range(_PAGES):
        page = await client.list_tools(cursor=cursor)
        found += [
            Listed(name=tool.name, description=tool.description or "", schema=tool.input_schema) for tool in page.tools
        ]
        cursor = page.next_cursor
        if cursor is None:
            break
    return tuple(found)


def _reason(problem: BaseException | None) -> str:
    """The first real reason in a group of them."""
    while isinstance(problem, BaseExceptionGroup):
        problem = problem.exceptions[0]
    return "it ended" if problem is None else in_a_line(problem).removesuffix(".")


# -- results -----------------------------------------------------------------------------------------------


def _parts(result: types.CallToolResult) -> tuple[Part, ...]:
    """What the server shows; its structured form only where it shows nothing, because it says the same."""
    if not result.content:
        return parts_of(result.structured_content)
    return parts_of([_part(block) for block in result.content])


def _part(block: types.ContentBlock) -> Part:
    match block:
        case types.TextContent():
            return Text(text=block.text)
        case types.ImageContent() | types.AudioContent():
            return _decoded(block.data, block.mime_type)
        case types.ResourceLink():
            return Text(text=f"{block.name}: {block.uri}{f' ({block.description})' if block.description else ''}")
        case types.EmbeddedResource():
            inside = block.resource
            if isinstance(inside, types.TextResourceContents):
                return Text(text=inside.text)
            return _decoded(inside.blob, inside.mime_type or "application/octet-stream", name=inside.uri)


def _decoded(data: str, media_type: str, *, name: str = "") -> Part:
    try:
        whole = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return Text(text=f"(a part of the type {media_type} that cannot be read: it is not base64)")
    if media_type.startswith("image/"):
        return image(whole, media_type=media_type)
    return file(whole, name=name, media_type=media_type)

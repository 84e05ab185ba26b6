"""A real MCP server for the tests: `python mcp_server.py` speaks over standard input and output, `… PORT` over HTTP."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Annotated, Any

import mcp_types as types
from mcp.server.mcpserver import Image, MCPServer
from pydantic import BaseModel, Field

from tests.core.pictures import png

server = MCPServer("small")
stops: list[str] = []


class Point(BaseModel):
    x: int
    y: int


@server.tool()
def add(a: Annotated[int, Field(description="The first.")], b: int = 2) -> str:
    """Adds two numbers."""
    return f"{a + b}"


@server.tool()
def mirror(point: Point, other: Point | None = None) -> Point:
    """Mirrors a point."""
    return Point(x=-point.x, y=-point.y)


@server.tool(name="look.up/now")
def look_up(what: str) -> str:
    """Has a name that providers refuse."""
    return f"looked up {what}"


@server.tool()
def picture() -> Image:
    """Shows a picture."""
    return Image(data=png(3, 4), format="png")


@server.tool(structured_output=False)
def mixed() -> Any:
    """Gives several things."""
    inside = types.TextResourceContents(uri="note:1", text="a note")
    link = types.ResourceLink(name="page", uri="https://example.org/page")
    return [types.TextContent(text="first"), types.EmbeddedResource(resource=inside), link]


@server.tool(structured_output=False)
def structured() -> types.CallToolResult:
    """Gives data and nothing to read."""
    return types.CallToolResult(content=[], structured_content={"n": 1})


@server.tool(structured_output=False)
def silent() -> types.CallToolResult:
    """Gives nothing."""
    return types.CallToolResult(content=[])


@server.tool(structured_output=False)
def media() -> types.CallToolResult:
    """Gives a sound, a file, and something broken."""
    sound = types.AudioContent(data="UklGRg==", mime_type="audio/wav")
    blob = types.EmbeddedResource(resource=types.BlobResourceContents(uri="blob:1", blob="AAE="))
    return types.CallToolResult(content=[sound, blob, types.ImageContent(data="!", mime_type="image/png")])


@server.tool()
def weigh(größe: int) -> str:
    """Has an argument whose name providers refuse."""
    return f"{größe}"


@server.tool()
def fails() -> str:
    """Fails."""
    raise ValueError("no such luck")


@server.tool()
def dies() -> str:
    """Takes the whole server with it."""
    os._exit(3)


@server.tool()
async def slow(seconds: float) -> str:
    """Takes its time."""
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        stops.append("slow")
        raise
    return "at last"


@server.tool()
def stopped() -> str:
    """How often `slow` was stopped in this process."""
    return f"{len(stops)}"


@server.tool()
def process() -> str:
    """The number of the server's process."""
    return f"{os.getpid()}"


@server.tool()
def variable(name: str) -> str:
    """A variable of the server's environment."""
    return os.environ.get(name, "(not set)")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        print("I begin.", file=sys.stderr)  # noqa: T201
        server.run()

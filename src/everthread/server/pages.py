"""The page at `/`: files of the package, read once. Which there are is fixed, so that no path leads anywhere else."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response

from everthread.errors import NoSuchRoute
from everthread.server.service import Service

TYPES = {
    "index.html": "text/html; charset=utf-8",
    "style.css": "text/css; charset=utf-8",
    "script.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}


async def page(service: Service, request: Request) -> Response:
    """The page itself, or one of its files. Nothing of anybody's is in it."""
    name = request.path_params.get("file", "index.html")
    if name not in TYPES:
        raise NoSuchRoute(request.url.path)
    return Response(_read(name), media_type=TYPES[name], headers={"cache-control": "no-cache"})


@cache
def _read(name: str) -> bytes:
    return (files("everthread.server") / "page" / name).read_bytes()

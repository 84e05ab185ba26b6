"""Bytes: images and files of a conversation, and exports.

What is stored is served as what its first bytes say it is, and never as a page: a picture as a picture, everything else
as bytes to be kept. An export is made whole before its first byte is sent, so that what comes is never half of one.
Imports are in `importing`.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from typing import IO

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from everthread import wire
from everthread.core.images import media_type_of
from everthread.errors import BadRequest, Outdated
from everthread.server.calls import talk_of, user_of
from everthread.server.reading import JSON, whole_body
from everthread.server.service import Service

LINES = "application/x-ndjson"
AGAIN = 4  # how often an export begins anew when something was redacted meanwhile
PIECE = 256 * 1024
_RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")
APART = "sandbox; default-src 'none'"  # should a browser show it after all, it may do nothing


# -- images and files --------------------------------------------------------------------------------------------


async def blob(service: Service, request: Request) -> Response:
    """The bytes of an image or file, or a range of them."""
    caller = await service.enter(request, "read")
    with service.within(caller):
        talk = await talk_of(service, caller, request.path_params["conversation"])
        hash = request.path_params["hash"]
        data = await talk.blob(hash)
    # A browser asks again each time whether it has changed: what was forgotten is not shown from a cache.
    headers = {"etag": f'"{hash}"', "cache-control": "private, no-cache", "accept-ranges": "bytes"}
    headers |= {"content-security-policy": APART, "content-disposition": _disposition(data)}
    if f'"{hash}"' in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    first, last = _range(request.headers.get("range", ""), len(data))
    if first > last:
        return Response(status_code=416, headers=headers | {"content-range": f"bytes */{len(data)}"})
    status = 200 if last - first + 1 == len(data) else 206
    if status == 206:
        headers["content-range"] = f"bytes {first}-{last}/{len(data)}"
    return Response(data[first : last + 1], status_code=status, media_type=media_type_of(data), headers=headers)


async def upload(service: Service, request: Request) -> Response:
    """Hand in an image or a file, as the body: the event that shows it, whose parts a message can show."""
    caller = await service.enter(request, "write")
    with service.within(caller):
        where = request.path_params["conversation"], request.query_params.get("branch", "")
        talk = await talk_of(service, caller, *where)
        data = await whole_body(request, service.limits.body)
        if not data:
            raise BadRequest("there is no file in it")
        given = request.headers.get("content-type", "").partition(";")[0].strip()
        logged = await talk.upload(data, name=request.query_params.get("name", ""), media_type=given)
    return Response(wire.dumps(logged), media_type=JSON)


def _disposition(data: bytes) -> str:
    return "inline" if media_type_of(data).startswith("image/") else "attachment"


def _range(asked: str, size: int) -> tuple[int, int]:
    """The first and last byte that are asked for; all of them where no single range is. Nothing there: the first is
    after the last."""
    found = _RANGE.fullmatch(asked.strip())
    if not found or found[0] == "bytes=-" or not size:
        return 0, size - 1 if size else 0
    if not found[1]:
        return max(0, size - int(found[2])), size - 1
    return int(found[1]), min(int(found[2] or size), size - 1)


# -- exports -----------------------------------------------------------------------------------------


async def export_one(service: Service, request: Request) -> Response:
    """A conversation as JSON Lines, with all its branches, images and files."""
    caller = await service.enter(request, "read")
    with service.within(caller):
        talk = await talk_of(service, caller, request.path_params["conversation"])
        return await _exported(talk.export)


async def export_all(service: Service, request: Request) -> Response:
    """All conversations of the caller's, and MEMORY.md with its versions."""
    caller = await service.enter(request, "read")
    with service.within(caller):
        return await _exported(partial(service.et.export, user=user_of(caller), tenant=caller.tenant))


async def _exported(lines: Callable[[], AsyncIterator[bytes]]) -> Response:
    file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 -- without a name; gone with the answer, or with us
    try:
        await _write(lines, file)
    except BaseException:
        file.close()
        raise
    name = 'attachment; filename="everthread.jsonl"'
    return StreamingResponse(_pieces(file), media_type=LINES, headers={"content-disposition": name})


async def _write(lines: Callable[[], AsyncIterator[bytes]], file: IO[bytes]) -> None:
    for again in range(AGAIN):
        with suppress(*([Outdated] if again < AGAIN - 1 else [])):
            file.seek(0)
            file.truncate()
            async for line in lines():
                await asyncio.to_thread(file.write, line)
            return


async def _pieces(file: IO[bytes]) -> AsyncIterator[bytes]:
    with file:
        file.seek(0)
        while piece := await asyncio.to_thread(file.read, PIECE):
            yield piece

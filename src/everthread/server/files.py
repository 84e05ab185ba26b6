"""Bytes: images and files of a conversation, exports and imports.

What is stored is served as what its first bytes say it is, and never as a page: a picture as a picture, everything else
as bytes to be kept. An export is made whole before its first byte is sent, so that what comes is never half of one; an
import is checked whole before any of it is written, and the same again adds nothing.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import IO

from msgspec import structs
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from everthread import wire
from everthread.app import AGENT
from everthread.core.accounts import Caller
from everthread.core.images import media_type_of
from everthread.core.locks import kept, unlocked
from everthread.errors import BadRequest, Outdated, TooLarge, TooSlow
from everthread.server.calls import talk_of
from everthread.server.reading import BODY_SECONDS, JSON, check_length, whole_body
from everthread.server.service import Service
from everthread.store.conversations import NEWEST, Conversation, check_name, owner_of
from everthread.store.scripts.restore import Portion
from everthread.transfer import document_lines, export_lines, import_path

LINES = "application/x-ndjson"
AGAIN = 4  # how often an export begins anew when something was redacted meanwhile
PIECE = 256 * 1024
IMPORT = 1024 * 1024 * 1024  # bytes of a file at most
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


# -- exports and imports -----------------------------------------------------------------------------------------


async def export_one(service: Service, request: Request) -> Response:
    """A conversation as JSON Lines, with all its branches, images and files."""
    caller = await service.enter(request, "read")
    with service.within(caller):
        talk = await talk_of(service, caller, request.path_params["conversation"])
        return await _exported(service, caller, [talk.conversation], documents=False)


async def export_all(service: Service, request: Request) -> Response:
    """All conversations of the caller's, and MEMORY.md with its versions."""
    caller = await service.enter(request, "read")
    with service.within(caller):
        return await _exported(service, caller, await _every(service, caller), documents=True)


async def _every(service: Service, caller: Caller) -> list[Conversation]:
    found: list[Conversation] = []
    before, owner = NEWEST, owner_of(caller.tenant, caller.user)
    while page := await service.et.log.conversations.page(owner, before=before, limit=500):
        found += page
        before = page[-1].id
    return found


async def _exported(
    service: Service, caller: Caller, conversations: list[Conversation], *, documents: bool
) -> Response:
    file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 -- without a name; gone with the answer, or with us
    try:
        await _write(service, caller, conversations, documents, file)
    except BaseException:
        file.close()
        raise
    name = 'attachment; filename="everthread.jsonl"'
    return StreamingResponse(_pieces(file), media_type=LINES, headers={"content-disposition": name})


async def _write(
    service: Service, caller: Caller, conversations: list[Conversation], documents: bool, file: IO[bytes]
) -> None:
    for again in range(AGAIN):
        with suppress(*([Outdated] if again < AGAIN - 1 else [])):
            file.seek(0)
            file.truncate()
            for one in conversations:
                async for line in export_lines(service.et.log, one):
                    await asyncio.to_thread(file.write, line)
            if documents:
                async for line in document_lines(service.et.log, owner_of(caller.tenant, caller.user)):
                    await asyncio.to_thread(file.write, line)
            return


async def _pieces(file: IO[bytes]) -> AsyncIterator[bytes]:
    with file:
        file.seek(0)
        while piece := await asyncio.to_thread(file.read, PIECE):
            yield piece


async def import_all(service: Service, request: Request) -> Response:
    """Import conversations from the body: an export of Everthread's, or a history of another program. All becomes the
    caller's; a fault anywhere imports nothing, and the same file again adds nothing."""
    caller = await service.enter(request, "write")
    agent = check_name("agent", request.query_params.get("agent", AGENT))
    with service.within(caller), service.meter.connection(caller):
        async with _received(request) as path:
            owner = owner_of(caller.tenant, caller.user)
            done = await import_path(service.et.log, path, owner, agent=agent, adapt=_unlocked)
    return Response(wire.dumps(done), media_type=JSON)


def _unlocked(portion: Portion) -> Portion:
    """What came from elsewhere, without what is for this service's operators alone to set."""
    conversation = structs.replace(portion.conversation, settings=kept(portion.conversation.settings))
    pieces = [
        (branch, first, [structs.replace(draft, event=unlocked(draft.event)) for draft in drafts])
        for branch, first, drafts in portion.pieces
    ]
    return structs.replace(portion, conversation=conversation, pieces=pieces)


@asynccontextmanager
async def _received(request: Request) -> AsyncIterator[Path]:
    """The body in a file of its own, which only this account can read and which is gone afterwards."""
    with tempfile.TemporaryFile() as file:  # without a name, so that nothing of it stays, however we end
        size = 0
        check_length(request, IMPORT)
        async for piece in _coming(request):
            size += len(piece)
            if size > IMPORT:
                raise TooLarge(IMPORT)
            await asyncio.to_thread(file.write, piece)
        if not size:
            raise BadRequest("there is no file in it")
        file.flush()
        file.seek(0)
        yield Path(f"/dev/fd/{file.fileno()}")


async def _coming(request: Request) -> AsyncIterator[bytes]:
    """The pieces of a body, each of which must come in time."""
    stream = aiter(request.stream())
    while True:
        try:
            async with asyncio.timeout(BODY_SECONDS):
                piece = await anext(stream)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise TooSlow(BODY_SECONDS) from None
        yield piece

"""Imports: the body into a file of its own, then all of it into the store, or nothing.

A body must come at `LEAST` bytes a second on the whole, after a while that every body has. It never stands in memory;
what it says does, for as long as it is written, so few are read at once. What is imported becomes the caller's, with
new ids: those of the file may be somebody else's here, and nobody learns by an import whether they are. They follow
from the old ones and from whose they are, so that the same file is refused the second time.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic

from msgspec import structs
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from everthread import arguments, wire
from everthread.app import AGENT
from everthread.core.events import Event, decode, encode
from everthread.core.ids import make_id, time_of
from everthread.core.times import microseconds
from everthread.errors import AlreadyExists, BadRequest, TooLarge, TooSlow, UnknownConversation
from everthread.server.calls import user_of
from everthread.server.reading import BODY_SECONDS, JSON, check_length
from everthread.server.service import Service
from everthread.store.conversations import Conversation, Owner, check_name, owner_of
from everthread.store.log import Log
from everthread.store.scripts.restore import Whole
from everthread.transfer import read_all
from everthread.transfer.read import Contents

MOST = 1024 * 1024 * 1024  # bytes of a file
LEAST = 64 * 1024  # bytes a second
_ID = re.compile(rb"[0-7][0-9A-HJKMNP-TV-Z]{25}")


async def import_all(service: Service, request: Request) -> Response:
    """Import conversations from the body: an export of Everthread's, or a history of another program. All becomes the
    caller's; either all of it is imported or nothing."""
    caller = await service.enter(request, "write")
    agent = check_name("agent", request.query_params.get("agent", AGENT))
    format = arguments.format(request.query_params.get("format"))  # type: ignore[arg-type]
    owner = owner_of(caller.tenant, user_of(caller))
    with service.within(caller), service.meter.connection(caller):
        async with _received(request) as path, service.importing:
            contents = await asyncio.to_thread(read_all, path, owner, agent=agent, format=format)
            await _check_new(service.et.log, owner, contents)
            contents = await asyncio.to_thread(_as_new, contents.unlocked(), owner)
            await service.et.log.restore(*contents)
    return Response(wire.dumps(contents.imported), media_type=JSON)


async def _check_new(log: Log, owner: Owner, contents: Contents) -> None:
    """AlreadyExists: one of them is there, as the caller's own, or was erased: nothing forgotten comes back unnoticed.
    Of others' nothing is told."""
    for whole in contents.wholes:
        id = whole.conversation.id
        try:
            await log.conversations.find(owner, id)
        except UnknownConversation as unknown:
            if unknown.erased:
                raise AlreadyExists("conversation", id, erased=True) from None
        else:
            raise AlreadyExists("conversation", id)


def _as_new(contents: Contents, owner: Owner) -> Contents:
    """What came from elsewhere, with ids of its own here."""
    ids = {one.conversation.id: _id_for(one.conversation, owner) for one in contents.wholes}
    known = {old.encode(): new.encode() for old, new in ids.items()}
    return contents._replace(wholes=[_renewed(one, ids[one.conversation.id], known) for one in contents.wholes])


def _id_for(conversation: Conversation, owner: Owner) -> str:
    """An id of the same time, which the same owner gets again for the same conversation, and nobody else."""
    about = "\0".join((owner.tenant, owner.user, conversation.id))
    chance = int.from_bytes(hashlib.sha256(b"everthread import\0" + about.encode()).digest()[:10])
    return make_id(time_of(conversation.id) or microseconds(conversation.began), chance)


def _renewed(whole: Whole, id: str, ids: Mapping[bytes, bytes]) -> Whole:
    branches = [
        (branch, [structs.replace(draft, event=_pointed(draft.event, ids)) for draft in drafts])
        for branch, drafts in whole.branches
    ]
    return structs.replace(whole, conversation=structs.replace(whole.conversation, id=id), branches=branches)


def _pointed(event: Event, ids: Mapping[bytes, bytes]) -> Event:
    """An event whose references and quotes name conversations of the file by their new ids."""
    body = encode(event)
    if ids.keys().isdisjoint(_ID.findall(body)):
        return event
    return decode(_ID.sub(lambda found: ids.get(found[0], found[0]), body))


# -- the body --------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def _received(request: Request) -> AsyncIterator[Path]:
    """The body in a file of its own, which only this account can read and which is gone afterwards."""
    with tempfile.TemporaryFile() as file:  # 0600, and without a name: nothing of it stays, however we end
        size = 0
        check_length(request, MOST)
        async for piece in _coming(request):
            size += len(piece)
            if size > MOST:
                raise TooLarge(MOST)
            await asyncio.to_thread(file.write, piece)
        if not size:
            raise BadRequest("there is no file in it")
        file.flush()
        file.seek(0)
        yield Path(f"/dev/fd/{file.fileno()}")


async def _coming(request: Request) -> AsyncIterator[bytes]:
    """The pieces of a body, as long as it comes fast enough on the whole."""
    began, size, stream = monotonic(), 0, aiter(request.stream())
    while True:
        left = began + BODY_SECONDS + size / LEAST - monotonic()
        try:
            async with asyncio.timeout(max(0.0, left)):
                piece = await anext(stream)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise TooSlow(round(BODY_SECONDS + size / LEAST)) from None
        except ClientDisconnect:
            raise BadRequest("it broke off") from None
        size += len(piece)
        yield piece

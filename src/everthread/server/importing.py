"""Imports: the body into a file of its own, then all of it into the store, or nothing where it has a fault.

A body must come at `LEAST` bytes a second on the whole, after a while that every body has. What is imported becomes the
caller's, with new ids: those of the file may be somebody else's here, and nobody learns by an import whether they are.
They follow from the old ones and from whose they are, so that the same file adds nothing the second time.
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
from everthread.errors import BadRequest, TooLarge, TooSlow, UnknownConversation
from everthread.server.calls import user_of
from everthread.server.reading import BODY_SECONDS, JSON, check_length
from everthread.server.service import Service
from everthread.store.conversations import Conversation, Owner, check_name, owner_of
from everthread.store.log import Log
from everthread.store.scripts.restore import Portion
from everthread.transfer.importing import import_path, unlocked_portion

MOST = 1024 * 1024 * 1024  # bytes of a file
LEAST = 64 * 1024  # bytes a second
_ID = re.compile(rb"[0-7][0-9A-HJKMNP-TV-Z]{25}")


async def import_all(service: Service, request: Request) -> Response:
    """Import conversations from the body: an export of Everthread's, or a history of another program. All becomes the
    caller's; a fault anywhere imports nothing, and the same file again adds nothing."""
    caller = await service.enter(request, "write")
    agent = check_name("agent", request.query_params.get("agent", AGENT))
    format = arguments.format(request.query_params.get("format"))  # type: ignore[arg-type]
    owner, log = owner_of(caller.tenant, user_of(caller)), service.et.log
    with service.within(caller), service.meter.connection(caller):
        async with _received(request) as path:
            done = await import_path(log, path, owner, agent=agent, format=format, adapt=_AsNew(log, owner))
    return Response(wire.dumps(done), media_type=JSON)


class _AsNew:
    """What came from elsewhere, with ids of its own here and without what is for this service's operators alone. What
    the caller has already keeps its id, and what the caller has erased: nothing forgotten comes back unnoticed."""

    def __init__(self, log: Log, owner: Owner) -> None:
        self._log, self._owner = log, owner
        self._ids: dict[bytes, bytes] = {}  # all of the file, by the time that anything is written

    async def __call__(self, portion: Portion) -> Portion:
        portion, old = await unlocked_portion(portion), portion.conversation.id
        if not portion.source and old.encode() not in self._ids:
            self._ids[old.encode()] = (await self._id_for(portion.conversation)).encode()
        id = self._ids.get(old.encode(), old.encode()).decode()
        pieces = [
            (branch, first, [structs.replace(draft, event=_pointed(draft.event, self._ids)) for draft in own])
            for branch, first, own in portion.pieces
        ]
        return structs.replace(portion, conversation=structs.replace(portion.conversation, id=id), pieces=pieces)

    async def _id_for(self, conversation: Conversation) -> str:
        """Of others' nothing is told: theirs is as good as nobody's. The id is of the same time; the same owner gets it
        again for the same conversation, and nobody else does."""
        try:
            return (await self._log.conversations.find(self._owner, conversation.id)).id
        except UnknownConversation as unknown:
            if unknown.erased:
                return conversation.id
        about = "\0".join((self._owner.tenant, self._owner.user, conversation.id))
        chance = int.from_bytes(hashlib.sha256(b"everthread import\0" + about.encode()).digest()[:10])
        return make_id(time_of(conversation.id) or microseconds(conversation.began), chance)


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

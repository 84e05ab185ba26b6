"""`log.imports`: conversations that were elsewhere, written in portions; and which histories of other programs were.

A portion may be written any number of times (`scripts.restore`), so an import that was cut short is simply done again.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from everthread.core.events import detach, encode
from everthread.store.beside import secret
from everthread.store.conversations import Conversation, Owner
from everthread.store.engine import Engine
from everthread.store.scripts import records, restore
from everthread.store.scripts.append import Batch, Draft
from everthread.store.scripts.restore import OwnedDocument, Portion

Prepare = Callable[[Sequence[Draft], str, int | None], Awaitable[Batch]]


class Imports:
    def __init__(self, engine: Engine, clock: Callable[[], int], prepare: Prepare, *, session_gap: int) -> None:
        self._engine = engine
        self._clock = clock
        self._prepare = prepare
        self._gap = session_gap

    async def grow(self, portion: Portion) -> int:
        """Write of a portion what is not there yet, with the ids and times it had. How many events that were.
        AlreadyExists: what is there is another, or was erased; then nothing is written."""
        batches = [await self._prepare(drafts, "", None) for _, _, drafts in portion.pieces]
        script = partial(restore.grow, portion, batches, now=self._clock(), gap=self._gap)
        return await self._engine.write(script, about=portion.conversation.about, large=True, alone=True)

    async def check(self, portion: Portion) -> None:
        """AlreadyExists where `grow` would raise it, as things are."""
        bodies = [[encode(detach(draft.event)) for draft in drafts] for _, _, drafts in portion.pieces]
        await self._engine.read(lambda: restore.compare(portion, bodies), large=True)

    async def check_document(self, one: OwnedDocument) -> None:
        """AlreadyExists where another document with this name and version is there."""
        await self._engine.read(lambda: restore.missing_documents([one]))

    async def key(self) -> bytes:
        """With which hashes of histories are made, so that none can confirm a guess outside of this store."""
        return hmac.digest(await secret.read(self._engine), b"imports", hashlib.sha256)

    async def known(self, owner: Owner, source: str) -> str:
        """The conversation as which a history was imported; empty where it was not."""
        return await self._engine.read(lambda: restore.imported(owner, source))

    # -- records of a whole store ------------------------------------------------------------------------------

    async def records(self, what: str) -> list[dict[str, Any]]:
        """All records of a kind, of every tenant. For operators: crosses every wall."""
        return await self._engine.read(lambda: records.read(what), large=True)

    async def add_record(self, what: str, row: Mapping[str, Any]) -> int:
        """Write a record, unless there is one with its key. How many were written."""
        return await self._engine.write(partial(records.add, what, row), about=f"records/{what}", alone=True)

    async def receipts(self, conversation: Conversation) -> list[dict[str, Any]]:
        """What a conversation keeps of appends with a key."""
        return await self._engine.read(lambda: records.receipts(conversation))

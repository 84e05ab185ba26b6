"""`log.documents`: named texts with versions, of a user or of a tenant itself (the user '')."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from everthread.store.audit import audit
from everthread.store.beside import documents
from everthread.store.beside.documents import Document
from everthread.store.conversations import Owner
from everthread.store.engine import Engine
from everthread.store.scripts.forget import DOCUMENT, HalfForgotten, begun, owed
from everthread.store.verbs.forgetting import Forgetting


class Documents:
    def __init__(self, engine: Engine, clock: Callable[[], int], forgetting: Forgetting, *, max_bytes: int) -> None:
        self._engine = engine
        self._clock = clock
        self._forgetting = forgetting
        self._max_bytes = max_bytes

    async def put(self, owner: Owner, name: str, body: str, *, expect: int | None = None, of: str = "") -> Document:
        """Write a document's next version; what the newest says already is not written again.

        `expect`: the version that the caller knows (0: that there is none); Changed if there is another. `of`: the
        user's conversation in which it is written; UnknownConversation if that is gone.
        """
        stored = documents.stored_form(body, max_bytes=self._max_bytes)
        script = partial(documents.put, owner, name, stored, expect=expect, of=of, now=self._clock(), tried=[])
        # In turn with `erase_user`, where that matters: else it might be looked for before, and written after it.
        about = f"{owner.tenant}/{owner.user}" if of else _about(owner)
        return await self._engine.write(script, about=about, alone=bool(of))

    async def get(self, owner: Owner, name: str, *, version: int | None = None) -> Document | None:
        """The newest version of a document, or one by number; None where there is none."""
        return await self._engine.read(lambda: documents.document(owner, name, version=version))

    async def all(self, owner: Owner, *, prefix: str = "", limit: int = 1000) -> list[Document]:
        """The newest version of each document whose name begins with `prefix`, by name."""
        return await self._engine.read(lambda: documents.documents(owner, prefix=prefix, limit=limit), large=True)

    async def versions(self, owner: Owner, name: str, *, limit: int = 50) -> list[Document]:
        """The versions of a document, newest first."""
        return await self._engine.read(lambda: documents.versions(owner, name, limit=limit))

    async def forget(self, owner: Owner, name: str) -> None:
        """Remove a document for ever, with all its versions. NotYetGone: as for `redact`."""
        one = HalfForgotten(owner.tenant, "", 0, 0, user="", what=DOCUMENT, time=self._clock())
        still = [begun(one), owed({"tenant": owner.tenant, "conversation": ""}, one.time)]
        await self._engine.write(partial(documents.forget, owner, name, still), about=_about(owner))
        audit.info("forgot a document %s", "of a user" if owner.user else "of a tenant")
        await self._forgetting.finish()


def _about(owner: Owner) -> str:
    return f"documents/{owner.tenant}/{owner.user}"

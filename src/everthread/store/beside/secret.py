"""The store's own secret, from which the fence of every conversation is made (docs/decisions/0027).

It was made with the store and is read once by each process that needs it. It is never exported, logged or shown.
"""

from __future__ import annotations

import secrets

from everthread.store.engine import Ask, Engine, Outcome, Script, Tell

NAME = "fence"
BYTES = 32


async def read(engine: Engine) -> bytes:
    if found := await engine.read(_secret):
        return found
    # Somebody has removed it. Requests have other tags from now on, which costs the providers' caches once.
    made = secrets.token_bytes(BYTES)
    await engine.write(lambda: _kept(made), about=NAME)
    return await engine.read(_secret)


def _secret() -> Script[bytes]:
    rows = yield Ask("secret", {"name": NAME})
    return bytes(rows[0][0]) if rows else b""


def _kept(made: bytes) -> Script[Outcome[None]]:
    yield from ()
    return Outcome(None, [Tell("insert_secret", [{"name": NAME, "value": made}])])

"""What a provider's client offers: one model call, streamed; and a count of tokens before it.

A client takes a finished request body, as `render` made it, and hands it to the provider's own SDK. What comes back
is the same for every provider: pieces as they arrive, then one `Replied` with the whole reply as events of the log. A
call that fails raises one of the errors under `everthread.errors.ModelError`, whatever the SDK raised, before the first
piece or after any; it never ends without `Replied` and without an error. SDKs do not retry: the engine does.

A client lives in its provider's folder, in `client.py`, which has a function `connect(access) -> Client`, and is the
only module that imports the SDK.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol

import msgspec

from everthread.core.deltas import ReasoningDelta, TextDelta, Usage
from everthread.core.events import Assistant, ToolCall

LEAST_SECRET = 6  # characters of a header's value that may be one

Finish = Literal["stop", "tools", "length", "refused", "other"]


class Headers(dict[str, str]):
    """Headers of the caller's own. They may be secret: nothing shows or keeps their values."""

    def __repr__(self) -> str:
        return f"<Headers {', '.join(self) or 'none'}>"

    __str__ = __repr__

    def hidden_in(self, text: str) -> str:
        """A text without their values, which some servers repeat: whole, or without the word `Bearer` before a key."""
        for value in self.values():
            for secret in (value, value.rpartition(" ")[2]):
                text = text.replace(secret, "…") if len(secret) >= LEAST_SECRET else text
        return text


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """How a provider is reached. `seconds`: how long to wait for the next sign of life. `threads` and `window` are for
    the model in the process: the threads that it runs on, and the most tokens that it takes (0 for its own default)."""

    provider: str
    key: str = ""
    address: str = ""  # the provider's own where empty
    foreign: bool = False  # the address is neither the provider's own nor the operator's: nothing of theirs goes there
    seconds: float = 600.0
    threads: int = 1
    window: int = 0

    def __repr__(self) -> str:  # never a key, nor a password
        host = self.address.rpartition("@")[2] if "@" in self.address else self.address
        return f"<Access to {self.provider}{f' at {host}' if host else ''}>"

    __str__ = __repr__


class Replied(msgspec.Struct, frozen=True, kw_only=True):
    """A whole reply. `events`: what the model said and called, in its order, with what the provider wants echoed in
    their `meta`. `model`: the name that the provider reports."""

    events: tuple[Assistant | ToolCall, ...]
    usage: Usage
    finish: Finish
    model: str = ""


StreamPiece = TextDelta | ReasoningDelta | Replied


NO_HEADERS = Headers()


class Client(Protocol):
    def reply(
        self, body: dict[str, Any], *, headers: Headers = NO_HEADERS
    ) -> AbstractAsyncContextManager[AsyncIterator[StreamPiece]]:
        """One model call: `async with client.reply(body) as pieces: async for piece in pieces`. `headers` go with it.

        Leaving the block early closes the connection. Raises ModelError.
        """
        ...

    async def count(self, body: dict[str, Any], *, headers: Headers = NO_HEADERS) -> int | None:
        """The provider's own count of a request's input, where it has an endpoint for that; else None. `headers`: as
        for `reply`."""
        ...

    async def close(self) -> None: ...

"""What a listener is told, with the place after it: where to go on when the connection was lost."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing

import msgspec

from everthread.core.deltas import Delta
from everthread.core.logged import Logged
from everthread.core.values import Value


class Told(msgspec.Struct, Value, frozen=True):
    """`place`: what `talk.told(after=…)` takes to go on just behind this, in the middle of a reply as well."""

    place: str
    item: Logged | Delta


async def items(told: AsyncIterator[Told]) -> AsyncIterator[Logged | Delta]:
    """What is told, without the places."""
    async with aclosing(told):  # type: ignore[type-var]
        async for one in told:
            yield one.item

"""Changing the canvas: a change is checked against what is there, and written only if that is still so."""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar
from weakref import WeakValueDictionary

from everthread.core.branches import Line
from everthread.core.canvas import Change, Picture, Put, change_of, in_words
from everthread.core.canvas.items import with_ids
from everthread.core.canvas.limits import checked
from everthread.core.happenings import CanvasChanged, canvas_changed
from everthread.core.quotes import Quote
from everthread.core.values import stored_form
from everthread.errors import BadValue, Outrun, UnknownBlob
from everthread.store.log import Log
from everthread.store.scripts.append import Basis, Beside

TRIES = 50  # before whoever is always outrun by other processes is told so: Outrun
PAUSE = 0.005  # seconds, at first

T = TypeVar("T")
Write = Callable[[CanvasChanged, Basis, Beside], Awaitable[T]]

_changing: WeakValueDictionary[tuple[asyncio.AbstractEventLoop, str], asyncio.Lock] = WeakValueDictionary()


async def change_canvas(
    log: Log, line: Line, changes: Sequence[Change], write: Write[T], *, by: str = "", quotes: Iterable[Quote] = ()
) -> T:
    """Make changes together, or none of them: BadValue says why not. `write` appends the event. `quotes`: the events
    that it repeats something of; it is forgotten with any of them."""
    given = [_as_stored(change) for change in changes]
    await _check_pictures(log, line, given)
    repeated = [[quote.conversation, quote.branch, quote.seq] for quote in dict.fromkeys(quotes)]
    # Those of this process one after another; others may be faster.
    async with _changing.setdefault((asyncio.get_running_loop(), line.about), asyncio.Lock()):
        for tried in range(TRIES):
            now = await log.canvas.now(line)
            changes = with_ids(now.canvas, given, _item_id)
            checked(now.canvas, changes)
            data = {"changes": [stored_form(change) for change in changes]} | ({"quotes": repeated} if repeated else {})
            event = canvas_changed(in_words(given), by=by, **data)
            try:
                return await write(event, now.basis, now.keeping(line, changes, by))
            except Outrun:
                await asyncio.sleep(PAUSE * min(tried, 20) * random.random())
    raise Outrun(f"Others have changed the canvas or redacted something {TRIES} times meanwhile")


def _item_id() -> str:
    """Of an item of a list."""
    return f"i{secrets.token_hex(3)}"


def _as_stored(change: Change) -> Change:
    """The change as whoever reads it will have it."""
    try:
        return change_of(stored_form(change))
    except BadValue:
        raise
    except (AttributeError, TypeError, ValueError, RecursionError) as problem:
        raise BadValue("change", change, f"a change of the canvas in plain JSON ({problem})") from None


async def _check_pictures(log: Log, line: Line, changes: Sequence[Change]) -> None:
    for blob in [one.element.blob for one in changes if isinstance(one, Put) and isinstance(one.element, Picture)]:
        try:
            if blob:
                await log.blob(line, blob)
        except UnknownBlob:
            raise BadValue("blob", blob, "the hash of a picture of this conversation") from None

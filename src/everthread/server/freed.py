"""Giving back to the system what the process has freed.

Texts and requests of many kilobytes come and go all the time. glibc keeps what is freed of them for the next one, in
pieces that fit less and less well: after some thousand turns that were tens of megabytes, though nothing was in use
that had not been before (docs/decisions/0052). So it is told to take large pieces from the system one by one, and now
and then to give back whatever is free.

Other systems' libraries have neither of these functions; there nothing is done.
"""

from __future__ import annotations

import asyncio
import ctypes
from functools import cache
from typing import Any

EVERY = 10.0  # seconds
LARGE = 128 * 1024  # bytes from which a piece is taken from the system by itself; glibc's own, but it would let it grow
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # as malloc.h numbers them


def keep_little() -> bool:
    """Have large pieces given back as soon as they are free, and the end of the heap. Whether the library can."""
    library = _library()
    if not hasattr(library, "mallopt"):
        return False
    taken = [library.mallopt(what, LARGE) for what in (_MMAP_THRESHOLD, _TRIM_THRESHOLD)]
    return all(taken)


def give_back() -> bool:
    """Give back what is free now: some milliseconds, so not on the event loop. Whether there was anything."""
    library = _library()
    return hasattr(library, "malloc_trim") and bool(library.malloc_trim(0))


async def give_back_now_and_then() -> None:
    """For as long as the process serves."""
    keep_little()
    while True:
        await asyncio.sleep(EVERY)
        await asyncio.to_thread(give_back)


@cache
def _library() -> Any:
    try:
        return ctypes.CDLL(None)
    except (OSError, TypeError):  # of systems that know no such thing
        return None

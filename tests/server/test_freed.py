"""What is free is given back to the system, where its library can; elsewhere nothing happens."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from everthread.server import freed


class _Library:
    def __init__(self) -> None:
        self.told: list[tuple[int, int]] = []
        self.trimmed, self._loop = asyncio.Event(), asyncio.get_running_loop()

    def mallopt(self, what: int, value: int) -> int:
        self.told.append((what, value))
        return 1

    def malloc_trim(self, pad: int) -> int:
        self._loop.call_soon_threadsafe(self.trimmed.set)
        return 1


async def test_it_is_given_back_again_and_again_while_the_process_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    library = _Library()
    monkeypatch.setattr(freed, "_library", lambda: library)
    monkeypatch.setattr(freed, "EVERY", 0.0)
    working = asyncio.create_task(freed.give_back_now_and_then())
    for _ in range(2):
        await library.trimmed.wait()
        library.trimmed.clear()
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert library.told == [(-3, freed.LARGE), (-1, freed.LARGE)]


@pytest.mark.parametrize("library", [None, object()], ids=["no library", "another library"])
def test_another_library_is_let_be(monkeypatch: pytest.MonkeyPatch, library: Any) -> None:
    monkeypatch.setattr(freed, "_library", lambda: library)
    assert not freed.keep_little()
    assert not freed.give_back()

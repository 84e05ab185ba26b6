"""What takes too long is broken off; what need not wait is not timed."""

from __future__ import annotations

import asyncio

import pytest

from everthread.server.in_time import in_time


async def _at_once() -> str:
    return "here"


async def _in_steps(steps: list[str]) -> str:
    for number in range(3):
        await asyncio.sleep(0)
        steps.append(str(number))
    return "".join(steps)


async def test_what_need_not_wait_sets_no_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(asyncio, "timeout")
    assert await in_time(_at_once(), 0.0) == "here"


async def test_what_waits_goes_on_where_it_was() -> None:
    assert await in_time(_in_steps([]), 60) == "012"


async def test_what_waits_for_too_long_is_broken_off() -> None:
    seen: list[str] = []

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("broken off")
            raise

    with pytest.raises(TimeoutError):
        await in_time(wait(), 0.0)
    assert seen == ["broken off"]


@pytest.mark.parametrize("waits", [False, True])
async def test_an_error_is_raised_as_it_is(waits: bool) -> None:
    async def fail() -> None:
        if waits:
            await asyncio.sleep(0)
        raise LookupError("nothing")

    with pytest.raises(LookupError, match="nothing"):
        await in_time(fail(), 60)


async def test_whoever_is_cancelled_breaks_it_off() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    waiting = asyncio.create_task(in_time(wait(), 60))
    await begun.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert ended.is_set()


async def test_what_it_waits_for_may_fail() -> None:
    waits_for: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def wait() -> str:
        try:
            return await waits_for
        except LookupError:
            return "mended"

    waiting = asyncio.create_task(in_time(wait(), 60))
    await asyncio.sleep(0)
    waits_for.set_exception(LookupError())
    assert await waiting == "mended"

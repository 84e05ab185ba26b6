"""A clock that stands still or runs backwards puts nothing out of order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, count, cycle

import pytest

from everthread import Everthread, Talk, assistant, user
from everthread.core.branches import ENDLESS
from everthread.store.open import open_log
from tests.failures.aftermath import intact, sound

HOUR = 3_600_000_000
START = 1_760_000_000_000_000

CLOCKS: dict[str, Callable[[], Iterator[int]]] = {
    "stands still": lambda: cycle([START]),
    "runs backwards": lambda: count(START, -HOUR),
    "jumps to and fro": lambda: chain(
        [START] * 2, cycle([START - 9 * HOUR, START + 60_000_000, START - HOUR, START - 1])
    ),
    "falls back to 1970": lambda: iter([START] * 3 + [0] * 1_000),
}


@pytest.fixture(params=CLOCKS)
def clock(request: pytest.FixtureRequest) -> Callable[[], int]:
    return CLOCKS[request.param]().__next__


async def _ordered(talk: Talk) -> bool:
    events = await talk.after(0, limit=ENDLESS)
    times = [event.micros for event in events]
    assert times == sorted(times)
    ids = [event.id for event in events]
    assert ids == sorted(set(ids))
    assert {event.session for event in events} <= {0, 1}
    return True


async def test_times_and_ids_never_decrease_along_a_branch_and_no_session_begins(
    address: str, someone: str, clock: Callable[[], int]
) -> None:
    et = Everthread(await open_log(address, clock=clock))
    talk = await et.begin(user=someone)
    for n in range(10):
        await talk.append(user(f"{n}"), assistant(f"{n}"))
    side = await talk.fork(at=5)
    await side.append(user("aside"))
    await talk.mark("here")
    await talk.rewind(to="here")
    await talk.append(user("again"))
    await talk.redact(3)
    await talk.switch("main")
    await talk.append(user("back"))
    for branch in ("main", side):
        assert await _ordered(await talk.on(branch) if isinstance(branch, str) else branch)
    assert await _ordered(await talk.on("rewind-3"))
    assert len(await talk.sessions()) == 1
    await sound(et, talk)
    await et.close()
    assert (await intact(address, talk))[-2:] == ["back", "afterwards"]


async def test_a_pause_after_the_clock_ran_backwards_still_ends_the_session(address: str, someone: str) -> None:
    times = iter([START, START, START - HOUR, START + HOUR, START + HOUR])
    et = Everthread(await open_log(address, clock=times.__next__))
    talk = await et.begin(user=someone)
    for n in range(4):
        await talk.append(user(f"{n}"))
    assert [(session.first, session.last) for session in await talk.sessions()] == [
        (1, 3),
        (4, 5),
    ]  # with the mark of the next
    await et.close()


async def test_the_conversation_begun_last_is_the_newest(address: str, someone: str, clock: Callable[[], int]) -> None:
    et = Everthread(await open_log(address, clock=clock))
    begun = []
    for _ in range(8):
        begun.append((await et.begin(user=someone)).id)
        assert (await et.conversation(user=someone)).id == begun[-1]
    assert [conversation.id for conversation in await et.conversations(user=someone)] == begun[::-1]
    await et.close()

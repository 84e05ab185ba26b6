"""An acknowledged append survives: writers killed, servers killed, answers lost on the way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from benchmarks import crash
from everthread import Everthread, Talk, assistant, user
from everthread.core.events import Mark
from everthread.errors import NotFound
from everthread.store.postgres.engine import PostgresEngine
from tests.contract.support import assert_sound, everything, texts
from tests.postgres_server import PrivatePostgres, Server


@pytest.mark.parametrize(("kills", "seed"), [(10, 1), pytest.param(200, 2, marks=pytest.mark.prove)])
def test_nothing_acknowledged_is_lost_when_writers_are_killed(fresh_address: str, kills: int, seed: int) -> None:
    report = crash.run(fresh_address, kills, seed)
    assert report.is_clean, report
    assert report.kills == kills
    assert report.acknowledged >= 2 * kills
    assert report.events >= 2 * report.acknowledged


def test_nothing_acknowledged_is_lost_when_the_server_is_killed() -> None:
    """And the writer goes on by itself once the server is back."""
    with PrivatePostgres(durable=True) as server:
        address = server.create_database("crash")
        conversation = asyncio.run(begin(address))
        writer = crash.Writer(address, conversation, "w")
        try:
            for _ in range(3):
                writer.hear(20)
                server.kill()
                server.start()
            writer.hear(40)
            assert writer.process.poll() is None
        finally:
            writer.kill()
        report = asyncio.run(crash.examine(address, conversation, writer.acknowledged, kills=1))
    assert report.is_clean, report
    assert report.acknowledged >= 100


async def begin(address: str) -> str:
    async with Everthread.open(address) as et:
        return (await et.begin(user=crash.OWNER)).id


# -- answers that are lost after the commit ----------------------------------------------------------------


class Lossy:
    """Lets the next write of a PostgreSQL log be committed, and then loses the answer."""

    def __init__(self) -> None:
        self.armed = False

    def lose(self) -> bool:
        armed, self.armed = self.armed, False
        return armed


@pytest.fixture
def lossy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lossy]:
    wire = Lossy()
    attempt = PostgresEngine._attempt

    async def attempt_and_lose(self: PostgresEngine, *arguments: Any) -> Any:
        result = await attempt(self, *arguments)
        if wire.lose():
            raise ConnectionResetError("the server went away before it could answer")
        return result

    monkeypatch.setattr(PostgresEngine, "_attempt", attempt_and_lose)
    yield wire
    assert not wire.armed, "nothing was written, so nothing was lost"


@pytest.fixture
async def remote(postgres: Server, _shared_database: str) -> AsyncIterator[Everthread]:
    async with Everthread.open(_shared_database) as et:
        yield et


@pytest.fixture
async def spoken(remote: Everthread, someone: str) -> Talk:
    """Three messages, a mark, and a branch to switch to."""
    talk = await remote.begin(user=someone)
    await talk.append(user("a"), assistant("b"), Mark(name="m"), user("c"))
    await talk.fork(at=2, name="side")
    return talk


Verb = Callable[[Talk], Awaitable[object]]
# What is done, and the branches and events along the current one that there must be afterwards.
VERBS: dict[str, tuple[Verb, int, list[str]]] = {
    "append": (lambda talk: talk.append(user("d"), assistant("e")), 2, ["user", "assistant"]),
    "append with a key": (lambda talk: talk.append(user("d"), key="k"), 2, ["user"]),
    "append where it was expected": (lambda talk: talk.append(user("d"), expect=4), 2, ["user"]),
    "mark": (lambda talk: talk.mark("n"), 2, ["mark"]),
    "clear": (lambda talk: talk.clear(), 2, ["clear"]),
    "fork": (lambda talk: talk.fork(at=2), 3, []),
    "fork by name": (lambda talk: talk.fork(at=2, name="another"), 3, []),
    "rewind": (lambda talk: talk.rewind(to=4), 3, ["rewind"]),
    "switch": (lambda talk: talk.switch("main"), 2, ["command"]),
    "redact": (lambda talk: talk.redact(1), 2, ["command"]),
    "rename": (lambda talk: talk.rename("Cakes"), 2, []),
}


@pytest.mark.parametrize(("verb", "branches", "kinds"), VERBS.values(), ids=VERBS.keys())
async def test_what_was_done_although_the_answer_was_lost_is_done_once(
    remote: Everthread, spoken: Talk, lossy: Lossy, verb: Verb, branches: int, kinds: list[str]
) -> None:
    lossy.armed = True
    await verb(spoken)
    assert len(await spoken.branches()) == branches
    assert [event.kind for event in (await everything(spoken))[4:]] == kinds
    await assert_sound(remote, spoken)


async def test_a_conversation_is_begun_once_although_the_answer_was_lost(
    remote: Everthread, lossy: Lossy, someone: str
) -> None:
    lossy.armed = True
    talk = await remote.begin(user=someone)
    assert [found.id for found in await remote.conversations(user=someone)] == [talk.id]
    lossy.armed = True
    await remote.conversation(user=f"{someone}-new")
    assert len(await remote.conversations(user=f"{someone}-new")) == 1


async def test_a_conversation_is_erased_although_the_answer_was_lost(
    remote: Everthread, spoken: Talk, lossy: Lossy, someone: str
) -> None:
    lossy.armed = True
    await spoken.erase()
    assert await remote.conversations(user=someone) == []


async def test_an_append_with_a_lost_answer_among_others_is_written_once(address: str, someone: str) -> None:
    """On any database: whoever repeats an append with its key cannot write it twice."""
    async with Everthread.open(address) as et:
        talk = await et.begin(user=someone)
        tries = [asyncio.create_task(talk.append(user("a"), key="k")) for _ in range(3)]
        await asyncio.sleep(0)
        for attempt in tries:
            attempt.cancel()
        await asyncio.gather(*tries, return_exceptions=True)
        await talk.append(user("a"), key="k")
        assert await texts(talk) == ["a"]
        await assert_sound(et, talk)


async def test_a_database_that_was_open_when_its_process_died_opens_again(fresh_address: str) -> None:
    """Without a clean close there is a write-ahead log to replay."""
    async with Everthread.open(fresh_address) as et:
        conversation = (await et.begin(user=crash.OWNER)).id
    writer = crash.Writer(fresh_address, conversation, "w")
    await asyncio.to_thread(writer.hear, 5)
    writer.kill()
    async with Everthread.open(fresh_address) as et:
        talk = await et.conversation(user=crash.OWNER, id=conversation)
        assert {text.rstrip(".") for text in await texts(talk)} >= set(writer.acknowledged)
        with pytest.raises(NotFound):
            await talk.on("nowhere")
        await assert_sound(et, talk)

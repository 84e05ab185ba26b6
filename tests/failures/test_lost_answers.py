"""PostgreSQL carried it out, but the answer was lost on the way: nothing is written twice."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from everthread import Everthread, Talk, assistant, file, user
from everthread.core.events import Event
from everthread.errors import Unavailable
from everthread.store.postgres.engine import PostgresEngine
from tests.failures.aftermath import postgres_engine, sound, texts
from tests.postgres_server import Server

LOSSES: list[Callable[[], Exception]] = [
    lambda: ConnectionResetError("lost"),
    lambda: asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation"),
    lambda: asyncpg.AdminShutdownError("terminating connection due to administrator command"),
]
MOMENTS = ["before the statement", "after the statement", "after the commit"]


@pytest.fixture(scope="session")
def database(postgres: Server) -> str:
    return postgres.create_database("lost_answers")


@pytest.fixture
async def et(database: str) -> AsyncIterator[Everthread]:
    async with Everthread.open(database) as opened:
        yield opened


@pytest.fixture
async def talk(et: Everthread, someone: str) -> Talk:
    talk = await et.begin(user=someone)
    await talk.append(user("one"), assistant("two"))
    return talk


@pytest.fixture(params=range(len(LOSSES)), ids=["reset", "closed", "shut down"])
def loss(request: pytest.FixtureRequest) -> Callable[[], Exception]:
    return LOSSES[int(request.param)]


def lose(engine: PostgresEngine, moment: str, loss: Callable[[], Exception]) -> list[str]:
    """From now on, one answer is lost at this moment. The list tells whether it was."""
    lost: list[str] = []
    method = "_attempt" if moment == "after the commit" else "_tell"
    if method == "_attempt":
        engine._heads.forget_all()  # what is appended from memory commits with its statement
    real: Callable[..., Awaitable[Any]] = getattr(engine, method)

    async def unreliable(connection: Any, *rest: Any) -> Any:
        if lost:
            return await real(connection, *rest)
        if moment != "before the statement":
            await real(connection, *rest)
        lost.append(moment)
        raise loss()

    setattr(engine, method, unreliable)
    return lost


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("key", ["", "k"], ids=["without key", "with key"])
@pytest.mark.parametrize("several", [False, True], ids=["one event", "several"])
@pytest.mark.parametrize("blob", [False, True], ids=["text", "with a file"])
async def test_an_append_is_there_once(
    et: Everthread,
    talk: Talk,
    loss: Callable[[], Exception],
    moment: str,
    key: str,
    several: bool,
    blob: bool,
) -> None:
    events: list[Event] = [
        user("three", *([file(b"walnuts")] if blob else [])),
        *([assistant("four")] if several else []),
    ]
    lost = lose(postgres_engine(et), moment, loss)
    written = await talk.append(*events, key=key, expect=2)
    assert lost
    assert [event.seq for event in written] == ([3, 4] if several else [3])
    assert written == (await talk.after(2))
    assert await sound(et, talk) == ["one", "two", "three", *(["four"] if several else [])]


async def test_an_append_whose_answer_is_lost_again_and_again_is_there_once(et: Everthread, talk: Talk) -> None:
    for moment in MOMENTS * 2:
        lose(postgres_engine(et), moment, LOSSES[0])
    await talk.append(user("three"))
    assert await sound(et, talk) == ["one", "two", "three"]


async def test_somebody_elses_append_in_between_is_not_taken_for_ones_own(
    et: Everthread, talk: Talk, database: str
) -> None:
    engine = postgres_engine(et)
    real = engine._attempt
    tries = 0

    async def overtaken(connection: Any, script: Any) -> Any:
        nonlocal tries
        tries += 1
        if tries == 1:
            async with Everthread.open(database) as other:
                again = await other.conversation(user=talk.conversation.user, id=talk.id)
                await again.append(user("theirs"))
            raise ConnectionResetError
        return await real(connection, script)

    engine._attempt = overtaken  # type: ignore[method-assign]
    engine._heads.forget_all()
    await talk.append(user("mine"))
    assert await sound(et, talk) == ["one", "two", "theirs", "mine"]


@pytest.mark.parametrize("key", ["", "k"], ids=["without key", "with key"])
async def test_a_statement_that_arrives_only_after_one_looked_for_it_is_not_repeated(
    et: Everthread, talk: Talk, key: str
) -> None:
    """The connection broke, the server was slow: the first statement commits while the second is being tried."""
    engine = postgres_engine(et)
    real = engine._attempt
    late: list[Any] = []

    async def slow(connection: Any, script: Any) -> Any:
        if not late:
            late.append(await _outcome_of(engine, connection, script))
            raise ConnectionResetError
        if len(late) == 1:
            late.append(None)
            outcome = await _outcome_of(engine, connection, script)  # looked: nothing there yet
            async with engine._pool.acquire() as other, other.transaction():
                for write in late[0].writes:
                    await engine._tell(other, write)
            async with connection.transaction():
                for write in outcome.writes:
                    await engine._tell(connection, write)
            return outcome
        return await real(connection, script)

    engine._attempt = slow  # type: ignore[method-assign]
    engine._heads.forget_all()
    await talk.append(user("three"), key=key)
    assert await sound(et, talk) == ["one", "two", "three"]


async def test_what_was_never_committed_is_not_remembered(database: str, someone: str) -> None:
    """Behind the lock the statement runs in a transaction; when that is lost, so is the number it had taken."""
    async with Everthread.open(database, patience=0.3) as et:
        talk = await et.begin(user=someone)
        await talk.append(user("one"), assistant("two"))
        engine = postgres_engine(et)
        real = engine._attempt

        async def lost(connection: Any, script: Any) -> Any:
            await real(connection, script)
            raise ConnectionResetError

        engine._attempt = lost  # type: ignore[method-assign]
        engine._heads.forget_all()
        engine._expect_company(talk.conversation.about)
        engine._contended[talk.conversation.about] += 60
        with pytest.raises(Unavailable):
            await talk.append(user("three"))
        engine._attempt = real  # type: ignore[method-assign]
        engine._contended.clear()
        assert await sound(et, talk) == ["one", "two"]


async def _outcome_of(engine: PostgresEngine, connection: Any, script: Any) -> Any:
    return await engine._ask(connection, script())


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_conversation_is_begun_once(et: Everthread, someone: str, moment: str) -> None:
    lost = lose(postgres_engine(et), moment, LOSSES[0])
    begun = await et.begin(user=someone)
    assert lost
    assert [conversation.id for conversation in await et.conversations(user=someone)] == [begun.id]


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("name", ["", "side"])
async def test_a_branch_is_forked_once(et: Everthread, talk: Talk, moment: str, name: str) -> None:
    lost = lose(postgres_engine(et), moment, LOSSES[0])
    fork = await talk.fork(at=1, name=name)
    assert lost
    assert len(await talk.branches()) == 2
    assert await texts(fork) == ["one"]
    assert await sound(et, talk) == ["one", "two"]


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("name", ["", "back"])
async def test_a_conversation_is_rewound_once(et: Everthread, talk: Talk, moment: str, name: str) -> None:
    lost = lose(postgres_engine(et), moment, LOSSES[0])
    await talk.rewind(to=1, name=name)
    assert lost
    assert len(await talk.branches()) == 2
    assert await sound(et, talk) == ["one"]


@pytest.mark.parametrize("moment", MOMENTS)
async def test_redacting_marking_switching_clearing_and_erasing_happen_once(
    et: Everthread, talk: Talk, someone: str, moment: str
) -> None:
    async def marks() -> list[str]:
        return [event.kind for event in await talk.after(2)]

    await talk.fork(name="side")
    steps: list[tuple[Callable[[], Awaitable[Any]], list[str]]] = [
        (lambda: talk.redact(1), ["command"]),
        (lambda: talk.mark("here"), ["command", "mark"]),
        (lambda: talk.clear(), ["command", "mark", "clear"]),
        (lambda: talk.switch("main"), ["command", "mark", "clear", "command"]),
    ]
    for step, expected in steps:
        lost = lose(postgres_engine(et), moment, LOSSES[0])
        await step()
        assert lost
        assert await marks() == expected
    lose(postgres_engine(et), moment, LOSSES[0])
    await talk.erase()
    assert await et.conversations(user=someone) == []


async def test_a_read_whose_answer_is_lost_is_asked_again(et: Everthread, talk: Talk) -> None:
    engine = postgres_engine(et)
    real = engine._ask
    lost: list[int] = []

    async def unreliable(connection: Any, script: Any) -> Any:
        result = await real(connection, script)
        if len(lost) < 3:
            lost.append(1)
            raise asyncpg.ConnectionDoesNotExistError("lost")
        return result

    engine._ask = unreliable  # type: ignore[method-assign]
    assert await texts(talk) == ["one", "two"]
    assert len(lost) == 3

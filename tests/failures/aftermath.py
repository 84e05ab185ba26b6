"""What must hold after every failure, whatever it was."""

from __future__ import annotations

from collections.abc import Sequence

from everthread import Everthread, EverthreadError, Talk, user
from everthread.core.branches import ENDLESS
from everthread.store.postgres.engine import PostgresEngine
from everthread.store.sqlite.engine import SqliteEngine

TENANT = "default"


async def texts(talk: Talk) -> list[str]:
    """What was said along the line, oldest first."""
    return [event.text for event in await talk.after(0, limit=ENDLESS, messages=True)]


async def intact(address: str, talk: Talk) -> list[str]:
    """Open the store again: the log's own check is clean and the next append works. What had been said."""
    async with Everthread.open(address) as et:
        again = await et.conversation(user=talk.conversation.user, id=talk.id, tenant=talk.conversation.tenant)
        return await sound(et, again)


async def sound(et: Everthread, talk: Talk) -> list[str]:
    """As `intact`, of a store that is open."""
    assert await et.log.problems() == []
    count, wrong = await et.log.check(talk.conversation.tenant, talk.id)
    assert wrong == []
    said = await texts(talk)
    seqs = [event.seq for event in await talk.after(0, limit=ENDLESS)]
    assert seqs == list(range(1, len(seqs) + 1))
    assert count >= len(said)
    (event,) = await talk.append(user("afterwards"))
    assert event.seq in (len(seqs) + 1, len(seqs) + 2)  # it may begin a session, which is marked
    assert await texts(talk) == [*said, "afterwards"]
    return said


def clear(error: EverthreadError, *words: str) -> bool:
    """Whether an error is one sentence that names the thing and says what to do."""
    sentence = str(error)
    missing = [word for word in words if word not in sentence]
    assert not missing, f"{sentence!r} does not say {missing}"
    assert sentence.endswith("."), sentence
    assert "\n" not in sentence, sentence
    assert len(sentence) < 600, sentence
    return True


def sqlite_engine(et: Everthread) -> SqliteEngine:
    engine = et.log._engine
    assert isinstance(engine, SqliteEngine)
    return engine


def postgres_engine(et: Everthread) -> PostgresEngine:
    engine = et.log._engine
    assert isinstance(engine, PostgresEngine)
    return engine


def numbered(word: str, count: int) -> Sequence[str]:
    return [f"{word} {n}" for n in range(1, count + 1)]

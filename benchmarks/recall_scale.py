"""The time of a query among very many messages, beside the engine's own full-text search over the same texts.

One user's conversations are written and indexed as they always are; nine other users get copies of them inside the
database, rows of the index included. The words are made up, and as unevenly common as those of a language. The
engine's own search has the same texts in its own index (FTS5; a stored tsvector with GIN), each with its owner's name
as one more word, and ranks all that it finds. A store that was filled says so, and is measured again as it is.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

import apsw
import asyncpg

from everthread import Everthread, assistant, user
from everthread.store.conversations import Owner
from everthread.store.recall.index import BITS

OTHERS = 9
CONVERSATIONS = 100
FILL = 5_000  # events of one append
VOCABULARY, WORDS = 60_000, 18
TIMES = 15
HITS = 10

EVENTS = (
    "tenant, branch, seq, id, kind, time, turn, turn_first, state, pending, session, session_first, spoken, "
    "spoken_time, cleared, cleared_sum, tokens, settled, tokens_before, settled_before, messages_before, body, "
    "importance, left_importance"
)
# Copies for another user of all that one has. An id of our time begins with a 0, a copy's with the copy's number; and a
# copy's words are known by other hashes, as another user's are.
COPIES = f"""
    INSERT INTO conversations (tenant, conversation, "user", agent, name, goal, settings, current, time)
    SELECT tenant, :n || substr(conversation, 2), 'other-:n', agent, name, goal, settings, current, time
    FROM conversations WHERE "user" = 'ana';

    INSERT INTO branches (tenant, conversation, branch, name, parent, at, time)
    SELECT tenant, :n || substr(conversation, 2), branch, name, parent, at, time
    FROM branches WHERE substr(conversation, 1, 1) = '0';

    INSERT INTO events (conversation, {EVENTS})
    SELECT :n || substr(conversation, 2), {EVENTS}
    FROM events WHERE substr(conversation, 1, 1) = '0';

    INSERT INTO recall_conversations (number, tenant, conversation, "user", slots, events, words)
    SELECT number + :n * 1000000, tenant, :n || substr(conversation, 2), 'other-:n', slots, events, words
    FROM recall_conversations WHERE "user" = 'ana';

    INSERT INTO recall_branches (tenant, conversation, branch, last)
    SELECT tenant, :n || substr(conversation, 2), branch, last
    FROM recall_branches WHERE substr(conversation, 1, 1) = '0';

    INSERT INTO recall_blocks (block, first, last, session, oldest, newest, seqs, runs)
    SELECT block + (:n * CAST(1000000 AS bigint) << {BITS}), first, last, session, oldest, newest, seqs, runs
    FROM recall_blocks WHERE block < CAST(1000000 AS bigint) << {BITS};

    INSERT INTO recall_words (word, block, postings)
    SELECT word / 2 + :n, block + (:n * CAST(1000000 AS bigint) << {BITS}), postings
    FROM recall_words WHERE block < CAST(1000000 AS bigint) << {BITS}
"""


class Query(NamedTuple):
    name: str
    words: list[str]


class Filled(NamedTuple):
    """How many messages of one user, the seconds that indexing one took, and the last conversation."""

    messages: int
    indexed: float
    conversation: str


class Scale:
    def __init__(self, engine: str, address: str, messages: int, *, say: Callable[[str], None]) -> None:
        self._address, self._messages, self._say = address, messages, say
        self._vocabulary = _vocabulary()
        self._plain: Plain = PlainSqlite(address) if engine == "sqlite" else PlainPostgres(address)

    async def run(self) -> AsyncIterator[tuple[str, float, float | None, str]]:
        """What was measured, our median and the engine's own, in milliseconds, and a note."""
        async with Everthread.open(self._address, settings={"memory": False}) as et:
            filled = await self._plain.filled() or await self._filled(et)
            if filled.messages != self._messages:
                raise SystemExit(f"This store was filled with {filled.messages:,} messages of one user.")
            owner = Owner("default", "ana")
            line = await et.log.line(await et.log.conversations.find(owner, filled.conversation))
            for query in self._queries():
                ask = partial(et.log.recall.search, owner, " ".join(query.words), limit=HITS)
                hits = len(await ask(everywhere=True))
                ours = await _median(partial(ask, everywhere=True))
                plain = await _median(partial(self._plain.search, "ana", query.words))
                note = f"{hits} hits; indexed at {filled.indexed * 1e6:,.0f} µs a message"
                yield f"{query.name}, {self._messages:,} of {self._messages * 10:,} messages", ours, plain, note
                yield f"{query.name}, one conversation of them", await _median(partial(ask, line=line)), None, ""
            await self._plain.close()

    async def _filled(self, et: Everthread) -> Filled:
        await self._plain.begin()
        filled = await self._fill(et)
        for n in range(1, OTHERS + 1):
            self._say(f"copying for user {n + 1}")
            await self._plain.run(COPIES.replace(":n", str(n)))
        self._say("filling the engine's own index")
        await self._plain.index(OTHERS)
        await self._plain.note(filled)
        return filled

    async def _fill(self, et: Everthread) -> Filled:
        self._say(f"writing {self._messages:,} messages")
        chance = random.Random(1)
        weights = list(accumulate(1 / (rank + 3) for rank in range(VOCABULARY)))
        talks = [await et.begin(user="ana", agent="bench") for _ in range(CONVERSATIONS)]
        spent = 0.0
        for number, talk in enumerate(talks):
            count = self._messages // CONVERSATIONS
            for first in range(0, count, FILL):
                texts = [
                    " ".join(chance.choices(self._vocabulary, cum_weights=weights, k=WORDS))
                    for _ in range(min(FILL, count - first))
                ]
                await talk.append(*((assistant if n % 2 else user)(text) for n, text in enumerate(texts)))
                await self._plain.add("ana", texts)
            began = time.perf_counter()
            await et.log.recall.index(Owner("default", "ana"), talk.id)
            spent += time.perf_counter() - began
            if number % 10 == 9:
                self._say(f"{(number + 1) * count:,} written and indexed")
        return Filled(self._messages, spent / self._messages, talks[-1].id)

    def _queries(self) -> list[Query]:
        words = self._vocabulary
        return [
            Query("a rare word", [words[-7]]),
            Query("a common word", [words[0]]),
            Query("a question of four words", [words[2], words[40], words[700], words[9_000]]),
        ]


async def _median(work: Callable[[], Awaitable[Any]]) -> float:
    spent = []
    for _ in range(TIMES):
        began = time.perf_counter()
        await work()
        spent.append((time.perf_counter() - began) * 1000)
    return statistics.median(spent)


def _vocabulary() -> list[str]:
    """Words of letters only, each once, the most common first."""
    chance = random.Random(2)
    found: dict[str, None] = {}
    while len(found) < VOCABULARY:
        syllables = ("".join(chance.choice(part) for part in ("bdfgklmnprtvz", "aou", "bdfgklmnprt")) for _ in range(3))
        found["".join(syllables)[: chance.randint(4, 9)]] = None
    return list(found)


# -- the engines' own search -----------------------------------------------------------------------------------


FILLED = "CREATE TABLE filled (messages BIGINT, indexed DOUBLE PRECISION, conversation TEXT)"


class Plain:
    """`begin` refuses a store that was begun and not filled to its end."""

    async def filled(self) -> Filled | None: ...
    async def begin(self) -> None: ...
    async def note(self, filled: Filled) -> None: ...
    async def add(self, owner: str, texts: list[str]) -> None: ...
    async def run(self, sql: str) -> None: ...
    async def index(self, others: int) -> None: ...
    async def search(self, owner: str, words: list[str]) -> None: ...
    async def close(self) -> None: ...


class PlainSqlite(Plain):
    def __init__(self, address: str) -> None:
        path = address.removeprefix("sqlite:///")
        self._path = path
        self._db = apsw.Connection(f"{path}.plain")
        self._db.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF")

    async def filled(self) -> Filled | None:
        if not self._db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'filled'").fetchall():
            return None
        rows: list[Any] = self._db.execute("SELECT * FROM filled").fetchall()
        return Filled(*rows[0])

    async def begin(self) -> None:
        self._db.execute("CREATE TABLE texts (id INTEGER PRIMARY KEY, text TEXT)")

    async def note(self, filled: Filled) -> None:
        with self._db:
            self._db.execute(FILLED)
            self._db.execute("INSERT INTO filled VALUES (?, ?, ?)", filled)

    async def add(self, owner: str, texts: list[str]) -> None:
        with self._db:
            self._db.executemany("INSERT INTO texts (text) VALUES (?)", [(text,) for text in texts])

    async def run(self, sql: str) -> None:
        def work() -> None:
            connection = apsw.Connection(self._path)
            connection.pragma("cache_size", -500_000)
            connection.set_busy_timeout(60_000)
            connection.execute("PRAGMA synchronous = OFF")
            connection.execute(sql)
            connection.close()

        await asyncio.to_thread(work)

    async def index(self, others: int) -> None:
        self._db.execute("CREATE VIRTUAL TABLE plain USING fts5 (text, content='', tokenize='ascii')")
        for n in range(others + 1):
            owner = "ana" if n == others else f"other{n}"
            with self._db:
                self._db.execute(
                    "INSERT INTO plain (rowid, text) SELECT id * 10 + ?, text || ? FROM texts", (n, f" {owner}")
                )

    async def search(self, owner: str, words: list[str]) -> None:
        asked = f"{owner} AND ({' OR '.join(words)})"
        self._db.execute("SELECT rowid FROM plain WHERE plain MATCH ? ORDER BY rank LIMIT ?", (asked, HITS)).fetchall()

    async def close(self) -> None:
        self._db.close()


class PlainPostgres(Plain):
    def __init__(self, address: str) -> None:
        self._address = address
        self._db: Any = None

    async def _open(self) -> Any:
        if self._db is None:
            self._db = await asyncpg.connect(self._address)
        return self._db

    async def filled(self) -> Filled | None:
        db = await self._open()
        if not await db.fetchval("SELECT to_regclass('filled') IS NOT NULL"):
            return None
        return Filled(*await db.fetchrow("SELECT * FROM filled"))

    async def begin(self) -> None:
        await (await self._open()).execute(
            "CREATE TABLE plain_texts (id BIGINT GENERATED ALWAYS AS IDENTITY, text TEXT)"
        )

    async def note(self, filled: Filled) -> None:
        db = await self._open()
        async with db.transaction():
            await db.execute(FILLED)
            await db.execute("INSERT INTO filled VALUES ($1, $2, $3)", *filled)

    async def add(self, owner: str, texts: list[str]) -> None:
        rows = [(text,) for text in texts]
        await (await self._open()).copy_records_to_table("plain_texts", records=rows, columns=["text"])

    async def run(self, sql: str) -> None:
        await (await self._open()).execute(sql)

    async def index(self, others: int) -> None:
        db = await self._open()
        await db.execute("CREATE TABLE plain (id BIGINT, words TSVECTOR)")
        for n in range(others + 1):
            owner = "ana" if n == others else f"other{n}"
            await db.execute(
                f"INSERT INTO plain SELECT id * 10 + {n}, to_tsvector('simple', text || ' {owner}') FROM plain_texts"
            )
        await db.execute("CREATE INDEX plain_words ON plain USING gin (words)")
        await db.execute("VACUUM ANALYZE")

    async def search(self, owner: str, words: list[str]) -> None:
        asked = f"{owner} & ({' | '.join(words)})"
        sql = (
            "SELECT id FROM plain, to_tsquery('simple', $1) AS asked WHERE words @@ asked "
            "ORDER BY ts_rank_cd(words, asked) DESC LIMIT $2"
        )
        await (await self._open()).fetch(sql, asked, HITS)

    async def close(self) -> None:
        await self._db.close()

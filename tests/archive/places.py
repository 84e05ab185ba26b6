"""What the tests of archives share: stores with a clock of their own, places, and every row of a conversation."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Coroutine
from typing import Any, TypeVar

import apsw
import asyncpg

from everthread import Everthread, Talk, assistant, image, tool_call, tool_result, user
from everthread.canvas import List, ListItem
from everthread.core.events import Clear, Mark, ModelCall, Pin
from everthread.core.events.kinds import Other
from everthread.store.engine import Outcome, Script, Tell
from everthread.store.log import Log, now
from everthread.store.open import open_log
from tests.contract.support import Clock

T = TypeVar("T")
DAY = 86_400_000_000
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
FOLDED = {"recall_branches", "recall_conversations"}  # made again from the events
# What is known of archives, and goes when the conversation is back.
CATALOGUE = {"archives", "archive_words", "archived_calls", "archived_quotes"}


async def opened(address: str, place: str, clock: Clock | None = None, **more: Any) -> Everthread:
    return made(await open_log(address, clock=clock or now), place, **more)


def made(log: Log, place: str, **more: Any) -> Everthread:
    return Everthread(log, {"memory": False, "archive_place": place, **more}, environment=False)


async def every_row(address: str, conversation: str) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table that is of a conversation, whichever tables there are, as it is stored."""
    found = await (_lite if address.startswith("sqlite") else _postgres)(address, conversation)
    return {table: sorted(kept, key=repr) for table, kept in sorted(found.items()) if table not in FOLDED}


async def _lite(address: str, conversation: str) -> dict[str, list[tuple[Any, ...]]]:
    tables = "SELECT m.name FROM sqlite_schema m, pragma_table_info(m.name) c WHERE c.name = 'conversation'"
    connection = apsw.Connection(address.removeprefix("sqlite:///"))
    try:
        return {
            str(table): connection.execute(f"SELECT * FROM {table} WHERE conversation = ?", (conversation,)).fetchall()
            for (table,) in connection.execute(f"{tables} AND m.type = 'table'").fetchall()
        }
    finally:
        connection.close()


async def _postgres(address: str, conversation: str) -> dict[str, list[tuple[Any, ...]]]:
    tables = "SELECT relname FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid WHERE attname = 'conversation'"
    connection = await asyncpg.connect(address)
    try:
        names = [row[0] for row in await connection.fetch(f"{tables} AND relkind = 'r'")]
        queries = [f"(SELECT '{name}', CAST(t AS text) FROM {name} t WHERE conversation = $1)" for name in names]
        found: dict[str, list[tuple[Any, ...]]] = {name: [] for name in names}
        for table, row in await connection.fetch(" UNION ALL ".join(queries), conversation):
            found[table].append((row,))
        return found
    finally:
        await connection.close()


def live(found: dict[str, list[tuple[Any, ...]]]) -> dict[str, list[tuple[Any, ...]]]:
    """Without the catalogue."""
    return {table: kept for table, kept in found.items() if table not in CATALOGUE}


async def eventful(et: Everthread, someone: str, **more: Any) -> Talk:
    """A conversation with something in every table: branches, marks, pictures, unknown kinds, receipts, figures."""
    talk = await et.begin(user=someone, name="Walnuts and other nuts", metadata={"a": [1, "é"]}, **more)
    await talk.append(
        user("Is a walnut a nut? \0 \ud800", image(PNG, media_type="image/png")), assistant("It is."), key="k1"
    )
    await talk.append(tool_call("look", {"at": "nuts"}), tool_result("x" * 300, name="look"))
    await talk.append(ModelCall(at=4, model="scripted:m", input=10, output=5, price=0.01, ms=3), assistant("So it is."))
    await talk.append(Other(kind="application_thing", data={"deep": {"er": [None, 1.5]}}), Mark(name="here"))
    side = await talk.fork(at=2, name="aside")
    await side.append(user("And a peanut?"), assistant("A legume."), Clear(), user("Well."))
    await talk.act(List(id="nuts", title="Nuts", boxes=True, items=(ListItem(text="walnut"),)), by="")
    await talk.append(user("Bye."), assistant("Goodbye."), Pin(turn=1))
    await talk.configure(budget=50_000)
    return talk


def new_bucket() -> str:
    return f"bucket-{secrets.token_hex(6)}"


class Stage:
    """An open store with a loop of its own, for tests that are no coroutines."""

    def __init__(self, address: str, place: str) -> None:
        self.loop, self.clock, self.address = asyncio.new_event_loop(), Clock(), address
        self.et = self.do(opened(address, place, self.clock))

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def close(self) -> None:
        self.do(self.et.close())
        self.do(asyncio.sleep(0))
        self.loop.close()


async def hide(et: Everthread, conversation: str) -> None:
    """Have a conversation found no more by those who look for idle ones."""

    def script() -> Script[Outcome[None]]:
        yield from ()
        row = {"tenant": "default", "conversation": conversation, "archived": 0}
        return Outcome(None, [Tell("set_archived", [row])])

    await et.log._engine.write(script, about=conversation)

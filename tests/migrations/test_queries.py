"""queries.sql: every statement is understood by both databases, and finds what it asks for by the intended index."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import pytest

from everthread import Everthread, Talk, assistant, tool_call, tool_result, user
from everthread.core.events import TOMBSTONE, BriefUpdated, Clear, Event, Mark, Pin
from everthread.core.turns import Head
from everthread.store.conversations import Owner
from everthread.store.engine import SqlStatement, statements
from everthread.store.scripts.records import KINDS
from tests.migrations.databases import run, walled
from tests.postgres_server import Server

NAMES = sorted(statements("?{n}"))
INTENDED = {
    "turns_down": "events_turns",
    "turns_up": "events_turns",
    "sessions_down": "events_sessions",
    "sessions_up": "events_sessions",
    "markers_down": "events_markers",
    "markers_up": "events_markers",
    "start_from": "events_turns",
    "start_upto": "events_turns",
    "asked_down": "events_turns",
    "asked_of_line": "events_by_seq",
    "importance_below": "events_importance",
    "turns_of_messages": "events_by_seq",
    "turns_of_spoken": "events_by_seq",
    "events_up": "events_by_seq",
    "events_down": "events_by_seq",
    "messages_up": "events_by_seq",
    "messages_down": "events_by_seq",
    "folds": "events_by_seq",
    "head": "events_by_seq",
    "head_at": "events_by_seq",
    "branch_heads": "events_by_seq",
    "events_of_line": "events_by_seq",
    "messages_of_line": "events_by_seq",
    "markers_of_line": "events_markers",
    "turns_of_line": "events_by_seq",
    "sessions_of_line": "events_by_seq",
    "turns_of_some_messages": "events_by_seq",
    "turns_of_some_spoken": "events_by_seq",
    "turns_by_importance_among": "events_by_seq",
    "heads_among": "events_by_seq",
    "newest_of_kind": "events_markers",
    "recall_events": "events_by_seq",
    "asking": "events_asking",
}
# Totals are sorted; what they add up is found by these columns.
TOTALS = {"usage_of_conversation": ("tenant", "conversation"), "usage_of_user": ("tenant", "user", "time")}
ABOUT_MANY = {
    "all_archives",
    "active_since",
    "all_conversations",
    "all_provider_keys",
    "any_account",
    "any_password",
    "calibrations",
    "children_left",
    "leases_of_turns",
    "document_gaps",
    "everybody",
    "forgetting",
    "idle_conversations",
    "idle_of_tenant",
    "unfinished_archives",
    "mirrors",
    "owe_mirrors",
    "owed",
    *(name for name in NAMES if name.startswith(("read_", "write_")) and name.partition("_")[2] in KINDS),
    "strays",
    "recall_total",
    "remind_all",
    "schedules_of_forgotten_calls",
    "usage_of_tenant",
    *TOTALS,
}
ABOUT_ONE = sorted({*NAMES} - ABOUT_MANY - {name for name in NAMES if name.startswith("insert_")})

# One for each reply.
MODEL_CALLS = """
    INSERT INTO model_calls (tenant, conversation, branch, seq, "user", turn, session, time, model, agent,
        input, output, cache_read, cache_write, reasoning, price, ms, failed)
    SELECT e.tenant, e.conversation, e.branch, e.seq, c."user", e.turn, e.session, e.time, 'm', '',
        1, 1, 0, 0, 0, 0, 1, 0
    FROM events e JOIN conversations c ON c.tenant = e.tenant AND c.conversation = e.conversation
    WHERE e.kind = 'assistant'"""


def _values(talk: Talk) -> dict[str, Any]:
    """A value for every parameter there is."""
    return {
        "tenant": "default",
        "conversation": talk.id,
        "user": talk.conversation.user,
        "branch": 1,
        "seq": 9,
        "first": 1,
        "turn_first": 9,
        "previous": 2**31 - 1,
        "last": 2**31 - 1,
        "unread": 2**31 - 9,
        "floor": 0,
        "low": 0,
        "high": 2**62,
        "limit": 20,
        "skip": 5,
        "kind": "mark",
        "below": 101,
        "importance": 40,
        "before": "~",
        "agent": "",
        "key": "k",
        "hash": "0" * 64,
        "body": b"{}",
        "name": "x",
        "goal": "",
        "settings": "{}",
        "alias": "thread-17",
        "metadata": "{}",
        "active": 0,
        "ids": f'{{"{talk.id}": 0}}',
        "time": 0,
        "data": b"",
        "id": "x",
        "parent": 1,
        "at": 0,
        "current": 1,
        "state": "idle",
        "holder": "x",
        "open": 1,
        "over": "",
        "now": 0,
        "due": 0,
        "before_seq": 8,
        "text": b"",
        "cron": "",
        "zone": "UTC",
        "missed": "once",
        "look": 0,
        "failures": 0,
        "ran": None,
        "made_conversation": "",
        "made_branch": 0,
        "made_seq": 0,
        "since": 0,
        "until": 2**62,
        "prefix": "x",
        "end": "y",
        "version": 1,
        "model": "x",
        "step": 20,
        "said": 2**31 - 1,
        "tombstone": TOMBSTONE,
        "of_conversation": talk.id,
        "of_branch": 1,
        "of_seq": 9,
        "own": talk.id,
        "what": "event",
        "by": "day",
        "low_id": talk.id,
        "high_id": talk.id,
        "number": 1,
        "events": 0,
        "words": 0,
        "block": 1 << 20,
        "session": 1,
        "oldest": 0,
        "newest": 0,
        "seqs": '{"9": 0}',
        "pieces": f'{{"1": {9 << 31 | 30}, "2": {500 << 31 | 510}}}',
        "places": f'{{"{1 << 31 | 9}": 0}}',
        "runs": "",
        "slots": 0,
        "spots": '{"9": 1, "501": 2}',
        "opening": 1,
        "notes": "memory/helper",
        "turns": 3,
        "past_turn": 3,
        "large": 1,
        "large_first": 1,
        "large_last": 300,
        "large_skip": 2,
        "newest_branch": 1,
        "newest_seq": 9,
        "blocks": '{"1048576": 0}',
        "word": 1,
        "numbers": '{"1": 0}',
        "postings": "0000",
        "partial": "",
        "forgotten": 0,
        "after": "",
        "role": "user",
        "password": "",
        "made": 0,
        "disabled": None,
        "how": "link",
        "entered_by": "",
        "scopes": "read",
        "seen": 0,
        "application": "",
        "users": "",
        "label": "x",
        "revoked": None,
        "provider": "openai",
        "key_id": "x",
        "nonce": b"",
        "sealed": b"",
        "was": b"",
        "done_by": "",
        "act": "x",
        "about": "",
        "mark": "x",
        "archive": "x",
        "archived": None,
        "after_tenant": "",
        "nothing": b"",
        "place": "",
        "title": "",
        "messages": 0,
        "tokens": 0,
        "size": 0,
        "branches": 1,
        "versioned": 0,
        "minute": 0,
        "day": 0,
        "mirror": "x",
        "folder": "/x",
        "source": "x",
        "count": 1,
        "erased": 0,
    }


def _filled(address: str, *, conversations: int, turns: int) -> dict[str, Any]:
    """Fill a database once for all tests of the module, in a loop of its own; values that find something in it."""

    async def work() -> dict[str, Any]:
        async with Everthread.open(address) as et:
            talk = await _fill(et, conversations=conversations, turns=turns)
            for name in ("ana", "bob"):
                await et.log.recall.index(Owner("default", name))
        await run(address, MODEL_CALLS)
        if address.startswith("postgres"):
            async with asyncpg.create_pool(address, min_size=0) as pool:
                await pool.execute("ANALYZE")
        return _values(talk)

    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(asyncio.run, work()).result()


async def _fill(et: Everthread, *, conversations: int, turns: int) -> Talk:
    """Some conversations with marks, clears and another branch; one of them in the hand."""
    talk = await et.begin(user="ana")
    for n in range(conversations):
        talk = await et.begin(user="ana" if n % 2 else "bob")
        events: list[Event] = []
        for turn in range(turns):
            events += [user(f"question {turn}"), assistant(f"answer {turn}")]
            if turn % 50 == 49:
                events += [Mark(name=f"m{turn}"), Clear()]
        await talk.append(*events)
        side = await talk.fork(at=turns)
        await side.append(user("aside"))
    return talk


def test_what_inserts_an_event_names_place_kind_and_body_and_then_the_head_in_its_order() -> None:
    order = ("tenant", "conversation", "branch", "kind", "body", *Head.__struct_fields__)
    statement = statements("?{n}")["insert_event"]
    assert statement.names == order
    columns = re.search(r"INSERT INTO events \((.*?)\)", statement.sql, re.DOTALL)
    assert columns
    assert tuple(re.split(r",\s*", columns[1])) == order


@pytest.mark.parametrize("name", ["head", "head_at", "folds", "turns_down", "turns_up", "sessions_down", "sessions_up"])
def test_what_reads_heads_names_their_fields_in_order(name: str) -> None:
    columns = re.search(r"SELECT (.*?)\nFROM events", statements("?{n}")[name].sql, re.DOTALL)
    assert columns
    found = re.split(r",\s*", columns[1].split(",\n    (SELECT")[0])
    assert found[-len(Head.__struct_fields__) :] == list(Head.__struct_fields__)
    before = {"head": ["branch"], "folds": ["kind", "body"]}
    assert found[: -len(Head.__struct_fields__)] == before.get(name, [])


# -- SQLite ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    path = tmp_path_factory.mktemp("queries") / "talk.db"
    return path, _filled(f"sqlite:///{path}", conversations=4, turns=500)


@pytest.fixture(params=["never analysed", "analysed"])
def lite(request: pytest.FixtureRequest, filled: tuple[Path, dict[str, Any]]) -> Iterator[apsw.Connection]:
    connection = apsw.Connection(str(filled[0]))
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)  # as the store sets it
    with connection:
        if request.param == "analysed":
            connection.execute("ANALYZE")
            connection.execute("ANALYZE sqlite_schema")
        yield connection
        connection.execute("DROP TABLE IF EXISTS sqlite_stat1")
    connection.close()


def _plan(connection: apsw.Connection, statement: SqlStatement, values: dict[str, Any]) -> str:
    rows = connection.execute(f"EXPLAIN QUERY PLAN {statement.sql}", statement.bind(values)).fetchall()
    return "\n".join(str(row[3]) for row in rows)


@pytest.mark.parametrize("name", NAMES)
def test_sqlite_understands(name: str, lite: apsw.Connection, filled: tuple[Path, dict[str, Any]]) -> None:
    statement = statements("?{n}")[name]
    values = filled[1] | dict.fromkeys(set(statement.names) - filled[1].keys(), 0)
    lite.execute(f"EXPLAIN {statement.sql}", statement.bind(values)).fetchall()


@pytest.mark.parametrize(("name", "index"), INTENDED.items())
def test_sqlite_uses_the_intended_index(
    name: str, index: str, lite: apsw.Connection, filled: tuple[Path, dict[str, Any]]
) -> None:
    plan = _plan(lite, statements("?{n}")[name], filled[1])
    assert f"INDEX {index}" in plan, plan
    for line in plan.splitlines():
        if "events" in line:
            # p is the event just before, of which the first events of turns and sessions tell.
            assert f"INDEX {'events_by_seq' if 'SEARCH p' in line else index}" in line, plan


def test_sqlite_finds_each_marker_of_a_context_by_its_kind(
    lite: apsw.Connection, filled: tuple[Path, dict[str, Any]]
) -> None:
    plan = _plan(lite, statements("?{n}")["sight"], filled[1])
    used = re.findall(r"USING (?:COVERING )?INDEX (events_\w+)", plan)
    assert used.count("events_markers") == 7, plan
    assert set(used) == {"events_markers", "events_by_seq"}, plan


def test_sqlite_finds_turns_by_their_importance(lite: apsw.Connection, filled: tuple[Path, dict[str, Any]]) -> None:
    """`s` is the turn that follows, `p` the event before it, and `f` the first of the turn itself."""
    plan = _plan(lite, statements("?{n}")["turns_by_importance"], filled[1])
    found = re.findall(r"SEARCH (\w) USING (?:COVERING )?INDEX (\w+)", plan)
    assert found == [("s", "events_importance"), ("p", "events_by_seq"), ("f", "events_by_seq")]
    assert "left_importance=? AND seq>? AND seq<?" in plan, plan


def test_sqlite_finds_the_tail_by_two_indexes(lite: apsw.Connection, filled: tuple[Path, dict[str, Any]]) -> None:
    plan = _plan(lite, statements("?{n}")["tail"], filled[1])
    assert sorted(re.findall(r"SEARCH events USING (?:COVERING )?INDEX (\w+)", plan)) == [
        "events_by_seq",
        "events_turns",
    ]


def test_sqlite_reads_the_postings_of_a_word_in_their_order(
    lite: apsw.Connection, filled: tuple[Path, dict[str, Any]]
) -> None:
    plan = _plan(lite, statements("?{n}")["recall_rows"], filled[1])
    assert re.findall(r"SEARCH (\w) USING ([A-Z ]+)", plan) == [
        ("w", "PRIMARY KEY "),
        ("b", "INTEGER PRIMARY KEY "),
        ("r", "INTEGER PRIMARY KEY "),
    ]


@pytest.mark.parametrize(("name", "columns"), TOTALS.items())
def test_sqlite_finds_what_totals_add_up(
    name: str, columns: tuple[str, ...], lite: apsw.Connection, filled: tuple[Path, dict[str, Any]]
) -> None:
    plan = _plan(lite, statements("?{n}")[name], filled[1])
    found = re.search(r"SEARCH model_calls USING (?:INDEX|PRIMARY KEY) ?\w* ?\((.*)\)", plan)
    assert found, plan
    assert tuple(dict.fromkeys(re.findall(r"(\w+)[=<>]", found[1]))) == columns, plan


@pytest.mark.parametrize("name", ["children_left", "leases_of_turns"])
def test_sqlite_finds_what_was_left_by_its_leases(
    name: str, lite: apsw.Connection, filled: tuple[Path, dict[str, Any]]
) -> None:
    plan = _plan(lite, statements("?{n}")[name], filled[1])
    assert re.findall(r"SCAN (\w+)", plan) == ["l"], plan


@pytest.mark.parametrize("name", ABOUT_ONE)
def test_sqlite_neither_scans_events_nor_sorts(
    name: str, lite: apsw.Connection, filled: tuple[Path, dict[str, Any]]
) -> None:
    plan = _plan(lite, statements("?{n}")[name], filled[1])
    # By the query itself, of a few rows.
    made = {"CONSTANT", "ancestry", "j", *re.findall(r"(?:CO-ROUTINE|MATERIALIZE) (\w+)", plan)}
    assert set(re.findall(r"SCAN (\w+)", plan)) <= made, plan
    if name != "ancestry":  # a handful of branches, sorted by depth
        assert "TEMP B-TREE" not in re.sub(r"USE TEMP B-TREE FOR count\(DISTINCT\)", "", plan), plan


# -- PostgreSQL --------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def big(postgres: Server) -> tuple[str, dict[str, Any]]:
    """Some twenty thousand events in a few conversations, with the planner informed."""
    address = postgres.create_database("queries")
    return address, _filled(address, conversations=5, turns=2_000)


@pytest.mark.parametrize("name", NAMES)
async def test_postgres_understands(name: str, big: tuple[str, dict[str, Any]]) -> None:
    async with walled(big[0]) as connection:
        await connection.prepare(statements("${n}")[name].sql)


async def _explain(address: str, name: str, values: dict[str, Any], mode: str) -> str:
    """The plan behind the wall between tenants, whose policies are part of it."""
    statement = statements("${n}")[name]
    async with walled(address) as connection:
        await connection.execute(f"SET plan_cache_mode = {mode}")
        await connection.execute(f"PREPARE asked AS {statement.sql}")
        given = ", ".join(_literal(values[name]) for name in statement.names)
        rows = await connection.fetch(f"EXPLAIN EXECUTE asked({given})" if given else "EXPLAIN EXECUTE asked")
        await connection.execute("DEALLOCATE asked; RESET plan_cache_mode")
        return "\n".join(row[0] for row in rows)


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"'\\x{value.hex()}'"
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"


# The driver prepares each statement once: after five uses the server may settle on one plan for all values.
MODES = ["force_custom_plan", "force_generic_plan"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("name", "index"), INTENDED.items())
async def test_postgres_uses_the_intended_index_without_sorting(
    name: str, index: str, mode: str, big: tuple[str, dict[str, Any]]
) -> None:
    plan = await _explain(big[0], name, big[1], mode)
    assert f"using {index} on events" in plan, plan
    assert "Seq Scan on events" not in plan, plan
    if name != "branch_heads":  # its few branches may be sorted
        assert "Sort" not in plan, plan


@pytest.mark.parametrize(("name", "columns"), TOTALS.items())
async def test_postgres_can_find_what_totals_add_up(
    name: str, columns: tuple[str, ...], big: tuple[str, dict[str, Any]]
) -> None:
    """Whether it does depends on how many there are: a short table is read as fast without an index."""
    plan = await _explain(big[0], name, big[1], "force_generic_plan; SET enable_seqscan = off")
    condition = re.search(r"Index Cond: (.*)", plan)
    assert condition, plan
    assert tuple(dict.fromkeys(re.findall(r"\(\"?(\w+)\"? (?:=|>=|<)", condition[1]))) == columns, plan


@pytest.fixture(scope="session")
def busy(postgres: Server) -> tuple[str, dict[str, Any]]:
    """Conversations side by side, with few turns of many events: turns are rarer than a planner knows."""
    address = postgres.create_database("busy")

    async def work() -> dict[str, Any]:
        async with Everthread.open(address) as et:
            talks = [await et.begin(user="ana") for _ in range(6)]
            tools: list[Event] = [tool_call("look"), tool_result("nothing " * 20, name="look")] * 60
            notes: list[Event] = [Pin(turn=1), BriefUpdated(text="Nothing.", covers=1)] * 10
            for _ in range(40):
                for talk in talks:
                    await talk.append(user("Look."), *tools, assistant("Nothing."), *notes)
        async with asyncpg.create_pool(address, min_size=0) as pool:
            await pool.execute("VACUUM ANALYZE")
        return _values(talks[0])

    with ThreadPoolExecutor(max_workers=1) as thread:
        return address, thread.submit(asyncio.run, work()).result()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("name", "index"), INTENDED.items())
async def test_postgres_uses_the_intended_index_where_turns_are_long_as_well(
    name: str, index: str, mode: str, busy: tuple[str, dict[str, Any]]
) -> None:
    plan = await _explain(busy[0], name, busy[1], mode)
    assert f"using {index} on events" in plan, plan
    if name != "branch_heads":
        assert "Sort" not in plan, plan


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("filling", ["big", "busy"])
async def test_postgres_reads_one_marker_of_each_kind_for_a_context(
    filling: str, mode: str, request: pytest.FixtureRequest
) -> None:
    address, values = request.getfixturevalue(filling)
    plan = await _explain(address, "sight", values, mode)
    used = re.findall(r"using (\w+) on events", plan)
    assert used.count("events_markers") == 7, plan
    assert plan.count("Limit") == 9, plan  # and the newest event, and the newest version of the notes
    assert set(used) == {"events_markers", "events_by_seq"}, plan
    assert re.findall(r"Sort Key: (\w+)", plan) in ([], ["documents"]), plan  # of which there are none, so it may


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("filling", ["big", "busy"])
async def test_postgres_finds_all_of_a_window_by_indexes(
    filling: str, mode: str, request: pytest.FixtureRequest
) -> None:
    address, values = request.getfixturevalue(filling)
    plan = await _explain(address, "window_ahead", values, mode)
    used = re.findall(r"using (\w+) on events", plan)
    assert sorted(set(used)) == ["events_by_seq", "events_markers", "events_turns"], plan
    assert used.count("events_turns") == 4, plan
    assert "Sort" not in plan, plan


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("filling", ["big", "busy"])
async def test_postgres_finds_turns_by_their_importance(
    filling: str, mode: str, request: pytest.FixtureRequest
) -> None:
    address, values = request.getfixturevalue(filling)
    plan = await _explain(address, "turns_by_importance", values, mode)
    found = re.findall(r"using (\w+) on events (\w)", plan)
    assert found == [("events_importance", "s"), ("events_by_seq", "p"), ("events_by_seq", "f")], plan
    assert "Sort" not in plan, plan


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["recall_rows", "recall_known"])
async def test_postgres_finds_the_postings_of_a_word_by_their_key(
    name: str, mode: str, big: tuple[str, dict[str, Any]]
) -> None:
    """In their order, or sorted where they are few."""
    plan = await _explain(big[0], name, big[1], mode)
    assert "recall_words_pkey" in plan, plan
    assert re.search(r"Index Cond: \(\(?word = ", plan), plan
    assert "Seq Scan on recall_words" not in plan, plan


@pytest.mark.parametrize("mode", MODES)
async def test_postgres_finds_the_tail_by_two_indexes(mode: str, big: tuple[str, dict[str, Any]]) -> None:
    plan = await _explain(big[0], "tail", big[1], mode)
    assert sorted(re.findall(r"using (\w+) on events", plan)) == ["events_by_seq", "events_turns"], plan
    assert "Sort" not in plan, plan


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", [name for name in ABOUT_ONE if "events" in statements("?{n}")[name].sql])
async def test_postgres_never_reads_all_events(name: str, mode: str, big: tuple[str, dict[str, Any]]) -> None:
    plan = await _explain(big[0], name, big[1], mode)
    assert "Seq Scan on events" not in plan, plan

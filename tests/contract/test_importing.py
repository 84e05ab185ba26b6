"""Importing as a stream: twice is once, cut short is finished by doing it again, and a whole store comes back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from everthread import Everthread, Talk, assistant, file, image, user
from everthread.core.events import Redacted
from everthread.errors import AlreadyExists, BadFormat, Unavailable
from everthread.store.beside.keys import SealedKey
from everthread.store.conversations import Owner
from everthread.store.log import Log
from everthread.transfer import export_lines, lines, long_lists
from everthread.transfer.importing import Imported, import_path
from everthread.transfer.lines import Keeps
from everthread.transfer.whole_store import store_lines
from tests.contract.lives import PNG, TENANT, live, lives, picture
from tests.examples import examples

KEEPS = Keeps(users=True, tenants=True)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Portions of two events."""
    monkeypatch.setattr(lines, "EVENTS", 2)


@pytest.fixture
async def other(tmp_path: Path) -> Any:
    async with Everthread.open(f"sqlite:///{tmp_path}/other.db", settings={"memory": False}) as opened:
        yield opened


async def written(talk: Talk, path: Path) -> Path:
    path.write_bytes(b"".join([line async for line in export_lines(talk._log, talk.conversation)]))
    return path


async def taken(et: Everthread, path: Path, someone: str, **more: Any) -> Imported:
    return await import_path(et.log, path, Owner(TENANT, someone), agent="helper", **more)


async def grown(talk: Talk) -> Talk:
    await talk.append(user("one", image(PNG)), assistant("two"), user("three"), assistant("four"))
    side = await talk.fork(at=3, name="side")
    await side.append(user("five", image(PNG)), user("six", file(b"data", name="a.bin")), assistant("seven"))
    await talk.rename("Cake")
    return talk


async def test_the_same_file_twice_adds_nothing(
    talk: Talk, other: Everthread, tmp_path: Path, someone: str, small: None
) -> None:
    path = await written(await grown(talk), tmp_path / "talk.jsonl")
    first, again = await taken(other, path, someone), await taken(other, path, someone)
    assert (first.added, first.events, first.already) == (1, 8, 0)
    assert (again.added, again.events, again.already) == (0, 0, 1)
    assert await picture(other.log, talk.id, someone) == await picture(talk._log, talk.id, someone)


async def test_a_later_export_adds_what_has_come_since(talk: Talk, other: Everthread, tmp_path: Path) -> None:
    someone = talk.conversation.user
    path = await written(await grown(talk), tmp_path / "talk.jsonl")
    await taken(other, path, someone)
    await talk.append(user("later"))
    await talk.rename("Torte")
    done = await taken(other, await written(talk, path), someone)
    assert (done.added, done.events) == (1, 1)
    assert await picture(other.log, talk.id, someone) == await picture(talk._log, talk.id, someone)


async def test_what_went_another_way_here_is_refused_before_anything_is_written(
    talk: Talk, other: Everthread, tmp_path: Path, someone: str
) -> None:
    await talk.append(user("one"))
    path = await written(talk, tmp_path / "talk.jsonl")
    await taken(other, path, someone)
    await (await other.conversation(user=someone, id=talk.id)).append(user("here"))
    await talk.append(user("there"))
    new = await (await talk.fork(at=1)).append(user("more"))
    assert new
    first = {"everthread": 1, "conversation": {"id": "01M7F802XEDAJFW68M8GVJDM83", "agent": "helper"}}
    await written(talk, path)
    path.write_text(json.dumps(first) + "\n" + path.read_text())
    with pytest.raises(AlreadyExists):
        await taken(other, path, someone)
    assert [one.id for one in await other.conversations(user=someone)] == [talk.id]


async def test_what_was_redacted_here_does_not_come_back(
    talk: Talk, other: Everthread, tmp_path: Path, someone: str
) -> None:
    await talk.append(user("plum", image(PNG)), assistant("pear"))
    path = await written(talk, tmp_path / "talk.jsonl")
    await taken(other, path, someone)
    there = await other.conversation(user=someone, id=talk.id)
    await there.redact(1)
    assert (await taken(other, path, someone)).events == 0
    assert isinstance((await there.after())[0].event, Redacted)
    assert await other.log.blobs(await other.log.line(there.conversation)) == []
    assert (await other.log.check(TENANT, talk.id))[1] == []


class Fails:
    """Makes the nth write of an import fail, as it does when a process is killed: what was written stays."""

    def __init__(self, log: Log, after: int) -> None:
        self.left, self._write = after, log.imports._engine.write

    async def __call__(self, *arguments: Any, **more: Any) -> Any:
        if self.left == 0:
            raise Unavailable("the store", "the process is killed here")
        self.left -= 1
        return await self._write(*arguments, **more)


async def cut_short(other: Everthread, run: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> int:
    """Run an import anew for each of its writes, killed there, until it gets through. How often it was killed."""
    for after in range(100):
        with monkeypatch.context() as patch:
            patch.setattr(other.log.imports._engine, "write", Fails(other.log, after))
            try:
                await run()
            except Unavailable:
                continue
        return after
    raise AssertionError("it never gets through")


async def test_killed_at_every_write_it_is_finished_by_the_next(
    talk: Talk, address: str, tmp_path: Path, someone: str, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time it goes on where it was killed: one write more each time, and none twice."""
    path = await written(await grown(talk), tmp_path / "talk.jsonl")
    async with Everthread.open(address, settings={"memory": False}) as et:
        owner = Owner("elsewhere", someone)
        killed = await cut_short(et, lambda: import_path(et.log, path, owner, agent="helper"), monkeypatch)
        assert killed >= 4
        there, here = [await picture(et.log, talk.id, someone, tenant) for tenant in ("elsewhere", TENANT)]
        there["conversation"] = here["conversation"]
        assert there == here


# -- histories of other programs -----------------------------------------------------------------------------


async def test_a_history_of_another_program_is_known_again(et: Everthread, tmp_path: Path, someone: str) -> None:
    path = tmp_path / "list.jsonl"
    said = {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]}
    path.write_text(f"{json.dumps(said)}\n{json.dumps({**said, 'id': 'b'})}\n{json.dumps(said)}\n")
    first, again = await taken(et, path, someone), await taken(et, path, someone)
    assert (first.added, first.events) == (3, 6), "one that is there twice is two"
    assert (again.added, again.events, again.already) == (0, 0, 3)
    assert (await et.conversations(user=someone))[0].id == first.conversations[-1]
    elsewhere = await taken(et, path, f"{someone}-other")
    assert elsewhere.added == 3, "what one user has imported is not another's"


async def test_what_was_erased_can_be_imported_again_from_elsewhere(
    et: Everthread, tmp_path: Path, someone: str
) -> None:
    path = tmp_path / "list.json"
    path.write_text(json.dumps([{"role": "user", "content": "Hi"}]))
    (id,) = (await taken(et, path, someone)).conversations
    await (await et.conversation(user=someone, id=id)).erase()
    assert (await taken(et, path, someone)).added == 1


MESSAGES = [
    {"role": "system", "content": "Be kind."},
    *(
        message
        for n in range(12)
        for message in (
            {"role": "user", "content": f"Question {n}"},
            {"role": "assistant", "content": None, "tool_calls": [
                {"id": f"c{n}", "type": "function", "function": {"name": "look", "arguments": "{}"}}
            ]},
            {"role": "tool", "tool_call_id": f"c{n}", "content": "found"},
            {"role": "assistant", "content": f"Answer {n}"},
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize("shape", ["list", "lines"])
async def test_a_list_too_long_for_memory_is_the_same_conversation(
    et: Everthread, tmp_path: Path, someone: str, shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / ("list.json" if shape == "list" else "list.jsonl")
    path.write_text(json.dumps(MESSAGES) if shape == "list" else "\n".join(map(json.dumps, MESSAGES)))
    (whole,) = (await taken(et, path, someone)).conversations
    monkeypatch.setattr(long_lists, "SHORT", 10)
    monkeypatch.setattr(long_lists, "PART", 5)
    other = f"{someone}-long"
    killed = await cut_short(et, lambda: taken(et, path, other), monkeypatch)
    assert killed > 5
    (long,) = await et.conversations(user=other)
    talks = await et.conversation(user=someone, id=whole), et.talk(long)
    one, two = [[event.event for event in await talk.after(limit=1_000)] for talk in talks]
    assert one == two
    assert (await taken(et, path, other)).events == 0


# -- whole stores --------------------------------------------------------------------------------------------


async def whole(et: Everthread, path: Path, **more: Any) -> Path:
    path.write_bytes(b"".join([line async for line in store_lines(et.log, **more)]))
    return path


async def test_a_whole_store_comes_back_identical(fresh_address: str, tmp_path: Path, other: Everthread) -> None:
    """Conversations of two tenants, MEMORY.md, agents, schedules, accounts, receipts, tombstones."""
    async with Everthread.open(fresh_address, settings={"memory": False}) as et:
        talk = await grown(await et.begin(user="ana", agent="helper"))
        await talk.append(user("keyed"), key="once")
        await talk.write_notes("walnuts")
        await talk.write_notes("walnuts, pears")
        await talk.schedule("Tea?", at=datetime(2099, 1, 1, tzinfo=UTC))
        await et.log.documents.put(Owner("acme", ""), "agent/clerk", "an agent")
        acme = await et.begin(user="bob", tenant="acme")
        await acme.append(user("hello"))
        gone = await et.begin(user="ana")
        await gone.erase()
        await et.log.accounts.first(Owner("acme", "bob"))
        path = await whole(et, tmp_path / "store.jsonl")
        done = await taken(other, path, "nobody", keeps=KEEPS)
        assert (done.added, done.records) == (2, 3)
        assert (await whole(other, tmp_path / "again.jsonl")).read_bytes() == path.read_bytes()
        assert (await taken(other, path, "nobody", keeps=KEEPS)).records == 0
        for log in (et.log, other.log):
            kept = await log.kept(await log.line(talk.conversation), "once")
            assert [one.text for one in kept] == ["keyed"]
        with pytest.raises(AlreadyExists, match="was erased"):
            await taken(other, await _line_of(gone, tmp_path / "gone.jsonl"), "ana")


async def _line_of(talk: Talk, path: Path) -> Path:
    about = {"id": talk.id, "user": "ana", "agent": talk.conversation.agent}
    path.write_text(json.dumps({"everthread": 1, "conversation": about}))
    return path


async def test_secrets_leave_only_when_asked_for_by_name(tmp_path: Path) -> None:
    async with Everthread.open(f"sqlite:///{tmp_path}/a.db", settings={"memory": False}) as et:
        await et.log.accounts.first(Owner("acme", "bob"))
        row = {"tenant": "acme", "user": "eve", "role": "user", "password": "HASH", "made": 1, "disabled": None}
        await et.log.imports.add_record("account", row)
        sealed = SealedKey(tenant="acme", provider="openai", key_id="k", nonce=b"n", sealed=b"SEALED", made=1)
        await et.log.accounts.put_sealed(sealed, None)
        plain = (await whole(et, tmp_path / "plain.jsonl")).read_text()
        assert "HASH" not in plain
        assert "provider_key" not in plain
        assert '"eve"' in plain
        secret = await whole(et, tmp_path / "secret.jsonl", secrets=True)
        assert "HASH" in secret.read_text()
        async with Everthread.open(f"sqlite:///{tmp_path}/b.db", settings={"memory": False}) as there:
            await taken(there, secret, "x", keeps=KEEPS)
            assert (await there.log.accounts.sealed("acme"))[0].sealed == b"SEALED"


@pytest.mark.parametrize(
    "record",
    [
        {"account": {"user": "a", "role": "user", "made": "x", "disabled": None}},
        {"account": {"user": "a"}},
        {"calibration": {"model": "m", "step": True, "count": 1}},
        {"schedule": 7},
    ],
)
async def test_a_record_that_is_none_imports_nothing(tmp_path: Path, other: Everthread, record: Any) -> None:
    path = tmp_path / "bad.jsonl"
    first = {"everthread": 1, "conversation": {"id": "01M7F802XEDAJFW68M8GVJDM83", "agent": "helper"}}
    path.write_text(json.dumps(first) + "\n" + json.dumps({"everthread": 1, "tenant": "t", **record}) + "\n")
    with pytest.raises(BadFormat, match="line 2"):
        await taken(other, path, "ana", keeps=KEEPS)
    assert await other.conversations(user="ana") == []


async def test_records_of_a_whole_store_are_for_operators(tmp_path: Path, other: Everthread) -> None:
    """Whoever may import conversations could else make an account."""
    path = tmp_path / "account.jsonl"
    account = {"user": "eve", "role": "administrator", "made": 1, "disabled": None}
    path.write_text(json.dumps({"everthread": 1, "tenant": TENANT, "account": account}))
    with pytest.raises(BadFormat, match="operators"):
        await taken(other, path, "ana", keeps=Keeps(users=True))
    assert await other.log.accounts.of(TENANT) == []


@settings(max_examples=examples(15), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lives)
def test_any_conversation_comes_back_from_an_export(
    tmp_path: Path, engine: str, request: pytest.FixtureRequest, steps: list[tuple[str, Any]]
) -> None:
    asyncio.run(_carried(tmp_path, request.getfixturevalue("address"), steps))


async def _carried(tmp_path: Path, address: str, steps: list[tuple[str, Any]]) -> None:
    async with (
        Everthread.open(address, settings={"memory": False}) as et,
        Everthread.open(f"sqlite:///{tmp_path}/into.db", settings={"memory": False}) as other,
    ):
        talk = await live(et, "ana", steps)
        path = await written(talk, tmp_path / "any.jsonl")
        await taken(other, path, "ana")
        assert await picture(other.log, talk.id, "ana") == await picture(et.log, talk.id, "ana")

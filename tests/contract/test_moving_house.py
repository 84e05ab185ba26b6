"""`export --all`, then `import` into an empty store: everything of a user is there, and is still that user's."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from everthread import Everthread, assistant, user
from everthread.cli import main
from everthread.store.conversations import Owner

Do = Callable[..., Result]


def within(address: str, work: Callable[[Everthread], Awaitable[Any]]) -> Any:
    async def opened() -> Any:
        async with Everthread.open(address) as et:
            return await work(et)

    return asyncio.run(opened())


@pytest.fixture
def do(monkeypatch: pytest.MonkeyPatch) -> Do:
    for name in ("EVERTHREAD_USER", "EVERTHREAD_STORE"):
        monkeypatch.delenv(name, raising=False)
    return lambda *arguments: CliRunner().invoke(main, arguments, catch_exceptions=False)


@pytest.fixture
def moved(address: str, someone: str, do: Do, tmp_path: Path) -> Path:
    """The export of a user with two conversations, with two agents, each of which keeps notes."""

    async def live(et: Everthread) -> None:
        for agent in ("helper", "clerk"):
            talk = await et.begin(user=someone, agent=agent)
            await talk.append(user("Hello."), assistant("Hello."))
            await talk.write_notes(f"{agent}: first")
            await talk.write_notes(f"{agent}: walnuts \udc80 and \0 almonds")

    within(address, live)
    out = tmp_path / "all.jsonl"
    assert do("export", "--all", "-o", str(out), "--store", address, "--user", someone).exit_code == 0
    return out


async def kept(et: Everthread, someone: str) -> dict[str, Any]:
    owner = Owner("default", someone)
    return {one.name: await et.log.documents.versions(owner, one.name) for one in await et.log.documents.all(owner)}


def test_notes_and_whose_it_is_come_along(address: str, someone: str, do: Do, moved: Path, tmp_path: Path) -> None:
    new = f"sqlite:///{tmp_path}/new.db"
    done = do("import", str(moved), "--store", new)
    assert done.exit_code == 0
    assert repr(someone) in done.output
    before, after = (within(store, lambda et: kept(et, someone)) for store in (address, new))
    assert sorted(after) == ["memory/clerk", "memory/helper"]
    assert after == before
    assert len(within(new, lambda et: et.conversations(user=someone))) == 2
    assert within(new, lambda et: et.conversations(user="me")) == []
    assert do("doctor", "--store", new).exit_code == 0


def test_somebody_else_can_have_it(someone: str, do: Do, moved: Path, tmp_path: Path) -> None:
    new = f"sqlite:///{tmp_path}/new.db"
    done = do("import", str(moved), "--store", new, "--user", "bea", "--json")
    report = json.loads(done.output)
    assert (report["documents"], report["users"]) == (2, ["bea"])
    assert within(new, lambda et: et.conversations(user=someone)) == []
    assert len(within(new, lambda et: kept(et, "bea"))) == 2


def test_notes_that_say_something_else_are_not_overwritten(do: Do, moved: Path, tmp_path: Path, someone: str) -> None:
    """All of it, or nothing."""
    new = f"sqlite:///{tmp_path}/new.db"

    async def write(et: Everthread) -> None:
        await et.log.documents.put(Owner("default", someone), "memory/helper", "something else")

    within(new, write)
    failed = do("import", str(moved), "--store", new)
    assert failed.exit_code == 1
    assert "memory/helper" in failed.output
    assert within(new, lambda et: et.conversations(user=someone)) == []
    assert list(within(new, lambda et: kept(et, someone))) == ["memory/helper"]


def test_one_conversation_takes_no_notes_along(address: str, someone: str, do: Do, moved: Path, tmp_path: Path) -> None:
    out = tmp_path / "one.jsonl"
    assert do("export", "-o", str(out), "--store", address, "--user", someone).exit_code == 0
    assert "document" not in out.read_text()


@pytest.mark.parametrize(
    "line",
    [
        '{"everthread": 1, "document": {"name": "memory/x", "version": 0, "body": ""}}',
        '{"everthread": 1, "document": {"name": "memory/x", "version": 1, "body": 7}}',
        '{"everthread": 1, "document": {"name": "memory/x", "version": 1}}',
        '{"everthread": 2, "document": {"name": "memory/x", "version": 1, "body": ""}}',
        '{"everthread": 1, "document": {"user": 7, "name": "memory/x", "version": 1, "body": ""}}',
    ],
)
def test_a_document_that_is_none_is_named_by_its_line(do: Do, tmp_path: Path, line: str) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text(line + "\n")
    failed = do("import", str(bad), "--store", f"sqlite:///{tmp_path}/new.db")
    assert failed.exit_code == 1
    assert "line 1" in failed.output

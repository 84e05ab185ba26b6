"""The verbs that move conversations out of a store and into one; through the client as well (tests/client)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from everthread import Everthread, assistant, user
from everthread.errors import BadFormat, BadValue
from everthread.transfer.importing import Imported

MESSAGES = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hello!"}]


@pytest.fixture
async def filled(et: Everthread, someone: str) -> Any:
    """A conversation with a fork, a file and something that is not ASCII."""
    talk = await et.begin(user=someone, agent="helper", metadata={"ward": 7})
    await talk.append(user("My son is allergic to walnuts. \N{CHESTNUT}"), assistant("Noted."))
    await (await talk.fork(name="aside")).append(user("And to pistachios?"))
    await talk.upload(b"eggs, flour", name="recipe.txt", media_type="text/plain")
    return talk


async def written(lines: Any, path: Path) -> list[dict[str, Any]]:
    with path.open("wb") as file:
        async for line in lines:
            file.write(line)
    return [json.loads(line) for line in path.read_bytes().splitlines()]


@pytest.fixture
async def elsewhere(fresh_address: str) -> AsyncIterator[Everthread]:
    """Another store: the conversations are not there yet."""
    async with Everthread.open(fresh_address) as opened:
        yield opened


async def test_a_conversation_comes_out_line_by_line_and_goes_in_elsewhere_for_another_user(
    elsewhere: Everthread, filled: Any, someone: str, tmp_path: Path
) -> None:
    path = tmp_path / "talk.jsonl"
    lines = [line async for line in filled.export()]
    assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in lines)
    head = (await written(filled.export(), path))[0]
    assert (head["everthread"], head["conversation"]["id"]) == (1, filled.id)
    other = f"{someone}-other"
    gone = await elsewhere.import_file(path, user=other, agent="helper")
    assert isinstance(gone, Imported)
    assert (len(gone.conversations), gone.documents, gone.users) == (1, 0, [other])
    there = await elsewhere.conversation(user=other, id=gone.conversations[0])
    assert [one.text for one in await there.before(messages=True)] == [
        one.text for one in await filled.before(messages=True)
    ]
    assert [one.branch.name for one in await there.branches()] == ["main", "aside"]
    assert there.conversation.metadata == {"ward": 7}
    assert gone.events == (await elsewhere.totals(user=other)).events


async def test_all_of_a_user_comes_out_with_the_notes_and_nothing_of_others(
    et: Everthread, elsewhere: Everthread, filled: Any, someone: str, tmp_path: Path
) -> None:
    await filled.write_notes("Likes cake.")
    await (await et.begin(user=someone)).append(user("Another one."))
    await (await et.begin(user=f"{someone}-other")).append(user("Not mine."))
    path = tmp_path / "all.jsonl"
    out = await written(et.export(user=someone), path)
    assert sum("conversation" in one and "everthread" in one for one in out) == 2
    assert "Not mine." not in path.read_text("utf-8")
    told: list[tuple[str, int, int]] = []
    gone = await elsewhere.import_file(str(path), user=someone, progress=lambda *one: told.append(one))
    assert (len(gone.conversations), gone.documents) == (2, 1)
    assert told[-1][1:] == (path.stat().st_size,) * 2
    there = await elsewhere.conversation(user=someone, agent="helper")
    assert there.id in gone.conversations
    assert (await there.notes()).startswith("Likes cake.")


async def test_a_history_of_another_program_is_imported_with_its_agent(
    et: Everthread, someone: str, tmp_path: Path
) -> None:
    path = tmp_path / "history.json"
    path.write_text(json.dumps(MESSAGES))
    gone = await et.import_file(path, user=someone, agent="cook", format="openai")
    [listed] = await et.conversations(user=someone, agent="cook")
    assert (gone.conversations, gone.events) == ([listed.id], 2)


async def test_what_cannot_be_imported_is_refused_and_nothing_is_written(
    et: Everthread, someone: str, tmp_path: Path
) -> None:
    path = tmp_path / "history.json"
    path.write_text('{"no": "history"}')
    with pytest.raises(BadFormat, match="neither an Everthread export"):
        await et.import_file(path, user=someone)
    with pytest.raises(BadFormat, match="No such file"):
        await et.import_file(tmp_path / "gone.json", user=someone)
    with pytest.raises(BadValue, match="'everthread', 'openai'"):
        await et.import_file(path, user=someone, format="word")  # type: ignore[arg-type]
    assert await et.conversations(user=someone) == []

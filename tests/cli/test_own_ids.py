"""On the command line an application's own id of a conversation is as good as Everthread's."""

from __future__ import annotations

import asyncio
import json

import pytest
from click.testing import CliRunner, Result

from everthread import Everthread, user
from everthread.cli import main


def do(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, catch_exceptions=False)


@pytest.fixture
def ids(address: str, someone: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Everthread's own ids of thread-17 and thread-18."""
    monkeypatch.setenv("EVERTHREAD_STORE", address)
    monkeypatch.setenv("EVERTHREAD_USER", someone)
    monkeypatch.setenv("COLUMNS", "200")

    async def fill() -> list[str]:
        async with Everthread.open(address) as et:
            talks = [await et.begin(user=someone, id=f"thread-{n}", metadata={"n": n}) for n in (17, 18)]
            for talk in reversed(talks):
                await talk.append(user(f"This is {talk.conversation.alias}."))
            return [talk.id for talk in talks]

    return asyncio.run(fill())


def test_a_conversation_is_shown_by_it(ids: list[str]) -> None:
    assert "This is thread-17." in do("show", "thread-17").output
    assert "This is thread-18." in do("show", "thread-18").output


def test_one_that_is_unknown_is_not_begun(ids: list[str]) -> None:
    done = do("show", "thread-19")
    assert done.exit_code == 1
    assert "There is no conversation 'thread-19'" in done.output
    assert len(json.loads(do("conversations", "--json").output)) == 2


def test_the_list_has_it_and_goes_on_where_it_ended(ids: list[str]) -> None:
    found = json.loads(do("conversations", "--json").output)
    assert [(one["id"], one["alias"], one["metadata"], one["messages"]) for one in found] == [
        (ids[0], "thread-17", {"n": 17}, 1),
        (ids[1], "thread-18", {"n": 18}, 1),
    ]
    page = do("conversations", "--limit", "1").output
    assert "thread-17" in page
    cursor = page.split("--before ")[1].strip()
    (rest,) = json.loads(do("conversations", "--json", "--before", cursor).output)
    assert rest["alias"] == "thread-18"

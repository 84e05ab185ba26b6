"""A disk without room: the append that does not fit fails, and nothing that was acknowledged is lost."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from everthread import Everthread, file, user
from everthread.errors import Full
from tests.failures import children
from tests.failures.aftermath import clear, intact, sqlite_engine, texts


async def test_what_does_not_fit_is_refused_and_what_was_said_before_stays(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/talk.db"
    async with Everthread.open(address) as et:
        talk = await et.begin(user="ana")
        writer = sqlite_engine(et)._writer
        await talk.append(user("before"))
        pages = writer.pragma("page_count")
        writer.pragma("max_page_count", pages + 2)
        with pytest.raises(Full) as refused:
            await talk.append(user("walnut " * 100_000))
        assert clear(refused.value, f"{tmp_path}/talk.db", "free some space", "nothing was lost")
        assert await texts(talk) == ["before"]
        await talk.append(user("short"))  # what fits is taken
        writer.pragma("max_page_count", 1_000_000)
        await talk.append(user("room again"))
    assert await intact(address, talk) == ["before", "short", "room again"]


async def test_of_appends_that_are_committed_together_only_those_that_do_not_fit_fail(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/talk.db"
    async with Everthread.open(address) as et:
        talks = [await et.begin(user="ana") for _ in range(6)]
        writer = sqlite_engine(et)._writer
        writer.pragma("max_page_count", writer.pragma("page_count") + 8)
        words = ["small"] * 5 + ["walnut " * 30_000]
        results = await asyncio.gather(
            *(talk.append(user(text)) for talk, text in zip(talks, words, strict=True)), return_exceptions=True
        )
        assert [isinstance(result, Full) for result in results] == [False] * 5 + [True]
        writer.pragma("max_page_count", 1_000_000)
    for talk in talks[:5]:
        assert await intact(address, talk) == ["small"]
    assert await intact(address, talks[5]) == []


@pytest.mark.parametrize("megabytes", [1, 3])
async def test_when_the_system_refuses_to_write_everything_acknowledged_is_there(
    megabytes: int, tmp_path: Path
) -> None:
    """One megabyte stops the write-ahead log; with three, it is emptied into the file once before."""
    address = f"sqlite:///{tmp_path}/talk.db"
    async with Everthread.open(address) as et:
        talk = await et.begin(user="ana")
    report = children.run("without_room", address, talk.id, megabytes * 1_000_000)
    assert len(report["acknowledged"]) > 20
    for name, sentence, ours in report["errors"]:
        assert (name, ours) == ("Full", True), sentence
        assert f"{tmp_path}/talk.db" in sentence
        assert "free some space" in sentence
    assert report["read"] == report["acknowledged"]
    assert await intact(address, talk) == report["acknowledged"]


async def test_an_image_that_does_not_fit_leaves_neither_itself_nor_its_message(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/talk.db"
    async with Everthread.open(address) as et:
        talk = await et.begin(user="ana")
        writer = sqlite_engine(et)._writer
        writer.pragma("max_page_count", writer.pragma("page_count") + 4)
        with pytest.raises(Full):
            await talk.append(user("look", file(bytes(1_000_000))), key="once")
        writer.pragma("max_page_count", 1_000_000)
        assert await et.log.blobs(await talk.line()) == []
        (event,) = await talk.append(user("look", file(bytes(1_000_000))), key="once")
        assert event.seq == 1
    assert await intact(address, talk) == ["look"]

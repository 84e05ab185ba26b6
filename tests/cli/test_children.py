"""`everthread children`: listed, shown, stopped."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from everthread import Everthread
from everthread.cli import main
from everthread.testing.scripted import script


@pytest.fixture(autouse=True)
def _place(address: str, someone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVERTHREAD_STORE", address)
    monkeypatch.setenv("EVERTHREAD_USER", someone)
    monkeypatch.setenv("EVERTHREAD_MEMORY", "false")


def do(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, catch_exceptions=False)


def delegated(address: str, someone: str) -> None:
    async def work() -> None:
        settings: Any = {"model": f"scripted:{someone}"}
        async with Everthread.open(address, settings=settings, keys={}) as et:
            talk = await et.begin(user=someone)
            for task in ("Count the apples.", "Count the pears."):
                await (await talk.delegate(task))

    script(someone, "Seven apples.", "Five pears.")
    asyncio.run(work())


def test_they_are_listed(address: str, someone: str) -> None:
    delegated(address, someone)
    listed = do("children")
    assert listed.exit_code == 0
    assert [line.split()[:2] for line in listed.output.splitlines()[1:]] == [["child-3", "done"], ["child-2", "done"]]
    (pears, apples) = json.loads(do("children", "--json").output)
    assert (pears["task"], apples["result"], apples["calls"]) == ("Count the pears.", "Seven apples.", 1)


def test_one_is_shown(address: str, someone: str) -> None:
    delegated(address, someone)
    shown = do("children", "--show", "child-2").output
    assert "child-2 · done · Count the apples." in shown
    assert "1 model call" in shown
    assert "Seven apples." in shown
    assert json.loads(do("children", "--show", "2", "--json").output)["name"] == "child-2"


def test_the_parents_branch_shows_them_in_words(address: str, someone: str) -> None:
    delegated(address, someone)
    shown = " ".join(do("show").output.split())
    assert "Count the apples. (delegated on branch 2)" in shown
    assert "“Count the apples.”, delegated on branch 2, is done." in shown


def test_one_is_stopped(address: str, someone: str) -> None:
    delegated(address, someone)
    assert "It is not running." in do("children", "--stop", "child-2").output
    assert json.loads(do("children", "--stop", "2", "--json").output)["stopped"] is False


def test_where_there_are_none_it_says_so(address: str, someone: str) -> None:
    async def work() -> None:
        async with Everthread.open(address) as et:
            await et.begin(user=someone)

    asyncio.run(work())
    assert do("children").output == "No task was delegated here.\n"
    wrong = do("children", "--show", "main")
    assert wrong.exit_code == 1
    assert "There is no child 'main'" in wrong.stderr

"""A turn that runs in another process: its words are shown as they come, and it is ended from here."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from click.testing import CliRunner, Result

from everthread import Everthread, user
from everthread.cli import main
from everthread.core.logged import Logged
from tests.cli.terminal import CTRL_C, Terminal
from tests.waiting import PATIENCE

SPEAKER = "from everthread.testing.scripted import script; from everthread.cli import main; import sys; "
SPEAKER += "script('slow', ' '.join(f'word{n}' for n in range(100_000)), pace=0.02); main(sys.argv[1:])"
STOPPED = "The turn was ended. What had come of the reply is kept."


@pytest.fixture(autouse=True)
def _place(address: str, someone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVERTHREAD_STORE", address)
    monkeypatch.setenv("EVERTHREAD_USER", someone)
    monkeypatch.setenv("EVERTHREAD_MEMORY", "false")


@contextmanager
def speaking() -> Iterator[subprocess.Popen[str]]:
    """A process in which a reply runs, of which some has come."""
    command = [sys.executable, "-c", SPEAKER, "ask", "Talk.", "--model", "scripted:slow"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            process.stdout.read(10)
            yield process
        finally:
            process.kill()


def do(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, catch_exceptions=False)


def events(address: str, someone: str) -> list[Logged]:
    async def read() -> list[Logged]:
        async with Everthread.open(address) as et:
            return await (await et.conversation(user=someone)).after(limit=100)

    return asyncio.run(read())


def test_without_an_id_it_is_about_the_conversation_that_the_list_has_first(address: str, someone: str) -> None:
    """In which something was said last, not the one that was begun last."""

    async def write() -> None:
        async with Everthread.open(address) as et:
            first = await et.begin(user=someone)
            await (await et.begin(user=someone)).append(user("Begun last."))
            await first.append(user("Said last."))

    asyncio.run(write())
    listed = [one["id"] for one in said("conversations")]
    assert said("stop")["conversation"] == listed[0]
    assert "Said last." in do("show").stdout


def said(*arguments: str) -> Any:
    return json.loads(do(*arguments, "--json").stdout)


def test_a_turn_is_ended_from_another_process(address: str, someone: str) -> None:
    with speaking() as speaker:
        stopped = do("stop")
        assert (stopped.exit_code, stopped.output.strip()) == (0, STOPPED)
        speaker.communicate(timeout=PATIENCE)
    kinds = [event.kind for event in events(address, someone)]
    assert kinds[:2] == ["user", "command"]
    assert kinds[-1] == "agent_killed"
    assert json.loads(do("stop", "--json").output) == {"conversation": _id(), "stopped": False}
    assert do("stop").output.strip() == "No turn is under way."


def _id() -> str:
    return str(json.loads(do("conversations", "--json").output)[0]["id"])


def test_following_shows_the_words_of_a_running_reply_as_they_come_and_each_once() -> None:
    with speaking():
        with Terminal("show", "--follow") as terminal:
            terminal.expect("word0")
            terminal.expect("word20")
            terminal.expect("word60")
            do("stop")
            terminal.expect("[broken off]")
            terminal.expect("agent_killed")
            terminal.press(CTRL_C)
            assert terminal.end() == 130
        assert terminal.shown.count("word20 ") == 1


def test_as_json_pieces_are_lines_beside_the_events() -> None:
    command = [sys.executable, "-c", "from everthread.cli import main; main()", "show", "--follow", "--json"]
    with speaking(), subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as following:
        try:
            assert following.stdout is not None
            said = ""
            for line in following.stdout:
                value = json.loads(line)
                said += value.get("text", "") if value.get("kind") == "text" else ""
                if "word20 " in said:
                    break
            assert said.startswith("word0 word1 ")
        finally:
            following.kill()

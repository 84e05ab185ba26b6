"""The built wheel, in an environment that has nothing but what it asks for."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.waiting import WHOLE

pytestmark = pytest.mark.wheel

ROOT = Path(__file__).parents[2]
Run = Callable[..., str]

TALK = """
import asyncio
from everthread import Everthread, assistant, user
from everthread.testing.scripted import script

async def main():
    script("baker", "No walnuts, then.")
    async with Everthread.open("sqlite:///talk.db", settings={"model": "scripted:baker"}) as et:
        talk = await et.conversation(user="ana")
        await talk.append(user("My son is allergic to walnuts."), assistant("Noted."))
        print(await talk.say("What may I put into the cake?"))
    async with Everthread.open("sqlite:///talk.db") as et:
        talk = await et.conversation(user="ana")
        context = await talk.context(model="openai:gpt-5")
        print(len(context.request["messages"]), (await talk.recall("allergic"))[0].text)

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs a program of the environment, outside of the repository; what it says."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    _done(*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", folder, ROOT, cwd=folder)
    _done(sys.executable, "-m", "venv", folder / "env", cwd=folder)
    (wheel,) = folder.glob("*.whl")
    _done(folder / "env/bin/python", "-m", "pip", "--disable-pip-version-check", "-q", "install", wheel, cwd=folder)
    return lambda program, *given: _done(folder / "env/bin" / program, *given, cwd=folder)


def _done(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=WHOLE)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_command_says_what_it_can_do(run: Run) -> None:
    said = run("everthread", "--help")
    assert [word for word in ("chat", "ask", "recall", "export") if word not in said] == []


def test_a_conversation_is_held_and_found_again(run: Run) -> None:
    assert run("python", "-c", TALK).splitlines() == ["No walnuts, then.", "4 My son is allergic to walnuts."]


def test_what_it_asks_for_is_there_and_goes_together(run: Run) -> None:
    assert "No broken requirements" in run("python", "-m", "pip", "check")

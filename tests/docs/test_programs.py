"""The programs in docs/examples: each runs by itself, with no key and no network, and type checkers accept all of them.

One that serves until it is stopped has a line `# run by tests/…` with the test that runs it instead.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import WHOLE

ROOT = Path(__file__).parents[2]
PROGRAMS = sorted((ROOT / "docs" / "examples").glob("*.py"))
KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY")
NOWHERE = "http://127.0.0.1:9"  # a proxy that answers nobody
WRONG = """
from everthread import Everthread, Talk
Everthread.open("sqlite:///talk.db", settings={"budgt": 1})
Everthread.open("sqlite:///talk.db", settings={"budget": "large"})
async def wrong(talk: Talk) -> None:
    await talk.configure(strategy="sliding")
    await talk.resume(modle="openai:gpt-5")
    async for delta in talk.say("Hello"):
        if delta.kind == "text":
            print(delta.seq)
"""


def checked(*command: str | Path, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if name not in KEYS}
    environ |= {"EVERTHREAD_SERVERS": "", "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    environ |= {"HTTP_PROXY": NOWHERE, "HTTPS_PROXY": NOWHERE, "NO_PROXY": "localhost,127.0.0.1"}
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=WHOLE)


def run_by(program: Path) -> str:
    """The test that runs it instead; empty where it runs by itself."""
    found = re.search(r"^# run by (\S+)$", program.read_text("utf-8"), re.MULTILINE)
    return found[1] if found else ""


@pytest.mark.parametrize("program", [one for one in PROGRAMS if not run_by(one)], ids=lambda one: one.stem)
def test_a_program_runs_with_no_key_and_no_network(program: Path, tmp_path: Path) -> None:
    done = checked(sys.executable, "-W", "error", program, folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip()


def test_a_program_that_serves_has_a_test_of_its_own() -> None:
    assert [one.name for one in PROGRAMS if run_by(one) and not (ROOT / run_by(one)).exists()] == []


def test_mypy_accepts_the_programs() -> None:
    done = checked(sys.executable, "-m", "mypy", "--strict", *PROGRAMS)
    assert done.returncode == 0, done.stdout


def test_pyright_accepts_the_programs() -> None:
    done = checked(sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable)
    assert done.returncode == 0, done.stdout


def test_what_is_wrong_is_told_by_both(tmp_path: Path) -> None:
    """A misspelt setting, a value of the wrong type or not allowed, a misspelt argument, another delta's field."""
    program = tmp_path / "wrong.py"
    program.write_text(WRONG.strip(), "utf-8")
    lines = {2, 3, 5, 6, 9}
    mypy = checked(sys.executable, "-m", "mypy", "--strict", program).stdout
    assert {int(line) for line in re.findall(r"wrong\.py:(\d+): error", mypy)} == lines
    pyright = checked(sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable, program).stdout
    assert {int(line) for line in re.findall(r"wrong\.py:(\d+):\d+ - error", pyright)} == lines

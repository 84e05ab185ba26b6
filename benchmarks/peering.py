"""The peers seen from outside: they are installed, started, and take turns with Everthread.

They live in an environment of their own, `.venv-peers`, made once by the interpreter that runs this, from pinned
requirements with hashes. Each runs `benchmarks/peers.py` in a process of its own for as long as it is measured.
What could not be measured is `Unanswered`, with the reason; it is never taken for a result.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.peers import PEERS, History, made_up_history

COMPARED = 10_000  # messages of the history that counts
ROUNDS, CALLS = 20, 10  # the peer once, then Everthread so many times
LONGEST = 5.0  # seconds of a peer's calls after which it is not asked again
PATIENCE, MINUTE = 300.0, 60.0  # seconds for storing and asking: with the history that counts, and with others
ROOT = Path(__file__).parents[1]
HOME = ROOT / ".venv-peers"
PINNED = ROOT / "requirements" / "peers.txt"


class Unanswered(Exception):
    """A peer could not be installed, failed or took too long."""


class Compared(NamedTuple):
    """Seconds; and how many messages the peer found."""

    ours: float
    theirs: float
    messages: int
    version: str


class Peers:
    """The peers in their environment, each in a process of its own for as long as it is measured."""

    def __init__(self, folder: Path, budget: int) -> None:
        self._folder, self._budget = folder, budget
        self._problem = _install_peers()
        self._given_up: set[str] = set()

    def history(self, messages: int) -> History:
        history = made_up_history(messages)
        self._file(messages).write_text(json.dumps(history), "utf-8")
        return history

    async def take_turns(self, name: str, messages: int, ask: Callable[[], Awaitable[Any]]) -> Compared:
        if self._problem:
            raise Unanswered(self._problem)
        if name in self._given_up and messages > COMPARED:
            raise Unanswered("not tried, because the shorter history took too long")
        limit = PATIENCE if messages == COMPARED and not PEERS[name].for_information else MINUTE
        with tempfile.TemporaryDirectory(dir=self._folder) as store:
            complaints = Path(store) / "stderr.txt"
            command = (_python(), str(ROOT / "benchmarks" / "peers.py"), name, str(self._file(messages)))
            with complaints.open("wb") as stderr:
                process = await asyncio.create_subprocess_exec(
                    *command, str(self._budget), store, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr
                )
            try:
                return await asyncio.wait_for(_in_turns_with(process, ask), limit)
            except TimeoutError:
                self._given_up.add(name)
                raise Unanswered(f"not done after {limit:.0f} s, storing included") from None
            except EOFError:
                raise Unanswered(f"failed: {_last_line(complaints.read_text('utf-8'))}") from None
            finally:
                if process.returncode is None:
                    process.kill()
                await process.wait()

    def _file(self, messages: int) -> Path:
        return self._folder / f"history-{messages}.json"


async def _in_turns_with(process: asyncio.subprocess.Process, ask: Callable[[], Awaitable[Any]]) -> Compared:
    assert process.stdin
    version = (await _hear(process))["version"]
    ours: list[float] = []
    theirs: list[float] = []
    found = 0
    while not theirs or (len(theirs) < ROUNDS and sum(theirs) < LONGEST):
        process.stdin.write(b"\n")
        answer = await _hear(process)
        theirs.append(answer["seconds"])
        found = answer["messages"]
        ours += await timed(ask, CALLS)
    # The first time they open connections and load vocabularies.
    return Compared(statistics.median(ours), statistics.median(theirs[1:] or theirs), found, version)


async def _hear(process: asyncio.subprocess.Process) -> dict[str, Any]:
    assert process.stdout
    line = await process.stdout.readline()
    if not line:
        raise EOFError
    answer: dict[str, Any] = json.loads(line)
    return answer


def _install_peers() -> str:
    """Once, with the same interpreter, pinned and with hashes; what went wrong, if something did."""
    ready, pinned = HOME / ".ready", PINNED.read_text("utf-8")
    if ready.exists() and ready.read_text("utf-8") == pinned:
        return ""
    print(f"  installing the peers into {HOME.name} …", file=sys.stderr, flush=True)
    pip = [_python(), "-m", "pip", "--disable-pip-version-check", "install", "-qq", "--retries", "2"]
    try:
        for command in (
            [sys.executable, "-m", "venv", "--clear", str(HOME)],
            [*pip, "--require-hashes", "-r", str(PINNED)],
        ):
            subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as problem:
        return f"not installed: {_last_line(getattr(problem, 'stderr', '')) or problem}"
    ready.write_text(pinned, "utf-8")
    return ""


def _python() -> str:
    return str(HOME / "bin" / "python")


def _last_line(text: str | None) -> str:
    return (text or "").strip().rpartition("\n")[2]


async def timed(work: Callable[[], Awaitable[Any]], times: int) -> list[float]:
    spent = []
    for _ in range(times):
        began = time.perf_counter()
        await work()
        spent.append(time.perf_counter() - began)
    return spent

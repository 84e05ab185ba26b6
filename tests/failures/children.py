"""What tests do in a process of their own: without root's rights, without room to write, or holding a lock.

Run as `python -m tests.failures.children NAME ARGUMENT…`; each prints one line of JSON when it is done.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

import everthread.store.sqlite.engine  # noqa: F401  (loaded before rights are given up)
from everthread import Everthread, EverthreadError, user
from tests.waiting import WHOLE

NOBODY = 65534
ROOT = Path(__file__).parents[2]


# -- in the test ------------------------------------------------------------------------------------------


def run(name: str, *arguments: object) -> Any:
    """Run one of the functions below in a child, and what it printed."""
    done = subprocess.run(command(name, *arguments), cwd=ROOT, capture_output=True, text=True, timeout=WHOLE)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@contextmanager
def lock_held(path: Path, kind: str, *, seconds: float = 60.0) -> Iterator[subprocess.Popen[str]]:
    """Another process holds a lock on the file for some time, or until the end of the block."""
    holding = command("hold_lock", path, kind, seconds)
    with subprocess.Popen(holding, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline().strip() == '"held"'
        try:
            yield child
        finally:
            child.kill()


def command(name: str, *arguments: object) -> list[str]:
    return [sys.executable, "-m", "tests.failures.children", name, *map(str, arguments)]


# -- in the child -----------------------------------------------------------------------------------------


def without_rights(address: str, id: str) -> Any:
    """As somebody for whom permissions apply: open, read, append; what came of each."""
    if os.geteuid() == 0:
        # Nobody may not even read Python's own files, so everything that will be imported is imported now.
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(_try(f"sqlite:///{folder}/rehearsal.db", id))
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    return asyncio.run(_try(address, id))


async def _try(address: str, id: str) -> dict[str, Any]:
    report: dict[str, Any] = {}
    try:
        async with Everthread.open(address, patience=0.2) as et:
            report["open"] = "opened"
            report["read"] = await _outcome(lambda: _read(et, id))
            report["append"] = await _outcome(lambda: _append(et, id, "one more"))
    except Exception as problem:  # noqa: BLE001  (the test looks at what it is)
        report["open"] = _described(problem)
    return report


async def _read(et: Everthread, id: str) -> list[str]:
    talk = await et.conversation(user="ana", id=id)
    return [event.text for event in await talk.after(0)]


async def _append(et: Everthread, id: str, text: str) -> str:
    talk = await et.conversation(user="ana", id=id)
    await talk.append(user(text))
    return "appended"


async def _outcome(work: Callable[[], Awaitable[Any]]) -> Any:
    try:
        return await work()
    except Exception as problem:  # noqa: BLE001
        return _described(problem)


def _described(problem: Exception) -> list[str | bool]:
    return [type(problem).__name__, str(problem), isinstance(problem, EverthreadError)]


def without_room(address: str, id: str, most: str) -> Any:
    """No file may grow beyond `most` bytes: append until an append fails, then twice more, small and large."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(most), int(most)))
    return asyncio.run(_fill(address, id))


async def _fill(address: str, id: str) -> dict[str, Any]:
    acknowledged: list[str] = []
    errors: list[Any] = []
    async with Everthread.open(address) as et:
        talk = await et.conversation(user="ana", id=id)
        number = 0
        while len(errors) < 3:
            number += 1
            text = f"{number}: " + "walnut " * 2_000
            try:
                await talk.append(user(text))
                acknowledged.append(text)
            except Exception as problem:  # noqa: BLE001
                errors.append(_described(problem))
        read = [event.text for event in await talk.after(0, limit=10_000)]
    return {"acknowledged": acknowledged, "errors": errors, "read": read}


def hold_lock(path: str, kind: str, seconds: str) -> Any:
    connection = apsw.Connection(path)
    connection.set_busy_timeout(10_000)
    connection.execute(f"BEGIN {kind}")
    sys.stdout.write('"held"\n')
    sys.stdout.flush()
    signal.sigtimedwait([signal.SIGUSR1], float(seconds))
    connection.execute("ROLLBACK")
    connection.close()
    return "released"


def open_and_append(address: str, text: str) -> Any:
    """Wait for a line, so that several start together; then open, which may have to create, and append."""

    async def work() -> str:
        async with Everthread.open(address) as et:
            talk = await et.begin(user="ana")
            await talk.append(user(text))
            return talk.id

    sys.stdout.write('"ready"\n')
    sys.stdout.flush()
    sys.stdin.readline()
    return asyncio.run(work())


if __name__ == "__main__":
    result = globals()[sys.argv[1]](*sys.argv[2:])
    sys.stdout.write(json.dumps(result) + "\n")

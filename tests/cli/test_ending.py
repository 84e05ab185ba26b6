"""A program that is told to end keeps what had come of a reply."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from everthread import Everthread
from everthread.core.events import Assistant
from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[2]
SPEAKER = """
import sys
from everthread.testing.scripted import script
from everthread.cli import main
script("slow", "word " * 100_000, pace=0.02)
main(sys.argv[1:])
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT], ids=["TERM", "HUP", "INT"])
@pytest.mark.parametrize("command", ["ask", "chat"])
async def test_what_came_of_the_reply_is_in_the_log(tmp_path: Path, command: str, number: signal.Signals) -> None:
    store = f"sqlite:///{tmp_path}/talk.db"
    said = ["Talk.", "--model"] if command == "ask" else ["--model"]
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", SPEAKER, command, *said, "scripted:slow", "--store", store),
        cwd=ROOT,
        env={**os.environ, "EVERTHREAD_SERVERS": ""},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert program.stdin is not None
    assert program.stdout is not None
    program.stdin.write(b"Talk.\n" if command == "chat" else b"")
    if command == "ask":
        program.stdin.close()
    async with asyncio.timeout(PATIENCE):
        assert await program.stdout.readexactly(10) == b"word word "
        program.send_signal(number)
        await program.communicate()
    assert program.returncode == 128 + number
    async with Everthread.open(store) as et:
        talk = await et.conversation(user="me")
        events = await talk.range(1, 100)
    assert [event.kind for event in events] == ["user", "assistant", "model_call", "agent_killed"]
    kept = events[1].event
    assert isinstance(kept, Assistant)
    assert kept.interrupted
    assert events[1].text.startswith("word word")


async def test_in_the_background_of_a_script_it_ends_as_well(tmp_path: Path) -> None:
    """Where ctrl-C is ignored."""
    store = f"sqlite:///{tmp_path}/talk.db"
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", f"import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n{SPEAKER}"),
        *("ask", "Talk.", "--model", "scripted:slow", "--store", store),
        cwd=ROOT,
        env={**os.environ, "EVERTHREAD_SERVERS": ""},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert program.stdout is not None
    async with asyncio.timeout(PATIENCE):
        assert await program.stdout.readexactly(10) == b"word word "
        program.send_signal(signal.SIGTERM)
        await program.communicate()
    assert program.returncode == 128 + signal.SIGTERM
    async with Everthread.open(store) as et:
        events = await (await et.conversation(user="me")).range(1, 100)
    assert [event.kind for event in events] == ["user", "assistant", "model_call", "agent_killed"]

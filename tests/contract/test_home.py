"""An open store belongs to one event loop and one process; elsewhere it refuses at once."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from everthread import Everthread, Talk, user
from everthread.errors import AnotherLoop, Closed, Forked
from everthread.testing.scripted import script
from tests.forking import in_a_fork
from tests.waiting import PATIENCE

Verb = Callable[[Everthread, Talk], Awaitable[object]]


async def listens(_: Everthread, talk: Talk) -> object:
    return await anext(aiter(talk.listen()))


async def says(_: Everthread, talk: Talk) -> object:
    return await talk.say("Hello")


VERBS: dict[str, Verb] = {
    "append": lambda _, talk: talk.append(user("Hello")),
    "read": lambda _, talk: talk.tail(),
    "context": lambda _, talk: talk.context(model="openai:gpt-5"),
    "say": says,
    "listen": listens,
    "stop": lambda _, talk: talk.stop(),
    "remember": lambda _, talk: talk.remember(),
    "agents": lambda et, _: et.agents.list("default"),
    "conversation": lambda et, talk: et.conversation(user=talk.conversation.user),
    "erase": lambda _, talk: talk.erase(),
    "watch": lambda et, _: et.log.watch(),
    "problems": lambda et, _: et.log.problems(),
    "close": lambda et, _: et.close(),
}


def in_another_loop(work: Callable[[], Coroutine[Any, Any, object]]) -> BaseException | None:
    """What the work raises in a thread with an event loop of its own."""
    raised: list[BaseException | None] = []

    def run() -> None:
        try:
            asyncio.run(asyncio.wait_for(work(), 60))
            raised.append(None)
        except Exception as problem:  # noqa: BLE001 -- looked at by the test
            raised.append(problem)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return raised[0]


@pytest.mark.parametrize("verb", VERBS)
async def test_a_second_loop_is_refused_at_once(verb: str, et: Everthread, talk: Talk) -> None:
    script("home", "Hello.")
    await talk.append(user("First"))

    async def work() -> object:
        return await VERBS[verb](et, talk)

    found = in_another_loop(work)
    assert isinstance(found, AnotherLoop)
    assert "everthread.sync" in str(found)


async def test_a_loop_that_was_refused_has_harmed_nothing(et: Everthread, talk: Talk) -> None:
    async def work() -> object:
        return await talk.append(user("From elsewhere"))

    assert isinstance(in_another_loop(work), AnotherLoop)
    await talk.append(user("From home"))
    assert [event.text for event in await talk.tail()] == ["From home"]


def test_a_store_that_was_left_open_in_one_loop_is_refused_in_the_next(address: str, someone: str) -> None:
    """As in a program that calls `asyncio.run` for each of its requests."""

    async def opened() -> Talk:
        et = await Everthread.open(address)
        return await et.begin(user=someone)

    loop = asyncio.new_event_loop()
    talk = loop.run_until_complete(opened())
    found = in_another_loop(lambda: talk.append(user("Hello")))
    loop.run_until_complete(talk._log.close())
    loop.close()
    assert isinstance(found, AnotherLoop)


async def test_a_closed_store_says_so_and_not_that_it_is_elsewhere(address: str, someone: str) -> None:
    async with Everthread.open(address) as et:
        talk = await et.begin(user=someone)
    with pytest.raises(Closed):
        await talk.append(user("Hello"))


@pytest.mark.parametrize("verb", ["append", "read", "say", "listen", "close"])
async def test_a_forked_process_is_refused_at_once(verb: str, et: Everthread, talk: Talk) -> None:
    await talk.append(user("First"))

    async def work() -> object:
        return await VERBS[verb](et, talk)

    assert in_a_fork(lambda: str(asyncio.run(asyncio.wait_for(work(), 60)))).startswith("Forked: ")
    await talk.append(user("Second"))
    assert [event.text for event in await talk.tail()] == ["First", "Second"]


async def test_a_coroutine_that_forks_is_refused_in_the_child(talk: Talk) -> None:
    def work() -> str:
        verb = talk.append(user("Hello"))
        try:
            verb.send(None)  # as the loop would, on whose stack the child still is
        finally:
            verb.close()
        return "was let in"

    assert in_a_fork(work).startswith("Forked: ")


async def test_a_forked_process_opens_a_store_of_its_own(fresh_address: str, someone: str) -> None:
    """Where nobody had it open when it was forked."""
    async with Everthread.open(fresh_address) as et:
        talk = await et.begin(user=someone)

    async def work() -> str:
        async with Everthread.open(fresh_address) as et:
            return (await et.conversation(user=someone)).id

    assert in_a_fork(lambda: asyncio.run(work())) == talk.id


async def test_a_file_that_was_open_at_the_fork_is_not_opened_in_the_child(tmp_path: Path) -> None:
    """SQLite would believe that it holds locks: the parent could close the file, and the child's writes be lost."""
    file = tmp_path / "talk.db"

    async def work(path: Path) -> str:
        async with Everthread.open(f"sqlite:///{path}"):
            return "opened"

    async with Everthread.open(f"sqlite:///{file}"):
        os.link(file, link := tmp_path / "link.db")
        for path in (file, link):
            told = in_a_fork(lambda path=path: asyncio.run(work(path)))  # type: ignore[misc]
            assert told.startswith("Forked: ")
            assert "spawn" in told
        assert in_a_fork(lambda: asyncio.run(work(tmp_path / "other.db"))) == "opened"
    assert in_a_fork(lambda: asyncio.run(work(file))) == "opened"


async def test_a_store_that_is_closed_twice_leaves_another_opening_of_the_file_known(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path / 'talk.db'}"

    async def work() -> str:
        async with Everthread.open(address):
            return "opened"

    async with Everthread.open(address):
        other = await Everthread.open(address)
        await other.close()
        await other.close()
        assert in_a_fork(lambda: asyncio.run(work())).startswith("Forked: ")


LOCKED = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 510, 2**30 + 2)  # the bytes that stand for "somebody reads"
"""


def is_locked(path: Path) -> bool:
    """Whether another process can see that somebody has a SQLite file open."""
    return bool(subprocess.run([sys.executable, "-c", LOCKED, str(path)], capture_output=True, check=False).returncode)


async def test_opening_a_file_again_leaves_its_locks(tmp_path: Path) -> None:
    """An open file that is opened and closed as a plain one loses the locks that SQLite has on it, in the whole
    process: others could take it for unused."""
    path = tmp_path / "talk.db"
    address = f"sqlite:///{path}"
    async with Everthread.open(address) as et:
        talk = await et.begin(user="ana")
        await talk.append(user("Hello"))
        assert is_locked(path)
        async with Everthread.open(address):
            assert is_locked(path)
        assert is_locked(path)
    assert not is_locked(path)


def test_threads_of_several_processes_may_open_a_new_file_at_once(tmp_path: Path) -> None:
    code = """
import sys, threading
from everthread.sync import Everthread

def work(number):
    ready.wait()
    with Everthread.open(sys.argv[1], keys={}) as et:
        et.conversation(user=f"{sys.argv[2]}-{number}", id="t1")

ready = threading.Barrier(4)
threading.excepthook = lambda args: print(repr(args.exc_value))
threads = [threading.Thread(target=work, args=[number]) for number in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""
    for number in range(3):
        told = [sys.executable, "-c", code, f"sqlite:///{tmp_path}/{number}.db"]
        started = [subprocess.Popen([*told, who], stdout=subprocess.PIPE, text=True) for who in ("a", "b")]
        assert [one.communicate(timeout=PATIENCE)[0] for one in started] == ["", ""]


def test_the_errors_say_what_to_do() -> None:
    assert "open it in each loop" in str(AnotherLoop("talk.db"))
    assert "before the fork" in str(Forked("talk.db"))

"""Whatever happens to runners and listeners, what each listener saw equals the log, and nobody without the lease wrote.

Three processes share a conversation and a fourth, this one, looks on. Chance decides who speaks, listens, leaves,
stops, is killed, or sleeps through its lease and wakes up again. `make prove` plays many more of these than
`make test`.
"""

from __future__ import annotations

import asyncio
import random
import signal
from contextlib import AsyncExitStack
from typing import Any

import pytest

from everthread import Everthread, Talk, user
from everthread.core.branches import ENDLESS
from everthread.core.events import Assistant
from everthread.core.logged import Logged
from tests.agent.processes import Process, process
from tests.waiting import PATIENCE

LEASE = 1.5  # seconds
WORDS = 25
STEPS = 30
LAST = "That is all."
FEW, MANY = range(2), range(2, 60)


class Play:
    """The processes by their names, who listens in which, and everything that ever was heard."""

    def __init__(self, talk: Talk, address: str, chance: random.Random, stack: AsyncExitStack) -> None:
        self._talk, self._address, self._chance, self._stack = talk, address, chance, stack
        self._processes: dict[str, Process] = {}
        self._listening: dict[str, tuple[Process, int]] = {}
        self._asleep: set[str] = set()
        self.heard: list[tuple[Process, str, int]] = []  # every listener there was: where, who, after which seq
        self._number = 0

    async def start(self, name: str) -> None:
        conversation = self._talk.conversation
        self._processes[name] = await self._stack.enter_async_context(
            process(self._address, conversation.user, conversation.id, model=name, words=WORDS, pace=0.03, lease=LEASE)
        )

    async def step(self) -> None:
        acts = [self._say, self._say, self._listen, self._listen, self._leave, self._stop, self._append]
        name = self._chance.choice(sorted(self._processes))
        await self._chance.choice([*acts, self._kill, self._sleep, self._wake, self._wait])(name)
        await asyncio.sleep(self._chance.random() * 0.4)

    def _next(self) -> str:
        self._number += 1
        return f"{self._number}"

    async def _say(self, name: str) -> None:
        number = self._next()
        self._processes[name].do("say", f"say {number}", text=f"{name} says {number}", detached=True)

    async def _listen(self, name: str) -> None:
        number, newest = self._next(), (await self._talk._log.head(await self._talk.line())).seq
        after = self._chance.choice([0, newest, self._chance.randint(0, newest)])
        where, who = self._processes[name], f"ear {number}"
        where.do("listen", who, after=after)
        self._listening[who] = (where, after)
        self.heard.append((where, who, after))

    async def _leave(self, name: str) -> None:
        for who, (where, _) in self._listening.items():
            if where is self._processes[name]:
                where.do("leave", who)
                del self._listening[who]
                return

    async def _stop(self, name: str) -> None:
        self._processes[name].do("stop", f"stop {self._next()}")

    async def _append(self, name: str) -> None:
        self._processes[name].do("append", f"append {self._next()}", text="By the way.")

    async def _kill(self, name: str) -> None:
        where = self._processes.pop(name)
        self._listening = {who: place for who, place in self._listening.items() if place[0] is not where}
        self._asleep.discard(name)
        await where.kill()
        await self.start(name)

    async def _sleep(self, name: str) -> None:
        """For longer than the lease, mostly: until chance wakes it."""
        if len(self._asleep) < 2:
            self._processes[name].send_signal(signal.SIGSTOP)
            self._asleep.add(name)
            await asyncio.sleep(self._chance.choice([0.1, LEASE * 1.5]))

    async def _wake(self, _: str) -> None:
        for name in self._asleep:
            self._processes[name].send_signal(signal.SIGCONT)
        self._asleep.clear()

    async def _wait(self, _: str) -> None:
        await asyncio.sleep(0.5)

    async def end(self) -> list[Logged]:
        """Wake everybody, let every turn come to its end, and wait until all who listen have heard the last word."""
        await self._wake("")
        for where in self._processes.values():
            begun = {one for one in where.orders if not one.startswith("ear")}
            await where.until(lambda told, begun=begun: begun <= _ended(told))  # type: ignore[misc]
        await self._talk.stop()
        await self._talk.append(user(LAST))
        for who, (where, _) in self._listening.items():
            await where.until(lambda told, who=who: _text_of_last(told, who) == LAST)  # type: ignore[misc]
        return await self._talk.range(1, ENDLESS)


def _ended(told: list[dict[str, Any]]) -> set[str]:
    return {one["name"] for one in told if one.keys() & {"over", "error", "appended", "stopped"}}


def _text_of_last(told: list[dict[str, Any]], who: str) -> str:
    texts = [one["text"] for one in told if one["name"] == who and "seq" in one]
    return texts[-1] if texts else ""


def check_events(told: list[dict[str, Any]], after: int, log: list[Logged]) -> None:
    """It heard the events after `after`, in order, each once."""
    events = [one for one in told if "seq" in one]
    assert [one["seq"] for one in events] == list(range(after + 1, after + 1 + len(events)))
    assert [(one["kind"], one["text"]) for one in events] == [
        (event.kind, event.text) for event in log[after : after + len(events)]
    ]


def check_pieces(told: list[dict[str, Any]]) -> None:
    """It heard of each reply its first words, none twice."""
    said = ""
    for one in told:
        delta = one.get("delta", {})
        if delta.get("kind") == "text":
            said += delta["text"]
            model = said.partition("0")[0]
            whole = " ".join(f"{model}{number}" for number in range(WORDS))
            assert whole.startswith(said), "a piece came twice, or too early, or not at all"
        elif one.get("kind") == "assistant":
            assert one["text"].startswith(said) or said.startswith(one["text"])
            said = ""
        elif one.get("kind") == "agent_killed":
            said = ""


def check_log(log: list[Logged]) -> None:
    """Every reply stands in the turn of the process that gave it."""
    assert [event.seq for event in log] == list(range(1, len(log) + 1))
    speaker = ""
    for logged in log:
        if logged.kind == "user" and " says " in logged.text:
            speaker = logged.text.partition(" ")[0]
        elif isinstance(logged.event, Assistant):
            assert logged.event.model == f"scripted:{speaker}", f"event {logged.seq} is another's"


async def play(address: str, someone: str, seed: int) -> None:
    async with Everthread.open(address, settings={"memory": False}) as et, AsyncExitStack() as stack:
        talk = await et.begin(user=someone)
        played = Play(talk, address, random.Random(seed), stack)
        for name in ("ana", "bob", "cyd"):
            await played.start(name)
        for _ in range(STEPS):
            await played.step()
        async with asyncio.timeout(2 * PATIENCE):
            log = await played.end()
        check_log(log)
        for where, who, after in played.heard:
            check_events(where.by(who), after, log)
            check_pieces(where.by(who))
        events, problems = await et.log.check("default", talk.id)
        assert (events, problems) == (len(log), [])


@pytest.mark.parametrize("seed", FEW)
async def test_what_every_listener_saw_equals_the_log(address: str, someone: str, seed: int) -> None:
    await play(address, someone, seed)


@pytest.mark.prove
@pytest.mark.parametrize("seed", MANY)
async def test_and_so_it_does_however_often_it_is_played(address: str, someone: str, seed: int) -> None:
    await play(address, someone, seed)

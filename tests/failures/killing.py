"""Killing processes inside verbs that take several steps, and proving that nothing is half-done after reopening.

Each round prepares a conversation, lets a process of its own do one thing to it, kills that with SIGKILL at a random
moment, and looks: `doctor` must tell of whatever is half-done, and once the store has been opened again nothing is. Run
as `python -m tests.failures.killing ADDRESS KILLS SEED`; prints what came of it as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import asyncpg

from everthread import Everthread, GivenSettings, Talk, assistant, file, tool_call, user
from everthread.core.branches import ENDLESS
from everthread.core.events import Assistant, BriefUpdated, Command, User
from everthread.errors import NotFound, NothingToResume
from everthread.store.conversations import Owner
from everthread.store.log import Log
from everthread.store.open import open_log
from everthread.testing.scripted import call, script
from everthread.tools import tool

TENANT = "default"
SETTINGS: GivenSettings = {"model": "scripted:killed", "summary_model": "scripted:killed-memory", "memory": True}
LATER = 1.1  # of the time that a verb takes, up to which it is killed


class Round:
    """What is done to one user's conversations. `secret` stands in the first message."""

    def __init__(self, number: int) -> None:
        self.owner = Owner(TENANT, f"killed-{number}")
        self.secret, self.notes = f"SECRET-{number}-KESTREL", f"Likes kestrels of kind {number}."
        self.ids: list[str] = []
        self.paid = Path(tempfile.gettempdir()) / f"everthread-paid-{os.getpid()}-{number}"

    async def talk(self, et: Everthread, which: int = 0) -> Talk:
        return await et.conversation(user=self.owner.user, id=self.ids[which])

    def models(self) -> None:
        def told(body: dict[str, Any]) -> str:
            return f"The code is {self.secret}." if self.secret in str(body) else "Nothing."

        script("killed-memory", *[told] * 500)
        script("killed", *["Very well, then: so be it."] * 100)

    async def prepare(self, et: Everthread) -> None:
        """Two conversations that quote a third, memory of it, and a fork."""
        for _ in range(3):
            self.ids.append((await et.begin(user=self.owner.user)).id)
        talk, other, third = [await self.talk(et, which) for which in range(3)]
        await talk.append(
            user(f"My code is {self.secret}.", file(self.secret.encode() * 9)), assistant("Noted."), key="k"
        )
        await talk.remember()
        side = await talk.fork()
        await side.append(user("And here?"), assistant("Here, too."))
        await side.remember()
        await talk.append(user("What else?"), assistant("Nothing."))
        await talk.remember()
        await talk.write_notes(self.notes)
        await _look(other, "recall_context", query="code", scope="user")
        await _look(third, "open_event", reference=f"event 3 on branch 1 of conversation {other.id}")
        await other.remember()
        await third.remember()

    async def do(self, et: Everthread) -> None:
        raise NotImplementedError

    async def begun(self, et_or_log: Log) -> bool:
        """Whether it has begun to be forgotten."""
        return False

    async def after(self, et: Everthread) -> list[str]:
        """What is wrong once the store was opened again."""
        return []

    async def telling(self, log: Log) -> list[str]:
        """Where the secret still is."""
        found = []
        for conversation in await log.conversations.page(self.owner):
            if self.secret in conversation.name:
                found.append(f"the name of {conversation.id}")
            for totals in await log.conversations.branches(conversation):
                line = await log.line(conversation, totals.branch.number)
                events = await log.range(line, 1, ENDLESS)
                found += [f"event {one.seq} of {one.kind}" for one in events if self.secret.encode() in one.body]
                found += [
                    "a file" for hash in await log.blobs(line) if self.secret.encode() in await log.blob(line, hash)
                ]
        return found


async def _look(talk: Talk, name: str, **arguments: Any) -> None:
    asked = tool_call(name, arguments)
    await talk.append(user("What was it?"), asked, await talk.look_up(asked), assistant("So."))


class Redact(Round):
    async def do(self, et: Everthread) -> None:
        await (await self.talk(et)).redact(1)

    async def begun(self, log: Log) -> bool:
        talk = await log.conversations.find(self.owner, self.ids[0])
        [first] = await log.range(await log.line(talk), 1, 1)
        return self.secret.encode() not in first.body

    async def after(self, et: Everthread) -> list[str]:
        return await self.telling(et.log) if await self.begun(et.log) else []


class Erase(Round):
    async def do(self, et: Everthread) -> None:
        await (await self.talk(et)).erase()

    async def begun(self, log: Log) -> bool:
        try:
            await log.conversations.find(self.owner, self.ids[0])
        except NotFound:
            return True
        return False

    async def after(self, et: Everthread) -> list[str]:
        return await self.telling(et.log) if await self.begun(et.log) else []


class EraseUser(Round):
    async def do(self, et: Everthread) -> None:
        await et.erase_user(user=self.owner.user)

    async def begun(self, log: Log) -> bool:
        return len(await log.conversations.page(self.owner)) < 3

    async def after(self, et: Everthread) -> list[str]:
        if not await self.begun(et.log):
            return []
        notes = await et.log.documents.all(self.owner)
        return [*await self.telling(et.log), *(f"the document {one.name}" for one in notes)]


class ForgetNotes(Round):
    async def do(self, et: Everthread) -> None:
        await (await self.talk(et)).forget_notes()

    async def after(self, et: Everthread) -> list[str]:
        notes = await (await self.talk(et)).notes()
        return [] if notes in ("", self.notes) else [f"half of the notes: {notes}"]


class Remember(Round):
    """Memory is made: a brief, a name."""

    async def prepare(self, et: Everthread) -> None:
        await super().prepare(et)
        talk = await self.talk(et)
        await talk.append(user("One more."), assistant("Yes."))

    async def do(self, et: Everthread) -> None:
        await (await self.talk(et)).remember()

    async def after(self, et: Everthread) -> list[str]:
        talk = await self.talk(et)
        await talk.remember()
        brief, turns = await talk.brief(), len(await talk.turns())
        return [] if brief and brief.turns == turns else [f"the brief is of {brief and brief.turns} turns of {turns}"]


class Correct(Round):
    async def do(self, et: Everthread) -> None:
        await (await self.talk(et)).correct("In my own words.")

    async def after(self, et: Everthread) -> list[str]:
        events = await (await self.talk(et)).range(1, ENDLESS)
        written = [one for one in events if isinstance(one.event, BriefUpdated) and one.event.by]
        return [f"{len(written)} corrections"] if len(written) > 1 else []


class Approve(Round):
    def tools(self) -> list[Any]:
        @tool(approval=True)
        def pay(amount: int) -> str:
            """Pay somebody."""
            with self.paid.open("a") as paid:
                paid.write(f"{amount}\n")
            return f"Paid {amount}."

        return [pay]

    async def prepare(self, et: Everthread) -> None:
        self.ids.append((await et.begin(user=self.owner.user)).id)
        script("killed", [call("pay", {"amount": 20})], *["Very well, then: so be it."] * 100)
        await (await self.talk(et)).say("Pay the bill.", tools=self.tools())

    async def do(self, et: Everthread) -> None:
        await (await self.talk(et)).approve(tools=self.tools())

    async def after(self, et: Everthread) -> list[str]:
        """It waits and was not run, or somebody let it run, once; and the conversation goes on."""
        talk, problems = await self.talk(et), []
        verdicts = [one for one in await talk.range(1, ENDLESS) if isinstance(one.event, Command)]
        times = len(self.paid.read_text().split()) if self.paid.exists() else 0
        self.paid.unlink(missing_ok=True)
        waits = len(await talk.waiting())
        if times > 1 or (waits and times) or waits + len(verdicts) != 1:
            problems.append(f"ran {times} times, {waits} wait, {len(verdicts)} verdicts")
        await talk.say("Go on.", tools=self.tools())
        state = (await et.log.head(await talk.line())).state
        return problems if state == "idle" else [*problems, f"the turn is {state}"]


class Resume(Round):
    async def prepare(self, et: Everthread) -> None:
        self.ids.append((await et.begin(user=self.owner.user)).id)
        await (await self.talk(et)).append(user("Are you there?"))

    async def do(self, et: Everthread) -> None:
        await (await self.talk(et)).resume()

    async def after(self, et: Everthread) -> list[str]:
        """Said once, and replied to once at the end, however often it is resumed."""
        talk = await self.talk(et)
        with suppress(NothingToResume):
            await talk.resume()
        events = [one.event for one in await talk.range(1, ENDLESS)]
        said = sum(isinstance(one, User) for one in events)
        replies = sum(isinstance(one, Assistant) and not one.interrupted for one in events)
        return [] if (said, replies) == (1, 1) else [f"said {said} times, replied to {replies} times"]


ROUNDS: tuple[type[Round], ...] = (
    Redact,
    Erase,
    Approve,
    Redact,
    Remember,
    Resume,
    Redact,
    EraseUser,
    ForgetNotes,
    Correct,
)


# -- one round ---------------------------------------------------------------------------------------------------


class Came(NamedTuple):
    """What came of a round: whether it was killed inside, whether something was half-done then, and what is wrong."""

    verb: str
    inside: bool
    half: bool
    problems: list[str]


class Killing:
    def __init__(self, address: str, seed: int) -> None:
        self._address, self._chance = address, random.Random(seed)
        self._takes: dict[str, float] = {}

    def round(self, kind: type[Round], number: int) -> Came:
        if kind.__name__ not in self._takes:
            rehearsal = kind(-number)
            self._run(rehearsal.prepare, rehearsal)
            _, self._takes[kind.__name__] = self._child(rehearsal, None)
            self._run(rehearsal.after, rehearsal)
        one = kind(number)
        self._run(one.prepare, one)
        inside, _ = self._child(one, self._chance.uniform(0, LATER * self._takes[kind.__name__]))
        half, problems = asyncio.run(self._looked(one))
        problems += self._run(one.after, one)
        problems += asyncio.run(self._diagnosed(one))
        return Came(kind.__name__, inside, half, problems)

    def _run(self, work: Callable[[Everthread], Any], one: Round) -> Any:
        async def opened() -> Any:
            one.models()
            async with Everthread.open(self._address, settings=SETTINGS, keys={}) as et:
                return await work(et)

        return asyncio.run(opened())

    def _child(self, one: Round, after: float | None) -> tuple[bool, float]:
        """Do it in a process of its own, which is killed after so many seconds; whether that was inside, and how long
        it took."""
        hear, tell = os.pipe()
        child = os.fork()
        if not child:
            self._be_killed(one, tell)
        os.close(tell)
        assert os.read(hear, 1) == b"b", "it did not begin"
        began = time.monotonic()
        if after is not None:
            time.sleep(after)
            os.kill(child, signal.SIGKILL)
        ended = os.read(hear, 1) == b"e"
        took = time.monotonic() - began
        os.close(hear)
        os.waitpid(child, 0)
        assert ended or after is not None, "it failed by itself"
        return not ended, took

    def _be_killed(self, one: Round, tell: int) -> None:
        async def work(et: Everthread) -> None:
            os.write(tell, b"b")
            await one.do(et)
            os.write(tell, b"e")

        try:
            self._run(work, one)
        except BaseException:  # noqa: BLE001 -- whatever it is, this process is only a copy
            traceback.print_exc()
        finally:
            os._exit(0)

    async def _looked(self, one: Round) -> tuple[bool, list[str]]:
        """Whether something is half-done before the store is opened as a whole, and what doctor leaves unsaid."""
        if not self._address.startswith("sqlite"):
            await _alone(self._address)
        log = await open_log(self._address)
        try:
            waits = bool(await log.forgetting.unfinished())
            telling = bool(await one.begun(log) and await one.telling(log))
            told = await _diagnosis(log, one)
        finally:
            await log.close()
        silent = ["something is half-forgotten, and doctor does not say so"] if (waits or telling) and not told else []
        return waits or telling, silent

    async def diagnosed(self) -> list[str]:
        """What doctor says of everything."""
        log = await open_log(self._address)
        try:
            return await _diagnosis(log)
        finally:
            await log.close()

    async def _diagnosed(self, one: Round) -> list[str]:
        """What doctor says in the end, and what is still in the files."""
        log = await open_log(self._address)
        try:
            begun = bool(one.ids) and await one.begun(log)
            found = await _diagnosis(log, one)
        finally:
            await log.close()
        return [*found, "it is still on the disk"] if begun and _on_disk(self._address, one.secret) else found


async def _diagnosis(log: Log, one: Round | None = None) -> list[str]:
    """What doctor says; of one round's conversations, or of all."""
    found = [*await log.problems(), *await log.strays()]
    everything = await log.everything() if one is None else [(TENANT, id) for id in one.ids]
    for tenant, conversation in everything:
        found += (await log.check(tenant, conversation))[1]
    return found


async def _alone(address: str) -> None:
    """Until the server has noticed that who was killed is gone."""
    connection = await asyncpg.connect(address)
    others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    while await connection.fetchval(others):  # noqa: ASYNC110 -- it tells nobody
        await asyncio.sleep(0.01)
    await connection.close()


def _on_disk(address: str, secret: str) -> bool:
    """Whether a file of the store has it. (Of PostgreSQL's, nothing is promised: docs/decisions/0007.)"""
    path = Path(address.removeprefix("sqlite:///"))
    return any(secret.encode() in one.read_bytes() for one in path.parent.glob(f"{path.name}*"))


def main(address: str, kills: int, seed: int) -> dict[str, Any]:
    killing, came, number = Killing(address, seed), list[Came](), 0
    while sum(one.inside for one in came) < kills and number < 5 * kills:
        number += 1
        came.append(killing.round(ROUNDS[number % len(ROUNDS)], number))
    verbs, told = sorted({one.verb for one in came}), asyncio.run(killing.diagnosed())
    return {
        "rounds": len(came),
        "killed inside": {verb: sum(one.inside for one in came if one.verb == verb) for verb in verbs},
        "half-done when killed": sum(one.half for one in came),
        "problems": [f"{one.verb}: {problem}" for one in came for problem in one.problems] + told,
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])), indent=1))

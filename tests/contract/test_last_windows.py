"""A context that reads only what is new is the one that would be built from the whole log, whatever happened since."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from everthread import Everthread, GivenSettings, Talk, assistant, flow_completed, system, tool_call, user
from everthread.canvas import Card, Put, Remove
from everthread.core.branches import ENDLESS
from everthread.errors import EverthreadError, UnknownConversation
from everthread.testing.scripted import script

STEPS = 25
SECRET = "the roses are poisoned"


class Random:
    """Something happens to a conversation, here or in another process."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    async def act(self, talk: Talk) -> None:
        acts = {self.say: 12, self.redact: 2, self.clear: 1, self.pin: 2, self.set: 2, self.remember: 2, self.rewind: 1}
        acts |= {self.draw: 4, self.told: 1}
        [act] = self.chance.choices([*acts], weights=[*acts.values()])
        with suppress(EverthreadError):  # what cannot be done at this moment
            await act(talk)

    async def say(self, talk: Talk) -> None:
        for _ in range(self.chance.randint(1, 4)):
            call = [tool_call("look", {"at": 1}, id=f"c{self.chance.random()}")] if self.chance.random() < 0.3 else []
            reply = [] if self.chance.random() < 0.2 else [assistant("red " * self.chance.choice([1, 20, 200]))]
            await talk.append(user("rose " * self.chance.choice([1, 5, 50, 300])), *call, *reply)

    async def redact(self, talk: Talk) -> None:
        await talk.redact(await self._one(talk))

    async def clear(self, talk: Talk) -> None:
        await talk.clear()

    async def pin(self, talk: Talk) -> None:
        await talk.pin(await self._one(talk))

    async def set(self, talk: Talk) -> None:
        await talk.set_settings({"budget": self.chance.choice([1_500, 3_000, 8_000])})

    async def remember(self, talk: Talk) -> None:
        await talk.remember()

    async def draw(self, talk: Talk) -> None:
        id, word = self.chance.choice("abc"), f"thorn {self.chance.random()}"
        change = Remove(id=id) if self.chance.random() < 0.2 else Put(element=Card(id=id, text=word))
        await talk.act(change, by=self.chance.choice(["user", ""]))

    async def told(self, talk: Talk) -> None:
        await talk.append(flow_completed("pruning", "done"))

    async def rewind(self, talk: Talk) -> None:
        await talk.rewind(to=await self._one(talk))

    async def _one(self, talk: Talk) -> int:
        seqs = [event.seq for event in await talk.range(1, ENDLESS)]
        return self.chance.choice(seqs or [1])


@pytest.mark.parametrize("seed", range(6))
async def test_it_is_the_same_as_the_first_one_of_a_process(address: str, someone: str, seed: int) -> None:
    happens = Random(seed)
    settings: Any = {
        "model": "anthropic:claude-sonnet-4-6",
        "summary_model": f"scripted:{someone}",
        "worker": "apart",  # nobody but us
        "memory": seed % 3 > 0,
        "budget": happens.chance.choice([1_500, 3_000, 8_000]),
        "strategy": ["budget", "budget", "budget", "budget", "importance", "session"][seed],
    }
    script(someone, *["They spoke of roses."] * 200)
    async with (
        Everthread.open(address, settings=settings, keys={}) as et,
        Everthread.open(address, settings=settings, keys={}) as elsewhere,
    ):
        talk = await et.begin(user=someone)
        if seed % 2:
            await talk.append(system("Be brief."))
        theirs = await elsewhere.conversation(user=someone, id=talk.id)
        for _ in range(STEPS):
            await happens.act(happens.chance.choice([talk, talk, theirs]))
            warm = await talk.context()
            async with Everthread.open(address, settings=settings, keys={}) as new:
                cold = await (await new.conversation(user=someone, id=talk.id)).context()
            assert warm.request == cold.request
            assert warm.explain() == cold.explain()


@pytest.mark.parametrize("rewinds", [0, 0.2])
@pytest.mark.parametrize("seed", range(3))
async def test_and_after_every_message(address: str, someone: str, seed: int, rewinds: float) -> None:
    """Turns that are large while they run push the window forward, and further turns may pull it back; so may rewinds,
    after which it begins in a piece of another branch."""
    chance = random.Random(seed)
    settings: GivenSettings = {"model": "anthropic:claude-sonnet-4-6", "budget": 3_000, "memory": False}
    async with (
        Everthread.open(address, settings=settings, keys={}) as et,
        Everthread.open(address, settings=settings, keys={}) as new,
    ):
        talk = await et.begin(user=someone)
        again = await new.conversation(user=someone, id=talk.id)
        for _ in range(60):
            size = chance.choice([1, 5, 50, 300, 900])
            said = [user("rose " * size)] if chance.random() < 0.5 else [user("Well?"), assistant("red " * size)]
            written = await talk.append(*said)
            if chance.random() < rewinds:
                await talk.rewind(to=max(0, written[0].seq - chance.choice([1, 2, 9])))
                await talk.append(user("Once more."))
            new.log._windows.forget()
            warm, cold = await talk.context(), await again.context()
            assert warm.request == cold.request


@pytest.fixture
async def told(address: str, someone: str) -> AsyncIterator[Talk]:
    """A conversation with a secret, of which a window was read."""
    settings: GivenSettings = {
        "model": "anthropic:claude-sonnet-4-6",
        "budget": 4_000,
        "memory": True,
        "worker": "apart",
    }
    async with Everthread.open(address, settings=settings, keys={}) as et:
        talk = await et.begin(user=someone)
        await talk.append(user("Hello."), assistant("Hello."), user(SECRET), assistant("I see."), user("Well?"))
        assert SECRET in str((await talk.context()).request)
        assert SECRET in _kept(talk)
        yield talk


def _kept(talk: Talk) -> str:
    """What is in memory of windows."""
    return str([(read.outlook, read.messages, read.brief) for read in talk._log._windows._read.values()])


@pytest.mark.parametrize("how", ["redact", "erase", "erase_user"])
async def test_what_is_forgotten_is_not_kept(told: Talk, address: str, someone: str, how: str) -> None:
    async with Everthread.open(address, keys={}) as et:
        if how == "redact":
            await told.redact(3)
        elif how == "erase":
            await told.erase()
        else:
            await et.erase_user(user=someone)  # from elsewhere: it is dropped when somebody asks for it
    if how == "redact":
        assert SECRET not in str((await told.context()).request)
    else:
        with pytest.raises(UnknownConversation):
            await told.context()
    if how != "erase_user":
        assert SECRET not in _kept(told)


async def test_nor_what_was_redacted_elsewhere(told: Talk, address: str, someone: str) -> None:
    async with Everthread.open(address, keys={}) as et:
        await (await et.conversation(user=someone, id=told.id)).redact(3)
    assert SECRET not in str((await told.context()).request)
    assert SECRET not in _kept(told)


async def test_a_fork_and_another_conversation_have_windows_of_their_own(told: Talk, someone: str) -> None:
    branch = await told.fork(at=2)
    await branch.append(user("Other."), assistant("I see."), user("What else?"))
    assert SECRET not in str((await branch.context()).request)
    assert SECRET in str((await told.context()).request)


async def test_what_was_cleared_is_not_sent(told: Talk) -> None:
    await told.clear()
    await told.append(user("What now?"))
    assert SECRET not in str((await told.context()).request)


async def test_notes_are_not_kept_with_it(told: Talk) -> None:
    await told.write_notes("Likes walnuts.")
    assert "walnuts" in str((await told.context()).request)
    assert "walnuts" not in _kept(told)


async def test_nor_is_a_brief_that_was_forgotten(address: str, someone: str) -> None:
    settings: GivenSettings = {
        "model": "anthropic:claude-sonnet-4-6",
        "summary_model": f"scripted:{someone}",
        "budget": 2_000,
        "memory": True,
        "worker": "apart",
    }
    async with Everthread.open(address, settings=settings, keys={}) as et:
        talk = await et.begin(user=someone)
        await talk.append(user(SECRET), assistant("I see."))
        for _ in range(20):
            await talk.append(user("rose " * 100), assistant("red " * 100))
        script(someone, *[f"They said that {SECRET}."] * 9)
        await talk.remember()
        await talk.context()
        assert SECRET in _kept(talk)
        async with Everthread.open(address, keys={}) as elsewhere:
            await (await elsewhere.conversation(user=someone, id=talk.id)).redact(1)
        assert SECRET not in str((await talk.context()).request)
        assert SECRET not in _kept(talk)

"""What memory has made in the middle of a turn is told from the next one on: its model calls begin all alike."""

from __future__ import annotations

from typing import Any

import pytest

from everthread import Everthread, GivenSettings, Talk, assistant, user
from everthread.core.events import BriefUpdated, Event, ModelCall, SessionEnded, Summary
from everthread.jobs.worker import Worker
from everthread.testing.scripted import call, script
from tests.saying import DAY, say
from tests.transcripts import whole

MADE: dict[str, tuple[GivenSettings, Event]] = {
    "session": ({"strategy": "session"}, SessionEnded(session=1, recap="They spoke of ZX-4711.", extractive=False)),
    "importance": (
        {"strategy": "importance", "active_messages": 20, "budget": 2_400},
        Summary(text="They spoke of ZX-4711.", first=1, covers=40, base=0),
    ),
}


@pytest.fixture(autouse=True)
def _nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes anything of memory's."""
    monkeypatch.setattr(Worker, "remind", lambda *_: None)


class Heard:
    """The requests of a scripted model, of which each reply is noted."""

    def __init__(self, someone: str, *replies: Any) -> None:
        self.bodies: list[str] = []
        script(someone, *[self._hears(reply) for reply in replies])

    def _hears(self, reply: Any) -> Any:
        def said(body: Any) -> Any:
            self.bodies.append(whole(body))
            return reply

        return said


async def before(et: Everthread, talk: Talk) -> None:
    """A session that is long over."""
    events = [event for n in range(20) for event in (user(f"Bed {n} has " + "roses " * 60), assistant("I see."))]
    await say(et, talk, *events, at=et.log.now - DAY)


@pytest.mark.parametrize("strategy", MADE)
async def test_it_is_told_from_the_next_turn_on(address: str, someone: str, strategy: str) -> None:
    settings, made = MADE[strategy]

    async def wait(talk: Talk) -> str:
        """In which memory is made."""
        await talk.append(made)
        return "Waited."

    heard = Heard(someone, [call("wait", {})], "Yes.", "And yes.")
    own: GivenSettings = settings | {"model": f"scripted:{someone}", "summary_model": ""}
    async with Everthread.open(address, settings=own, tools=[wait], keys={}) as et:
        talk = await et.begin(user=someone)
        await before(et, talk)
        await talk.say("Wait.")
        await talk.say("And now?")
        assert ["ZX-4711" in body for body in heard.bodies] == [False, False, True]
        first, second, _ = heard.bodies
        assert second.startswith(first[: first.index("Wait.")])
        calls = [one for one in await talk.range(41, 99) if isinstance(one.event, ModelCall)]
        assert [(await talk.rebuild(one.seq)).differences for one in calls] == [(), (), ()]


@pytest.mark.parametrize("strategy", MADE)
async def test_what_was_there_when_the_turn_began_stays(
    et: Everthread, talk: Talk, someone: str, strategy: str
) -> None:
    settings, made = MADE[strategy]
    await before(et, talk)
    heard = Heard(someone, [call("wait", {})], "Yes.")

    async def wait(talk: Talk) -> str:
        await talk.append(made)
        return "Waited."

    await talk.append(user("Hello."), assistant("Hello."), made)
    await talk.say("Wait.", tools=[wait], settings=settings)
    assert ["ZX-4711" in body for body in heard.bodies] == [True, True]


@pytest.mark.parametrize("strategy", MADE)
async def test_what_was_redacted_is_told_no_more(et: Everthread, talk: Talk, someone: str, strategy: str) -> None:
    settings, made = MADE[strategy]
    await before(et, talk)
    heard = Heard(someone, [call("forget", {})], "Yes.")
    *_, logged = await talk.append(user("Hello."), assistant("Hello."), made)

    async def forget(talk: Talk) -> str:
        await talk.redact(logged.seq)
        return "Forgotten."

    await talk.say("Forget it.", tools=[forget], settings=settings)
    assert ["ZX-4711" in body for body in heard.bodies] == [True, False]


async def test_without_an_agent_of_ours_it_is_told_at_once(et: Everthread, talk: Talk) -> None:
    await before(et, talk)
    await talk.append(user("Wait."), MADE["session"][1])
    assert "ZX-4711" in whole((await talk.context(settings=MADE["session"][0])).request)


async def test_a_brief_that_the_user_corrects_holds_at_once(et: Everthread, talk: Talk, someone: str) -> None:
    await before(et, talk)
    await talk.append(BriefUpdated(text="They spoke of roses.", covers=40))
    heard = Heard(someone, [call("correct", {})], "Yes.")

    async def correct(talk: Talk) -> str:
        await talk.correct("They spoke of ZX-4711.")
        return "Corrected."

    await talk.say("Correct it.", tools=[correct], settings={"budget": 1_500})
    assert ["ZX-4711" in body for body in heard.bodies] == [False, True]

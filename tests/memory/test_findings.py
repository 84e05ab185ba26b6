"""What was found by those who looked for it: forgetting to the end, versions that cover, damage, limits, own tools."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from everthread import Everthread, Talk, assistant, user
from everthread.agent.personas import Agent
from everthread.config import Settings
from everthread.core.branches import ENDLESS
from everthread.core.events import BriefUpdated, ModelCall
from everthread.errors import BadValue, NotYetGone
from everthread.jobs.worker import Worker
from everthread.providers.summariser import summariser
from everthread.testing.scripted import call, script
from tests.failures.test_damage import Vandal
from tests.memory.conftest import Speak, settings_of
from tests.memory.support import events_of, recaps
from tests.memory.test_brief import briefs, say
from tests.memory.test_gaps import SMALL, tell
from tests.memory.test_worker import Gate
from tests.transcripts import whole

SECRET = "ZX-4711"
MINUTE = 60_000_000


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    gate = Gate()
    monkeypatch.setattr("everthread.memory.branch.ask", gate.ask)
    return gate


async def telling_of(talk: Talk, what: str) -> list[str]:
    return [event.kind for event in await talk.range(1, ENDLESS) if what in repr(event.event)]


# -- forgetting --------------------------------------------------------------------------------------------------


async def test_what_is_not_yet_gone_from_the_disk_is_gone_from_memory_and_name(
    et: Everthread, talk: Talk, remember: Speak, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember(*[f"The PIN is {SECRET}."] * 9)
    await say(talk, f"My PIN is {SECRET}.")
    await talk.remember()

    async def busy_disk(**_: Any) -> None:
        raise NotYetGone("the store", seconds=1)

    monkeypatch.setattr(et.log._engine, "scrub", busy_disk)
    with pytest.raises(NotYetGone):
        await talk.redact(1)
    assert await telling_of(talk, SECRET) == []
    assert SECRET not in (await et.conversation(user=talk.conversation.user, id=talk.id)).conversation.name


async def test_what_is_published_while_it_is_forgotten_is_forgotten_too(
    talk: Talk, worker: Worker, remember: Speak, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember(*[f"The PIN is {SECRET}."] * 9)
    await say(talk, f"My PIN is {SECRET}.")
    await worker.once(talk.conversation)
    await say(talk, "Something else.")
    real, published = talk._log.forgetting.finish, False

    async def finish(**given: Any) -> None:
        nonlocal published
        if not published:
            published = True
            await talk.append(BriefUpdated(text=f"The PIN is {SECRET}.", covers=4))
        await real(**given)

    monkeypatch.setattr(talk._log.forgetting, "finish", finish)
    await talk.redact(1)
    assert published
    assert await telling_of(talk, SECRET) == []


async def test_what_the_model_has_looked_up_is_forgotten_with_what_it_quotes(
    et: Everthread, talk: Talk, someone: str
) -> None:
    await say(talk, f"My PIN is {SECRET}.")
    script(someone, [call("recall_context", {"query": "PIN"})], [call("open_event", {"reference": "event 1"})], "So.")
    await talk.say("What is it?")
    other = await et.begin(user=someone, name="other")
    script(someone, [call("recall_context", {"query": "PIN", "scope": "user"})], "So.")
    await other.say("And here?")
    assert await telling_of(talk, SECRET) == ["user", "tool_result", "tool_result"]
    assert await telling_of(other, SECRET) == ["tool_result"]
    await talk.redact(1)
    assert await telling_of(talk, SECRET) == await telling_of(other, SECRET) == []


async def test_a_branch_that_does_not_share_an_event_keeps_what_it_remembers(talk: Talk, remember: Speak) -> None:
    remember(*["Fine."] * 9)
    await say(talk, "One.")
    side = await talk.fork(at=2)
    await side.correct("In my own words.")
    secret = await say(talk, f"My PIN is {SECRET}.") - 1
    await talk.redact(secret)
    assert (await side.remembered()).brief == "In my own words."


async def test_memory_md_can_be_removed_with_all_its_versions(talk: Talk) -> None:
    await talk.write_notes(f"PIN {SECRET}")
    await talk.write_notes("Nothing.")
    await talk.forget_notes()
    assert await talk.notes() == ""
    assert await talk.write_notes("Anew.") == 1


# -- which version is sent -----------------------------------------------------------------------------------------


async def test_an_extract_that_covers_serves_while_a_model_catches_up(talk: Talk) -> None:
    await tell(talk, 20)
    await talk.append(
        BriefUpdated(text="An extract of all.", covers=40, extractive=True),
        BriefUpdated(text="A model's, of the first two.", covers=4),
        BriefUpdated(text="An extract of all, again.", covers=40, extractive=True, base=42),
    )
    context = await talk.context(settings=SMALL)
    assert "An extract of all." in whole(context.request)
    assert context.degraded == ("no model has summarised what is remembered up to event 40 yet",)


async def test_where_all_versions_came_after_the_window_one_of_them_is_told(talk: Talk) -> None:
    """As after an import: the brief catches up from the beginning."""
    await tell(talk, 20)
    await talk.append(BriefUpdated(text="Of the first two.", covers=4), BriefUpdated(text="Of four.", covers=8))
    context = await talk.context(settings=SMALL)
    assert "Of the first two." in whole(context.request)
    assert context.explain().sections.keys() >= {"brief", "uncovered"}


async def test_a_damaged_version_is_in_the_way_of_nothing(address: str, talk: Talk, remember: Speak) -> None:
    remember(*["Fine."] * 9)
    await tell(talk, 20)
    await talk.remember()
    [made] = await talk._log.markers(await talk.line(), "brief_updated")
    body = "x'00'" if address.startswith("sqlite") else r"'\x00'"
    sql = f"UPDATE events SET body = {body} WHERE conversation = $1 AND seq = $2"
    await Vandal(address).run(sql, talk.id, made.seq)
    assert (await talk.context(settings=SMALL)).past > 0
    await talk.remember()
    assert "Fine." in whole((await talk.context(settings=SMALL)).request)


# -- limits and ends -----------------------------------------------------------------------------------------------


async def test_a_session_of_which_nothing_can_be_told_is_recapped_once(
    slow: Everthread, talk: Talk, clock: Any, remember: Speak
) -> None:
    remember(*["Fine."] * 9)
    await say(talk, f"My PIN is {SECRET}.")
    for seq in (1, 2):
        await talk.redact(seq)
    clock.now += 31 * MINUTE
    await say(talk, "Back.")
    for _ in range(3):
        await talk.remember()
    assert len(await recaps(talk)) == 1


async def test_a_model_call_that_is_broken_off_counts(
    address: str, someone: str, memory_model: str, remember: Speak, gate: Gate
) -> None:
    remember(*["Fine."] * 9)
    settings = settings_of(someone, memory_model) | {"memory_seconds": 0.1, "memory_calls": 1}
    et = await Everthread.open(address, settings=settings)
    talk = await et.begin(user=someone, name="chat")
    await say(talk, "Hello.")
    draining = asyncio.create_task(et.memory.drain())
    await gate.reached.wait()
    await et.close()
    draining.cancel()
    gate.open()
    async with Everthread.open(address, settings=settings) as et:
        again = et.talk(talk.conversation)
        assert [one.finish for one in await events_of(again, ModelCall)] == ["cancelled"]
        await again.remember()
        assert [one.extractive for one in await briefs(again)] == [True]
        assert (await again.memory()).calls == 1


async def test_who_asks_for_memory_now_waits_for_whoever_is_at_it(
    talk: Talk, worker: Worker, remember: Speak, gate: Gate
) -> None:
    remember("Fine.")
    await say(talk, "Hello.")
    working = asyncio.create_task(worker.once(talk.conversation))
    await gate.reached.wait()
    asked = asyncio.create_task(talk.remember())
    await asyncio.sleep(0)
    gate.open()
    await asyncio.gather(working, asked)
    assert [one.text for one in await briefs(talk)] == ["Fine."]


async def test_text_for_a_server_of_ones_own_goes_to_no_other(address: str, someone: str) -> None:
    """Of a model that the provider does not have nothing is known, but that it was somewhere else."""
    assert summariser(Settings(model="openai:llama3.2")) == ""
    assert summariser(Settings(model="openai:gpt-5")) == "openai:gpt-5-mini"
    async with Everthread.open(address, settings={}) as et:
        talk = await et.begin(user=someone)
        await talk.append(user("Hello."), ModelCall(model="openai:llama3.2", at=2, address="http://localhost:1/v1"))
        assert (await talk.memory()).model == "openai:llama3.2"


# -- tools, notes, rebuilding --------------------------------------------------------------------------------------


async def test_what_was_looked_for_does_not_find_itself(talk: Talk, someone: str) -> None:
    await say(talk, "My cat Minka had a vaccination on 3 May.")
    for _ in range(3):
        script(someone, [call("recall_context", {"query": "cat Minka vaccination"})], "Found.")
        await talk.say("When was that?")
    assert (await talk.recall("cat Minka vaccination"))[0].seq == 1
    hits = await talk.recall("cat Minka vaccination", limit=20)
    assert not [hit for hit in hits if hit.kind in ("tool_call", "tool_result")]


async def test_where_memory_is_off_for_a_branch_its_model_is_told_of_none_of_it(talk: Talk) -> None:
    await talk.write_notes("Vegetarian.")
    await talk.append(user("Hello."))
    assert "Vegetarian." in whole((await talk.context()).request)
    await talk.configure(memory=False)
    request = (await talk.context()).request
    assert "Vegetarian." not in whole(request)
    assert "tools" not in request


async def test_a_request_with_notes_and_an_agent_is_rebuilt_byte_for_byte(et: Everthread, someone: str) -> None:
    await et.agents.save("default", Agent(name=f"helper-{someone}", instructions="You help."))
    talk = await et.begin(user=someone, agent=f"helper-{someone}", name="chat")
    await talk.write_notes("Vegetarian.")
    await talk.say("Hello.")
    [record] = [one.seq for one in await talk.range(1, 100) if one.kind == "model_call"]
    assert (await talk.rebuild(record)).differences == ()


async def test_an_agent_does_not_overwrite_what_it_has_not_seen(talk: Talk, someone: str) -> None:
    await talk.write_notes("Old.")
    other = await talk.fork()

    def meanwhile(_body: Any) -> Any:
        asyncio.get_running_loop().create_task(other.write_notes("Of somebody else."))
        return [call("write_memory", {"text": "Of the agent."})]

    script(someone, meanwhile, "Noted.")
    await talk.say("Remember this.")
    [result] = [event.text for event in await talk.tail(turns=1) if event.kind == "tool_result"]
    kept = await talk._log.documents.versions(talk.conversation.owner, f"memory/{talk.conversation.agent}")
    written = [one.body for one in reversed(kept)]
    if "Of the agent." in written:
        assert written[:2] == ["Old.", "Of the agent."]  # what it had seen; whoever wrote later was not the agent
    else:
        assert "Somebody has changed it meanwhile" in result


# -- corrections and facts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["importance", "session"])
async def test_a_strategy_that_sends_no_brief_has_none_to_correct(talk: Talk, strategy: Any) -> None:
    await say(talk, "Hello.")
    await talk.configure(strategy=strategy)
    with pytest.raises(BadValue, match="others send no brief"):
        await talk.correct("Something.")


@pytest.mark.parametrize("text", ["用户想要两张去里斯本的火车票，" * 60, "x" * 20_000, " "])
async def test_a_correction_must_fit(talk: Talk, text: str) -> None:
    await say(talk, "Hello.")
    with pytest.raises(BadValue, match="the brief"):
        await talk.correct(text)


async def test_a_fact_names_the_event_that_has_it_in_these_words(talk: Talk, remember: Speak) -> None:
    remember("Fine.")
    await talk.append(user("Look at /etc/hosts, please."), assistant("In /etc/hosts stands localhost."))
    await talk.remember()
    [fact] = [fact for fact in (await talk.remembered()).facts if fact.kind == "path"]
    assert fact.line == "path: /etc/hosts (user, event 1)"

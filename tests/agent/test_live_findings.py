"""Moments at which a live turn could go wrong: joins, stops and ends that meet, clocks set back, lost answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

import asyncpg
import pytest

from everthread import Everthread, Talk, assistant, user
from everthread.core.branches import Target
from everthread.core.deltas import Delta, Done, TextDelta
from everthread.core.ended import LEFT_OPEN
from everthread.core.events import AgentKilled
from everthread.core.logged import Logged
from everthread.core.partial import Frame, Place
from everthread.errors import TakenOver, TurnCancelled, Unavailable
from everthread.listening import topic_of
from everthread.store.beside.leases import Lease, of_turns
from everthread.testing.scripted import call, script
from tests.agent.conftest import Speak
from tests.agent.processes import process
from tests.agent.support import state, until_kept
from tests.agent.test_live import Ear, is_over, joined
from tests.waiting import PATIENCE, turned, until

WORDS = " ".join(f"word{number}" for number in range(40))
LONG = " ".join([WORDS] * 50)


# -- stopping --------------------------------------------------------------------------------------------------


async def test_stopping_ends_the_turn_that_runs_and_waits_for_none_that_is_queued_behind_it(
    talk: Talk, speak: Speak
) -> None:
    speak(LONG, LONG, pace=0.02)
    ear = Ear(talk)
    first = talk.say("One.", detached=True)
    await ear.until(lambda ear: ear.text)
    second = talk.say("Two.", detached=True)
    async with asyncio.timeout(PATIENCE):
        assert await talk.stop()
    with pytest.raises(TurnCancelled):
        await first
    await second.accepted()
    assert await state(talk) == "open"
    assert await talk.stop()
    with pytest.raises(TurnCancelled):
        await second
    await ear.leave()


async def test_stopping_from_elsewhere_waits_for_none_that_is_queued_either(
    address: str, talk: Talk, speak: Speak
) -> None:
    speak(LONG, LONG, pace=0.02)
    ear = Ear(talk)
    async with Everthread.open(address) as et:
        other = await et.conversation(user=talk.conversation.user, id=talk.id)
        for _ in range(3):
            speak(LONG, LONG, pace=0.02)
            first = talk.say("One.", detached=True)
            await first.accepted()
            second = talk.say("Two.", detached=True)
            async with asyncio.timeout(PATIENCE):
                assert await other.stop()
            with pytest.raises(TurnCancelled):
                await first
            await second.accepted()
            assert await state(talk) == "open"
            assert await other.stop()
            with pytest.raises(TurnCancelled):
                await second
    await ear.leave()


async def test_a_turn_is_stopped_whatever_users_have_appended_meanwhile(talk: Talk, speak: Speak) -> None:
    """A clear closes the turn as the log counts them, but its reply goes on."""
    speak(LONG, pace=0.02)
    ear = Ear(talk)
    reply = talk.say("One.", detached=True)
    await ear.until(lambda ear: ear.text)
    await talk.clear()
    assert await talk.stop()
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(TurnCancelled):
            await reply
    await ear.until(is_over)
    assert ear.events[-1].kind in ("agent_killed", "model_call")
    await ear.leave()


async def test_a_tool_may_stop_its_own_turn(talk: Talk, speak: Speak) -> None:
    async def enough(talk: Any) -> str:
        """Ends it."""
        await talk.stop()
        return "never"

    speak([call("enough", {})], "Not said.")
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(TurnCancelled):
            await talk.say("Stop.", tools=[enough])
    assert await state(talk) == "interrupted"


async def test_what_had_come_is_kept_though_somebody_cleared_before_the_process_was_killed(
    address: str, someone: str
) -> None:
    script(someone, "I go on.")
    async with Everthread.open(address, settings={"model": f"scripted:{someone}", "memory": False}, keys={}) as et:
        talk = await et.begin(user=someone)
        async with process(address, someone, talk.id, model="word", words=1_000, pace=0.05) as child:
            child.do("say", "ana", text="Talk for ever.")
            await until_kept(talk, "word3")
            await talk.clear()
            await child.kill()
        await talk.say("And now?")
        events = await talk.after(limit=10)
        assert [event.kind for event in events[:5]] == ["user", "clear", "assistant", "agent_killed", "user"]


# -- joining -----------------------------------------------------------------------------------------------------


async def test_one_who_joins_after_the_end_does_not_hear_of_it_again(talk: Talk, speak: Speak) -> None:
    speak("One.", "Two.")
    stays = Ear(talk)
    await talk.say("First.")
    await stays.until(is_over)
    comes = Ear(talk, after=3)
    await comes.until(lambda ear: True)
    await talk.append(user("By the way."))
    await comes.until(lambda ear: ear.items)
    assert [item.kind for item in comes.items] == ["user"]
    await stays.leave()
    await comes.leave()


async def test_one_who_joins_at_the_very_moment_of_the_append_hears_the_reply_once(talk: Talk, speak: Speak) -> None:
    speak(WORDS)
    stays = Ear(talk)
    await stays.until(lambda ear: True)
    joined: list[Ear] = []

    def rung(news: Sequence[Logged] | None) -> None:
        if any(one.kind == "assistant" for one in news or ()):
            joined.extend(Ear(talk) for _ in range(3))

    with talk._log.bells.hear(talk.conversation.about, rung):
        await talk.say("Go on.")
    await talk.append(user("The end."))
    for ear in (stays, *joined):
        await ear.until(lambda ear: ear.events and ear.events[-1].text == "The end.")
        replied = [event.kind for event in ear.items].index("assistant")
        assert not any(isinstance(item, TextDelta) for item in ear.items[replied:])
        await ear.leave()


async def test_who_hears_a_turn_resumed_whose_process_was_killed_can_tell_the_two_replies_apart(
    address: str, someone: str
) -> None:
    script(someone, "I go on.")
    async with Everthread.open(address, settings={"model": f"scripted:{someone}", "memory": False}, keys={}) as et:
        talk = await et.begin(user=someone)
        ear = Ear(talk)
        async with process(address, someone, talk.id, model="word", words=1_000, pace=0.05) as child:
            child.do("say", "ana", text="Talk for ever.")
            await ear.until(lambda ear: ear.events)
            await child.kill()
        await talk.resume(model=f"scripted:{someone}")
        await ear.until(is_over)
        (told, said) = ear.replies[-1]
        assert told == said == "I go on."
        assert "agent_killed" in [event.kind for event in ear.events]
        await ear.leave()


@pytest.mark.parametrize("engine", ["postgres"])
async def test_one_who_knows_more_than_those_who_listen_here_does_not_hear_again_what_is_over(
    address: str, talk: Talk, speak: Speak
) -> None:
    """As one who comes back to another process, which has not heard yet that the reply has ended."""
    speak(WORDS, pace=0.02)
    async with Everthread.open(address) as et:
        other = await et.conversation(user=talk.conversation.user, id=talk.id)
        stays = Ear(other)
        reply = talk.say("Go on.", detached=True)
        await stays.until(lambda ear: ear.text)
        gate = _gate(et)
        await reply
        comes = Ear(other, after=3)
        await asyncio.sleep(0.05)
        gate.set()
        await talk.append(user("The end."))
        await comes.until(lambda ear: ear.events)
        assert not any(isinstance(item, TextDelta) for item in comes.items)
        await stays.leave()
        await comes.leave()


def _gate(et: Everthread) -> asyncio.Event:
    """Until this is set, those who listen read nothing of the log."""
    gate, newest = asyncio.Event(), et.log.newest

    async def later(*given: Any, **more: Any) -> Any:
        await gate.wait()
        return await newest(*given, **more)

    et.log.newest = later  # type: ignore[method-assign]
    return gate


async def test_one_who_joins_after_a_failure_of_the_store_is_not_left_waiting(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with aclosing(talk.listen()) as slow:  # type: ignore[type-var]
        await talk.append(user("One."))
        await anext(slow)
        with monkeypatch.context() as broken:
            broken.setattr(talk._log, "newest", _away)
            talk._log.bells.ring(talk.conversation.about)
            async with asyncio.timeout(PATIENCE):
                while talk._runtime.live._channels:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
        ear = Ear(talk, after=1)
        await talk.append(user("Two."))
        async with asyncio.timeout(PATIENCE):
            await ear.until(lambda ear: ear.events)
        await ear.leave()
        with pytest.raises(Unavailable):
            await anext(slow)


async def _away(*_: Any, **__: Any) -> Any:
    raise Unavailable("the store", "it is away")


# -- accepting and ending ------------------------------------------------------------------------------------------


async def test_a_message_that_was_accepted_is_so_however_often_one_asks(talk: Talk, speak: Speak) -> None:
    speak("Hello.")
    reply = talk.say("Hello?", detached=True)
    await reply
    for _ in range(3):
        assert (await reply.accepted()).seq == 1


async def test_a_key_that_was_used_on_another_branch_begins_no_turn_here(talk: Talk, speak: Speak) -> None:
    speak("One.", "Two.", "Three.", "Four.")
    for _ in range(2):
        await talk.say("Hello.")
    await talk.say("Question?", key="a key")
    await talk.rewind(to=3)
    said = await talk.say("Question?", key="a key")
    assert (said.done.calls, said.text) == (0, "Three.")


async def test_the_end_is_told_though_the_turn_is_cancelled_at_its_very_end(talk: Talk, speak: Speak) -> None:
    speak("Hello.")
    ear = Ear(talk)
    await ear.until(lambda ear: True)
    reply = talk.say("Hello?", detached=True)

    def rung(news: Sequence[Logged] | None) -> None:
        if any(one.kind == "model_call" for one in news or ()):
            asyncio.get_running_loop().call_soon(cancel, 4)

    def cancel(turns: int) -> None:
        if turns:
            asyncio.get_running_loop().call_soon(cancel, turns - 1)
        elif reply._task:
            reply._task.cancel()

    deltas: list[Delta] = []
    with talk._log.bells.hear(talk.conversation.about, rung):
        async for delta in reply:
            deltas.append(delta)  # noqa: PERF401 -- as they come
    assert isinstance(deltas[-1], Done)
    async with asyncio.timeout(PATIENCE):
        await ear.until(is_over)
    await ear.leave()


# -- clocks, and answers that get lost -----------------------------------------------------------------------------


async def test_a_clock_that_is_set_back_does_not_keep_a_reply_from_being_kept(talk: Talk, speak: Speak) -> None:
    speak(LONG, pace=0.02)
    ear = Ear(talk)
    reply = talk.say("Go on.", detached=True)
    await ear.until(lambda ear: ear.text)
    right = talk._log._clock
    talk._log._clock = lambda: right() - 3_600_000_000
    async with asyncio.timeout(PATIENCE):
        await until_kept(talk, "word9")
    await reply.cancel()
    await ear.leave()


@pytest.mark.parametrize("engine", ["postgres"])
async def test_an_append_whose_answer_was_lost_is_heard_at_once(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    engine: Any = talk._log._engine
    carry_out, rung = engine._all, list[Any]()

    async def lossy(*given: Any) -> bool:
        monkeypatch.setattr(engine, "_all", carry_out)
        await carry_out(*given)
        raise ConnectionResetError

    with talk._log.bells.hear(talk.conversation.about, rung.append):
        monkeypatch.setattr(engine, "_all", lossy)
        logged = await talk.append(user("Hello."))
    assert rung == [logged]


async def test_what_a_process_writes_itself_rings_once(talk: Talk) -> None:
    rung: list[bool] = []
    await talk._log.watch()
    with talk._log.bells.hear(talk.conversation.about, lambda news: rung.append(news is not None)):
        await until(lambda: bool(rung))
        rung.clear()  # it looks once in any case
        for number in range(3):
            await talk.append(user(str(number)))
            await asyncio.sleep(0.2)
    assert rung == [True] * 3


# -- turns that are another's by now -----------------------------------------------------------------------------


async def test_nobody_who_joins_hears_a_reply_whose_turn_was_closed_while_its_process_slept(
    address: str, talk: Talk, speak: Speak
) -> None:
    speak(LONG, pace=0.02)
    first = Ear(talk)
    reply = talk.say("One.", detached=True)
    await first.until(lambda ear: ear.text)
    run: Any = talk._runtime.live.running(topic_of(await talk.line()))
    run.held.until = 0  # as after a sleep: it has not looked at its lease yet
    async with Everthread.open(address) as et:
        name, target = of_turns(talk.id, 1), Target("default", talk.id, 1)
        assert await et.log.leases.take("default", name, holder="bob", seconds=60, over=run.held.lease.holder) == "bob"
        await et.log.append(target, [AgentKilled(reason=LEFT_OPEN)], under=Lease("default", name, "bob"))
    await first.until(lambda ear: ear.events[-1:] and ear.events[-1].kind == "agent_killed")
    second = Ear(talk)
    await second.until(lambda ear: len(ear.events) == 2)
    await turned()
    assert [type(item) for item in second.items if isinstance(item, TextDelta)] == []
    with pytest.raises(TakenOver):
        await reply
    await first.leave()
    await second.leave()


async def test_nothing_is_told_of_a_reply_after_its_event_though_its_lease_ran_out_meanwhile(
    talk: Talk, speak: Speak
) -> None:
    """Nobody has taken it over, so it may write."""
    speak(WORDS, pace=0.01)
    ear = Ear(talk)
    reply = talk.say("One.", detached=True)
    await ear.until(lambda ear: ear.text)
    topic, live = topic_of(await talk.line()), talk._runtime.live
    run: Any = live.running(topic)
    run.held.until = 0
    told: list[Any] = []

    def joins(news: Sequence[Logged] | None) -> None:
        if any(event.kind == "assistant" for event in news or ()):
            told.append(live._channels[topic].told_since(Place()))

    with talk._log.bells.hear(topic.about, joins):
        await reply
    assert told == [[]]
    await ear.until(is_over)
    assert ear.text == ""
    await ear.leave()


async def test_a_piece_that_comes_over_the_bus_after_its_turn_was_closed_here_is_not_heard(talk: Talk) -> None:
    ear = Ear(talk)
    live, line = talk._runtime.live, await talk.line()
    await joined(talk)
    late = Frame("gone/1", 1, 0, [TextDelta(text="late")]).written()
    await talk.append(user("One."))
    with talk._log.bells.hear(line.about, lambda _: live._heard(topic_of(line).name, late)):
        await talk._log.append(Target("default", talk.id, 1), [AgentKilled(reason=LEFT_OPEN)])
    await ear.until(is_over)
    assert ear.text == ""
    await ear.leave()


async def test_a_piece_is_not_heard_where_older_ends_are_read_after_its_reply_was_known_to_be_over(talk: Talk) -> None:
    ear = Ear(talk)
    await joined(talk)
    live, topic = talk._runtime.live, topic_of(await talk.line())
    channel = live._channels[topic]
    await until(lambda: not channel._owes and not channel._telling)
    channel._telling = True  # so that the events are read, and not taken from the bell
    live._heard(topic.name, Frame("gone/1", 3, 0, [TextDelta(text="late")]).written())
    main = Target("default", talk.id, 1)
    await talk._log.append(main, [user("One."), AgentKilled(reason=LEFT_OPEN), user("Two."), assistant("Both.")])
    await ear.until(lambda ear: len(ear.events) == 4)
    assert channel.told_since(Place()) == []
    await ear.leave()
    assert ear.text == ""


# -- forgetting ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["postgres"])
@pytest.mark.parametrize("first", ["redact", "keep"])
async def test_what_is_kept_at_the_very_moment_of_a_redaction_goes_with_it(
    talk: Talk, postgres: Any, first: str
) -> None:
    """Either of the two is at work, uncommitted, when the other one begins."""
    await talk.append(user("My secret is a cake."))
    name = of_turns(talk.id, 1)
    lease = Lease("default", name, "ana")
    await talk._log.leases.take("default", name, holder="ana", seconds=30)
    await talk._log.leases.hold(lease, at=1)
    engine: Any = talk._log._engine
    keeping, redacting = _keep(talk, lease), talk._log.forgetting.redact(await talk.line(), 1)
    ahead, behind = (redacting, keeping) if first == "redact" else (keeping, redacting)
    held, go_on = asyncio.Event(), asyncio.Event()
    told = engine._tell

    async def pausing(connection: Any, write: Any) -> str:
        done = await told(connection, write)
        if write.name in ("forget_partials", "keep_partial") and not held.is_set():
            held.set()
            await go_on.wait()
        return str(done)

    engine._tell = pausing
    one = asyncio.ensure_future(ahead)
    await held.wait()
    two = asyncio.ensure_future(behind)
    await _is_blocked(postgres.url)
    go_on.set()
    await asyncio.gather(one, two)
    kept = await talk._log.leases.partial("default", name)
    assert kept is not None
    assert kept.text == ""


async def _keep(talk: Talk, lease: Lease) -> None:
    await talk._log.leases.keep(lease, talk.id, at=1, text="cake", forgotten=0)


async def _is_blocked(url: str) -> None:
    """Until somebody waits for a lock that another has. As a superuser: a store's own connections may not see that."""
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    connection = await asyncpg.connect(url)
    async with asyncio.timeout(PATIENCE):
        while not await connection.fetchval(waiting):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await connection.close()

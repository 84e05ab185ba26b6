"""The store's answers equal those of plain lists: windows of any strategy, on any branch, as of any event."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import pytest

from everthread import Everthread, Talk, assistant, tool_call, tool_result, user
from everthread.context.build import Context
from everthread.core.events import Other
from everthread.core.request import ReplyItem
from everthread.core.strategies import STRATEGIES, At, Back, Older, Question, Ranked
from everthread.core.window import From, Lookups, Upto, excess
from everthread.store.open import open_log
from everthread.store.scripts.outlook import Outlook
from tests.contract.shapes import KINDS, Shape, dialogue
from tests.contract.support import MINUTE, Clock, assert_sound, everything
from tests.contract.windows import (
    STRATEGY_NAMES,
    Known,
    Wanderer,
    had_to_give_way,
    known,
    plan_of,
    seen_of,
    sent_turns,
    seqs,
    spelled,
)

OPENAI, ANTHROPIC = "openai:gpt-4o", "anthropic:claude-opus-4-8"
SMALL = {"messages": 5, "active_messages": 6}  # so that these windows move in a short conversation


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def et(address: str, clock: Clock) -> AsyncIterator[Everthread]:
    """A store whose clock the test moves, with no settings but those that a test gives."""
    opened = Everthread(await open_log(address, clock=clock), {"memory": False})
    yield opened
    await opened.close()


@pytest.fixture
async def another(address: str, clock: Clock) -> AsyncIterator[Everthread]:
    """The same store, as another process would have it open."""
    opened = Everthread(await open_log(address, clock=clock), {"memory": False})
    yield opened
    await opened.close()


async def look(talk: Talk, strategy: str, budget: int, **more: Any) -> Context:
    asked: dict[str, Any] = {"model": OPENAI, "instructions": "Be kind.", "settings": SMALL, **more}
    return await talk.context(strategy=strategy, budget=budget, **asked)


# -- equal to plain lists --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
async def test_the_window_is_what_the_pure_functions_make_of_the_turns(
    et: Everthread, talk: Talk, clock: Clock, seed: int
) -> None:
    wanderer = Wanderer(talk, clock, seed)
    for _ in range(3):
        await wanderer.live(14)
        for side in wanderer.sides:
            lists = await known(side)
            for strategy in STRATEGY_NAMES:
                for budget in (500, 1_200, 4_000):
                    assert_equal_to(lists, await look(side, strategy, budget))
    await assert_sound(et, talk)


TAGS = 200  # tokens of tags around a late result, and of what is told of them


def assert_equal_to(lists: Known, context: Context) -> None:
    plan, chosen = plan_of(context), seen_of(context).choice
    if not lists.turns:
        assert (chosen, context.sent, context.cutoff) == (None, 0, len(lists.events) + 1)
        return
    expected = lists.choice(STRATEGIES[context.strategy], plan)
    assert chosen is not None
    pins = fitting_pins(lists, context)
    older = {turn.start.first: turn for turn in expected.older}
    older |= {pin.start.first: pin for pin in pins if pin.start.first < expected.begin.first}
    if question := assert_asked(lists, context):
        assert (chosen.begin >= expected.begin, chosen.above) == (True, None)
        older[question.start.first] = question
    else:
        assert (chosen.begin, chosen.notes, chosen.above, chosen.messages) == (
            expected.begin,
            expected.notes,
            expected.above,
            expected.messages,
        )
    looked_up = {(turn.start, turn.last, turn.size) for turn in chosen.older}
    left = {(turn.start, turn.last, turn.size) for turn in older.values()} - looked_up
    assert looked_up <= {(turn.start, turn.last, turn.size) for turn in older.values()}
    # What had to leave for its size, and the tags that it would have brought, is not looked up the second time.
    gone = plan.measure.tokens(sum(size for *_, size in left)) + TAGS
    assert not left or context.estimate + gone > context.budget
    recent = {turn.first for turn in lists.turns if turn.first >= expected.begin.first}
    if left or question or had_to_give_way(context):
        assert context.cutoff in recent
        assert sent_turns(context) <= recent | older.keys()
    else:
        assert context.cutoff == expected.begin.first
        assert sent_turns(context) == recent | older.keys()


def assert_asked(lists: Known, context: Context) -> Older | None:
    """The user's newest message is sent, or it is told that it is not. Its turn, where that lies before the window."""
    question: Older | None = lists.answer(Question(lists.turns[-1].first + 1))
    window = [turn for turn in lists.turns if turn.first >= context.cutoff]
    if any(lists.said_in(turn)[0].kind == "user" for turn in window) or question is None:
        return None
    assert question.start.first in sent_turns(context) or any(
        "newest message is not" in one for one in context.degraded
    )
    return question


def fitting_pins(lists: Known, context: Context) -> list[Any]:
    """The pins that fit into their share of the room, from the newest; what they take is not there for others."""
    plan = plan_of(context)
    whole = plan.room.room + sum(pin.size for pin in plan.pins)
    free = int(whole * plan.settings.pins)
    kept = []
    for pin in lists.pinned():
        if pin.size <= free:
            kept.append(pin)
            free -= pin.size
    assert [pin.start for pin in kept] == [pin.start for pin in plan.pins]
    return kept


@pytest.mark.parametrize("seed", [31, 32])
async def test_every_look_up_is_answered_as_the_lists_answer_it(
    et: Everthread, talk: Talk, clock: Clock, seed: int
) -> None:
    """At every turn, and a token to either side of it; as of now, and as of some earlier event."""
    wanderer = Wanderer(talk, clock, seed)
    await wanderer.live(30)
    for side in wanderer.sides:
        line, last = await side.line(), len(await everything(side))
        for at in (last + 1, max(1, last * 2 // 3)):
            lists = await known(side, at)
            found = await et.log.look(line, at=at, ask=partial(asking, lists), nothing=NOTHING)
            assert found == [(question, lists.answer(question)) for question in questions(lists)]


NOTHING: list[tuple[Any, Any]] = []


def questions(lists: Known) -> Iterator[Any]:
    """None where there are no turns: then nothing is asked."""
    for start in lists.starts:
        for before in (start.before - 1, start.before, start.before + 1):
            yield From(max(0, before))
        if start != lists.starts[-1]:
            yield Upto(start.before)
            yield Upto(start.before + 1)
        yield At(start.first)
        yield Question(start.first)
        for importance in {turn.importance for turn in lists.older()}:
            yield Ranked(importance, start.first, 3)
    for count in (1, 2, 5, 20, 1_000) if lists.turns else ():
        yield Back(count)
        yield Back(count, spoken=True)


def asking(lists: Known, _: Outlook) -> Lookups[list[tuple[Any, Any]]]:
    found = []
    for question in questions(lists):
        answer = yield question
        found.append((question, answer))
    return found


async def test_a_fork_in_the_middle_of_a_turn_begins_where_its_ancestors_turns_do(talk: Talk) -> None:
    for number in range(8):
        await talk.append(user(f"{number} " + "word " * 60), tool_call("look"), tool_result("x " * 60, name="look"))
        await talk.append(assistant("Done."))
    side = await talk.fork(at=26)  # between a tool call and its result
    deep = await side.fork(at=27)
    await talk.append(*(user("elsewhere " * 200) for _ in range(5)))
    await deep.append(tool_result("y " * 60, name="look"), assistant("Done so."), user("Go on."))
    for budget in (400, 700, 1_500):
        lists, context = await known(deep), await look(deep, "budget", budget)
        assert_equal_to(lists, context)
        assert context.cutoff in {1, 5, 9, 13, 17, 21, 25, 30}
    assert "elsewhere" not in spelled(await look(deep, "budget", 8_000))


async def test_a_clear_begins_afresh_for_every_strategy(talk: Talk) -> None:
    for number in range(12):
        await talk.append(user(f"before {number}"), assistant("Yes."))
    await talk.pin(3)
    await talk.clear()
    for strategy in STRATEGY_NAMES:
        assert (await look(talk, strategy, 4_000)).sent == 0
    first = (await talk.append(user("after"), assistant("Yes.")))[0]
    for strategy in STRATEGY_NAMES:
        context = await look(talk, strategy, 4_000)
        assert (context.cutoff, context.sent, context.past) == (first.seq, 2, 24)
        assert "before" not in spelled(context)


# -- as of any event ---------------------------------------------------------------------------------------

LOOKS: list[tuple[str, int, dict[str, Any]]] = [
    *((strategy, budget, {}) for strategy in STRATEGY_NAMES for budget in (600, 2_500)),
    ("budget", 1_500, {"model": ANTHROPIC}),
]


@pytest.mark.parametrize("seed", [101, 102])
async def test_a_past_request_is_rebuilt_byte_for_byte(
    talk: Talk, another: Everthread, clock: Clock, seed: int
) -> None:
    """As of every event, of every branch, by a process that was not there: what was built right before that event."""
    live: dict[tuple[int, int], list[str]] = {}

    async def keep(side: Talk) -> None:
        newest = await side.before(limit=1)
        live[await branch_of(side), newest[0].seq + 1 if newest else 1] = await requests(side)

    wanderer = Wanderer(talk, clock, seed)
    wanderer.before = keep
    await wanderer.live(15)
    found = await another.conversation(user=talk.conversation.user, id=talk.id)
    rebuilt = set()
    for number in [branch.branch.number for branch in await found.branches()]:
        side, again = await talk.on(number), await found.on(number)
        line, (*past, now) = await again.line(), await seqs(again)
        for place in ((line.owner(seq), seq) for seq in reversed(past)):
            if place in live:
                assert await requests(again, at=place[1]) == live[place]
                rebuilt.add(place)
        assert await requests(again, at=now) == await requests(again) == await requests(side)
    assert rebuilt == live.keys()


async def branch_of(talk: Talk) -> int:
    return (await talk.line()).branch.number


async def requests(talk: Talk, at: int | None = None) -> list[str]:
    return [spelled(await look(talk, strategy, budget, at=at, **more)) for strategy, budget, more in LOOKS]


# -- settings ----------------------------------------------------------------------------------------------


async def test_changed_settings_take_effect_from_there_on(talk: Talk) -> None:
    await chatter(talk, 40)
    before = await configured(talk)
    changed = await talk.configure(budget=600)
    after = await configured(talk)
    assert after.budget == 600
    assert after.cutoff > before.cutoff
    again = await configured(talk, at=changed.seq)
    assert (spelled(again), again.budget, again.cutoff) == (spelled(before), before.budget, before.cutoff)
    await talk.configure(budget=None)
    assert spelled(await configured(talk)) == spelled(before)


async def test_settings_are_inherited_by_a_fork_and_independent_afterwards(talk: Talk) -> None:
    await chatter(talk, 40)
    early = await talk.fork()
    await talk.configure(budget=600)
    side = await talk.fork()
    assert (await configured(side)).budget == 600
    assert (await configured(early)).budget == 100_000
    await side.configure(budget=900)
    await talk.configure(budget=700)
    deep = await side.fork()
    assert [(await configured(one)).budget for one in (talk, side, deep, early)] == [700, 900, 900, 100_000]


async def test_a_raised_budget_may_move_the_cutoff_back(talk: Talk) -> None:
    await chatter(talk, 60)
    await talk.configure(budget=600)
    low = await configured(talk)
    await talk.configure(budget=1_800)
    high = await configured(talk)
    assert high.cutoff < low.cutoff
    assert high.sent > low.sent


async def chatter(talk: Talk, turns: int) -> None:
    for number in range(turns):
        await talk.append(user(f"{number}: how is it?"), assistant("It is well, and it will be well. " * 2))


async def configured(talk: Talk, at: int | None = None) -> Context:
    return await talk.context(model=OPENAI, at=at)


# -- between two steps the request only grows --------------------------------------------------------------


@pytest.mark.parametrize(("strategy", "grows"), [("budget", 40), ("session", 40), ("importance", 25)])
async def test_between_two_steps_the_request_only_grows(talk: Talk, clock: Clock, strategy: str, grows: int) -> None:
    """Message for message, at every model call, while the same turns are sent and no large result settles."""
    wanderer = Wanderer(talk, clock, 7)
    previous: tuple[Context, list[Any]] | None = None
    grew = stepped = 0
    for _ in range(40):
        clock.now += wanderer.chance.choice([1, 1, 5, 70]) * MINUTE
        events = wanderer.chance.choice([wanderer.plain, wanderer.tools, wanderer.parallel])()
        for event in events:
            await wanderer.say(event, *([Other(kind="note")] if wanderer.chance.random() < 0.2 else []))
            if event.kind == "user" or (event.kind == "tool_result" and not await unanswered(talk)):
                context = await look(talk, strategy, 3_000, settings={})
                messages = context.request["messages"]
                if previous and began_as(context, previous[0]) and context.degraded == previous[0].degraded:
                    assert messages[: len(previous[1])] == previous[1]
                    assert len(messages) > len(previous[1])
                    grew += 1
                stepped += previous is not None and context.cutoff != previous[0].cutoff
                previous = context, messages
        if any(event.kind == "tool_result" and event.settled < event.tokens for event in await talk.tail(turns=1)):
            previous = None
    assert grew >= grows
    assert stepped


async def unanswered(talk: Talk) -> int:
    said = [event.kind for event in await talk.tail(turns=1)]
    return said.count("tool_call") - said.count("tool_result")


def began_as(context: Context, earlier: Context) -> bool:
    """Whether both begin at the same turn, with the same older ones in front."""
    now, then = context._packing, earlier._packing
    return context.cutoff == earlier.cutoff and [t.start for t in now.older] == [t.start for t in then.older]


@pytest.mark.parametrize("strategy", ["budget", "session", "importance"])
async def test_what_is_said_to_have_begun_the_same_way_did(talk: Talk, clock: Clock, strategy: str) -> None:
    """Reasoning goes back, and a cache is reckoned with, only where the request that led to it began as this one."""
    wanderer = Wanderer(talk, clock, 2_000)
    await wanderer.live(30)
    side, budget = wanderer.talk, 1_500
    contexts = {
        seq: await look(side, strategy, budget, at=seq, settings={"active_messages": 8}) for seq in await seqs(side)
    }
    held = 0
    for context in contexts.values():
        for turn in context._packing.turns:
            for reply in (item for item in turn.items if isinstance(item, ReplyItem)):
                earlier = contexts[reply.seq]
                if context._packing.held(turn, reply.seq) and not (
                    had_to_give_way(context) or had_to_give_way(earlier)
                ):
                    assert began_as(context, earlier)
                    held += 1
    assert held > 50


@pytest.mark.parametrize("seed", [0, 44, 55, 67, 87])
async def test_a_choice_by_importance_that_is_said_to_have_held_did(talk: Talk, seed: int) -> None:
    """Older turns come and go: as the recent part grows, where it is cut by size, when a large result settles."""
    chance = random.Random(seed)
    kinds = chance.choice([KINDS, ("plain", "plain", "large", "tools", "many")])
    words = (1, 3, 10, 40, 300, 900), (1, 3, 10, 40, 120)
    turns = [Shape(chance.choice(kinds), *map(chance.choice, words)) for _ in range(20)]
    last = (await talk.append(*dialogue(turns)))[-1].seq
    budget, active = chance.choice([700, 1_500, 3_000, 8_000, 10_000]), chance.choice([2, 3, 5, 8])
    given = {"active_messages": active}
    seen = [seen_of(await look(talk, "importance", budget, at=seq, settings=given)) for seq in range(2, last + 2)]
    room = plan_of(await look(talk, "importance", budget, settings=given)).room
    held = 0
    for place, now in enumerate(seen):
        for then in (earlier for earlier in seen[:place] if earlier.outlook.head.state == "open"):
            assert now.choice
            assert then.choice
            assert then.outlook.newest
            newest, over = then.outlook.newest, excess(then.outlook.newest, then.outlook.size, room)
            if now.choice.held(newest.number, over, then.outlook.head.messages_sum):
                assert then.choice.begin == now.choice.begin
                assert [turn.start for turn in then.choice.older] == [turn.start for turn in now.choice.older]
                held += 1
    assert held

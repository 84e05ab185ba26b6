"""Reasoning goes back to the model that made it: in the turn in progress, and in finished turns until the window steps.

Each made-up piece of reasoning is sealed with its model and its text (`benchmarks.seals`), so a request shows
whether it was altered; and each says which model call it came from, so that it can be told whether that one's
request began as this one does.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest

from benchmarks.seals import broken, reasoning_item, thinking
from benchmarks.validator import refusals
from everthread import Everthread, Talk, assistant, tool_call, tool_result, user
from everthread.context.build import Context
from everthread.core.events import BriefUpdated, SessionEnded
from everthread.core.parts import Reasoning
from tests.saying import HOUR, NINE, say
from tests.transcripts import BOUND, CLAUDE, RESPONSES, transcript

BUDGET = 3_200


@pytest.fixture
async def et(tmp_path: Path) -> AsyncIterator[Everthread]:
    async with Everthread.open(f"sqlite:///{tmp_path}/talk.db", settings={"clock": "off", "budget": BUDGET}) as opened:
        yield opened


@pytest.fixture
async def talk(et: Everthread) -> Talk:
    return await et.begin(user="ana")


def reasoned(said: str, model: str) -> Reasoning:
    if model == RESPONSES:
        return Reasoning(text=said, meta={"openai-responses": reasoning_item(model, said, f"rs_{said}")})
    return Reasoning(text=said, meta={"anthropic": thinking(model, said)})


def thoughts(context: Context) -> list[str]:
    return [line.removeprefix("thinking: ") for line in transcript(context) if line.startswith("thinking: ")]


class Loop:
    """An agent that reasons before everything it does, and remembers from where on it was told the conversation."""

    def __init__(self, talk: Talk, model: str) -> None:
        self.talk, self.model = talk, model
        self.begun: dict[str, int] = {}  # of each thought, the cutoff of the request that led to it
        self.turn_of: dict[str, int] = {}
        self.turn = 0

    async def ask(self, words: int = 20) -> Context:
        self.turn += 1
        await self.talk.append(user("word " * words))
        return await self.context()

    async def context(self) -> Context:
        context = await self.talk.context(model=self.model)
        assert refusals(self.model, context.request) == []
        assert broken(self.model, context.request) == []
        return context

    def _think(self, context: Context) -> Reasoning:
        said = f"t{len(self.begun)}"
        self.begun[said], self.turn_of[said] = context.cutoff, self.turn
        return reasoned(said, self.model)

    async def use_tool(self, context: Context, words: int = 20) -> Context:
        thought = self._think(context)
        call = tool_call("find", id=f"c{len(self.begun)}")
        await self.talk.append(assistant(thought, model=self.model), call)
        await self.talk.append(tool_result("word " * words, id=call.id))
        return await self.context()

    async def reply(self, context: Context, words: int = 20) -> None:
        await self.talk.append(assistant(self._think(context), "word " * words, model=self.model))

    def still(self, context: Context, *, bound: bool) -> list[str]:
        """The thoughts that may go back: of requests that began as this one does, and of the turn in progress."""
        return [
            said
            for said, cutoff in self.begun.items()
            if cutoff == context.cutoff or (self.turn_of[said] == self.turn and not bound)
        ]


@pytest.mark.parametrize("seed", [0, 1, 4, 6])
@pytest.mark.parametrize("model", [CLAUDE, BOUND, RESPONSES])
async def test_it_goes_back_until_the_window_steps_and_is_left_out_from_there_back(
    talk: Talk, model: str, seed: int
) -> None:
    """Exactly what was thought under this cutoff goes back; and in the turn in progress all, unless it is bound."""
    random, loop = Random(seed), Loop(talk, model)
    cutoffs, sent, in_the_middle = set(), 0, 0
    for _ in range(25):
        context = await loop.ask(random.randint(5, 60))
        assert thoughts(context) == loop.still(context, bound=model == BOUND)
        for _ in range(random.choice((0, 1, 1, 2, 4))):
            before = context.cutoff
            context = await loop.use_tool(context, random.randint(5, 150))
            assert thoughts(context) == loop.still(context, bound=model == BOUND)
            in_the_middle += before != context.cutoff
        cutoffs.add(context.cutoff)
        sent += len(thoughts(context))
        await loop.reply(context, random.randint(5, 60))
    assert len(cutoffs) > 3
    assert in_the_middle
    assert sent > 25


async def test_a_bound_thought_is_left_out_of_its_turn_when_the_window_stepped_in_the_middle_of_it(talk: Talk) -> None:
    for model in (CLAUDE, BOUND):
        loop = Loop(await talk.fork(name=model.partition(":")[2]), model)
        for _ in range(8):
            await loop.reply(await loop.ask(80))
        context = await loop.ask()
        before = context.cutoff
        while context.cutoff == before:
            context = await loop.use_tool(context, 150)
        of_this_turn = [said for said, turn in loop.turn_of.items() if turn == loop.turn]
        assert thoughts(context) == ([] if model == BOUND else of_this_turn)
        context = await loop.use_tool(context)
        assert thoughts(context)[-1:] == [list(loop.begun)[-1]]  # what was thought since goes back
        await loop.reply(context)
        assert len(thoughts(await loop.ask())) == 2


async def test_another_models_thoughts_are_left_out_and_come_back_with_it(talk: Talk) -> None:
    loop = Loop(talk, CLAUDE)
    await loop.reply(await loop.ask())
    await loop.ask()
    assert thoughts(await talk.context(model=CLAUDE)) == ["t0"]
    assert thoughts(await talk.context(model=BOUND)) == []
    assert thoughts(await talk.context(model="anthropic:claude-opus-4-6")) == []
    assert thoughts(await talk.context(model=CLAUDE)) == ["t0"]


async def test_it_is_the_same_as_of_an_earlier_event(talk: Talk) -> None:
    loop, requests = Loop(talk, BOUND), []
    for _ in range(8):
        context = await loop.ask(100)
        requests.append((context.request, (await talk.turns(limit=1))[0].last))
        await loop.reply(context, 100)
    for request, seq in requests:
        assert (await talk.context(model=BOUND, at=seq + 1)).request == request


async def test_what_is_left_out_is_not_in_the_estimate(talk: Talk) -> None:
    long = "so " * 300
    await talk.append(user("Go."), assistant(reasoned(long, CLAUDE), "Done.", model=CLAUDE), user("Well?"))
    own, other = await talk.context(model=CLAUDE), await talk.context(model="anthropic:claude-opus-4-6")
    assert own.estimate - other.estimate >= 300


# -- what else changes the beginning of a request ----------------------------------------------------------


async def test_a_change_of_settings_or_pins_is_a_new_beginning_for_what_is_bound(talk: Talk) -> None:
    loop = Loop(talk, BOUND)
    await loop.reply(await loop.ask())
    await loop.reply(await loop.ask())
    await talk.configure(reply_tokens=1_000)
    await loop.ask()
    assert thoughts(await loop.context()) == []


async def test_a_bound_thought_is_left_out_when_a_result_before_it_became_a_stub(talk: Talk) -> None:
    """It was thought after the whole result, which is no longer what is sent."""
    loop = Loop(talk, BOUND)
    context = await loop.use_tool(await loop.ask(), 0)
    await talk.append(assistant(reasoned("before", BOUND), model=BOUND), tool_call("find", id="large"))
    await talk.append(tool_result("x" * 11_000, id="large"), assistant(reasoned("after", BOUND), "Done.", model=BOUND))
    context = await loop.ask()
    assert "left out" in str(context.request)
    assert thoughts(context) == ["t0", "before"]


async def test_a_bound_thought_is_left_out_when_the_brief_before_it_was_replaced(et: Everthread) -> None:
    """A brief that was behind is swapped once, when a version covers the cutoff: the instructions change."""
    talk = await et.begin(user="ana", settings={"memory": True})
    loop = Loop(talk, BOUND)
    while (context := await loop.ask(150)).cutoff == 1:
        await loop.reply(context, 150)
    await loop.reply(context, 20)
    assert thoughts(await loop.ask())
    await talk.append(BriefUpdated(text="Ana wants tickets.", covers=context.cutoff))
    context = await loop.context()
    assert "Ana wants tickets." in str(context.request["system"])
    assert thoughts(context) == []


async def test_a_bound_thought_is_left_out_when_a_recap_came_before_it(et: Everthread, talk: Talk) -> None:
    """The recap of the last session is made beside the conversation, maybe after the first reply of the next."""
    await say(et, talk, user("Go."), assistant("Done."))
    await say(et, talk, user("Back."), assistant(reasoned("hm", BOUND), "Hello.", model=BOUND), at=NINE + HOUR)
    await say(et, talk, SessionEnded(session=1, recap="Ana bought tickets."), user("Well?"), at=NINE + HOUR)
    context = await talk.context(model=BOUND, strategy="session", settings={"memory": True})
    assert "Ana bought tickets." in str(context.request["messages"][0])
    assert thoughts(context) == []

"""What goes wrong in systems like this one: a cut that breaks the request. Numbers 1 to 6, and law 3.

Each test names the number of the failure that it stands for. All of them go through `talk.context`.
"""

from __future__ import annotations

import itertools

import pytest

from benchmarks.validator import holds_user_text
from everthread import Everthread, Talk, assistant, system, tool_call, tool_result, user
from everthread.core.branches import ENDLESS
from everthread.core.events import AgentKilled, BriefUpdated, Event, ToolCall
from everthread.core.parts import Reasoning
from everthread.errors import BeyondModel
from everthread.transfer import from_anthropic
from tests.saying import MINUTE, NINE, asked, begins_with, say, turns, used
from tests.transcripts import CHAT, CLAUDE, FORMS, RESPONSES, blocks, instructions, transcript, whole

FIND, SEAT = tool_call("find", {"number": 1}, id="a"), tool_call("seat", id="b")
FOUND, TAKEN = tool_result("found", id="a", name="find"), tool_result("taken", id="b", name="seat")

# Everything that may be cut in two: parallel calls, a crash, an interruption, a late result, ids that repeat.
AWKWARD: list[Event] = [
    *(system("Be kind."), assistant("Good morning."), user("Both."), assistant("A moment."), FIND, SEAT, TAKEN, FOUND),
    *(assistant("Done."), user("Again."), FIND, AgentKilled(), user("Well?"), FIND, user("Quick!"), FOUND),
    *(assistant("Half", interrupted=True), user("Buy."), ToolCall(id="a", name="buy", waits_for="approval")),
    *(user("Meanwhile?"), assistant("Yes."), tool_result("bought", id="a"), assistant("Bought."), user("Thanks.")),
]

pytestmark = pytest.mark.usefixtures("without_memory")


# -- 1: results without calls, calls without results -------------------------------------------------------


async def test_no_call_or_result_is_alone_wherever_the_conversation_is_cut(talk: Talk) -> None:
    """1: after trimming, or as of any event (a crash may come after any)."""
    events = await talk.append(*AWKWARD)
    for event in events:
        for model in FORMS:
            for budget in (0, 90):
                await asked(talk, model, at=event.seq + 1, budget=budget, settings={"step": 0})


async def test_no_call_or_result_is_alone_after_a_fork_or_rewind(talk: Talk) -> None:
    """1: and the conversation goes on from there, with the result of a call that was left behind."""
    events = await talk.append(*AWKWARD)
    for event in events[::2]:
        side = await talk.fork(at=event.seq)
        await side.append(FOUND, user("Go on."))
        for model in FORMS:
            await asked(side, model)
    back = await talk.rewind(to=events[5].seq)
    await back.append(user("Otherwise."))
    for model in FORMS:
        assert transcript(await asked(back, model))[-1].startswith("user: ")


async def test_no_call_or_result_is_alone_when_the_rest_is_summarised(talk: Talk) -> None:
    """1: a brief may end in the middle of a step."""
    events = await talk.append(*AWKWARD)
    await talk.append(BriefUpdated(text="Ana bought tickets.", covers=events[6].seq))
    for model in FORMS:
        for budget in (60, 90, 120, 200):
            await asked(talk, model, budget=budget)


# -- 2: pending calls --------------------------------------------------------------------------------------


async def test_the_late_result_of_a_call_that_has_left_the_window_breaks_nothing(talk: Talk) -> None:
    """2: it is told as text where it arrives, with the name of its tool."""
    await talk.append(user("Buy."), ToolCall(id="a", name="buy", waits_for="approval"), *turns(20))
    await talk.append(BriefUpdated(text="Ana asked to buy.", covers=30))
    await talk.append(tool_result("bought", id="a", name="buy"))
    for model in FORMS:
        context = await asked(talk, model, budget=600)
        assert context.cutoff > 2
        told = transcript(context)
        assert told[told.index('user: <result-N of="buy">') + 1] == "user: bought"


async def test_a_call_keeps_its_placeholder_when_its_result_comes_late(talk: Talk) -> None:
    """2: what was sent before stays as it was, so that the cache stays good."""
    await talk.append(user("Buy."), ToolCall(id="a", name="buy", waits_for="approval"), user("Meanwhile?"))
    before = {model: await asked(talk, model) for model in FORMS}
    await talk.append(assistant("Yes."), tool_result("bought", id="a", name="buy"))
    for model in FORMS:
        after = blocks((await asked(talk, model)).request)
        assert begins_with(after, blocks(before[model].request))
        assert "waits for approval" in str(after)


# -- 3: text and results in one message --------------------------------------------------------------------


async def test_the_text_beside_a_result_outlives_its_call(talk: Talk) -> None:
    """3: a message of Anthropic's form with both; the call leaves the window, the text stays and is whole."""
    use = {"type": "tool_use", "id": "toolu_1", "name": "find", "input": {}}
    answer = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "found " * 200}
    both = [answer, {"type": "text", "text": "And what about the other one?"}]
    said = [
        {"role": "user", "content": "Find it."},
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": both},
    ]
    await talk.append(*from_anthropic({"messages": said}))
    for model in FORMS:
        for budget in (0, 150):
            context = await asked(talk, model, budget=budget)
            assert holds_user_text(context.request, "And what about the other one?")
            assert ("call find {}" in transcript(context)) == (budget == 0)


# -- 4: repair ---------------------------------------------------------------------------------------------


async def test_the_same_repair_every_time_and_the_log_is_not_touched(talk: Talk) -> None:
    """4: what was appended is what is there; a request is the same again, at once and as of then."""
    await talk.append(*AWKWARD)
    log = await talk.range(1, ENDLESS)
    first = {model: await asked(talk, model) for model in FORMS}
    assert all(context.repaired for context in first.values())
    assert await talk.range(1, ENDLESS) == log
    await talk.append(assistant("Bye."), user("Bye."))
    for model, context in first.items():
        again = await asked(talk, model, at=log[-1].seq + 1)
        assert whole(again.request) == whole(context.request)
        assert again.repaired == context.repaired


async def test_a_repair_stays_as_it_is_while_the_conversation_grows(talk: Talk) -> None:
    """4: or the cache is lost: each request begins with the one before it."""
    said: dict[str, list[str]] = {model: [] for model in FORMS}
    await talk.append(*AWKWARD)
    for turn in turns(4):
        await talk.append(turn)
        if turn.kind != "user":
            continue
        for model in FORMS:
            now = blocks((await asked(talk, model, budget=0)).request)
            assert begins_with(now, said[model])
            said[model] = now


# -- 5: reasoning (tests/providers/test_reasoning.py has the rest) -----------------------------------------


async def test_reasoning_that_only_the_provider_kept_does_not_poison_the_conversation(talk: Talk) -> None:
    """5: an id without its content is never sent, so it need not be found."""
    stale = Reasoning(meta={"openai-responses": '{"type": "reasoning", "id": "rs_1", "summary": []}'})
    await talk.append(user("Go."), assistant(stale, model=RESPONSES), FIND, FOUND, assistant("Done."), user("Well?"))
    assert "rs_1" not in whole((await asked(talk, RESPONSES)).request)


async def test_a_switch_of_provider_in_the_middle_of_a_turn(talk: Talk) -> None:
    """5: each gets its own reasoning back and none of another's."""
    for model in FORMS:
        provider = model.partition(":")[0]
        thought = Reasoning(text="hm", meta={provider: '{"type": "thinking", "thinking": "hm", "signature": "c2ln"}'})
        await talk.append(user("Go."), assistant(thought, "A moment.", model=model), FIND, FOUND)
        for other in FORMS:
            await asked(talk, other)
    assert transcript(await asked(talk, CLAUDE)).count("thinking: hm") == 1


# -- 6: one turn larger than the budget --------------------------------------------------------------------

LINES = "\n".join(f"line {number} of the log, which is long" for number in range(400))


async def test_results_of_a_turn_that_is_too_large_are_shortened_from_the_largest(talk: Talk) -> None:
    """6: head and tail stay, and where the whole is; the question stays whole, and what is small."""
    question = "What does the log say? " + "Please. " * 50
    await talk.append(
        user(question), *used("small", "all is well"), *used("middle", LINES[:3_000]), *used("large", LINES)
    )
    for model in FORMS:
        context = await asked(talk, model, budget=3_000)
        told = {line.split(": ")[0]: line for line in transcript(context) if line.startswith("result ")}
        assert told["result small"] == "result small: all is well"
        assert told["result middle"] == f"result middle: {LINES[:3_000]}"
        large = told["result large"]
        assert large.startswith("result large: line 0 of the log")
        assert large.endswith("line 399 of the log, which is long")
        assert "the whole is event 7 of this conversation" in large
        assert context.degraded == ("results of the newest turn, shortened to fit: 1",)
        assert context.over_budget == 0
        assert holds_user_text(context.request, question)


async def test_results_are_shortened_no_further_than_must_be(talk: Talk) -> None:
    """6: the smaller the budget, the shorter they are, until nothing is left but where the whole is."""
    await talk.append(user("Well?"), *used("one", LINES), *used("two", LINES[:9_000]))
    lengths = []
    for budget in (5_000, 3_000, 1_000, 500, 300):
        context = await asked(talk, CHAT, budget=budget)
        assert not context.over_budget
        results = [line for line in transcript(context) if line.startswith("result")]
        lengths.append([len(line) for line in results])
        assert all("the whole is event" in line for line in results) or budget > 3_000
    for longer, shorter in itertools.pairwise(lengths):
        assert all(a >= b for a, b in zip(longer, shorter, strict=True))
    assert lengths[0][1] == len("result two: ") + 9_000


async def test_what_is_told_to_be_shortened_is(talk: Talk) -> None:
    """6: and nothing else is."""
    await talk.append(user("Well?"), *used("one", LINES), *used("two", "word " * 100))
    context = await asked(talk, CHAT, budget=350)
    assert whole(context.request).count("left out;") == 1
    assert context.degraded == ("results of the newest turn, shortened to fit: 1",)


async def test_a_question_larger_than_the_budget_is_sent_whole_and_the_context_says_what_it_needs(talk: Talk) -> None:
    """6: neither cut nor emptied in silence."""
    question = "Why? " * 1_000
    await talk.append(*turns(5), user(question))
    for model in FORMS:
        context = await asked(talk, model, budget=500)
        assert context.over_budget == context.estimate > 1_000
        assert transcript(context)[0].startswith("user: Why?")
        assert holds_user_text(context.request, question)
        fits = await asked(talk, model, budget=context.over_budget)
        assert fits.over_budget == 0


async def test_what_the_model_cannot_take_is_not_sent_at_all(talk: Talk) -> None:
    """6: with budget 0 too, which lifts the setting and not the model's window."""
    await talk.append(user("Why? " * 9_000))
    for budget in (0, 500, 100_000):
        context = await talk.context(model="openai:gpt-4", budget=budget)
        assert context.over_budget > 9_000
        with pytest.raises(BeyondModel, match=r"need 18,\d+ tokens, but openai:gpt-4 takes 4,096") as beyond:
            context.request  # noqa: B018
        assert beyond.value.needed == context.over_budget


async def test_budget_0_lifts_the_setting_up_to_the_models_window(talk: Talk) -> None:
    """6: less the room for the reply."""
    await talk.append(*turns(60, words=200))
    context = await asked(talk, "openai:gpt-4", budget=0)
    assert context.budget == 8_192 - 4_096
    assert 2_000 < context.estimate <= context.budget
    assert (await asked(talk, CHAT, budget=0)).sent == 120


# -- law 3: what gives way, in which order ------------------------------------------------------------------


async def test_as_the_turn_in_progress_grows_things_give_way_in_order(et: Everthread, talk: Talk) -> None:
    """6: older turns leave, then pins, then results are shortened; then what memory adds; the question never."""
    await say(et, talk, *turns(1, words=150, name="PIN"), *turns(10, words=150, name="OLD"))
    await talk.pin(1)
    remembered = [BriefUpdated(text="BRIEF " + "word " * 60, covers=22, facts="FACTS " + "word " * 60)]
    await say(et, talk, *remembered, user("QUESTION"), at=NINE + MINUTE)
    seen = []
    for number in range(60):
        context = await asked(talk, CHAT, budget=2_500, settings={"clock": "off", "memory": True})
        said = whole(context.request)
        assert "QUESTION" in said
        assert not context.over_budget
        state = (
            sum(f"OLD{n} " in said for n in range(10)),
            "PIN0" in said,
            said.count("left out;") == 0,
            sum(what in said for what in ("BRIEF", "FACTS")),
        )
        seen += [state] if state not in seen else []
        if not state[3]:
            break
        await say(et, talk, *used("f", f"R{number} " + "word " * 150, id=f"c{number}"), at=NINE + MINUTE)
    assert seen == sorted(seen, reverse=True)
    first_without = [next(place for place, state in enumerate(seen) if not state[kind]) for kind in range(4)]
    assert first_without == sorted(set(first_without)), seen
    assert [state[3] for state in seen[-3:]] == [2, 1, 0]  # the facts before the brief


async def test_a_brief_of_any_length_takes_no_more_than_was_reckoned_with(talk: Talk) -> None:
    """6: nothing leaves the window for it."""
    await talk.append(*turns(1, words=100, name="PIN"), *turns(30, name="OLD"))
    await talk.pin(1)
    await talk.append(user("QUESTION"))
    few = await asked(talk, CHAT, budget=1_500, settings={"memory": True})
    await talk.append(BriefUpdated(text="word " * 1_000, covers=62))
    many = await asked(talk, CHAT, budget=1_500, settings={"memory": True})
    for context in (few, many):
        assert transcript(context)[0].startswith("user: PIN0")
        assert "QUESTION" in whole(context.request)
        assert not context.over_budget
    assert many.sent == few.sent
    assert "word word" in instructions(many.request)

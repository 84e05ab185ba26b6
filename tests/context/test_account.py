"""`print(context.explain())`: an account in plain text."""

from __future__ import annotations

import random

from everthread import Explanation, GivenSettings, Talk, assistant, user


async def explained(talk: Talk, budget: int) -> Explanation:
    context = await talk.context(
        model="anthropic:claude-sonnet-4-6", budget=budget, settings={"clock": "off", "memory": False}
    )
    return context.explain()


async def test_it_says_what_is_in_a_context_what_is_not_and_why(talk: Talk) -> None:
    for number in range(12):
        await talk.append(user(f"Cake {number}? " + "Flour and eggs. " * 200), assistant("Yes."))
    about = await explained(talk, 6_000)
    shown = str(about)
    past, window = shown.split(f"── the window begins here, at event {about.cutoff} ──")
    assert shown.startswith("anthropic:claude-sonnet-4-6 · strategy budget · estimated with a factor of ")
    assert f"{about.estimate:,} of 6,000 tokens\n" in past
    assert f"\n  turns: {sum(turn.tokens for turn in about.turns if turn.sent):,}\n" in past
    assert f"\n  free: {6_000 - about.estimate:,}\n" in past
    assert "before the cutoff" in past
    assert "the newest turn  Cake 11? Flour and eggs." in window
    assert "should come from the provider's cache" in window
    assert '\n  clock = "off"   (' in window


async def test_it_says_in_which_turn_the_cutoff_moved_to_where_it_is(talk: Talk) -> None:
    """As the steps have it, which are read from the log; and nothing before the first step, or after a clear."""
    sizes, told = random.Random(7), list[int]()
    for number in range(60):
        await talk.append(user(f"Cake {number}? " + "flour " * sizes.choice((5, 60, 300))), assistant("Yes. " * 20))
        if number == 40:
            await talk.clear()
        about = await explained(talk, 4_000)
        asked: GivenSettings = {"clock": "off", "memory": False}
        steps = await talk.steps(model="anthropic:claude-sonnet-4-6", budget=4_000, settings=asked)
        assert about.stepped == (steps[-1].turn if steps else 0)
        line = f"\nStep: the cutoff moved to event {about.cutoff} in turn {about.stepped}."
        assert (line in str(about)) == bool(steps)
        assert ("Step" in str(about)) == bool(steps)
        told += [about.stepped] if about.stepped not in told else []
    assert len(told) > 4


async def test_a_strategy_that_does_not_step_says_nothing_of_steps(talk: Talk) -> None:
    await talk.append(*(said for number in range(40) for said in (user(f"Cake {number}?"), assistant("Yes."))))
    about = (await talk.context(model="anthropic:claude-sonnet-4-6", strategy="messages")).explain()
    assert (about.stepped, "Step" in str(about)) == (0, False)
    assert about.cutoff > 1


async def test_every_section_is_in_it(talk: Talk) -> None:
    await talk.append(user("Hello"))
    about = await explained(talk, 6_000)
    assert [name for name, tokens in about.sections.items() if f"\n  {name}: {tokens:,}\n" not in str(about)] == []


async def test_what_is_over_the_budget_is_said(talk: Talk) -> None:
    await talk.append(user("Flour and eggs. " * 2_000))
    about = await explained(talk, 2_000)
    assert f": over the budget; {about.over_budget:,} would be needed" in str(about)


async def test_an_empty_conversation_has_one_too(talk: Talk) -> None:
    assert "Nothing was said yet" in str(await explained(talk, 6_000))


async def test_what_was_said_cannot_steer_the_terminal(talk: Talk) -> None:
    await talk.append(user("And\x1b[2J now?"))
    assert "And·[2J now?" in str(await explained(talk, 6_000))

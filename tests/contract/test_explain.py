"""Where settings come from, end to end; the account of a context; and models of which nothing is known."""

from __future__ import annotations

import itertools
import logging
from pathlib import Path
from typing import Any

import pytest

from everthread import Everthread, Talk, assistant, image, system, user
from everthread.context.build import Context
from everthread.core.events import BriefUpdated, Clear, Event, SessionEnded, SettingsChanged, Summary
from everthread.errors import BadSetting, BadValue, UnknownSeq
from everthread.testing.scripted import script
from tests.core.pictures import png
from tests.saying import HOUR, NINE, asked, say, turns, used
from tests.transcripts import CHAT, CLAUDE, FORMS, GEMINI, instructions, transcript, whole

STRATEGIES = ("budget", "messages", "session", "importance")


# -- settings: the most specific source wins ---------------------------------------------------------------


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A settings file and nothing else from outside."""
    file = tmp_path / "config.toml"
    file.write_text(f'[settings]\nmodel = "{CHAT}"\nbudget = 1001\n')
    monkeypatch.setenv("EVERTHREAD_CONFIG", str(file))
    return file


async def test_each_source_wins_over_the_one_before_it(
    address: str, someone: str, sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """File, environment, conversation, branch, what is given at the moment."""
    async with Everthread.open(address) as et:
        talk = await et.begin(user=someone)
        assert await _budget(talk) == (1_001, f"the file {sources}")
    monkeypatch.setenv("EVERTHREAD_BUDGET", "1002")
    async with Everthread.open(address) as et:
        talk = await et.begin(user=someone)
        assert await _budget(talk) == (1_002, "the environment (EVERTHREAD_BUDGET)")
        await talk.set_settings({"budget": 1_003, "clock": "off"})
        assert await _budget(talk) == (1_003, "this conversation's settings")
        await talk.configure(budget=1_004)
        assert await _budget(talk) == (1_004, "this branch's settings")
        assert await _budget(talk, budget=1_005) == (1_005, "the settings given")
        await talk.configure(budget=None)
        assert await _budget(talk) == (1_003, "this conversation's settings")


async def _budget(talk: Talk, **arguments: Any) -> tuple[int, str]:
    context = await talk.context(**arguments)
    account = context.explain()
    assert account.model == CHAT
    assert account.settings["budget"] == context.budget
    return context.budget, account.source_of["budget"]


async def test_a_store_opened_without_the_environment_has_only_the_settings_given(
    address: str, someone: str, sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVERTHREAD_REPLY_TOKENS", "77")
    async with Everthread.open(address, settings={"model": GEMINI}, environment=False) as et:
        account = (await (await et.begin(user=someone)).context()).explain()
    assert (account.model, account.budget) == (GEMINI, 100_000)
    assert account.source_of["model"] == "the settings that the store was opened with"
    assert account.source_of["reply_tokens"] == "the default"


async def test_a_branch_has_its_own_settings(talk: Talk) -> None:
    await talk.append(user("Hello."))
    await talk.configure(model=CHAT, budget=1_000)
    side = await talk.fork()
    assert (await side.context()).budget == 1_000
    await side.configure(budget=2_000)
    assert [(await one.context()).budget for one in (talk, side)] == [1_000, 2_000]
    assert (await side.context(at=3)).budget == 1_000  # as it was then


async def test_every_setting_may_be_given_at_the_moment(talk: Talk) -> None:
    await talk.append(*turns(20))
    await talk.configure(model=CHAT)
    context = await talk.context(settings={"temperature": 0.5, "instructions": "Be kind.", "clock": "off"})
    assert context.request["temperature"] == 0.5
    assert instructions(context.request) == "Be kind."
    assert "<now>" not in whole(context.request)
    assert instructions((await talk.context(instructions="Be brief.", settings={"instructions": "No."})).request) == (
        "Be brief."
    )


async def test_model_budget_and_strategy_are_settings_like_the_others(talk: Talk) -> None:
    context = await talk.context(settings={"model": CHAT, "budget": 500, "strategy": "messages"})
    assert (context.model, context.budget, context.strategy) == (CHAT, 500, "messages")


async def test_a_bad_value_names_itself_its_source_and_what_is_allowed(
    address: str, someone: str, sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BadSetting, match="budget is -1 in the settings that the store was opened with, but must"):
        Everthread.open(address, settings={"budget": -1})
    monkeypatch.setenv("EVERTHREAD_STEP", "far")
    async with Everthread.open(address) as et:
        talk = await et.begin(user=someone)
        with pytest.raises(BadSetting, match=r"step is 'far' in the environment \(EVERTHREAD_STEP\), but must be"):
            await talk.context()
    monkeypatch.delenv("EVERTHREAD_STEP")
    async with Everthread.open(address) as et:
        with pytest.raises(BadSetting, match="clock is 'second' in this conversation's settings, but must be off, day"):
            await et.begin(user=someone, settings={"clock": "second"})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": "gpt-4o"}, "model is 'gpt-4o' in the settings given, but must be provider:name"),
        (
            {"model": "mistral:large"},
            "'mistral:large' in the settings given, but must be provider:name, where the provider",
        ),
        ({"model": CHAT, "budget": -5}, "budget is -5 in the settings given, but must be a whole number from 0"),
        ({"model": CHAT, "strategy": "all"}, "strategy is 'all' in the settings given, but must be budget, messages"),
        ({"model": CHAT, "settings": {"stepp": 1}}, "there is no such setting; the nearest is step"),
        ({"model": CHAT, "settings": {"output": "[]"}}, "output is '\\[\\]' in the settings given, but must be a JSON"),
        ({"model": CHAT, "instructions": {"soul": "x"}}, "instructions is 'soul', but must be text, or texts for"),
    ],
)
async def test_what_cannot_be_asked_for(talk: Talk, arguments: dict[str, Any], message: str) -> None:
    await talk.append(user("Hello."))
    with pytest.raises((BadSetting, BadValue), match=message):
        await talk.context(**arguments)


BAD = [{"budget": "x"}, {"bugdet": 5}, {"budget": -1, "retries": 7}, {"model": "nobody:x"}, {"step": True}]


@pytest.mark.parametrize("values", BAD)
async def test_a_bad_setting_of_a_branch_is_refused_when_it_is_made(talk: Talk, values: dict[str, Any]) -> None:
    name = next(iter(values))
    with pytest.raises(BadSetting, match=f"{name} is .* in the settings given"):
        await talk.configure(**values)
    with pytest.raises(BadSetting, match=f"{name} is .* in the settings given"):
        await talk.append(user("Hello."), SettingsChanged(values=values))
    assert await talk.range(1, 10) == []


@pytest.mark.parametrize("values", BAD)
async def test_a_bad_setting_that_is_in_the_log_is_passed_over_and_told_of(talk: Talk, values: dict[str, Any]) -> None:
    """Another version may have known it, or an import brought it: the conversation goes on."""
    await talk.configure(budget=5_000)
    await talk._log.append(talk._target, [user("Hello."), SettingsChanged(values=values)])
    name = next(iter(values))
    context = await talk.context(model=CHAT)
    assert (context.budget, context.sent) == (5_000, 1)
    assert [words for words in context.degraded if words.startswith(f"passed over: {name} is ")]
    assert context.explain().settings["retries"] == values.get("retries", 4)
    assert str(await talk.say("And?", model=script("goes-on", "On."))) == "On."
    assert await talk.remember() in (True, False)
    await talk.configure(**dict.fromkeys(values))
    assert not (await talk.context(model=CHAT)).degraded


async def test_a_conversations_bad_settings_are_passed_over_as_well(et: Everthread, talk: Talk) -> None:
    await et.log.conversations.change(talk.conversation, settings={"budget": "much", "step": 0.25, "colour": "red"})
    await talk.append(user("Hello."))
    context = await talk.context(model=CHAT)
    assert (context.budget, context.settings.step) == (100_000, 0.25)
    assert [words for words in context.degraded if "budget is 'much' in this conversation's settings" in words]


@pytest.mark.parametrize("at", [0, -1, 4])
async def test_there_is_no_context_before_an_event_that_is_not_there(talk: Talk, at: int) -> None:
    await talk.append(*turns(1))
    with pytest.raises(UnknownSeq):
        await talk.context(model=CHAT, at=at)
    assert (await talk.context(model=CHAT, at=1)).sent == 0
    assert (await talk.context(model=CHAT, at=3)).sent == 2


# -- the account -------------------------------------------------------------------------------------------


async def _full(et: Everthread, talk: Talk) -> None:
    """A conversation with a bit of everything."""
    await say(et, talk, system("Be kind."), assistant("Good morning."), *turns(12))
    await say(et, talk, user("Look:", image(png(800, 600))), *used("find", "found " * 30), assistant("Seen."))
    await say(et, talk, *turns(12), at=NINE + HOUR)
    await talk.pin(5)
    remembered: list[Event] = [BriefUpdated(text="Tickets.", covers=50, facts="row 7"), Summary(text="S.", covers=50)]
    await say(et, talk, *remembered, SessionEnded(session=1, recap="Ana came."), user("Well?"), at=NINE + HOUR)


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_sections_and_turns_add_up_to_the_estimate(et: Everthread, talk: Talk, strategy: str) -> None:
    await _full(et, talk)
    tools = [{"name": "find", "description": "Finds.", "schema": {"type": "object"}}]
    for model in (*FORMS, "openai:gpt-4", "openai:model-of-test-explain"):
        for budget in (0, 3_000, 900, 100):
            context = await asked(talk, model, budget=budget, strategy=strategy, tools=tools, instructions="Hi.")
            account = context.explain()
            assert sum(account.sections.values()) + _sent(account.turns) == account.estimate == context.estimate
            assert (account.budget, account.cutoff, account.over_budget, account.strategy) == (
                *(context.budget, context.cutoff, context.over_budget),
                strategy,
            )
            assert (account.degraded, account.repaired) == (context.degraded, context.repaired)
            assert {"persona", "opening", "tools"} <= account.sections.keys()


def _sent(lines: tuple[Any, ...]) -> int:
    return sum(line.tokens for line in lines if line.sent)


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_every_message_is_in_one_line_of_the_account(et: Everthread, talk: Talk, strategy: str) -> None:
    await _full(et, talk)
    for budget in (0, 3_000, 900, 100):
        context = await asked(talk, CHAT, budget=budget, strategy=strategy)
        lines = context.explain().turns
        assert sum(line.messages for line in lines if line.sent) == context.sent
        assert sum(line.messages for line in lines if not line.sent) == context.past
        assert context.sent + context.past == 55
        assert [line.first for line in lines] == sorted(line.first for line in lines)
        assert all(before.last < after.first for before, after in itertools.pairwise(lines))
        assert all(line.first <= line.last and line.number <= line.number_last for line in lines)
        assert lines[-1].why == "the newest turn"


async def test_the_account_says_why(et: Everthread, talk: Talk) -> None:
    await _full(et, talk)
    told = [(line.why, line.sent) for line in (await asked(talk, CHAT, budget=900)).explain().turns]
    assert told[:4] == [
        ("before the cutoff", False),
        ("pinned", True),
        ("before the cutoff", False),
        ("in the window", True),
    ]
    chosen = {line.why for line in (await asked(talk, CHAT, budget=2_500, strategy="importance")).explain().turns}
    assert any(why.startswith("importance ") for why in chosen)
    await talk.append(Clear(), user("Afresh."))
    (past, new) = (await asked(talk, CHAT)).explain().turns
    assert (past.why, past.sent) == ("before the cutoff, or before the last clear", False)
    assert (new.why, new.messages) == ("the newest turn", 1)


async def test_what_was_cleared_is_accounted_for_before_anything_new_is_said(talk: Talk) -> None:
    await talk.append(*turns(3), Clear())
    context = await asked(talk, CHAT)
    assert sum(line.messages for line in context.explain().turns) == context.past == 6


async def test_what_is_kept_for_an_hour_costs_more_to_write(et: Everthread, talk: Talk) -> None:
    """Twice the plain price, in place of one and a quarter."""
    await say(et, talk, user("Q " + "word " * 5_000))
    for ttl, times in (("5m", 1.25), ("1h", 2.0)):
        account = (await asked(talk, CLAUDE, settings={"cache_ttl": ttl})).explain()
        assert (account.cache_read, account.cache_write) == (0, account.estimate)
        assert account.price_uncached
        assert account.price == pytest.approx(times * account.price_uncached)


async def test_what_the_cache_will_read_is_predicted(et: Everthread, talk: Talk) -> None:
    """As far as the last request went, as long as the cache lasts."""
    await say(et, talk, *turns(30, words=100), user("Q30"))
    first = (await asked(talk, CLAUDE, instructions="Be kind.")).explain()
    assert 0.9 * first.estimate < first.cache_read < first.estimate
    assert first.cache_write == first.estimate - first.cache_read
    assert first.price is None or first.price < (first.price_uncached or 0)
    await say(et, talk, assistant("A30."))
    await say(et, talk, user("Q31"), at=NINE + HOUR)
    for settings, read in (({}, False), ({"cache_ttl": "1h"}, True), ({"cache_ttl": "1h", "cache": False}, False)):
        account = (await asked(talk, CLAUDE, instructions="Be kind.", settings=settings)).explain()
        assert (account.cache_read > 0) == read
        assert account.cache_write == (account.estimate - account.cache_read if settings.get("cache", True) else 0)


async def test_an_account_shows_itself_in_a_line(talk: Talk) -> None:
    await talk.append(user("Hello."))
    assert repr(await talk.context(model=CHAT, budget=900, settings={"clock": "off"})) == (
        "<Context for openai:gpt-4o: 9 of 900 tokens, from event 1 on>"
    )


# -- models of which nothing is known ----------------------------------------------------------------------


async def test_four_bytes_are_a_token_of_an_unknown_model(
    talk: Talk, engine: str, caplog: pytest.LogCaptureFixture
) -> None:
    """One warning for each model; every context says so; a stated factor and window are knowledge."""
    await talk.append(user("word " * 800), assistant("漢" * 400), user("Well?"))
    one, other = f"openai:one-unknown-to-{engine}", f"openai:other-unknown-to-{engine}"
    with caplog.at_level(logging.WARNING, logger="everthread.models"):
        contexts = [await asked(talk, model, settings={"clock": "off"}) for model in (one, one, other, one)]
    told = [record.message for record in caplog.records if record.name == "everthread.models"]
    assert [message.split("'")[1] for message in told] == [one, other]
    for context in contexts:
        assert 1_300 <= context.estimate <= 1_330
        (doubt,) = context.degraded
        assert doubt.endswith("estimated at four bytes a token")
        assert context.explain().degraded == context.degraded
    known = await asked(talk, one, settings={"clock": "off", "factor": 1.5, "model_window": 100_000})
    assert known.degraded == ()
    assert known.explain().factor == 1.5


async def test_an_unknown_model_has_a_careful_window(talk: Talk, engine: str) -> None:
    await talk.append(*turns(3))
    model = f"anthropic:unknown-to-{engine}"
    assert (await asked(talk, model, budget=0)).budget == 128_000 - 4_096
    assert (await asked(talk, model, budget=0, settings={"model_window": 9_000})).budget == 9_000 - 4_096
    small: Context = await asked(talk, model, budget=50, settings={"clock": "off"})
    assert transcript(small)[0].startswith("user: Q2")

"""Functions and objects of the application's own, in place of ours: a summariser, counters, a provider, an engine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from everthread import Everthread, Talk, assistant, registered, user
from everthread.config import Source, resolve
from everthread.core.branches import ENDLESS
from everthread.core.events import BriefUpdated, ModelCall
from everthread.errors import BadSetting, BadValue
from everthread.jobs.worker import Worker
from everthread.providers.models import _entries, model
from everthread.providers.openai import request as openai_form
from everthread.providers.registry import Provider, provider, register
from everthread.providers.scripted import client as scripted
from everthread.store.sqlite.engine import SqliteEngine
from tests.agent.support import calls, said


@pytest.fixture(autouse=True)
def _without(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is on here, but for its worker."""
    monkeypatch.setattr(Worker, "remind", lambda *_: None)


# -- a summariser ------------------------------------------------------------------------------------------------


async def told(address: str, someone: str, summarise: Any) -> tuple[BriefUpdated | None, list[ModelCall], str]:
    """The brief of a conversation that is longer than its window, the calls that made it, and what went wrong."""
    settings: Any = {"model": "scripted:any", "memory": True, "budget": 600}
    async with Everthread.open(address, settings=settings, summarise=summarise) as et:
        talk = await et.begin(user=someone)
        for number in range(12):
            await talk.append(user(f"Cake {number}: {'very ' * 20}sweet."), assistant("Noted."))
        await talk.remember()
        return await talk.brief(), await calls(talk), (await talk.memory()).error


async def asynchronous(instructions: str, text: str) -> str:
    assert "Cake 3" in text
    assert instructions
    return "Cakes were spoken of."


def in_a_thread(instructions: str, text: str) -> str:
    return "Cakes were spoken of."


@pytest.mark.parametrize("summarise", [asynchronous, in_a_thread])
async def test_a_function_writes_the_brief_and_is_recorded_by_its_name(
    address: str, someone: str, summarise: Callable[[str, str], str | Awaitable[str]]
) -> None:
    brief, made, _ = await told(address, someone, summarise)
    assert brief
    assert brief.text == "Cakes were spoken of."
    assert not brief.extractive
    assert {call.model for call in made} == {f"own:tests.agent.test_extending.{summarise.__name__}"}


def failing(instructions: str, text: str) -> str:
    raise ValueError("It was away.")


def wordless(instructions: str, text: str) -> Any:
    return 7


@pytest.mark.parametrize(("summarise", "why"), [(failing, "It was away."), (wordless, "must be text")])
async def test_where_it_fails_the_original_words_stand_in(address: str, someone: str, summarise: Any, why: str) -> None:
    brief, made, error = await told(address, someone, summarise)
    assert why in made[-1].error
    assert why in error
    assert brief is None or brief.extractive


# -- counters ----------------------------------------------------------------------------------------------------


async def counted(address: str, someone: str, count: Any, **asked: Any) -> tuple[Any, Talk]:
    settings: Any = {"model": "openai:our-model", "model_window": 8_000, "memory": False, "clock": "off"}
    async with Everthread.open(address, settings=settings, counters={"openai:our-*": count}) as et:
        talk = await et.begin(user=someone)
        await talk.append(user("one two three"))
        return await talk.context(**asked), talk


async def test_a_counter_counts_for_the_models_that_it_is_given_for(
    address: str, someone: str, caplog: pytest.LogCaptureFixture
) -> None:
    context, _ = await counted(address, someone, lambda text: 100 * len(text.split()))
    assert context.explain().exact
    assert context.estimate > 300
    assert context.degraded == ()
    assert "Nothing is known" not in caplog.text
    other, _ = await counted(address, someone, lambda text: 100 * len(text.split()), model="openai:gpt-5")
    assert other.estimate < 50


@pytest.mark.parametrize("count", [lambda _: "many", lambda _: -1, lambda _: 1 / 0])
async def test_a_counter_that_fails_costs_the_count_and_not_the_request(address: str, someone: str, count: Any) -> None:
    context, _ = await counted(address, someone, count)
    assert context.sent == 1
    assert any("tokens could not be counted" in note for note in context.degraded)


# -- a provider --------------------------------------------------------------------------------------------------


@pytest.fixture
def others(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is registered in a test is so in that test alone."""
    monkeypatch.setattr(registered, "registered", known := dict[str, Any]())
    monkeypatch.setattr("everthread.providers.registry.registered", known)
    for cached in (provider, model, _entries):
        cached.cache_clear()


def echoing(name: str = "echoing", **about: Any) -> Any:
    return SimpleNamespace(ABOUT=Provider(name=name, form="openai", free=True, **about), connect=scripted.connect)


async def test_a_provider_that_was_registered_replies(address: str, someone: str, others: None) -> None:
    with pytest.raises(BadSetting):
        Everthread.open(address, settings={"model": "echoing:any"})
    register(echoing(models=({"match": ["any"], "window": 9_000},)))
    register(registered.registered["echoing"])  # the same once more
    async with Everthread.open(address, settings={"model": "echoing:any"}) as et:
        talk = await et.begin(user=someone)
        assert await said(talk.say("Hello?")) == "You said: “Hello?”"
        assert (await talk.context()).window == 9_000
        assert (await calls(talk))[0].model == "echoing:any"


async def test_a_provider_of_an_installed_package_is_found_by_its_name(
    address: str, someone: str, others: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = EntryPoint(name="packaged", value=f"{__name__}:PACKAGED", group=registered.GROUP)
    monkeypatch.setattr(registered, "_installed", lambda: {"packaged": found})
    async with Everthread.open(address, settings={"model": "packaged:any"}) as et:
        assert await said((await et.begin(user=someone)).say("Hello?")) == "You said: “Hello?”"


def test_a_provider_that_there_is_not_is_told_with_all_that_there_are(
    others: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ours, those that were registered, and those of installed packages."""
    found = EntryPoint(name="packaged", value=f"{__name__}:PACKAGED", group=registered.GROUP)
    monkeypatch.setattr(registered, "_installed", lambda: {"packaged": found})
    register(echoing())
    all = "where the provider is anthropic, openai, .*, scripted, echoing or packaged"
    with pytest.raises(BadSetting, match=f"model is 'echo:any' in the settings given, but must be .*{all}; or empty"):
        resolve(Source("the settings given", {"model": "echo:any"}))
    with pytest.raises(BadValue, match=f"model is 'echo:any', but must be .*{all}"):
        model("echo:any")


PACKAGED = echoing("packaged")
HALF = SimpleNamespace(ABOUT=Provider(name="half"))
ELSEWHERE = SimpleNamespace(ABOUT=Provider(name="half", form="opneai"), connect=scripted.connect)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("not_there_at_all", "half.*can be imported .*not_there"),
        (f"{__name__}:HALF", "half.*connect and render"),
        (f"{__name__}:ELSEWHERE", "'opneai', but must be one of Everthread's own, or one that is registered"),
    ],
)
async def test_a_package_whose_provider_is_broken_is_named(
    address: str, someone: str, others: None, monkeypatch: pytest.MonkeyPatch, value: str, why: str
) -> None:
    found = EntryPoint(name="half", value=value, group=registered.GROUP)
    monkeypatch.setattr(registered, "_installed", lambda: {"half": found})
    async with Everthread.open(address, settings={"model": "half:any", "memory": False}) as et:
        with pytest.raises(BadValue, match=f"the provider.*{why}"):
            await (await et.begin(user=someone)).context()


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (object(), "with ABOUT"),
        (echoing("openai"), "none of Everthread's own"),
        (echoing("No Name"), "a to z"),
        (SimpleNamespace(ABOUT=Provider(name="half")), "connect and render and check"),
    ],
)
def test_what_is_no_provider_is_refused(given: Any, why: str, others: None) -> None:
    with pytest.raises(BadValue, match=why):
        register(given)


def test_an_installed_package_that_is_no_provider_is_refused(others: None, monkeypatch: pytest.MonkeyPatch) -> None:
    found = EntryPoint(name="packaged", value="json:loads", group=registered.GROUP)
    monkeypatch.setattr(registered, "_installed", lambda: {"packaged": found})
    with pytest.raises(BadValue, match="with ABOUT"):
        model("packaged:any")


async def test_a_form_of_ones_own_need_not_know_schemas(address: str, someone: str, others: None) -> None:
    form = {"render": openai_form.render, "check": openai_form.check, "connect": scripted.connect}
    register(SimpleNamespace(ABOUT=Provider(name="formal", free=True), **form))
    async with Everthread.open(address, settings={"model": "formal:any", "model_window": 9_000}) as et:
        talk = await et.begin(user=someone)
        await talk.append(user("Hello."))
        context = await talk.context(output={"type": "object", "properties": {"city": {"type": "string"}}})
        assert "response_format" not in context.request
        assert "city" in str(context.request["messages"][0])
        assert any("takes no schema" in one for one in context.degraded)


def test_two_providers_cannot_have_one_name(others: None) -> None:
    register(echoing())
    with pytest.raises(BadValue, match="there is one of this name"):
        register(echoing())


def test_facts_of_models_that_are_none_are_refused(others: None) -> None:
    register(echoing(models=({"match": ["any"], "windoww": 9_000},)))
    with pytest.raises(BadValue, match="windoww"):
        model("echoing:any")


# -- an engine ---------------------------------------------------------------------------------------------------


async def test_a_store_is_opened_on_an_engine_in_place_of_an_address(tmp_path: Path, someone: str) -> None:
    async with Everthread.open(SqliteEngine(tmp_path / "own.db"), settings={}) as et:
        talk = await et.begin(user=someone)
        await talk.append(user("Hello."))
        assert [event.text for event in await talk.range(1, ENDLESS)] == ["Hello."]


@pytest.mark.parametrize("given", [7, object(), None, Path("talk.db")])
def test_what_is_neither_an_address_nor_an_engine_is_refused(given: Any) -> None:
    with pytest.raises(BadValue, match="or an Engine"):
        Everthread.open(given)


@pytest.mark.parametrize("bad", [{"strategy": "budget"}, {"summarise": "gpt"}, {"counters": {"a": 1}}, {"counters": 7}])
def test_what_is_no_function_is_refused_when_the_store_is_opened(bad: dict[str, Any]) -> None:
    with pytest.raises(BadValue, match=next(iter(bad))):
        Everthread.open("sqlite:///never.db", **bad)

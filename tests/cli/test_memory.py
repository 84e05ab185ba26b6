"""`everthread memory` and `everthread work`: what is remembered, and who does the work."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from everthread import Everthread, assistant, user
from everthread.testing.scripted import script
from tests.cli.conftest import Do

PIN = "My PIN is ZX-4711."


@pytest.fixture
def said(store: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A conversation of one turn that nobody has summarised yet; its id."""
    monkeypatch.setenv("EVERTHREAD_WORKER", "apart")
    monkeypatch.setenv("EVERTHREAD_SUMMARY_MODEL", script("cli-memory", *["The user has a PIN."] * 9))

    async def say() -> str:
        async with Everthread.open(store) as et:
            talk = await et.begin(user="ana")
            await talk.append(user(f"{PIN} I prefer aisle seats."), assistant("Noted."))
            return talk.id

    return asyncio.run(say())


def memory(do: Do, *arguments: str, input: str = "") -> dict[str, Any]:
    done = do("memory", "--json", *arguments, input=input)
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_before_anything_is_made_it_says_how_far_behind_it_is(do: Do, said: str) -> None:
    shown = do("memory").stdout
    assert said in shown
    assert "There is no brief yet" in shown
    assert "2 messages not remembered yet; the next by scripted:cli-memory." in shown


def test_it_shows_the_brief_and_the_facts_with_their_events(do: Do, said: str) -> None:
    shown = do("memory", "--update").stdout
    assert "Brief, by a model: up to event 2, 1 turn\nThe user has a PIN." in shown
    assert 'preference: "I prefer aisle seats." (user, event 1)' in shown
    assert "Up to date; the next by scripted:cli-memory; 1 model call and $0.0000 in the last hour." in shown


def test_what_is_remembered_can_be_corrected(do: Do, said: str) -> None:
    memory(do, "--update")
    found = memory(do, "--correct", "-", "--drop", "ZX-4711", "--goal", "Fly", "--name", "Seats", input="A traveller.")
    assert (found["brief"], found["by"], found["goal"], found["name"]) == ("A traveller.", "user", "Fly", "Seats")
    assert [fact["text"] for fact in found["facts"]] == ["I prefer aisle seats.", "PIN"]


def test_a_fact_that_nobody_knows_cannot_be_dropped(do: Do, said: str) -> None:
    memory(do, "--update")
    refused = do("memory", "--drop", "walnuts")
    assert refused.exit_code == 1
    assert "'walnuts', but must be text that a fact has in it" in refused.stderr


def test_what_is_forgotten_is_gone_from_memory_as_well(do: Do, said: str) -> None:
    memory(do, "--update")
    found = memory(do, "--forget", "1", "--yes")
    assert (found["brief"], found["facts"]) == ("", [])
    assert "ZX-4711" not in json.dumps(memory(do, "--update"))


def test_it_asks_before_something_is_gone_for_ever(do: Do, said: str) -> None:
    refused = do("memory", "--forget", "1")
    assert refused.exit_code == 1
    assert "--yes" in refused.stderr
    assert PIN in do("show").stdout


def test_the_notes_can_be_seen_and_replaced(do: Do, said: str) -> None:
    assert memory(do, "--notes", "- Vegetarian.")["notes"] == "- Vegetarian."
    assert "MEMORY.md\n- Vegetarian." in do("memory").stdout


def test_a_worker_does_what_is_left_to_it_and_says_what(do: Do, said: str) -> None:
    worked = do("work", "--once")
    assert worked.exit_code == 0
    assert worked.stdout.splitlines() == [
        f"{said} main: brief, scripted:cli-memory",
        f"{said} main: name, from its first message",
    ]
    assert do("work", "--once", "--json").stdout == ""
    assert memory(do)["brief"] == "The user has a PIN."


def test_a_worker_can_look_everywhere(do: Do, said: str) -> None:
    do("work", "--once")
    assert json.loads(do("conversations", "--json").stdout)[0]["name"] == PIN.rstrip(".")
    assert do("work", "--once", "--all").stdout == ""


def test_a_chat_shows_corrects_and_forgets(do: Do, said: str) -> None:
    lines = [
        "/brief",
        "/correct A traveller with a PIN.",
        "/brief",
        "/forget 1",
        "/goal To fly",
        "/name Seats",
        "/brief",
    ]
    shown = do("chat", "--model", "scripted:nobody", input="\n".join(lines)).stdout
    assert "There is no brief yet" in shown
    assert "Brief, in your words: up to event 2\nA traveller with a PIN." in shown
    assert "Gone. What was remembered since, your corrections too, is made anew without it." in shown
    assert "Seats" in shown.rpartition("Gone")[2]
    assert "To fly" in shown.rpartition("Gone")[2]
    assert "A traveller" not in shown.rpartition("Gone")[2]


@pytest.mark.parametrize("line", ["/correct", "/forget it"])
def test_what_a_chat_cannot_do_it_says(do: Do, said: str, line: str) -> None:
    assert "must be" in do("chat", "--model", "scripted:nobody", input=line).stderr


# -- what it says of what is sent ----------------------------------------------------------------------------


def spoken(store: str, turns: int, **settings: Any) -> None:
    """A conversation that nobody has summarised yet, with settings of its own."""

    async def say() -> None:
        async with Everthread.open(store) as et:
            own = {"model": "openai:gpt-4o", "budget": 1_500, **settings}
            talk = await et.begin(user="ana", settings=own)
            for number in range(turns):
                await talk.append(user(f"Ticket AB-{number} is {'very ' * 60}late."), assistant("Noted."))

    asyncio.run(say())


@pytest.fixture
def silent(store: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where nobody does the work of memory unless told to."""
    monkeypatch.setenv("EVERTHREAD_WORKER", "apart")
    monkeypatch.setenv("EVERTHREAD_SUMMARY_MODEL", script("cli-memory-told", *["They spoke of tickets."] * 9))
    return store


def test_while_all_is_sent_it_says_so(do: Do, silent: str) -> None:
    spoken(silent, 2)
    assert "There is no brief yet: what was said is sent as it is." in do("memory").stdout


@pytest.mark.parametrize("strategy", ["budget", "messages", "session", "importance"])
def test_what_is_past_is_not_said_to_be_sent(do: Do, silent: str, strategy: str) -> None:
    spoken(silent, 30, strategy=strategy, messages=4, active_messages=4)
    found = memory(do)
    shown = " ".join(do("memory").stdout.split())
    assert found["past"] > 30
    assert found["sent"] + found["past"] == 60
    assert "sent as it is" not in shown
    assert f"{found['past']} of 60 messages are past" in shown
    assert "an extract of them is" in shown


def test_the_brief_of_a_chat_says_the_same(do: Do, silent: str) -> None:
    spoken(silent, 30, model="scripted:nobody")
    shown = " ".join(do("chat", input="/brief\n/quit\n").output.split())
    assert "messages are past" in shown
    assert "sent as it is" not in shown


def test_the_summary_of_a_range_is_what_importance_remembers(do: Do, silent: str) -> None:
    spoken(silent, 30, strategy="importance")
    shown = do("memory", "--update").stdout
    assert "Brief, by a model: up to event 60\nThey spoke of tickets." in shown
    assert "Up to date" in shown
    assert "There is no brief yet" not in shown


def test_a_strategy_without_a_brief_waits_for_none(do: Do, silent: str) -> None:
    spoken(silent, 2, strategy="session")
    shown = do("memory", "--update").stdout
    assert "newer message" not in shown

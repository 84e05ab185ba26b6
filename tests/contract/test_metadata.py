"""Metadata of conversations and messages: kept and filtered by, never sent, never counted, forgotten with the rest."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from everthread import Everthread, Talk, assistant, system, tool_call, tool_result, user
from everthread.core.events import Mark, User
from everthread.core.parts import Text
from everthread.errors import BadValue
from everthread.providers.openai.messages import from_openai, to_openai
from everthread.testing.scripted import script
from tests.contract.support import files_of

ODD: dict[str, Any] = {"team": "blue", "n": 1.5, "deep": {"a": [1, None, True, "\0\ud800"]}, "名": "x", "": ""}
SECRET = "trace-7f3a9c"


async def test_a_conversation_keeps_its_metadata(et: Everthread, someone: str) -> None:
    talk = await et.begin(user=someone, metadata=ODD)
    assert (await et.conversation(user=someone, id=talk.id)).conversation.metadata == ODD
    await talk.set_metadata({"team": "red"})
    assert talk.conversation.metadata == {"team": "red"}
    await talk.rename("Cakes")
    assert (await et.conversations(user=someone))[0].metadata == {"team": "red"}


async def test_conversations_are_found_by_what_their_metadata_has(et: Everthread, someone: str) -> None:
    made: list[dict[str, Any]] = [
        {"team": "blue", "urgent": True},
        {"team": "blue", "urgent": 1},
        {"team": "red"},
        {},
        {"team": {"lead": [True]}},
    ]
    ids = [(await et.begin(user=someone, metadata=metadata)).id for metadata in made]

    async def found(**wanted: Any) -> list[int]:
        return sorted(ids.index(one.id) for one in await et.conversations(user=someone, metadata=wanted))

    assert await found(team="blue") == [0, 1]
    assert await found(team="blue", urgent=True) == [0]
    assert await found(urgent=1) == [1]
    assert await found(team=None) == []
    assert await found(team={"lead": [1]}) == []
    assert await found(team={"lead": [True]}) == [4]
    assert await found() == [0, 1, 2, 3, 4]
    assert await et.conversations(user=f"{someone}-else", metadata={"team": "blue"}) == []


async def test_messages_keep_their_metadata_and_are_found_by_it(talk: Talk) -> None:
    await talk.append(
        system("s", metadata=ODD),
        user("a", metadata={"row": 1}),
        tool_call("t", metadata={"row": 2}),
        tool_result("r", name="t", metadata={"row": 2}),
        assistant("b", metadata={"row": 3, "also": "x"}),
    )
    await talk.append(*(user(f"filler {n}") for n in range(1_200)), user("c", metadata={"row": 2}))
    found = await talk.before(limit=10, metadata={"row": 2})
    assert [one.seq for one in found] == [3, 4, 1206]
    assert [one.seq for one in await talk.before(limit=2, metadata={"row": 2})] == [4, 1206]
    assert [one.seq for one in await talk.after(limit=2, metadata={"row": 2})] == [3, 4]
    assert [one.seq for one in await talk.after(3, metadata={"row": 2})] == [4, 1206]
    assert [one.event for one in await talk.after(metadata=ODD)] == [system("s", metadata=ODD)]
    assert await talk.before(metadata={"row": "2"}) == []
    side = await talk.fork(at=4)
    assert [one.seq for one in await side.before(metadata={"row": 2})] == [3, 4]


@pytest.mark.parametrize("way", ["before", "after"])
async def test_what_is_looked_through_for_metadata_has_a_bound(
    talk: Talk, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """So many events and no more, where nothing matches; going on from there, all that match are found once."""
    rows = {4, 600, 601, 1_204}
    await talk.append(*(user(f"{n}", metadata={"row": n in rows}) for n in range(1, 1_206)), Mark(name="end"))
    looked, look = 0, getattr(talk._log, way)

    async def counted(*given: Any, **how: Any) -> Any:
        nonlocal looked
        looked += 1
        return await look(*given, **how)

    monkeypatch.setattr(talk._log, way, counted)
    verb, seqs = getattr(talk, way), set[int]()
    seq, step = (1_207, -201) if way == "before" else (0, 201)
    while 0 <= seq <= 1_207:
        looked = 0
        seqs |= {one.seq for one in await verb(seq, metadata={"row": True}, within=201)}
        assert looked <= 2  # a page of 500, and perhaps the end
        seq += step
    assert seqs == rows
    assert [one.seq for one in await verb(metadata={"row": True}, within=605)] in ([4, 600, 601], [1_204])
    assert len(await verb(metadata={"row": True})) == 4
    with pytest.raises(BadValue, match="within"):
        await verb(metadata={"row": True}, within=0)


BAD: dict[str, Any] = {
    "no object": ["a"],
    "an object of Python's": {"a": object()},
    "a set": {"a": {1}},
    "a tuple": {"a": (1,)},
    "not a number": {"a": math.nan},
    "a number as key": {1: "a"},
    "too much": {"a": "x" * 20_000},
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
async def test_metadata_that_would_not_come_back_is_refused(et: Everthread, talk: Talk, someone: str, bad: Any) -> None:
    for ask in (et.begin(user=someone, metadata=bad), talk.set_metadata(bad), talk.before(metadata=bad)):
        with pytest.raises(BadValue, match="metadata"):
            await ask
    with pytest.raises(BadValue, match="metadata"):
        user("a", metadata=bad)
    with pytest.raises(BadValue, match="metadata"):
        talk.say("a", metadata=bad)


async def test_metadata_is_never_sent_to_a_model_or_counted(address: str, someone: str) -> None:
    settings: Any = {"model": f"scripted:{someone}", "memory": True}
    async with Everthread.open(address, settings=settings, keys={}) as et:
        script(someone, "Hello.", "Goodbye.")
        plain = await et.begin(user=someone)
        talk = await et.begin(user=someone, metadata={"trace": SECRET})
        await plain.append(user("hi"), assistant("there"))
        await talk.append(user("hi", metadata={"trace": SECRET}), assistant("there", metadata={"trace": SECRET}))
        assert (await talk.totals()).tokens == (await plain.totals()).tokens
        await talk.say("And now?", metadata={"trace": SECRET})
        (call,) = await talk.markers("model_call")
        sent = json.dumps((await talk.rebuild(call.seq)).context.request)
        assert "And now?" in sent
        assert SECRET not in sent
        assert len(await talk.before(metadata={"trace": SECRET})) == 3
        await talk.remember()
        assert SECRET not in str(await talk.remembered())
        assert await talk.recall(SECRET) == []
        context = await talk.context(model="anthropic:claude-sonnet-4-6")
        assert SECRET not in json.dumps(context.request)
        events = await talk.before()
        assert SECRET not in json.dumps(to_openai(events))


async def test_what_a_message_list_has_beside_its_messages_does_not_push_them_out(et: Everthread, talk: Talk) -> None:
    """Of 400 imported messages only 78 were sent, because fields that are never sent counted as tokens."""
    messages: list[dict[str, Any]] = [
        {"role": ("user", "assistant")[n % 2], "content": f"Message {n}.", "usage": {"trace": "x" * 600}}
        for n in range(400)
    ]
    await talk.append(*from_openai(messages))
    context = await talk.context(model="openai:gpt-4o", budget=16_000)
    assert (context.sent, context.past) == (400, 0)
    assert to_openai(await talk.after(limit=400)) == messages


async def test_a_redacted_message_loses_its_metadata(et: Everthread, talk: Talk, address: str) -> None:
    await talk.append(user("a", metadata={"trace": SECRET}), assistant("b"))
    await talk.redact(1)
    assert await talk.before(metadata={"trace": SECRET}) == []
    if address.startswith("sqlite"):
        await et.close()
        assert all(SECRET.encode() not in data for data in files_of(address).values())


async def test_an_erased_conversation_loses_its_metadata(et: Everthread, someone: str, address: str) -> None:
    talk = await et.begin(user=someone, id="own-8d2e61", metadata={"trace": SECRET})
    await talk.append(user("a", metadata={"trace": SECRET}))
    await talk.erase()
    assert await et.conversations(user=someone, metadata={"trace": SECRET}) == []
    if address.startswith("sqlite"):
        await et.close()
        for data in files_of(address).values():
            assert SECRET.encode() not in data
            assert b"own-8d2e61" not in data


async def test_an_event_that_cannot_be_counted_has_the_size_of_what_is_sent(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    from everthread.store.scripts import append

    def broken(*_: object) -> tuple[int, int]:
        raise ValueError("no tokenizer")

    monkeypatch.setattr(append, "sizes", broken)
    plain, labelled = await talk.append(
        User(parts=(Text(text="a"),)), User(parts=(Text(text="a"),), metadata={"trace": "x" * 4_000})
    )
    assert labelled.tokens == plain.tokens

"""Hits: what recall found, with what stood around it, within a number of tokens."""

from __future__ import annotations

from typing import Any

import pytest

from everthread import Everthread, Talk, assistant, tool_result, user
from everthread.core.events import Clear, Event
from everthread.core.tokens import count
from everthread.errors import BadValue
from everthread.store.recall.hits import Hit, recall
from tests.contract.recalling import WALNUTS, owner


async def hits(et: Everthread, talk: Talk, query: str, **more: Any) -> list[Hit]:
    return await recall(et.log, owner(talk), await talk.line(), query, **more)


async def test_a_hit_tells_where_and_when_and_what_stood_around_it(et: Everthread, talk: Talk) -> None:
    logged = await talk.append(user("Before."), user(WALNUTS), Clear(), assistant("After."))
    (hit,) = await hits(et, talk, "walnuts", limit=1)
    assert (hit.text, hit.seq, hit.kind, hit.time) == (WALNUTS, 2, "user", logged[1].time)
    assert [(near.seq, near.kind, near.text) for near in hit.neighbours] == [
        (1, "user", "Before."),
        (4, "assistant", "After."),
    ]
    assert (hit.conversation, hit.branch, hit.session) == (talk.id, 1, 1)
    assert hit.reference == f"event 2 on branch 1 of conversation {talk.id}"
    assert hit.score > 0
    assert (await hits(et, talk, "walnuts", limit=1, neighbours=0))[0].neighbours == ()


async def test_neighbours_are_read_along_the_line_of_the_hit(et: Everthread, talk: Talk, someone: str) -> None:
    other = await et.begin(user=someone)
    await other.append(user("Elsewhere."), user(WALNUTS), user("Still elsewhere."))
    await talk.append(user("Here."), user("Here, too."))
    (hit, *_) = await hits(et, talk, "walnuts", scope="user", limit=1)
    assert hit.conversation == other.id
    assert [near.text for near in hit.neighbours] == ["Elsewhere.", "Still elsewhere."]


async def test_other_branches_are_hit_on_request(et: Everthread, talk: Talk) -> None:
    await talk.append(user("Here."))
    side = await talk.fork()
    await side.append(user(WALNUTS))
    assert await hits(et, talk, "walnuts") == []
    (hit, *_) = await hits(et, talk, "walnuts", branches="all")
    assert (hit.branch, hit.seq) == (2, 3)


async def test_a_hit_that_is_anothers_neighbour_takes_no_place_of_its_own(et: Everthread, talk: Talk) -> None:
    """Else a talk about one thing would fill the list with itself, and what was said elsewhere had no place."""
    far: list[Event] = [
        user("My aunt has walnuts in the garden."),
        assistant("How nice."),
        user("She does."),
        assistant("I see."),
    ]
    near: list[Event] = [
        user("Walnuts, walnuts!"),
        assistant("Walnuts?"),
        user("Yes: walnuts."),
        assistant("Walnuts it is."),
    ]
    await talk.append(*far, *near)
    found = await hits(et, talk, "walnuts", limit=4, neighbours=1)
    told = [seq for hit in found for seq in (hit.seq, *(near.seq for near in hit.neighbours))]
    assert len(told) == len(set(told))
    assert {1, 5, 6, 7, 8} <= set(told)


async def test_a_neighbour_that_is_a_hit_itself_is_shown_like_one(et: Everthread, talk: Talk) -> None:
    long = "It begins with other things. " * 20 + "Then come the walnuts, at last."
    await talk.append(user("Walnuts, walnuts, walnuts!"), assistant(long))
    (hit,) = await hits(et, talk, "walnuts")
    assert (hit.seq, [near.text for near in hit.neighbours]) == (1, [long])


async def test_without_neighbours_every_hit_has_a_place(et: Everthread, talk: Talk) -> None:
    await talk.append(*(user(f"walnuts {n}") for n in range(6)))
    assert len(await hits(et, talk, "walnuts", limit=5, neighbours=0)) == 5


@pytest.mark.parametrize("tokens", [0, 1, 7, 40, 300, 2_000])
async def test_hits_never_have_more_tokens_than_they_may(et: Everthread, talk: Talk, tokens: int) -> None:
    await talk.append(*(user(f"{n}: " + "walnuts and other things, 核桃过敏 " * (5 * n)) for n in range(1, 20)))
    texts = [
        text
        for hit in await hits(et, talk, "walnuts", limit=20, tokens=tokens, neighbours=2)
        for text in (hit.text, *(near.text for near in hit.neighbours))
    ]
    assert sum(map(count, texts)) <= tokens
    assert bool(texts) == (tokens > 0)


async def test_of_a_long_text_the_stretch_that_was_asked_for_is_shown(et: Everthread, talk: Talk) -> None:
    await talk.append(tool_result("line\n" * 5_000 + "the walnut report\n" + "line\n" * 5_000, name="read"))
    (hit,) = await hits(et, talk, "walnut report")
    assert "the walnut report" in hit.text
    assert hit.text.startswith("…")
    assert hit.text.endswith("…")
    assert len(hit.text) <= 1_200


@pytest.mark.parametrize(
    "wrong", [{"limit": 0}, {"limit": 21}, {"scope": "everyone"}, {"branches": "some"}], ids=lambda wrong: str(wrong)
)
async def test_what_cannot_be_asked_is_said(et: Everthread, talk: Talk, wrong: dict[str, Any]) -> None:
    with pytest.raises(BadValue):
        await hits(et, talk, "walnuts", **wrong)

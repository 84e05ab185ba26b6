"""How important a message is: settled once, as it is appended, by the default scores or by the application's own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from everthread import Everthread, Talk, assistant, image, system, tool_call, tool_result, user
from everthread.core.events import Clear, Event, Mark, Other, Pin, media_of, text_of
from everthread.errors import BadValue
from tests.contract.support import assert_sound, everything

SAID = (user("Is it raining?"), tool_call("look"), tool_result("yes", name="look"), assistant("It is."))


class Scores:
    """An application's own importance: what a message says, as a number; and whom it was asked about."""

    def __init__(self) -> None:
        self.asked: list[Event] = []

    def __call__(self, event: Event) -> int:
        self.asked.append(event)
        return int(text_of(event) or 0)


async def _stored(et: Everthread, talk: Talk) -> list[tuple[int, int]]:
    """Of every event: how important its turn was so far, and the turn before."""
    line = await talk.line()
    heads = [await et.log.head(line, at=event.seq) for event in await everything(talk)]
    return [(head.importance, head.left_importance) for head in heads]


async def test_a_turn_is_as_important_as_its_most_important_message(et: Everthread, talk: Talk) -> None:
    await talk.append(system("Be kind."), *SAID, user("Good."))
    assert await _stored(et, talk) == [(90, 0), (40, 90), (55, 90), (55, 90), (55, 90), (40, 55)]


async def test_an_application_may_say_itself_how_important_a_message_is(address: str, someone: str) -> None:
    async with Everthread.open(address, importance=Scores()) as et:
        talk = await et.begin(user=someone)
        await talk.append(user("7"), assistant("3"), user("0"), assistant("99"), user("100"))
        assert await _stored(et, talk) == [(7, 0), (7, 0), (0, 7), (99, 7), (100, 99)]
        await assert_sound(et, talk)


async def test_an_importance_of_the_applications_own_is_held_between_0_and_100(address: str, someone: str) -> None:
    async with Everthread.open(address, importance=Scores()) as et:
        talk = await et.begin(user=someone)
        await talk.append(user("101"), user("-1"), user(str(2**70)), user(str(-(2**70))))
        assert [importance for importance, _ in await _stored(et, talk)] == [100, 0, 100, 0]


async def test_an_application_is_asked_once_for_each_message_and_never_when_it_is_read(
    address: str, someone: str
) -> None:
    scores = Scores()
    async with Everthread.open(address, importance=scores) as et:
        talk = await et.begin(user=someone)
        said: list[Event] = [user("1"), assistant("2"), user("3")]
        await talk.append(said[0], key="first")
        await talk.append(*said[1:])
        assert scores.asked == said
        del scores.asked[:]
        await everything(talk)
        await talk.turns()
        await talk.context(model="openai:gpt-4o", strategy="importance")
        await talk.redact(1)
        side = await talk.fork(at=2)
        await talk.rewind(to=2)
        await everything(side)
        assert scores.asked == []


async def test_markers_are_of_no_importance_whatever_an_application_says(address: str, someone: str) -> None:
    """They are never sent, and must not make their turn more important than what was said in it."""
    async with Everthread.open(address, importance=lambda event: 80 if event.kind != "user" else 20) as et:
        talk = await et.begin(user=someone)
        await talk.append(Mark(name="m"), user("a"), Pin(turn=2), Other(kind="note"), Clear(), user("b"))
        assert [importance for importance, _ in await _stored(et, talk)] == [0, 20, 20, 20, 20, 20]


async def test_an_application_is_shown_images_by_their_hash_only(address: str, someone: str) -> None:
    shown: list[Any] = []

    def look(event: Event) -> int:
        shown.extend(media_of(event))
        return 5

    async with Everthread.open(address, importance=look) as et:
        talk = await et.begin(user=someone)
        await talk.append(user(image(b"GIF89a\1\0\2\0")))
    assert [(part.data, bool(part.blob)) for part in shown] == [(None, True)]


async def test_importance_stays_as_it_was_settled_when_another_function_reads(address: str, someone: str) -> None:
    async with Everthread.open(address, importance=lambda event: 12) as et:
        talk = await et.begin(user=someone)
        await talk.append(*SAID)
    async with Everthread.open(address) as et:
        again = et.talk(talk.conversation)
        await again.append(user("And now?"))
        assert await _stored(et, again) == [(12, 0)] * 4 + [(40, 12)]


async def test_a_fork_within_a_turn_takes_its_importance_along(et: Everthread, talk: Talk) -> None:
    await talk.append(*SAID)
    side = await talk.fork(at=3)
    await side.append(assistant("Elsewhere it is not."), user("Good."))
    assert await _stored(et, side) == [(40, 0), (55, 0), (55, 0), (55, 0), (55, 0), (40, 55)]


@pytest.mark.parametrize("answer", [None, "40", 40.5, float("nan"), [40]], ids=repr)
async def test_an_importance_that_is_no_whole_number_is_refused_and_nothing_is_written(
    address: str, someone: str, answer: Any
) -> None:
    async with Everthread.open(address, importance=lambda event: answer) as et:
        talk = await et.begin(user=someone)
        with pytest.raises(BadValue, match="importance"):
            await talk.append(user("a"))
        assert await everything(talk) == []


async def test_what_an_importance_function_raises_reaches_the_caller_and_nothing_is_written(
    address: str, someone: str
) -> None:
    def broken(event: Event) -> int:
        raise LookupError("no such score")

    async with Everthread.open(address, importance=broken) as et:
        talk = await et.begin(user=someone)
        for events in ([user("a")], [user("a")] * 200):  # at once, and on a thread
            with pytest.raises(LookupError, match="no such score"):
                await talk.append(*events)
        await asyncio.sleep(0)
        assert await everything(talk) == []

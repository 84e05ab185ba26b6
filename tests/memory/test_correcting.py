"""What the user writes in place of a brief holds at once, and stays."""

from __future__ import annotations

import pytest

from everthread import Everthread, Talk
from everthread.context.build import Context
from everthread.errors import BadValue
from everthread.jobs.worker import Worker
from tests.memory.conftest import Speak
from tests.memory.test_brief import briefs, busy, say
from tests.memory.test_gaps import SMALL, tell


def told(context: Context) -> str:
    return str(context.request["messages"][0])


async def test_the_next_request_tells_it_though_an_earlier_version_covers_the_cutoff(
    talk: Talk, worker: Worker, remember: Speak
) -> None:
    remember(*["Twenty bookings were made."] * 9)
    await tell(talk, 20)
    await worker.once(talk.conversation)
    assert "Twenty bookings" in told(await talk.context(settings=SMALL))
    await talk.correct("There were no bookings at all.")
    now = told(await talk.context(settings=SMALL))
    assert "There were no bookings at all." in now
    assert "Twenty bookings" not in now


async def test_what_is_remembered_later_goes_on_from_it(talk: Talk, worker: Worker, remember: Speak) -> None:
    remember("Wrong.", lambda body: "Right, and more." if "Right." in str(body) else "Lost.")
    await say(talk, "Hello.")
    await worker.once(talk.conversation)
    await talk.correct("Right.")
    await say(talk, "Go on.")
    await worker.once(talk.conversation)
    assert [(one.text, one.turns, bool(one.by)) for one in await briefs(talk)] == [
        ("Wrong.", 1, False),
        ("Right.", 1, True),
        ("Right, and more.", 2, False),
    ]


async def test_an_extract_keeps_the_users_words_in_front_and_tells_only_what_came_since(
    talk: Talk, worker: Worker, remember: Speak
) -> None:
    remember("Wrong.", *[busy() for _ in range(9)])
    await say(talk, "The flight to Lisbon is booked for 300 euros.")
    await worker.once(talk.conversation)
    await talk.correct("There is no flight.")
    for number in range(3):
        await say(talk, f"The hotel {number} costs {100 + number} euros.")
        await worker.once(talk.conversation)
    newest = (await briefs(talk))[-1]
    assert newest.extractive
    assert newest.text.startswith("There is no flight.\n")
    assert "Lisbon" not in newest.text
    assert "102 euros" in newest.text


async def test_a_fact_that_was_dropped_stays_away_until_it_is_said_again(
    talk: Talk, worker: Worker, remember: Speak
) -> None:
    remember(*["A brief."] * 9)
    await say(talk, "My booking is ABC123.")
    await worker.once(talk.conversation)
    await talk.correct(drop=["abc123"])
    await say(talk, "Go on.")
    await worker.once(talk.conversation)
    newest = (await briefs(talk))[-1]
    assert "ABC123" not in newest.facts
    assert newest.text == "A brief."
    await say(talk, "My booking is ABC123 after all.")
    await worker.once(talk.conversation)
    assert "ABC123" in (await briefs(talk))[-1].facts


async def test_a_fork_from_before_it_does_not_know_it(talk: Talk, worker: Worker, remember: Speak) -> None:
    remember("Of the model.")
    await say(talk, "Hello.")
    await worker.once(talk.conversation)
    side = await talk.fork()
    await talk.correct("Of the user.")
    assert [one.text for one in await briefs(side)] == ["Of the model."]
    assert (await talk.remembered()).by == "user"


async def test_a_correction_stays_in_force_while_what_came_after_it_is_redacted(
    talk: Talk, worker: Worker, remember: Speak
) -> None:
    remember(*["Twenty bookings were made."] * 9, *[busy() for _ in range(9)])
    await tell(talk, 20)
    await worker.once(talk.conversation)
    await talk.correct("There were no bookings at all.")
    last = await say(talk, "Something else.")
    await worker.once(talk.conversation)
    await talk.redact(last)
    now = told(await talk.context(settings=SMALL))
    assert "There were no bookings at all." in now


async def test_nothing_can_be_corrected_before_anything_was_said(talk: Talk) -> None:
    with pytest.raises(BadValue, match="nothing is remembered yet"):
        await talk.correct("Something.")


async def test_a_brief_of_more_than_300_words_is_refused(talk: Talk) -> None:
    await say(talk, "Hello.")
    with pytest.raises(BadValue, match="at most 300 words"):
        await talk.correct("word " * 301)


async def test_everything_that_is_remembered_can_be_seen(
    et: Everthread, talk: Talk, worker: Worker, remember: Speak
) -> None:
    remember("A trip is planned.")
    await talk.rename("Trip")
    await talk.set_goal("See Rome.")
    await talk.write_notes("Vegetarian.")
    await say(talk, "I prefer aisle seats.")
    await worker.once(talk.conversation)
    found = await et.talk(talk.conversation).remembered()
    assert (found.brief, found.covers, found.turns, found.by) == ("A trip is planned.", 2, 1, "")
    assert [(fact.text, fact.seq) for fact in found.facts] == [("I prefer aisle seats.", 1)]
    assert (found.name, found.goal, found.notes) == ("Trip", "See Rome.", "Vegetarian.")

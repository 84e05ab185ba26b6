"""Properties of summaries, over conversations of any shape, on both databases.

The numbers are those of the list in tests/test_properties_listed.py. Summaries of ranges go with the strategy
`importance`; where a property holds for briefs as well, it is proved for them too.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everthread import Talk, assistant, tool_call, tool_result, user
from everthread.core.events import MESSAGES, Clear, Event
from everthread.core.tokens import count
from everthread.errors import BadValue
from everthread.language.digest import trimmed
from everthread.language.extract import summary
from everthread.testing.scripted import script
from tests.contract.support import everything
from tests.core.logs import numbered
from tests.core.strategies import any_text
from tests.examples import examples
from tests.memory.store import MODEL, Store, names
from tests.memory.support import Listening, fenced_in, fences, summaries
from tests.memory.test_brief import briefs
from tests.transcripts import FORMS, instructions, transcript, whole

WRITES = "Ana and the assistant spoke of tickets."  # what the model of memory makes of everything
few = settings(max_examples=examples(6), deadline=None, derandomize=True)
more = settings(max_examples=examples(50), deadline=None, derandomize=True)


# -- conversations -----------------------------------------------------------------------------------------


class Told(NamedTuple):
    """A turn in outline."""

    words: int
    looks: bool


looks = st.sampled_from([False, False, True])
turns_told = st.builds(Told, st.sampled_from([2, 8, 30, 90]), looks)
long_talks = st.lists(turns_told, min_size=26, max_size=45)
large_talks = st.lists(st.builds(Told, st.sampled_from([40, 90, 150]), looks), min_size=26, max_size=45)
makers = st.sampled_from(["", WRITES])  # in its own words, or by a model


def dialogue(turns: list[Told]) -> list[Event]:
    """Turn n speaks of ticket AB-n, so that whatever is made of it tells where it comes from."""
    events: list[Event] = []
    for number, turn in enumerate(turns):
        events.append(user(f"Ticket AB-{number} is {'very ' * turn.words}late."))
        if turn.looks:
            events.append(tool_call("look", {"ticket": f"AB-{number}"}, id=f"c{number}"))
            events.append(tool_result(f"AB-{number} was found.", id=f"c{number}", name="look"))
        events.append(assistant(f"Ticket AB-{number} was moved to desk {number + 300}."))
    return events


def tickets(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"AB-(\d+)", text)]


def told_up_to(request: dict[str, Any]) -> int:
    """Up to which event what is remembered tells of everything, from the first one on."""
    reached = 0
    for fence in sorted(fenced_in(request), key=lambda fence: fence.first):
        if fence.kind in ("brief", "summary", "extract") and fence.first <= reached + 1:
            reached = max(reached, fence.last)
    return reached


# -- 6, 10: in the context ---------------------------------------------------------------------------------


@few
@given(large_talks, makers, st.sampled_from(["budget", "messages", "importance"]), st.sampled_from([0, 1, 2]))
def test_property_6_whatever_left_the_window_is_told_in_a_summary(
    store: Store, turns: list[Told], by: str, strategy: str, remembered: int
) -> None:
    """Whether memory has caught up, is behind, or has not begun."""
    talk = store.begin(by=by, strategy=strategy, active_messages=6, messages=6, summary_tokens=300, brief_tokens=300)
    events = dialogue(turns)
    for portion in (events[: len(events) // 2], events[len(events) // 2 :]):
        store.do(talk.append(*portion))
        if remembered:
            remembered -= 1
            store.do(talk.remember())
    context = store.do(talk.context(model=MODEL, budget=2_000))
    assert context.past > 0
    assert told_up_to(context.request) >= context.cutoff - 2  # the event before the cutoff may be memory's own


@few
@given(long_talks, makers)
def test_property_10_a_summary_stands_before_the_window_in_every_form(store: Store, turns: list[Told], by: str) -> None:
    talk = store.begin(by=by, active_messages=6, summary_tokens=200)
    store.do(talk.append(*dialogue(turns)))
    store.do(talk.remember())
    (made,) = store.do(summaries(talk))
    for model in FORMS:
        context = store.do(talk.context(model=model, budget=4_000, instructions="Be kind."))
        if not context.past:
            continue
        told = transcript(context)
        (place,) = [number for number, line in enumerate(told) if '<reference-N kind="summary"' in line]
        assert place == 0
        assert made.text in "\n\n".join(told).replace("user: ", "")
        assert instructions(context.request).startswith("Be kind.")
        assert 'kind="summary"' not in instructions(context.request)
        (window,) = [place for place, line in enumerate(told) if line == "assistant: Noted, as background."]
        said = tickets("\n".join(told[window:]))
        assert said == sorted(said)
        assert said[-1] == len(turns) - 1


# -- 8, 9: when summaries are made, and what they say of themselves ------------------------------------------


@few
@given(st.sampled_from([10, 50]), st.lists(st.integers(1, 16), min_size=1, max_size=5), makers)
def test_property_8_a_summary_is_made_once_enough_messages_went_by(
    store: Store, after: int, portions: list[int], by: str
) -> None:
    talk = store.begin(by=by, summarise_after=after)
    said = 0
    for turns in portions:
        store.do(talk.append(*dialogue([Told(2, looks=False)] * turns)))
        said += 2 * turns
        store.do(talk.remember())
        made = store.do(summaries(talk))
        assert bool(made) == (said >= after)
        covered = made[-1].covers if made else 0
        left = [event for event in store.do(everything(talk)) if event.kind in MESSAGES and event.seq > covered]
        assert len(left) < after


@pytest.mark.parametrize("by", ["", WRITES])
def test_property_8_turns_bring_it_about_by_themselves(store: Store, by: str) -> None:
    """Nobody asks for it: the turn that crosses the threshold does."""
    talk = store.begin(by=by, summarise_after=50, model=script(f"replies-{next(names)}"))
    store.do(talk.append(*dialogue([Told(2, looks=False)] * 24)))
    assert store.do(summaries(talk)) == []
    for _ in range(2):
        store.do(_said(talk, "And now?"))
        assert store.do(store.et.memory.drain(60))
    assert [one.extractive for one in store.do(summaries(talk))] == [not by]


async def _said(talk: Talk, text: str) -> str:
    return str(await talk.say(text))


@few
@given(long_talks, makers, st.integers(0, 5))
def test_property_9_a_summary_is_an_event_that_says_which_range_it_covers(
    store: Store, turns: list[Told], by: str, cleared: int
) -> None:
    """Never a message: it is not counted, and not sent as one of the history."""
    talk = store.begin(by=by)
    before = dialogue(turns[:cleared])
    store.do(talk.append(*before, *([Clear()] if cleared else [])))
    events = dialogue(turns)
    for portion in (events[:60], events[60:]):
        if portion:
            store.do(talk.append(*portion))
            store.do(talk.remember())
    logged = store.do(everything(talk))
    found = [event for event in logged if event.kind == "summary"]
    assert found
    for event, made in zip(found, store.do(summaries(talk)), strict=True):
        earlier = [one for one in logged if one.kind in MESSAGES and one.seq <= made.covers]
        assert made.first == (len(before) + 2 if cleared else 1)
        assert made.first <= made.covers == earlier[-1].seq < event.seq
        assert made.extractive == (not by)
        assert event.tokens == 0
    assert store.do(talk.totals()).messages == len(before) + len(events)


# -- 19, 20, 21: what a summary is made of -------------------------------------------------------------------

WISHES = (
    "I prefer aisle seats.",
    "Please always answer in French.",
    "Never call me before noon.",
    "I'm allergic to walnuts.",
    "From now on, use metric units.",
    "Ich möchte immer einen Fensterplatz.",
    "以后请用中文回答。",
)
fillers = st.sampled_from(["What is the weather like?", "Ticket AB-7 costs 310 EUR.", "Ok.", "It rained. We waited."])
wishes = st.lists(st.sampled_from(WISHES), min_size=1, max_size=5, unique=True)


def _with_wishes(wanted: list[str], said: list[str], place: int) -> list[Event]:
    place = min(place, len(said))
    return [*map(user, said[:place]), *map(user, wanted), *map(assistant, said[place:])]


@more
@given(wishes, st.lists(fillers | any_text, max_size=30), st.integers(0, 30), st.integers(150, 400))
def test_property_19_an_extract_keeps_what_the_user_prefers_and_demands(
    wanted: list[str], said: list[str], place: int, tokens: int
) -> None:
    told = summary(numbered(_with_wishes(wanted, said, place)), tokens)
    assert [wish for wish in wanted if wish not in told] == []


@few
@given(wishes, st.integers(0, 60))
def test_property_19_a_range_summary_keeps_it_however_long_ago_it_was_said(
    store: Store, wanted: list[str], place: int
) -> None:
    talk = store.begin(by="")
    said = dialogue([Told(8, looks=False)] * 60)
    store.do(talk.append(*said[: 2 * place], *map(user, wanted), assistant("Noted."), *said[2 * place :]))
    store.do(talk.remember())
    (made,) = store.do(summaries(talk))
    assert [wish for wish in wanted if wish not in made.text] == []


@few
@given(wishes, st.integers(0, 20))
def test_property_19_beside_a_brief_the_facts_keep_what_its_model_leaves_out(
    store: Store, wanted: list[str], place: int
) -> None:
    talk = store.begin(by=WRITES, strategy="budget")
    said = dialogue([Told(8, looks=False)] * 20)
    store.do(talk.append(*said[: 2 * place], *map(user, wanted), assistant("Noted."), *said[2 * place :]))
    store.do(talk.remember())
    brief = store.do(talk.brief())
    assert brief is not None
    assert not any(wish in brief.text for wish in wanted)
    assert [wish for wish in wanted if wish not in brief.facts] == []


@few
@given(wishes, st.integers(0, 20), st.sampled_from(["budget", "importance"]))
def test_property_19_a_model_is_shown_all_of_it_and_told_to_keep_it(
    store: Store, wanted: list[str], place: int, strategy: str
) -> None:
    heard = Listening()
    talk = store.begin(by=WRITES, strategy=strategy)
    script(talk.conversation.user, *[heard.then(WRITES)] * 9)
    said = dialogue([Told(8, looks=False)] * 30)
    store.do(talk.append(*said[: 2 * place], *map(user, wanted), assistant("Noted."), *said[2 * place :]))
    store.do(talk.remember())
    assert [wish for wish in wanted if wish not in "".join(heard.shown)] == []
    assert all(
        re.search(r"instructions?\W+(that )?the user gave for good", " ".join(told.split())) for told in heard.told
    )


@more
@given(st.lists(turns_told, min_size=1, max_size=40), st.integers(10, 600))
def test_property_20_an_extract_tells_things_in_the_order_they_happened(turns: list[Told], tokens: int) -> None:
    told = tickets(summary(numbered(dialogue(turns)), tokens))
    assert told == sorted(told)
    assert told or tokens < 60


@few
@given(long_talks, st.sampled_from(["budget", "importance"]))
def test_property_20_a_summary_in_its_own_words_is_in_time_order(
    store: Store, turns: list[Told], strategy: str
) -> None:
    talk = store.begin(by="", strategy=strategy)
    store.do(talk.append(*dialogue(turns)))
    store.do(talk.remember())
    made = [one.text for one in store.do(summaries(talk))] + [one.text for one in store.do(briefs(talk))]
    told = tickets(made[-1])
    assert len(made) == 1
    assert len(told) > 3
    assert told == sorted(told)


@few
@given(long_talks, st.sampled_from(["budget", "importance"]))
def test_property_20_a_model_is_shown_the_turns_in_time_order(store: Store, turns: list[Told], strategy: str) -> None:
    """Each once: over all its model calls together."""
    heard = Listening()
    talk = store.begin(by=WRITES, strategy=strategy)
    script(talk.conversation.user, *[heard.then(WRITES)] * 40)
    store.do(talk.append(*dialogue(turns)))
    store.do(talk.remember())
    asked = [number for text in heard.shown for number in re.findall(r"User: Ticket AB-(\d+)", text)]
    assert list(map(int, asked)) == list(range(len(turns)))


writings = st.sampled_from(
    ["word " * 3_000, "The user asked. " * 900, "买票。" * 900, "x" * 9_000, "- item\n" * 900, "Fine.", "a, " * 2_000]
)


@few
@given(long_talks, st.integers(30, 300), writings | st.just(""))
def test_property_21_a_range_summary_keeps_within_its_tokens_whatever_is_written(
    store: Store, turns: list[Told], tokens: int, by: str
) -> None:
    talk = store.begin(by=by, summary_tokens=tokens)
    store.do(talk.append(*dialogue(turns)))
    store.do(talk.remember())
    made = store.do(summaries(talk))
    assert made
    assert max(count(one.text) for one in made) <= tokens


@more
@given(st.lists(any_text | fillers, max_size=12), st.integers(0, 200))
def test_property_21_an_extract_keeps_within_its_tokens_whatever_was_said(said: list[str], tokens: int) -> None:
    events: list[Event] = [event for text in said for event in (user(text), tool_result(text, id="1"), assistant(text))]
    told = summary(numbered(events), tokens)
    assert count(told) <= tokens


@more
@given(any_text | writings, st.integers(1, 300))
def test_property_21_what_a_model_wrote_is_kept_within_its_words(text: str, words: int) -> None:
    try:
        kept = trimmed(text, words)
    except BadValue:
        return  # it said nothing
    assert len(kept.split()) <= words
    assert kept.strip()


def test_what_these_properties_look_at_is_there(store: Store) -> None:
    """A reader of fences that finds none would prove anything."""
    talk = store.begin(by=WRITES)
    store.do(talk.append(*dialogue([Told(30, looks=True)] * 30)))
    store.do(talk.remember())
    context = store.do(talk.context(budget=2_500))
    assert WRITES in whole(context.request)
    assert [fence.kind for fence in fenced_in(context.request)] == ["summary"]
    assert [fence.kind for text in transcript(context) for fence in fences(text)] == ["summary"]

"""What precedes the window: every turn is sent or told of, none twice, and it changes only when the cutoff steps.

For every strategy, over conversations with pauses and large turns, whether memory keeps up, writes in the
conversation's own words, or does not work at all; on both databases.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from everthread import Everthread, Talk, assistant, image, user
from everthread.context.build import Context
from everthread.core.events import SessionEnded, Summary
from everthread.core.turns import Turn
from everthread.testing.scripted import script
from tests.contract.support import MINUTE, Clock
from tests.core.pictures import png
from tests.examples import examples
from tests.memory.conftest import Speak
from tests.memory.store import MODEL, Store, names
from tests.memory.support import fenced_in, outside, recaps
from tests.memory.test_brief import busy, say
from tests.transcripts import whole

# A failing play is told as it is: to shrink it would take a hundred conversations.
LOOK = (Phase.explicit, Phase.reuse, Phase.generate)
few = settings(max_examples=examples(5), deadline=None, derandomize=True, phases=LOOK)
SIZES = {"small": 5, "middle": 60, "large": 250}  # words of a turn; after a pause, one begins a session
BUDGET = 1_500
OWN = {"active_messages": 6, "messages": 6, "summarise_after": 12, "summary_tokens": 200, "worker": "apart"}
UNTOLD = re.compile(r"events (\d+) to (\d+) [^.]*neither sent nor summarised", re.IGNORECASE)
SPAN = re.compile(r"events (\d+) to (\d+)")

steps = st.sampled_from(["small", "middle", "middle", "large", "large", "large", "pause"])
plays = st.lists(steps, min_size=14, max_size=32)
memories = st.sampled_from(["a model", "own words", "none"])


# -- what a request tells --------------------------------------------------------------------------------------


class Told(NamedTuple):
    """What a context has of each turn."""

    cutoff: int
    sent: set[int]  # tickets
    quoted: set[int]  # tickets of which an extract has words
    ranges: list[tuple[str, int, int]]  # what was told, from which event to which
    prefix: str  # all before the window


def tickets(text: str) -> set[int]:
    return {int(number) for number in re.findall(r"(?:Ticket AB|Order XY)-(\d+)", text)}


def told(context: Context, sessions: dict[int, tuple[int, int]], made: Sequence[SessionEnded]) -> Told:
    messages = [str(message["content"]) for message in context.request["messages"]]
    sent = {number for text in messages for number in tickets(outside(text))}
    quoted, ranges = set[int](), []
    for fence in fenced_in(context.request):
        if fence.kind in ("brief", "summary", "extract"):
            ranges.append((fence.kind, fence.first, fence.last))
            quoted |= tickets(fence.text) if fence.kind == "extract" else set()
        elif fence.kind == "recap":
            ranges.append(("recap", *sessions[_session(fence.text, made, sessions)]))
    ranges += [("untold", int(first), int(last)) for text in messages for first, last in UNTOLD.findall(text)]
    return Told(context.cutoff, sent, quoted, ranges, "")


def _session(text: str, made: Sequence[SessionEnded], sessions: dict[int, tuple[int, int]]) -> int:
    """The session that a recap is of: by its text, or the one whose words it has."""
    by_text = [one.session for one in made if one.recap.strip() == text.strip()]
    return by_text[0] if by_text else max(sessions) - 1


def before_window(context: Context, first: int) -> str:
    """All of a request that precedes the turn of this ticket."""
    messages = context.request["messages"]
    place = next(n for n, message in enumerate(messages) if tickets(outside(str(message["content"]))) & {first})
    return json.dumps(messages[:place])


# -- a conversation that goes on ---------------------------------------------------------------------------------


class Play:
    """Lives through a conversation, and looks at what would be sent before every reply."""

    def __init__(self, store: Store, strategy: Any, memory: str, **own: Any) -> None:
        self.store, self.strategy, self.memory, self.count = store, strategy, memory, 0
        self.talk = store.begin(by="", **(OWN | {"strategy": strategy} | own))
        if memory == "a model":
            notes = [f"Note {number}: they spoke of tickets." for number in range(200)]
            self.do(self.talk.configure(summary_model=script(f"noting-{next(names)}", *notes)))

    def do(self, work: Any) -> Any:
        return self.store.do(work)

    def go_on(self, step: str) -> tuple[Context, Told] | None:
        if step == "pause":
            self.store.clock.now += 45 * MINUTE
            return None
        self.store.clock.now += MINUTE
        ticket, self.count = self.count, self.count + 1
        self.do(self.talk.append(user(f"Ticket AB-{ticket} is {'very ' * SIZES[step]}late.")))
        seen = self.look()
        self.do(self.talk.append(assistant(f"Order XY-{ticket} was moved.")))
        if self.memory != "none":
            self.do(self.talk.remember())
        return seen

    def look(self) -> tuple[Context, Told]:
        context = self.do(self.talk.context(lookups=True, budget=BUDGET))
        sessions = {one.number: (one.first, one.last) for one in self.do(self.talk.sessions(limit=100))}
        found = told(context, sessions, self.do(recaps(self.talk)))
        first = next(ticket for ticket, turn in self.tickets() if turn.first == context.cutoff)
        return context, found._replace(prefix=before_window(context, first))

    def tickets(self) -> Iterator[tuple[int, Turn]]:
        return enumerate(self.do(self.talk.turns(limit=1_000)))


def tellings(turn: Turn, found: Told) -> list[str]:
    return [kind for kind, first, last in found.ranges if first <= turn.first <= last]


STRATEGIES = ("budget", "messages", "session", "importance")


@pytest.mark.parametrize("strategy", STRATEGIES)
@few
@given(plays, memories)
def test_every_turn_is_told_of_once_before_the_window_what_is_told_stays_and_degraded_says_what_is_less(
    store: Store, strategy: Any, play: list[str], memory: str
) -> None:
    """Three properties of the same conversations, which take long to live through."""
    scene = Play(store, strategy, memory)
    prefixes: dict[tuple[int, ...], list[str]] = {}
    for step in play:
        if (seen := scene.go_on(step)) is not None:
            context, found = seen
            _is_sent_or_told_of_and_not_twice(scene, found)
            _says_whatever_is_less_than_asked_for(scene, context, found)
            _notes_what_precedes_the_window(scene, found, prefixes)
    _stays_the_same_until_the_cutoff_steps(scene, prefixes)


def _is_sent_or_told_of_and_not_twice(scene: Play, found: Told) -> None:
    """A version of the brief, or a summary of a range, may reach into the window: it is the earliest that covers all
    before it. An extract passes over turns that are sent. Nothing else tells of one, and no two tell of the same."""
    assert not found.sent & found.quoted
    for ticket, turn in scene.tickets():
        kinds = tellings(turn, found)
        if ticket in found.sent:
            assert set(kinds) <= {"brief", "summary", "extract"}, (ticket, found)
        else:
            assert len(kinds) == 1, (ticket, kinds, found)


def _notes_what_precedes_the_window(scene: Play, found: Told, prefixes: dict[tuple[int, ...], list[str]]) -> None:
    older = [ticket for ticket, turn in scene.tickets() if turn.first < found.cutoff]
    noted = prefixes.setdefault((found.cutoff, *found.sent.intersection(older)), [])
    noted += [found.prefix] if found.prefix not in noted[-1:] else []


def _stays_the_same_until_the_cutoff_steps(scene: Play, prefixes: dict[tuple[int, ...], list[str]]) -> None:
    """Or one of the older turns leaves. But for one swap, where memory had not told of it yet when that happened."""
    swaps = 0 if scene.memory == "none" or scene.strategy == "budget" else 1
    assert max(map(len, prefixes.values())) <= 1 + swaps


def _says_whatever_is_less_than_asked_for(scene: Play, context: Context, found: Told) -> None:
    less = any(kind == "extract" for kind, _, _ in found.ranges) or _fewer(scene, context)
    assert bool(context.degraded) == less, (context.degraded, found)


def _fewer(scene: Play, context: Context) -> bool:
    """Whether the window begins after where the strategy wants it to."""
    turns = [turn for _, turn in scene.tickets()]
    if scene.strategy == "messages":  # a question and its answer a turn, and the newest question
        return context.cutoff > turns[max(0, len(turns) - 4)].first
    if scene.strategy == "session":
        newest = scene.do(scene.talk.sessions(limit=1))[-1]
        return bool(context.cutoff > newest.first)
    return scene.strategy == "importance" and any("newest messages fit" in note for note in context.degraded)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_these_properties_look_at_conversations_in_which_something_is_past(store: Store, strategy: Any) -> None:
    """A play in which all is sent would prove nothing."""
    scene = Play(store, strategy, "none")
    seen = [scene.go_on(step) for step in ["small", "large", "large", "large", "middle", "pause"] * 4]
    assert {kind for found in seen if found for kind, _, _ in found[1].ranges} >= {"extract"}


# -- case by case ------------------------------------------------------------------------------------------------


async def test_a_recap_is_not_told_of_turns_that_are_sent(
    slow: Everthread, someone: str, clock: Clock, remember: Speak
) -> None:
    remember(*["They spoke of apples."] * 9)
    talk = await slow.begin(user=someone, name="chat")
    await say(talk, "Apples, please.")
    clock.now += 31 * MINUTE
    await say(talk, "And now?")
    await talk.remember()
    assert (await recaps(talk))[0].recap == "They spoke of apples."
    context = await talk.context(lookups=True)
    assert context.past == 0
    assert fenced_in(context.request) == []


async def test_a_session_that_does_not_fit_is_told_in_an_extract_where_it_is_not_sent(
    slow: Everthread, someone: str, clock: Clock
) -> None:
    talk = await slow.begin(user=someone, name="chat", settings={"strategy": "session"})
    await say(talk, "It began with pears.")
    clock.now += 31 * MINUTE
    for number in range(30):
        await say(talk, f"Booking ABC{number:03} costs {number} euros. {'It was a long day. ' * 10}")
    context = await talk.context(lookups=True, budget=2_000)
    kinds = {fence.kind: fence for fence in fenced_in(context.request)}
    assert set(kinds) == {"recap", "extract"}
    assert (kinds["extract"].first, kinds["extract"].last) == (4, context.cutoff - 1)
    assert "pears" in kinds["recap"].text
    assert "ABC" in kinds["extract"].text
    assert context.degraded
    assert context.estimate <= 2_000


async def test_earlier_sessions_that_are_not_told_of_are_said_to_be_there(
    slow: Everthread, someone: str, clock: Clock
) -> None:
    talk = await slow.begin(user=someone, name="chat", settings={"strategy": "session"})
    for text in ("Apples.", "Pears.", "Plums.", "Figs."):
        await say(talk, text)
        clock.now += 31 * MINUTE
    context = await talk.context(lookups=True)
    assert UNTOLD.findall(whole(context.request)) == [("1", "6")]
    assert context.degraded == ()


async def test_a_pinned_turn_of_an_earlier_session_is_neither_told_again_nor_said_to_be_missing(
    slow: Everthread, someone: str, clock: Clock
) -> None:
    talk = await slow.begin(user=someone, name="chat", settings={"strategy": "session"})
    for text in ("Apples.", "Pears.", "Plums.", "Figs."):
        await say(talk, text)
        await say(talk, f"{text[:-1]} are ripe.")
        clock.now += 31 * MINUTE
    names = {event.text: event.seq for event in await talk.before(messages=True) if event.kind == "user"}
    await talk.pin(names["Pears."])
    await talk.pin(names["Plums are ripe."])
    context = await talk.context(lookups=True)
    spans = [(int(first), int(last)) for first, last in SPAN.findall(whole(context.request))]
    untold = {name for name, seq in names.items() if any(first <= seq <= last for first, last in spans)}
    assert untold == {"Apples.", "Apples are ripe.", "Pears are ripe."}
    (recap,) = [fence for fence in fenced_in(context.request) if fence.kind == "recap"]
    assert "Plums." in recap.text
    assert "Plums are ripe." not in recap.text


async def test_importance_tells_of_no_turn_that_it_sends_before_its_first_summary(talk: Talk) -> None:
    await talk.configure(strategy="importance", active_messages=4)
    for number in range(30):
        await say(talk, f"Ticket AB-{number} is {'very ' * 60}late.")
    context = await talk.context(lookups=True, model=MODEL, budget=2_500)
    messages = [str(message["content"]) for message in context.request["messages"]]
    sent = {number for text in messages for number in tickets(outside(text))}
    (extract,) = [fence for fence in fenced_in(context.request) if fence.kind == "extract"]
    assert len(sent) > 4
    assert tickets(extract.text)
    assert not sent & tickets(extract.text)


async def test_an_extract_that_cannot_reach_back_says_from_where_on_nothing_is_told(talk: Talk) -> None:
    for number in range(100):
        await say(talk, f"Ticket AB-{number} is {'very ' * 20}late.")
    context = await talk.context(lookups=True, model=MODEL, budget=1_500)
    (extract,) = [fence for fence in fenced_in(context.request) if fence.kind == "extract"]
    assert extract.first > 1
    assert UNTOLD.findall(whole(context.request)) == [("1", str(extract.first - 1))]
    assert any("neither sent nor summarised" in note for note in context.degraded)


async def test_the_first_turns_that_leave_are_told_of_though_memory_has_nothing_yet(talk: Talk) -> None:
    """The room was thought to be enough, and was not: what is told is read again."""
    await talk.configure(strategy="session")
    words = "antidisestablishmentarianism " * 60
    for number in range(6):
        await say(talk, f"Ticket AB-{number}: {words}")
    for budget in range(1_400, 3_400, 200):
        context = await talk.context(lookups=True, model=MODEL, budget=budget)
        if context.past:
            assert [fence.kind for fence in fenced_in(context.request)] == ["extract"]
            assert context.degraded


async def test_a_session_without_words_is_said_to_be_told_of_by_nothing(
    slow: Everthread, someone: str, clock: Clock
) -> None:
    talk = await slow.begin(user=someone, settings={"strategy": "session"})
    await talk.append(user("Apples."), assistant("Yes."))
    clock.now += 31 * MINUTE
    await talk.append(user(image(png(8, 8))))
    clock.now += 31 * MINUTE
    await talk.append(user("Now?"))
    context = await talk.context(lookups=True, model=MODEL)
    assert UNTOLD.findall(whole(context.request)) == [("1", "5")]


async def test_a_summary_that_covers_all_is_all_that_importance_tells(talk: Talk) -> None:
    await talk.configure(strategy="importance", active_messages=4)
    for number in range(30):
        await say(talk, f"Ticket AB-{number} is late.")
    await talk.append(Summary(text="They spoke of tickets.", covers=60))
    context = await talk.context(lookups=True, model=MODEL, budget=1_200)
    assert [fence.kind for fence in fenced_in(context.request)] == ["summary"]
    assert context.degraded == ()


# -- what memory could not do --------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["budget", "messages", "importance"])
async def test_where_the_model_of_memory_is_down_the_context_says_so(
    talk: Talk, remember: Speak, at_once: None, strategy: Any
) -> None:
    await talk.configure(strategy=strategy, messages=4, active_messages=4, summarise_after=10)
    remember(*[busy() for _ in range(60)])
    for number in range(30):
        await say(talk, f"Ticket AB-{number} is {'very ' * 60}late.")
    await talk.remember()
    context = await talk.context(lookups=True, budget=2_000)
    assert any("no model" in note for note in context.degraded), context.degraded


async def test_where_there_is_no_model_for_memory_its_own_words_are_all_that_was_asked_for(talk: Talk) -> None:
    await talk.configure(summary_model="")
    for number in range(30):
        await say(talk, f"Ticket AB-{number} is {'very ' * 60}late.")
    await talk.remember()
    context = await talk.context(lookups=True, budget=2_000)
    assert context.past
    assert context.degraded == ()


@pytest.mark.parametrize(("strategy", "asked"), [("messages", {"messages": 40}), ("session", {})])
async def test_a_strategy_that_sends_fewer_than_asked_says_so(talk: Talk, strategy: Any, asked: dict[str, Any]) -> None:
    await talk.configure(strategy=strategy, **asked)
    for number in range(30):
        await say(talk, f"Ticket AB-{number} is {'very ' * 60}late.")
    context = await talk.context(lookups=True, model=MODEL, budget=2_000, settings={"memory": False})
    assert [note for note in context.degraded if "fewer" in note]
    assert (await talk.context(lookups=True, model=MODEL, budget=50_000, settings={"memory": False})).degraded == ()


@pytest.mark.parametrize("model", ["openai:gpt-99", "anthropic:claude-9-novel", "openai:mystery", "google:gemini-99"])
async def test_a_model_that_nobody_knows_is_said_to_be_guessed_at(talk: Talk, model: str) -> None:
    await say(talk, "Hello.")
    context = await talk.context(model=model)
    assert any(model.partition(":")[2] in note for note in context.degraded)
    half = await talk.context(model=model, settings={"factor": 1.2})
    assert any("window" in note and "guessed" in note for note in half.degraded)
    stated = await talk.context(model=model, settings={"factor": 1.2, "model_window": 100_000})
    assert stated.degraded == ()

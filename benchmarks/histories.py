"""Histories as bad as real ones, made up from a seed; and real ones, where a folder of them is named.

A history is a few scenes, each a thing that was seen to go wrong, one after the other, and then spoiled here
and there: an event lost, doubled or out of place. The same seed gives the same history. What the user says
has a number in it, so that it can be looked for in a request.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from random import Random

from benchmarks.teller import BLANK, FILES, MODELS, PICTURES, Teller
from everthread.core.events import (
    AgentKilled,
    Assistant,
    Clear,
    Command,
    Event,
    Mark,
    Other,
    Redacted,
    System,
    ToolResult,
    User,
    assistant,
    system,
    user,
)
from everthread.core.happenings import FlowStarted
from everthread.core.parts import Part, image
from everthread.store.scripts.append import Draft
from everthread.transfer import from_anthropic, from_openai
from tests.core.pictures import gif, jpeg, png
from tests.dialogues import dialogues

_SMALL = (image(png(30, 40)), image(jpeg(640, 480)), image(png(2_100, 30)), image(gif(3, 4)))
_SECOND = 1_000_000
_BEGINNING = 1_772_000_000 * _SECOND

Scene = Callable[[Teller], list[Event]]


# -- what is seen to go wrong ------------------------------------------------------------------------------


def plain(t: Teller) -> list[Event]:
    return [t.ask(), t.reply()]


def with_tools(t: Teller) -> list[Event]:
    """Steps of parallel tool calls, the results in any order, now and then text beside the calls."""
    events: list[Event] = [t.ask()]
    for _ in range(t.random.randint(1, 3)):
        calls = [t.call() for _ in range(t.random.randint(1, 4))]
        if t.chance(0.5):
            events.append(t.reply())
        results = [t.result(call) for call in calls]
        t.random.shuffle(results)
        events += [*calls, *results]
    return [*events, t.reply()]


def repeated_ids(t: Teller) -> list[Event]:
    """One id for everything: within a step, within a turn, from turn to turn."""
    events: list[Event] = []
    for _ in range(t.random.randint(1, 3)):
        calls = [t.call(id="call_1") for _ in range(t.random.randint(1, 3))]
        events += [t.ask(), *calls, *map(t.result, calls)]
        again = t.call(id="call_1")
        events += [again, t.result(again), t.reply()]
    return events


def missing_results(t: Teller) -> list[Event]:
    calls = [t.call() for _ in range(t.random.randint(1, 4))]
    some = t.random.sample(calls, t.random.randint(0, len(calls) - 1))
    return [t.ask(), *calls, *map(t.result, some), *([t.reply()] if t.chance(0.4) else [])]


def late_results(t: Teller) -> list[Event]:
    """After a new message of the user's, after the turn was idle, or twice."""
    call = t.call(waits_for=t.random.choice(("", "approval", "job")))
    late = t.result(call)
    between = t.either([t.ask()], [t.reply()], [t.ask(), t.reply()], [t.reply(), t.ask(), t.reply()])
    again = [t.result(call)] if t.chance(0.3) else []
    return [t.ask(), call, *between, late, *again, *([t.reply()] if t.chance(0.6) else []), *again]


def orphans(t: Teller) -> list[Event]:
    return [t.ask(), t.result(t.call()), t.reply()] if t.chance(0.5) else [t.result(t.call()), t.reply()]


def approval(t: Teller) -> list[Event]:
    """A tool call waits for hours, beside others that do not, while the conversation goes on."""
    waiting, other = t.call(waits_for="approval"), t.call()
    events: list[Event] = [t.ask(), waiting, other, t.result(other)]
    for _ in range(t.random.randint(0, 3)):
        events += t.random.choice((plain, with_tools))(t)
    if t.chance(0.6):
        events += [t.result(waiting), t.reply()]
    return events


def interleaved(t: Teller) -> list[Event]:
    calls = [t.call() for _ in range(3)]
    events: list[Event] = [t.ask(), t.reply(), *calls]
    for call in t.random.sample(calls, t.random.randint(1, 3)):
        events += [t.result(call), *([t.ask()] if t.chance(0.6) else [])]
    return events


def killed(t: Teller) -> list[Event]:
    call = t.call()
    after = t.either([], [t.result(call)], [t.ask()], [t.ask(), t.reply()])
    return [t.ask(), *t.either([call], []), AgentKilled(reason="restarted"), *after]


def interrupted(t: Teller) -> list[Event]:
    broken_off = t.reply(*t.random.choice((("Half a",), ("",), ())), interrupted=True)
    call = t.call()
    ways: list[list[Event]] = [[broken_off], [broken_off, call], [call, broken_off], [call, broken_off, t.result(call)]]
    return [t.ask(), *t.random.choice(ways)]


def blank(t: Teller) -> list[Event]:
    call = t.call()
    empty = t.random.choice
    return [
        empty((User(), user(empty(BLANK)), user(empty(BLANK), empty(BLANK)))),
        empty((Assistant(), assistant(empty(BLANK)), t.reply(empty(BLANK)), Assistant(interrupted=True))),
        call,
        empty((ToolResult(id=call.id), t.result(call, empty(BLANK)))),
        *t.either([], [System()], [system(empty(BLANK))], [Assistant()]),
    ]


def instructions(t: Teller) -> list[Event]:
    call = t.call()
    told = system(t.words(), *([t.random.choice(PICTURES)] if t.chance(0.1) else []))
    ways: list[list[Event]] = [
        [told, t.ask(), t.reply()],
        [t.ask(), told, t.reply()],
        [t.ask(), call, told, t.result(call)],
    ]
    return t.random.choice(ways)


def markers(t: Teller) -> list[Event]:
    call = t.call()
    note: list[Event] = [
        Mark(name="here"),
        Other(kind="app.opened", data={"page": 3}),
        Command(name="/help"),
        FlowStarted(),
    ]
    return [t.ask(), call, *t.random.sample(note, 2), t.result(call), t.random.choice(note), t.reply()]


def cleared(t: Teller) -> list[Event]:
    call = t.call()
    after = t.either([], [t.ask()], [t.reply()], [t.result(call)], [call], [system("Afresh.")])
    return [t.ask(), *t.either([call], []), Clear(), *after]


def redacted(t: Teller) -> list[Event]:
    call = t.call()
    gone = t.random.choice(("user", "assistant", "tool_call", "tool_result", "system"))
    events: list[Event] = [t.ask(), call, t.result(call), t.reply()]
    events[t.random.randrange(4)] = Redacted(was=gone)
    return events


def media(t: Teller) -> list[Event]:
    def some() -> list[Part]:
        return t.random.sample((*PICTURES, *FILES), t.random.randint(1, 3))

    call = t.call()
    asked = t.ask(*some()) if t.chance(0.8) else User(parts=tuple(some()))
    return [asked, call, t.result(call, *some(), *([t.words()] if t.chance(0.5) else [])), t.reply(t.words(), *some())]


def many_parts(t: Teller) -> list[Event]:
    """Messages in pieces, as some programs keep them."""
    said = user(*(t.random.choice(("a", "7", "ok", ".", "")) for _ in range(t.random.randint(2, 400))))
    call = t.call()
    found = t.result(call, *("row" for _ in range(t.random.randint(2, 200))))
    return [said, t.reply(*("so" for _ in range(t.random.randint(2, 200)))), call, found, t.reply()]


def many_calls(t: Teller) -> list[Event]:
    """More tool calls at once than some providers take back."""
    calls = [t.call() for _ in range(t.random.randint(100, 300))]
    return [t.ask(), *calls, *map(t.result, calls), t.reply()]


def many_pictures(t: Teller) -> list[Event]:
    many = t.random.choices(_SMALL, k=t.random.randint(15, 130))
    wide = [t.random.choice(PICTURES)] if t.chance(0.5) else []
    call = t.call()
    return [t.ask(*many[:60], *wide), t.reply(), t.ask(), call, t.result(call, *many[60:]), t.reply()]


def only_thought(t: Teller) -> list[Event]:
    thought = Assistant(parts=tuple(t.reasoning()), model=t.model)
    call = t.call()
    return [t.ask(), thought, *t.either([call, t.result(call), thought], [t.reply()], [], [thought, call])]


def in_a_row(t: Teller) -> list[Event]:
    """Neighbours of one kind; a turn of nothing but a question."""
    asked: list[Event] = [t.ask() for _ in range(t.random.randint(1, 4))]
    return [*asked, *(t.reply() for _ in range(t.random.randint(0, 3)))]


def switched(t: Teller) -> list[Event]:
    """Another provider takes over in the middle of a turn."""
    call, again = t.call(), None
    events: list[Event] = [t.ask(), t.reply(), call, t.result(call)]
    t.model = t.random.choice(MODELS)
    again = t.call()
    return [*events, t.reply(), again, *([t.result(again)] if t.chance(0.7) else [])]


def imported(t: Teller) -> list[Event]:
    """As other programs wrote them, with fields that only their providers know."""
    function = {"name": "find_order", "arguments": '{"number": 17}'}
    odd = {"id": "c", "type": "custom", "custom": {"name": "shell", "input": "ls"}}
    said = {"role": "user", "content": t.words()}
    if t.chance(0.5):
        cached = {"cache_control": {"type": "ephemeral"}}
        use = {"type": "tool_use", "id": "toolu_1", "name": "find", "input": {"a": None}, "caller": {"type": "direct"}}
        cited = {"type": "text", "text": t.words(), "citations": [{"type": "char_location", "cited_text": "x"}]}
        result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "x", **cached}]}
        asked = {"type": "text", "text": t.words(), **cached}
        turns = [{"role": "user", "content": [asked]}, {"role": "assistant", "content": [cited, use]}]
        return from_anthropic(
            {"system": "Be kind.", "messages": [*turns, {"role": "user", "content": [result, asked]}]}
        )
    return from_openai(
        [
            {"role": "developer", "content": "Be kind.", "name": "rules of the house"},
            {**said, "name": "Ana María"},
            {"role": "assistant", "content": None, "reasoning_content": "Hm.", "tool_calls": [odd]},
            {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": ""}], "name": "shell"},
            {"role": "assistant", "content": None, "function_call": function},
            {"role": "function", "name": "find_order", "content": "found"},
            {"role": "assistant", "refusal": "I will not.", "annotations": [], "audio": {"id": "audio_1"}},
        ]
    )


# -- and too much of it ------------------------------------------------------------------------------------


def giant_result(t: Teller) -> list[Event]:
    calls = [t.call() for _ in range(t.random.randint(1, 3))]
    results = [t.result(call, t.long(20_000, 200_000)) for call in calls]
    return [t.ask(), *calls, *results, *t.either([t.reply()], [], [t.reply(), t.ask()])]


def giant_message(t: Teller) -> list[Event]:
    return [user(t.long(20_000, 100_000)), *([t.reply()] if t.chance(0.5) else [])]


def giant_turn(t: Teller) -> list[Event]:
    events: list[Event] = [t.ask()]
    for _ in range(t.random.randint(20, 60)):
        calls = [t.call() for _ in range(t.random.randint(1, 2))]
        events += [*([t.reply()] if t.chance(0.3) else []), *calls]
        events += [t.result(call, t.long(200, 12_000)) for call in calls]
    return events


_SCENES: tuple[Scene, ...] = (
    *(plain, with_tools, repeated_ids, missing_results, late_results, orphans, approval, interleaved, killed),
    *(interrupted, blank, instructions, markers, cleared, redacted, media, only_thought, in_a_row, switched, imported),
    many_parts,
)
_GIANTS: tuple[Scene, ...] = (giant_result, giant_result, giant_message, giant_turn, many_calls, many_pictures)


# -- histories ---------------------------------------------------------------------------------------------


def bad_history(random: Random) -> list[Draft]:
    """Events with their times, ready for `et.log.append`."""
    teller = Teller(random)
    if random.random() < 0.12:
        return _timed(random, random.choice(_WHOLE)(teller))
    events: list[Event] = []
    for scene in random.choices(_SCENES, k=random.randint(1, 7)):
        events += scene(teller)
    if random.random() < 0.1:
        at = random.randint(0, len(events))
        events[at:at] = random.choice(_GIANTS)(teller)
    for _ in range(random.choice((0, 0, 0, 1, 3))):
        _spoil(random, events)
    return _timed(random, events)


def real_histories(folder: str | None = None) -> Iterator[tuple[str, list[Draft]]]:
    """Those that ship with the tests and, where a folder (or EVERTHREAD_DATA) has them, recorded ones."""
    if folder:
        os.environ["EVERTHREAD_DATA"] = folder
    yield from dialogues()


def _spoil(random: Random, events: list[Event]) -> None:
    at = random.randrange(len(events))
    event = events.pop(at)
    match random.choice(("lost", "doubled", "moved")):
        case "doubled":
            events[at:at] = [event, event]
        case "moved":
            events.insert(random.randint(0, len(events)), event)
        case _ if not events:
            events.append(event)


def _timed(random: Random, events: list[Event]) -> list[Draft]:
    """Seconds apart, with a pause that ends a session here and there; some histories come without times."""
    if random.random() < 0.1:
        return [Draft(event=event) for event in events]
    time, drafts = _BEGINNING, []
    for event in events:
        pause = random.random() < 0.05
        time += _SECOND * (random.randint(1_801, 300_000) if pause else random.randint(0, 120))
        drafts.append(Draft(event=event, time=time))
    return drafts


def _greeting(t: Teller) -> list[Event]:
    return [*([system("Be kind.")] if t.chance(0.5) else []), t.reply(), *plain(t), *with_tools(t)]


_WHOLE: tuple[Scene, ...] = (
    _greeting,
    lambda t: [system(t.words()) for _ in range(t.random.randint(1, 3))],
    lambda t: [system(t.random.choice(BLANK)), *plain(t)],
    lambda t: [system(t.random.choice(BLANK)), system(t.words()), *with_tools(t)],
    lambda t: [t.result(t.call()) for _ in range(t.random.randint(1, 3))],
    lambda t: [t.call() for _ in range(t.random.randint(1, 3))],
    lambda t: [t.reply() for _ in range(t.random.randint(1, 3))],
    lambda t: [t.ask()],
    lambda t: [Assistant(parts=tuple(t.reasoning()), model=t.model)],
    lambda t: [user(t.random.choice(BLANK))],
    lambda t: [User(parts=(t.random.choice((*PICTURES, *FILES)),))],
    lambda t: [Mark(name="here"), Other(kind="app.opened")],
    lambda t: [t.ask(), t.reply(), Clear()],
    lambda t: [t.result(t.call()), t.ask(), t.call()],
)

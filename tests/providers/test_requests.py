"""One dialogue, four forms: whatever a history holds, each provider is told the same story, and accepts it."""

from __future__ import annotations

from random import Random

import pytest

from benchmarks.histories import bad_history
from everthread import Redacted, assistant, system, tool_call, tool_result, user
from everthread.config import PROVIDERS
from everthread.core.events import AgentKilled, Assistant, Clear, Event, Mark, Other, ToolCall, ToolResult, User
from everthread.core.parts import Image, Text
from everthread.providers.registry import provider
from tests.providers.conftest import Ask
from tests.transcripts import BEGINS, CHAT, CLAUDE, FORMS, GEMINI, GOES_ON, RESPONSES, transcript

Lines = list[str]

INTERRUPTED = "No result: this tool call was interrupted."
COMES = "If one comes, a later message tells it, between <result-N> and </result-N>."
APPROVAL = f"No result yet: this tool call waits for approval. {COMES}"
JOB = f"No result yet: this tool call takes longer. {COMES}"
FIND, SEAT = tool_call("find", {"number": 1}, id="a"), tool_call("seat", {"row": 7}, id="b")
FOUND, TAKEN = tool_result("found", id="a", name="find"), tool_result("taken", id="b", name="seat")
CALLS = ['call find {"number": 1}', 'call seat {"row": 7}']


def _nameless(text: str) -> ToolResult:
    return ToolResult(id="", parts=(Text(text=text),))


def _waits(on: str) -> ToolCall:
    return ToolCall(id="a", name="find", arguments='{"number": 1}', waits_for="approval" if on == "approval" else "job")


# What happened, what is told of it (an error of a tool is marked where the form has a mark), and what was repaired.
DIALOGUES: dict[str, tuple[list[Event], Lines, list[str]]] = {
    "a plain exchange": (
        [user("Hello."), assistant("Hi."), user("Bye.")],
        ["user: Hello.", "assistant: Hi.", "user: Bye."],
        [],
    ),
    "texts in parts": (
        [user("One.", "Two."), assistant("Three.", "", "Four."), user("Five.")],
        ["user: One.", "user: Two.", "assistant: Three.", "assistant: Four.", "user: Five."],
        [],
    ),
    "a tool call beside text": (
        [user("Find it."), assistant("A moment."), FIND, FOUND],
        ["user: Find it.", "assistant: A moment.", CALLS[0], "result find: found"],
        [],
    ),
    "parallel calls, results in another order": (
        [user("Both."), FIND, SEAT, TAKEN, FOUND],
        ["user: Both.", *CALLS, "result find: found", "result seat: taken"],
        [],
    ),
    "one id for two calls of a step": (
        [user("Both."), FIND, FIND, FOUND, tool_result("again", id="a", name="find")],
        ["user: Both.", CALLS[0], CALLS[0], "result find: found", "result find: again"],
        ["tool calls with an id that was used before: 1"],
    ),
    "one id from turn to turn": (
        [user("One."), FIND, FOUND, assistant("Yes."), user("Two."), FIND, tool_result("gone", id="a")],
        [
            *["user: One.", CALLS[0], "result find: found", "assistant: Yes."],
            "user: Two.",
            CALLS[0],
            "result find: gone",
        ],
        ["tool calls with an id that was used before: 1"],
    ),
    "results without ids": (
        [user("Both."), FIND, SEAT, _nameless("first"), _nameless("second")],
        ["user: Both.", *CALLS, "result find: first", "result seat: second"],
        [],
    ),
    "a crash between call and result": (
        [user("Go."), FIND, user("Well?")],
        ["user: Go.", CALLS[0], f"failed find: {INTERRUPTED}", "user: Well?"],
        ["tool calls without a result: 1"],
    ),
    "one of two results is missing": (
        [user("Both."), FIND, SEAT, TAKEN, user("Well?")],
        ["user: Both.", *CALLS, f"failed find: {INTERRUPTED}", "result seat: taken", "user: Well?"],
        ["tool calls without a result: 1"],
    ),
    "approval comes late: the call keeps its placeholder, the result is told where it arrives": (
        [user("Buy."), _waits("approval"), user("Meanwhile?"), assistant("Yes?"), FOUND],
        [
            *["user: Buy.", CALLS[0], f"result find: {APPROVAL}", "user: Meanwhile?", "assistant: Yes?"],
            *['user: <result-N of="find">', "user: found", "user: </result-N>"],
        ],
        ["tool calls without a result: 1", "results told as text, because their tool call is not right before them: 1"],
    ),
    "a long job": (
        [user("Dig."), _waits("job"), assistant("It is under way."), user("Fine.")],
        ["user: Dig.", CALLS[0], "assistant: It is under way.", "result find: " + JOB, "user: Fine."],
        ["tool calls without a result: 1"],
    ),
    "approved before anything else is said": (
        [user("Buy."), _waits("approval"), FOUND],
        ["user: Buy.", CALLS[0], "result find: found"],
        [],
    ),
    "a result twice": (
        [user("Go."), FIND, FOUND, tool_result("found again", id="a", name="find")],
        [
            *["user: Go.", CALLS[0], "result find: found"],
            *['user: <result-N of="find">', "user: found again", "user: </result-N>"],
        ],
        ["results told as text, because their tool call is not right before them: 1"],
    ),
    "a failed result that nobody asked for": (
        [user("Go."), tool_result("no such file", id="z", error=True), user("Well?")],
        ["user: Go.", 'user: <result-N of="z" error="true">', "user: no such file", "user: </result-N>", "user: Well?"],
        ["results told as text, because their tool call is not right before them: 1"],
    ),
    "the user speaks between call and result": (
        [user("Go."), FIND, user("Quick!"), FOUND],
        [
            *["user: Go.", CALLS[0], f"failed find: {INTERRUPTED}", "user: Quick!"],
            *['user: <result-N of="find">', "user: found", "user: </result-N>"],
        ],
        ["tool calls without a result: 1", "results told as text, because their tool call is not right before them: 1"],
    ),
    "arguments that are no JSON": (
        [user("Go."), tool_call("find", "{'number': "), tool_result("what?", name="find", error=True)],
        ["user: Go.", 'call find {"INVALID_JSON": "{\'number\': "}', "failed find: what?"],
        ["tool calls whose arguments are no JSON object: 1"],
    ),
    "arguments that are no object": (
        [user("Go."), tool_call("find", "[1, 2]"), tool_result("what?", name="find")],
        ["user: Go.", 'call find {"INVALID_JSON": "[1, 2]"}', "result find: what?"],
        ["tool calls whose arguments are no JSON object: 1"],
    ),
    "no arguments": (
        [user("Go."), tool_call("find", ""), tool_result("done", name="find")],
        ["user: Go.", "call find {}", "result find: done"],
        [],
    ),
    "arguments in another script": (
        [user("Go."), tool_call("find", '{"é": "你好"}'), tool_result("done", name="find")],
        ["user: Go.", 'call find {"é": "你好"}', "result find: done"],
        [],
    ),
    "a lone surrogate, which no request can carry": (
        [user("a\ud800b"), tool_call("find", '{"x": "\\ud800"}'), tool_result("\udfff", name="find")],
        ["user: a?b", 'call find {"x": "?"}', "result find: ?"],
        ["texts with characters that no request can carry: 2"],
    ),
    "messages without content": (
        [User(), assistant(""), user(" \n"), Assistant(), user("Hello?")],
        ["user: (empty message)", "user: (empty message)", "user: Hello?"],
        ["messages without content: 2", "replies without content, left out: 2"],
    ),
    "an interrupted reply is told as far as it came": (
        [user("Go."), assistant("Half a", interrupted=True), user("Go on.")],
        ["user: Go.", "assistant: Half a", "user: Go on."],
        [],
    ),
    "an agent that was killed": (
        [user("Go."), FIND, AgentKilled(reason="restarted"), user("Again.")],
        ["user: Go.", CALLS[0], f"failed find: {INTERRUPTED}", "user: Again."],
        ["tool calls without a result: 1"],
    ),
    "markers part nothing": (
        [user("Go."), FIND, Mark(name="here"), Other(kind="app.opened"), FOUND],
        ["user: Go.", CALLS[0], "result find: found"],
        [],
    ),
    "nothing from before a clear": (
        [user("Old."), FIND, Clear(), FOUND, user("New.")],
        ['user: <result-N of="find">', "user: found", "user: </result-N>", "user: New."],
        ["results told as text, because their tool call is not right before them: 1"],
    ),
    "a redacted question": (
        [Redacted(was="user"), assistant("Yes."), user("Thanks.")],
        ["user: (redacted)", "assistant: Yes.", "user: Thanks."],
        ["redacted messages: 1"],
    ),
    "a redacted reply": (
        [user("Well?"), Redacted(was="assistant"), user("Thanks.")],
        ["user: Well?", "assistant: (redacted)", "user: Thanks."],
        ["redacted messages: 1"],
    ),
    "a redacted result still answers its call": (
        [user("Go."), FIND, Redacted(was="tool_result")],
        ["user: Go.", CALLS[0], "result find: (redacted)"],
        ["redacted messages: 1"],
    ),
    "a redacted call still has its result": (
        [user("Go."), Redacted(was="tool_call"), FOUND],
        ["user: Go.", "call unknown {}", "result unknown: found"],
        [
            "redacted messages: 1",
            "tool calls with an id that providers refuse: 1",
            "tool calls with a name that providers refuse: 1",
        ],
    ),
    "a redacted call that waits": (
        [user("Go."), Redacted(was="tool_call", waits_for="approval"), user("Well?")],
        ["user: Go.", "call unknown {}", f"result unknown: {APPROVAL}", "user: Well?"],
        [
            *["redacted messages: 1", "tool calls with an id that providers refuse: 1"],
            *["tool calls with a name that providers refuse: 1", "tool calls without a result: 1"],
        ],
    ),
    "neighbours of one kind": (
        [user("One."), user("Two."), assistant("Three."), assistant("Four."), user("Five.")],
        ["user: One.", "user: Two.", "assistant: Three.", "assistant: Four.", "user: Five."],
        [],
    ),
}


@pytest.mark.parametrize("name", DIALOGUES)
async def test_every_provider_is_told_the_same_story(ask: Ask, name: str) -> None:
    events, told, repaired = DIALOGUES[name]
    for model in FORMS:
        context = await ask(model, *events)
        assert (model, transcript(context)) == (model, _in_order(model, told))
        assert [repair for repair in context.repaired if "declared" not in repair] == repaired


def _in_order(model: str, told: Lines) -> Lines:
    """OpenAI's two forms have no mark for a failed tool, and Chat Completions tells a step's text before its calls."""
    if model in (CHAT, RESPONSES):
        told = [line.replace("failed ", "result ", 1) if line.startswith("failed") else line for line in told]
    if model == CHAT:
        for place, line in enumerate(told[:-1]):
            if line.startswith("call") and told[place + 1].startswith("assistant:"):
                told = [*told[:place], told[place + 1], line, *told[place + 2 :]]
    return told


# -- the first message and the last ------------------------------------------------------------------------

GREETED = [assistant("Good morning."), user("Hello.")]
ANSWERED = [user("Hello."), assistant("Good morning.")]


@pytest.mark.parametrize(
    ("model", "events", "told"),
    [
        (CLAUDE, GREETED, [BEGINS, "assistant: Good morning.", "user: Hello."]),
        (GEMINI, GREETED, [BEGINS, "assistant: Good morning.", "user: Hello."]),
        (CHAT, GREETED, ["assistant: Good morning.", "user: Hello."]),
        (RESPONSES, GREETED, ["assistant: Good morning.", "user: Hello."]),
        (CLAUDE, ANSWERED, ["user: Hello.", "assistant: Good morning.", GOES_ON]),
        (GEMINI, ANSWERED, ["user: Hello.", "assistant: Good morning.", GOES_ON]),
        (CHAT, ANSWERED, ["user: Hello.", "assistant: Good morning."]),
        (RESPONSES, ANSWERED, ["user: Hello.", "assistant: Good morning."]),
        *((model, [], [BEGINS]) for model in FORMS),
        *((model, [user("Old."), assistant("Yes."), Clear()], [BEGINS]) for model in FORMS),
        *((model, [system("Be kind.")], [BEGINS]) for model in FORMS),
    ],
)
async def test_who_must_speak_first_and_last_does(ask: Ask, model: str, events: list[Event], told: Lines) -> None:
    context = await ask(model, *events)
    assert transcript(context) == told
    assert len(context.repaired) == (BEGINS in told) + (GOES_ON in told)


@pytest.mark.parametrize("model", FORMS)
async def test_thought_alone_is_no_message(ask: Ask, model: str) -> None:
    context = await ask(model, user("Well?"), Assistant(parts=(), model=model), user("Hello?"))
    assert transcript(context) == ["user: Well?", "user: Hello?"]


# -- names and ids -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        *[("book.seat", "book_seat"), ("read file", "read_file"), ("naïve", "na_ve"), ("", "unknown")],
        *[("x" * 70, "x" * 64), ("mcp__files__read-all", "mcp__files__read-all")],
    ],
)
async def test_a_name_that_providers_refuse_is_told_otherwise(ask: Ask, name: str, sent: str) -> None:
    for model in FORMS:
        call = ToolCall(id="a", name=name)
        context = await ask(model, user("Go."), call, tool_result("done", id="a"))
        assert transcript(context)[1:] == [f"call {sent} {{}}", f"result {sent}: done"]
        assert ("tool calls with a name that providers refuse: 1" in context.repaired) == (name != sent)


@pytest.mark.parametrize("id", ["", "a.b:c", "id with space", "é", "\ud800", "x" * 41, "x" * 90, "functions.f:0", "\n"])
async def test_an_id_that_providers_refuse_is_made_anew(ask: Ask, id: str) -> None:
    """And the result finds its call all the same; an earlier use of the new id is no trouble either."""
    first, second = ToolCall(id="call_4", name="f"), ToolCall(id=id, name="g")
    events: list[Event] = [
        user("Go."),
        first,
        tool_result("one", id="call_4"),
        second,
        ToolResult(id=id, parts=(Text(text="two"),)),
    ]
    for model in FORMS:
        context = await ask(model, *events)
        assert transcript(context)[1:] == ["call f {}", "result f: one", "call g {}", "result g: two"]
        assert "tool calls with an id that providers refuse: 1" in context.repaired


@pytest.mark.parametrize("model", FORMS)
async def test_an_id_that_is_made_anew_is_never_one_that_was_there(ask: Ask, model: str) -> None:
    """The second `x` would become `x_4`, which is taken."""
    calls = [tool_call("f", id="x_4"), tool_call("g", id="x"), tool_call("h", id="x")]
    results = [tool_result(text, id=id) for text, id in (("one", "x_4"), ("two", "x"), ("three", "x"))]
    context = await ask(model, user("Go."), *calls, *results)
    assert transcript(context)[-3:] == ["result f: one", "result g: two", "result h: three"]


@pytest.mark.parametrize("length", [28, 40])
async def test_an_id_that_repeats_stays_short_enough(ask: Ask, length: int) -> None:
    call = tool_call("f", id="x" * length)
    again: list[Event] = [user("Go."), call, tool_result("done", id=call.id), assistant("Yes.")]
    context = await ask(CHAT, *again * 60)
    ids = [call["id"] for message in context.request["messages"] for call in message.get("tool_calls", ())]
    assert len(set(ids)) == 60


# -- the last resort ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", FORMS)
async def test_what_fails_its_check_is_told_as_text(ask: Ask, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _fail_every_check(monkeypatch)
    events: list[Event] = [
        user("Both."),
        assistant("A moment."),
        FIND,
        SEAT,
        FOUND,
        TAKEN,
        assistant("Done."),
        user("Thanks."),
    ]
    context = await ask(model, *events)
    assert transcript(context) == [
        *["user: Both.", "assistant: A moment."],
        *['assistant: [tool call find: {"number": 1}]', 'assistant: [tool call seat: {"row": 7}]'],
        *["user: <result-N>", "user: [result of find: found]", "user: </result-N>"],
        *["user: <result-N>", "user: [result of seat: taken]", "user: </result-N>"],
        *["assistant: Done.", "user: Thanks."],
    ]
    assert context.repaired[-1] == "tool calls were told as text, because somebody says so"


@pytest.mark.parametrize("model", FORMS)
async def test_the_last_resort_is_valid_whatever_the_history_holds(
    ask: Ask, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`ask` puts each before the second opinion."""
    _fail_every_check(monkeypatch)
    for number in range(25):
        events = [draft.event for draft in bad_history(Random(f"flat {number}"))]
        context = await ask(model, *events, budget=20_000)
        assert not any(line.startswith(("call ", "result ", "failed ")) for line in transcript(context))


def _fail_every_check(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROVIDERS:
        monkeypatch.setattr(provider(name).request_form(), "check", lambda _: ["somebody says so"])


# -- pictures whose bytes are gone -------------------------------------------------------------------------


@pytest.mark.parametrize("model", FORMS)
async def test_a_picture_that_is_nowhere_is_told_in_words(ask: Ask, model: str) -> None:
    context = await ask(model, user("Look:", Image(media_type="image/png", width=3, height=4)))
    assert transcript(context) == ["user: Look:", "user: [image: image/png, 3×4; not sent]"]

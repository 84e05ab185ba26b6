"""What providers limit beside tokens: pictures, tools, tool calls. Mended on the way out, and said."""

from __future__ import annotations

import base64
import io
import json
import sys
from random import Random
from typing import Any

import pytest

from benchmarks.rules.pictures import sides
from benchmarks.validator import refusals
from everthread import Everthread, GivenSettings, assistant, image, system, tool_call, tool_result, user
from everthread.context.tools import tools_of
from everthread.core.events import Event
from everthread.core.images import dimensions
from everthread.core.parts import Image, Part
from everthread.core.request import Tool
from everthread.providers import pictures
from tests.core.pictures import png
from tests.providers.conftest import Ask
from tests.transcripts import CHAT, CLAUDE, FORMS, GEMINI, RESPONSES, instructions, transcript


def picture(width: int, height: int, *, noise: bool = False, form: str = "PNG") -> bytes:
    """A real one, which can be opened and scaled; noise cannot be compressed."""
    from PIL import Image as Pillow

    size = (width, height)
    grains = Random(7).randbytes(width * height * 3) if noise else bytes((10, 120, 60)) * (width * height)
    made = Pillow.frombytes("RGB", size, grains)
    out = io.BytesIO()
    made.save(out, form)
    return out.getvalue()


def pictures_of(request: dict[str, Any]) -> list[bytes]:
    found = [block for message in request["messages"] for block in message["content"]]
    found += [inner for block in found if isinstance(block.get("content"), list) for inner in block["content"]]
    return [base64.b64decode(block["source"]["data"]) for block in found if block["type"] == "image"]


@pytest.mark.parametrize("blank", ["", " ", "\n\n", "\u00a0"], ids=ascii)
@pytest.mark.parametrize("model", FORMS)
async def test_blank_instructions_that_open_a_conversation_are_not_sent(ask: Ask, model: str, blank: str) -> None:
    context = await ask(model, system(blank), user("Hello."))
    assert instructions(context.request) == ""
    assert transcript(context) == ["user: Hello."]


@pytest.mark.parametrize("model", FORMS)
async def test_of_several_that_open_it_those_with_content_are(ask: Ask, model: str) -> None:
    context = await ask(model, system(" "), system("Be kind."), user("Hello."))
    assert instructions(context.request).strip() == "Be kind."


# -- pictures ------------------------------------------------------------------------------------------------


def beyond_its_canvas() -> bytes:
    """A GIF whose frame is larger than it says of itself: what opens it sees a bomb."""
    made = picture(8_100, 20, form="GIF")
    place = made.index(b"\x2c" + bytes(4) + (8_100).to_bytes(2, "little"))
    return made[: place + 5] + b"\xff\xff" * 2 + made[place + 9 :]


async def test_a_picture_that_cannot_be_opened_at_all_is_told_in_words(ask: Ask) -> None:
    context = await ask(CLAUDE, user("Look.", image(beyond_its_canvas())))
    assert pictures_of(context.request) == []
    assert "too large for the provider, not sent" in "".join(transcript(context))


TOO_LARGE = {
    "beyond 5 MB": (picture(1_500, 1_500, noise=True), 8_000),
    "beyond 5 MB as a JPEG": (picture(2_800, 2_800, noise=True, form="JPEG"), 8_000),
    "wider than 8,000 pixels": (picture(9_000, 300), 8_000),
    "higher than 8,000 pixels": (picture(20, 9_000), 8_000),
}


@pytest.mark.parametrize("shown", ["asked", "found"])
@pytest.mark.parametrize(("data", "most"), TOO_LARGE.values(), ids=TOO_LARGE.keys())
async def test_a_picture_that_claude_would_refuse_is_scaled(ask: Ask, data: bytes, most: int, shown: str) -> None:
    events: list[Event] = [user("See:", image(data))]
    if shown == "found":
        events = [user("Look."), tool_call("look", id="1"), tool_result(image(data), id="1")]
    context = await ask(CLAUDE, *events)
    (sent,) = pictures_of(context.request)
    width, height = sides(data)
    assert max(sides(sent)) <= most
    assert sides(sent)[0] / sides(sent)[1] == pytest.approx(width / height, rel=0.05)
    assert "images that were scaled down, because the provider refuses larger ones: 1" in context.repaired


@pytest.mark.parametrize(("data", "_most"), TOO_LARGE.values(), ids=TOO_LARGE.keys())
async def test_it_is_scaled_the_same_way_every_time(ask: Ask, data: bytes, _most: int) -> None:
    first, second = [(await ask(CLAUDE, user(image(data)))).request["messages"] for _ in range(2)]
    assert first == second


async def test_with_many_pictures_each_is_scaled_to_what_claude_then_takes(ask: Ask) -> None:
    context = await ask(CLAUDE, user("See:", *[image(picture(2_400, 40 + n)) for n in range(21)]))
    assert [max(sides(sent)) for sent in pictures_of(context.request)] == [2_000] * 21


async def test_of_more_than_claude_takes_the_newest_are_sent(ask: Ask) -> None:
    events = [event for n in range(130) for event in (user(f"See {n}:", image(png(30, n + 1))), assistant("Seen."))]
    context = await ask(CLAUDE, *events, user("And?"), budget=0)
    assert [sides(sent)[1] for sent in pictures_of(context.request)] == list(range(31, 131))
    assert "[image: image/png, 30×1; one too many for the provider, not sent]" in "\n".join(transcript(context))
    assert "images and files that cannot be sent, told in words: 30" in context.repaired


BROKEN: dict[str, Part] = {
    "that cannot be opened": image(png(9_000, 9_000)),
    "that is cut off": image(picture(9_000, 300)[:200]),
    "a bomb": image(png(60_000, 60_000)),
    "not even that": Image(data=b"\x89PNG" + bytes(5_000_000), media_type="image/png"),
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN.keys())
async def test_a_picture_that_cannot_be_scaled_is_told_in_words(ask: Ask, broken: Image) -> None:
    context = await ask(CLAUDE, user("See:", broken))
    assert pictures_of(context.request) == []
    why = "too large for the provider, not sent" if all(dimensions(broken.data or b"")) else "image/png; not sent"
    assert why in "\n".join(transcript(context))


async def test_without_the_package_that_scales_it_is_told_in_words(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    wide = image(picture(8_300, 20))
    monkeypatch.setitem(sys.modules, "PIL", None)
    context = await ask(CLAUDE, user("See:", wide))
    assert "too large for the provider, not sent" in "\n".join(transcript(context))


GRAINS = picture(1_500, 1_500, noise=True)  # 9 MB as base64
FEWER = {CHAT: (6, 5), RESPONSES: (6, 5), GEMINI: (2, 1)}  # so many are shown, and so many taken


@pytest.mark.parametrize("model", FEWER)
async def test_of_more_bytes_than_the_provider_takes_the_newest_are_sent(ask: Ask, model: str) -> None:
    shown, taken = FEWER[model]
    context = await ask(model, *[user(f"See {n}:", image(GRAINS)) for n in range(shown)], budget=0)
    lines = transcript(context)
    assert lines.count("user: <image/png>") == taken
    assert lines[1] == "user: [image: image/png, 1500×1500; too much for one request, not sent]"
    assert "images and files that cannot be sent, told in words: 1" in context.repaired


MOST = {"openai:gpt-4.1": 500, RESPONSES: 500, GEMINI: 900}


@pytest.mark.parametrize("model", MOST)
async def test_of_more_pictures_than_the_provider_takes_the_newest_are_sent(ask: Ask, model: str) -> None:
    shown = [image(png(1 + n % 300, 1 + n // 300)) for n in range(MOST[model] + 2)]
    context = await ask(model, user("See:", *shown), budget=0)
    lines = transcript(context)
    assert lines.count("user: <image/png>") == MOST[model]
    assert lines[1] == "user: [image: image/png, 1×1; one too many for the provider, not sent]"
    assert lines[2] == "user: [image: image/png, 2×1; one too many for the provider, not sent]"


@pytest.mark.parametrize("model", [CHAT, RESPONSES, GEMINI])
async def test_a_picture_of_more_bytes_than_the_provider_takes_is_made_smaller(ask: Ask, model: str) -> None:
    padded = picture(300, 200) + bytes(16_000_000)
    context = await ask(model, user("See:", image(padded)), budget=0)
    assert transcript(context) == ["user: See:", "user: <image/png>"]
    assert "images that were scaled down, because the provider refuses larger ones: 1" in context.repaired


async def test_other_providers_get_it_as_it_is(ask: Ask) -> None:
    data = picture(9_000, 300)
    for model in (CHAT, RESPONSES, GEMINI):
        assert base64.b64encode(data).decode() in json.dumps((await ask(model, user(image(data)))).request)


# -- tools ---------------------------------------------------------------------------------------------------


def tools(many: int, description: str = "Finds.") -> list[Tool]:
    return [Tool(name=f"tool_{number:03}", description=description) for number in range(many)]


MOST_TOOLS = {CHAT: 128, RESPONSES: 128, GEMINI: 512}


@pytest.mark.parametrize(("model", "most"), MOST_TOOLS.items())
async def test_tools_beyond_what_the_provider_takes_are_left_out_and_that_is_said(
    ask: Ask, model: str, most: int
) -> None:
    context = await ask(model, user("Hello."), tools=tools(most + 7))
    assert f"tools beyond the {most} that the provider takes, left out: 7" in context.degraded
    told = json.dumps(context.request)
    assert [f"tool_{n:03}" in told for n in (0, most - 1, most, most + 6)] == [True, True, False, False]


@pytest.mark.parametrize("model", MOST_TOOLS)
async def test_as_many_as_it_takes_are_no_matter(ask: Ask, model: str) -> None:
    context = await ask(model, user("Hello."), tools=tools(MOST_TOOLS[model]))
    assert context.degraded == ()


@pytest.mark.parametrize("model", [CHAT, RESPONSES])
async def test_a_description_that_is_too_long_is_shortened_and_that_is_said(ask: Ask, model: str) -> None:
    context = await ask(model, user("Hello."), tools=tools(1, "Finds something. " * 100))
    (tool,) = context.request["tools"]
    described = tool.get("function", tool)["description"]
    assert described.startswith("Finds something. Finds")
    assert 1_000 < len(described) <= 1_024
    assert "descriptions of tools, shortened to the 1,024 characters that the provider takes: 1" in context.degraded


async def test_others_are_told_it_whole(ask: Ask) -> None:
    for model in (CLAUDE, GEMINI):
        context = await ask(model, user("Hello."), tools=tools(1, "Finds something. " * 100))
        assert "Finds something. " * 100 in json.dumps(context.request)
        assert context.degraded == ()


@pytest.mark.parametrize("many", [128, 129, 300])
async def test_tool_calls_beyond_what_one_message_takes_are_told_in_several(ask: Ask, many: int) -> None:
    calls = [tool_call("find", id=f"c{n}") for n in range(many)]
    results = [tool_result(f"found {n}", id=f"c{n}") for n in range(many)]
    context = await ask(CHAT, user("Find."), assistant("I look."), *calls, *results, budget=0)
    messages = context.request["messages"]
    sizes = [len(message["tool_calls"]) for message in messages if "tool_calls" in message]
    assert sum(sizes) == many
    assert max(sizes) <= 128
    assert [message["content"] for message in messages if message["role"] == "tool"] == [
        f"found {n}" for n in range(many)
    ]
    assert next(message["content"] for message in messages if message["role"] == "assistant") == "I look."


async def test_a_picture_that_was_scaled_is_forgotten_with_its_message(et: Everthread, someone: str) -> None:
    talk = await et.begin(user=someone)
    await talk.append(user("See:", image(picture(8_400, 20))))
    await talk.context(model=CLAUDE)
    assert pictures._kept
    await talk.redact(1)
    assert not pictures._kept
    assert pictures_of((await talk.context(model=CLAUDE)).request) == []


async def test_pictures_are_scaled_once_however_many_a_request_shows(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    scaled: list[int] = []
    smaller = pictures._smaller

    def counted(data: bytes, *how: Any) -> tuple[str, str] | None:
        scaled.append(len(data))
        return smaller(data, *how)

    monkeypatch.setattr(pictures, "_smaller", counted)
    shown = [user(image(picture(2_100 + number, 40))) for number in range(22)]
    for _ in range(2):
        context = await ask(CLAUDE, *shown, user("What are they?"), budget=150_000)
        assert len(pictures_of(context.request)) == 22
    assert len(scaled) == 22


async def test_a_server_of_ones_own_has_limits_of_its_own(et: Everthread) -> None:
    talk = await et.begin(user="ana")
    await talk.append(user("Look."))
    look = Tool(name="look", description="x" * 2_000)
    settings: GivenSettings = {"address": "http://127.0.0.1:11434/v1"}
    context = await talk.context(model="openai:qwen3", tools=[look], settings=settings)
    assert len(context.request["tools"][0]["function"]["description"]) == 2_000


SCHEMAS: dict[str, dict[str, Any]] = {
    "without properties": {"type": "object"},
    "without a type": {"properties": {"city": {"type": "string"}}},
    "with a choice at the top": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "anyOf": [{"required": ["city"]}],
    },
    "of a choice alone": {"oneOf": [{"type": "object", "properties": {}}]},
    "with constants at the top": {"type": "object", "properties": {}, "enum": [{}]},
    "that is not another": {"type": "object", "properties": {}, "not": {"required": ["x"]}},
}


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
@pytest.mark.parametrize("model", FORMS)
async def test_schemas_that_providers_refuse_are_mended(
    et: Everthread, someone: str, model: str, schema: dict[str, Any]
) -> None:
    talk = await et.begin(user=someone)
    await talk.append(user("Hello."))
    context = await talk.context(model=model, tools=[{"name": "look", "schema": schema}])
    (sent,) = schemas_of(context.request)
    assert sent["type"] == "object"
    assert sent["properties"] == schema.get("properties", {})
    assert refusals(model, context.request) == []
    assert sent.keys().isdisjoint(("anyOf", "oneOf", "allOf", "enum", "not"))


WRONG: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "no properties": ({"type": "object", "properties": None}, {"type": "object", "properties": {}}),
    "a list of properties": ({"type": "object", "properties": []}, {"type": "object", "properties": {}}),
    "nothing required": ({"type": "object", "required": None}, {"type": "object"}),
    "a name required": ({"type": "object", "required": "x"}, {"type": "object"}),
    "numbers required": ({"type": "object", "required": ["x", 5]}, {"type": "object", "required": ["x"]}),
    "an unknown type": ({"type": "foo", "description": "x"}, {"description": "x"}),
    "no type": ({"type": None}, {}),
    "a type that is none": ({"type": {"a": 1}}, {}),
    "some known types": ({"type": ["foo", "string", 5]}, {"type": ["string"]}),
    "no known types": ({"type": ["foo"]}, {}),
    "a list of nothing": ({"type": "array", "items": None}, {"type": "array", "items": {}}),
}


@pytest.mark.parametrize(("schema", "mended"), WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("model", FORMS)
async def test_what_is_no_schema_is_mended_wherever_it_stands(
    ask: Ask, model: str, schema: dict[str, Any], mended: dict[str, Any]
) -> None:
    given = {"type": "object", "properties": {"what": schema, "list": {"type": "array", "items": schema}}}
    tools: list[Any] = [{"name": "look", "schema": given}]
    if schema.get("type") == "object":
        tools.append({"name": "top", "schema": schema})
    context = await ask(model, user("Hello."), tools=tools)
    inside, *top = schemas_of(context.request)
    assert inside["properties"] == {"what": mended, "list": {"type": "array", "items": mended}}
    assert top == [{"properties": {}} | mended for _ in tools[1:]]


@pytest.mark.parametrize("key", ["a b", "Größe", "x" * 65, "", "a/b", "$filter"])
async def test_a_tool_whose_arguments_have_names_that_claude_refuses_is_left_out(ask: Ask, key: str) -> None:
    odd = {"name": "odd", "schema": {"type": "object", "properties": {key: {"type": "string"}}}}
    good = {"name": "good", "schema": {"type": "object", "properties": {"a.b-C_9": {"type": "string"}}}}
    for model in FORMS:
        context = await ask(model, user("Hello."), tools=[odd, good])
        assert len(schemas_of(context.request)) == (1 if model == CLAUDE else 2)
        told = "tools whose arguments have names that the provider refuses, left out: odd"
        assert (told in context.degraded) == (model == CLAUDE)
    alone = await ask(CLAUDE, user("Hello."), tools=[odd])
    assert "tools" not in alone.request


LISTS: dict[str, dict[str, Any]] = {
    "a list": {"type": "array"},
    "a list or nothing": {"type": ["array", "null"]},
    "one of a choice": {"anyOf": [{"type": "array"}, {"type": "null"}]},
    "in a list": {"type": "array", "items": {"type": "array"}},
    "in an object": {"type": "object", "properties": {"type": {"type": "array"}}},
    "any name": {"type": "object", "additionalProperties": {"type": "array"}},
}


@pytest.mark.parametrize("schema", LISTS.values(), ids=LISTS)
@pytest.mark.parametrize("model", FORMS)
async def test_a_list_that_does_not_say_what_is_in_it_holds_anything(
    ask: Ask, model: str, schema: dict[str, Any]
) -> None:
    """OpenAI refuses `{"type": "array"}`, wherever it stands."""
    given = {"type": "object", "properties": {"what": schema}}
    context = await ask(model, user("Hello."), tools=[{"name": "look", "schema": given}])
    (sent,) = schemas_of(context.request)
    assert json.dumps(sent).count('"items"') == json.dumps(schema).count('"array"')


def test_what_looks_like_a_list_in_a_default_stays_as_it_is() -> None:
    given = {"type": "object", "properties": {"what": {"type": "object", "default": {"type": "array"}}}}
    (tool,) = tools_of([{"name": "look", "schema": given}])
    assert tool.schema == given


def schemas_of(request: dict[str, Any]) -> list[dict[str, Any]]:
    tools = request.get("tools") or request["config"]["tools"][0]["functionDeclarations"]
    named = [tool.get("function", tool) for tool in tools]
    keys = ("parameters", "input_schema", "parametersJsonSchema")
    return [next(tool[key] for key in keys if key in tool) for tool in named]


def steps(first: int, last: int) -> list[Event]:
    return [
        event
        for number in range(first, last)
        for event in (tool_call("find", {"n": number}, id=f"c{number}"), tool_result("ok", id=f"c{number}"))
    ]


@pytest.mark.parametrize("model", [CHAT, RESPONSES])
async def test_a_single_turn_with_more_messages_than_the_provider_takes_is_cut_inside(
    et: Everthread, model: str
) -> None:
    """The message that began it stays; the cut seldom moves."""
    talk = await et.begin(user="ana")
    await talk.append(user("Before."), assistant("Yes."), user("Find them all."), *steps(0, 1_500))
    sent = set()
    for number in range(3):
        await talk.append(*steps(1_500 + number, 1_501 + number))
        context = await talk.context(model=model, budget=100_000, settings={"memory": False, "clock": "off"})
        assert refusals(model, context.request) == []
        assert 900 < context.sent <= 2_048
        assert context.over_budget == 0
        lines = transcript(context)
        assert lines[0] == "user: Find them all."
        assert lines[-1] == "result find: ok"
        assert lines[-2] == f'call find {{"n": {1_500 + number}}}'
        (told,) = [words for words in context.degraded if "no more than 2,048 messages" in words]
        assert "events 4 to " in told
        assert "events 4 to " in instructions(context.request)
        sent.add((lines[1], told))
    assert len(sent) == 1


@pytest.mark.parametrize("model", [CHAT, RESPONSES])
async def test_so_is_one_of_calls_that_were_never_answered(et: Everthread, model: str) -> None:
    """Each has a message of its own, and one in place of its result."""
    talk = await et.begin(user="ana")
    cut = [event for n in range(1_200) for event in (tool_call("find", id=f"c{n}"), assistant("Again."))]
    await talk.append(user("Find."), *cut)
    context = await talk.context(model=model, budget=100_000, settings={"memory": False})
    assert refusals(model, context.request) == []
    assert context.over_budget == 0


@pytest.mark.parametrize("model", [CHAT, RESPONSES])
async def test_no_more_messages_are_sent_than_the_provider_takes_and_the_cutoff_seldom_steps(
    et: Everthread, model: str
) -> None:
    talk = await et.begin(user="ana")
    await talk.append(*(event for number in range(1_600) for event in (user(f"{number}"), assistant("ok"))))
    cutoffs = set()
    for number in range(3):
        await talk.append(user(f"And {number}?"))
        context = await talk.context(model=model, budget=100_000, settings={"memory": False})
        assert 900 < context.sent <= 2_048
        assert refusals(model, context.request) == []
        assert any("no more than 2,048 messages" in given_up for given_up in context.degraded)
        cutoffs.add(context.cutoff)
        await talk.append(assistant("Yes."))
    assert len(cutoffs) == 1


@pytest.mark.parametrize("model", [CHAT, RESPONSES])
@pytest.mark.parametrize(("asked", "after"), [(1_200, 2), (3, 1_200), (1_000, 1_000)], ids=["long", "short", "both"])
async def test_the_users_message_before_late_results_is_among_them(
    et: Everthread, model: str, asked: int, after: int
) -> None:
    talk = await et.begin(user="ana")
    await talk.append(user("Find them all."), *steps(0, asked), assistant("I wait."))
    for first in range(0, after, 400):
        late = [tool_result("late", id=f"late{n}", name="find") for n in range(first, min(after, first + 400))]
        await talk.append(*[event for one in late for event in (one, assistant("So."))])
    context = await talk.context(model=model, budget=100_000, settings={"memory": False, "clock": "off"})
    assert refusals(model, context.request) == []
    assert context.over_budget == 0
    assert "user: Find them all." in transcript(context)

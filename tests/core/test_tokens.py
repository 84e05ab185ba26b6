"""The canonical size of an event: counted once, by what a model would be charged for."""

from __future__ import annotations

import base64
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everthread.core import tokens
from everthread.core.events import (
    AgentKilled,
    Assistant,
    Clear,
    Command,
    Event,
    Fork,
    Mark,
    Redacted,
    Rewind,
    SettingsChanged,
    System,
    ToolCall,
    ToolResult,
    User,
    assistant,
    system,
    tool_call,
    tool_result,
    user,
)
from everthread.core.happenings import canvas_changed
from everthread.core.parts import File, Image, Reasoning, Text, file, image
from everthread.core.tokens import (
    DEEPEST,
    IMAGE_LEAST,
    JOINT,
    LARGE_RESULT,
    count,
    image_crops,
    image_tiles,
    sizes,
    tools_size,
)
from everthread.providers.leftovers import note
from tests.core.pictures import png
from tests.core.strategies import any_text, events, plain_json
from tests.examples import examples

MARKERS: list[Event] = [
    Clear(),
    Mark(name="a long name, but never sent"),
    Fork(branch=1, at=1),
    Rewind(branch=1, to=1),
    Command(name="x", arguments={"y": "z"}),
    SettingsChanged(values={"model": "x"}),
    AgentKilled(reason="long reason"),
    Redacted(was="user"),
    canvas_changed("x" * 1000),
]


@pytest.mark.parametrize("marker", MARKERS, ids=lambda marker: marker.kind)
def test_markers_have_no_size_because_they_are_never_sent(marker: Event) -> None:
    assert sizes(marker) == (0, 0)


@pytest.mark.parametrize("message", [system(""), user(), user(""), assistant(), tool_call("f"), tool_result(name="f")])
def test_even_an_empty_message_costs_its_wrapping(message: Event) -> None:
    full, settled = sizes(message)
    assert full == settled > 0


def test_counts_are_those_of_the_o200k_encoding() -> None:
    assert count("") == 0
    assert count("hello world") == 2
    assert count("The quick brown fox jumps over the lazy dog.") == 10
    assert count("<|endoftext|>") > 1  # plain text, not a control token


def test_the_older_encoding_can_be_asked_for() -> None:
    assert count("", "cl100k") == 0
    assert count("hello world", "cl100k") == 2
    assert count("龍龍龍", "cl100k") == 6 != count("龍龍龍")
    assert count("<|endoftext|>\ud800", "cl100k") > 2


def test_texts_may_be_counted_by_another_measure() -> None:
    by_length = sizes(tool_result("word " * 20_000, name="f"), len)
    assert by_length[0] - sizes(tool_result(name="f"), len)[0] == 100_000
    assert by_length[1] > 1_400
    assert sizes(tool_call("name", '{"a":1}'), len)[0] - sizes(tool_call("", ""), len)[0] == 9
    assert sizes(user(image(png(1000, 750))), len) == sizes(user(image(png(1000, 750))))


def test_more_text_is_larger() -> None:
    assert sizes(user("one"))[0] < sizes(user("one two"))[0] < sizes(user("one two", "three"))[0]


@settings(deadline=None, max_examples=examples(200))
@given(events)
def test_any_event_has_a_size_and_never_settles_larger(event: Event) -> None:
    full, settled = sizes(event)
    assert 0 <= settled <= full


@given(any_text)
def test_any_text_can_be_counted(content: str) -> None:
    assert count(content) >= (1 if content else 0)


@pytest.mark.parametrize("odd", ["\ud800", "\udfff" * 100, "a\ud83db", "\0" * 50, "\ud83d\ude00"], ids=ascii)
def test_surrogates_and_nul_do_not_crash_the_counting(odd: str) -> None:
    assert sizes(user(odd))[0] > sizes(user())[0]
    assert sizes(tool_result(odd * LARGE_RESULT, name="f"))[1] > 0


LONG = {
    "one letter": "a" * 1_000_000,
    "spaces": " " * 1_000_000,
    "Chinese": "龍" * 333_333,
    "line breaks": "\n" * 1_000_000,
    "a surrogate in the middle": "a" * 500_000 + "\ud800" + "a" * 500_000,
}


@pytest.mark.parametrize("content", LONG.values(), ids=LONG.keys())
def test_a_megabyte_of_the_same_is_counted(content: str) -> None:
    """Encoders that go quadratic on one long word would not come back."""
    assert 1_000 < count(content) <= len(content.encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize("content", LONG.values(), ids=LONG.keys())
def test_the_tokenizer_is_given_a_long_text_in_pieces(content: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It lets nobody else run while it works, on a loop or in a thread."""
    given, real = list[str](), tokens._tokenizer("o200k")

    def encode(text: str) -> list[int]:
        ids = real.encode_ordinary(text)
        given.append(text)
        return ids

    monkeypatch.setattr(tokens, "_tokenizer", lambda _: SimpleNamespace(encode_ordinary=encode))
    count(content)
    assert "".join(given).replace("?", "\ud800") == content
    assert max(len(piece.encode()) for piece in given) < 64_000


# -- large tool results ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "is_stubbed"),
    [
        ("word " * 2047 + "abcd", False),  # 10,239 bytes
        ("word " * 2048, True),  # 10,240
        ("龍" * 3413, False),  # 10,239 bytes in fewer characters
        ("龍" * 3414, True),
        ("word " * 20_000, True),
    ],
    ids=["a byte short", "exactly", "Chinese, a byte short", "Chinese, two bytes over", "far over"],
)
def test_a_tool_result_of_ten_kilobytes_settles_smaller(content: str, is_stubbed: bool) -> None:
    full, settled = sizes(tool_result(content, name="f"))
    assert (settled < full) is is_stubbed


def test_a_large_result_in_many_parts_settles_smaller_too() -> None:
    full, settled = sizes(tool_result(*["word " * 500] * 10, name="f"))
    assert settled < full / 4


def test_only_tool_results_settle_smaller() -> None:
    large = "word " * 20_000
    for message in (user(large), assistant(large), system(large), tool_call("f", large)):
        full, settled = sizes(message)
        assert full == settled


def test_a_stub_is_never_larger_than_the_whole() -> None:
    full, settled = sizes(tool_result(" " * LARGE_RESULT, name="f"))  # compresses to very few tokens
    assert settled <= full


def test_an_image_beside_a_large_result_is_still_charged() -> None:
    picture = image(png(1000, 750))
    without = sizes(tool_result("word " * 20_000, name="f"))
    beside = sizes(tool_result("word " * 20_000, picture, name="f"))
    assert beside[0] - without[0] == beside[1] - without[1] == 1_000 + JOINT


# -- images, files, metadata -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("width", "height", "tokens"),
    [
        (1, 1, IMAGE_LEAST),
        (750, 258, 258),
        (750, 259, 259),
        (751, 259, 260),
        (1000, 750, 1000),
        (10_000, 10_000, 1600),
        (2**31, 2**31, 1600),
    ],
)
def test_an_image_is_charged_by_its_area_within_bounds(width: int, height: int, tokens: int) -> None:
    bare = sizes(user())[0]
    assert sizes(user(image(png(width, height))))[0] - bare == tokens


def test_an_image_is_not_charged_as_the_text_of_its_bytes() -> None:
    noise = bytes(range(256)) * 4_000
    heavy = image(png(100, 100) + noise)
    assert sizes(user(heavy)) == sizes(user(image(png(100, 100))))
    assert sizes(user(heavy))[0] < count(base64.b64encode(noise).decode()) / 100


def test_an_image_that_cannot_be_measured_has_a_size_all_the_same() -> None:
    assert sizes(user(Image(url="https://example.org/a.png")))[0] > 500


def test_an_image_has_the_same_size_with_and_without_its_bytes() -> None:
    with_bytes = image(png(100, 100))
    without = Image(blob=with_bytes.blob, width=100, height=100)
    assert sizes(user(with_bytes)) == sizes(user(without))


@pytest.mark.parametrize(
    ("media_type", "tokens"),
    [
        ("application/octet-stream", 100),
        ("application/pdf", 100),
        ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", 100),
        ("audio/x-text", 100),
        ("", 100),
        ("text/plain", 600),
        ("text/csv; charset=utf-8", 600),
        ("Application/JSON", 600),
        ("application/xml", 600),
        ("application/ld+json", 600),
        ("image/svg+xml", 600),
        ("application/x-yaml", 600),
    ],
)
def test_a_file_is_charged_by_its_length_and_more_when_it_is_sent_as_text(media_type: str, tokens: int) -> None:
    empty, full = (File(size=size, media_type=media_type) for size in (0, 1200))
    assert sizes(user(full))[0] - sizes(user(empty))[0] == tokens


def test_a_text_file_is_counted_as_text_while_its_bytes_are_at_hand() -> None:
    numbers = ",".join(map(str, range(1000)))
    assert sizes(user(file(numbers.encode(), media_type="text/csv")))[0] == sizes(user(numbers))[0]


def test_what_a_provider_wants_echoed_is_charged() -> None:
    signed = Assistant(parts=(Reasoning(text="hm", meta={"anthropic": "s" * 400}),))
    assert sizes(signed)[0] - sizes(assistant(Reasoning(text="hm")))[0] == 100


def test_what_a_provider_wants_echoed_of_a_tool_call_is_charged() -> None:
    signed = ToolCall(id="1", name="t", meta={"google": "s" * 400})
    assert sizes(signed)[0] - sizes(ToolCall(id="1", name="t"))[0] == 100


NOTE = note("openai", fields={"internal": "x" * 4_000})
UNSENT: dict[str, tuple[Event, Event]] = {
    "a user message": (user("x"), User(parts=(Text(text="x"),), meta=NOTE)),
    "a system message": (system("x"), System(parts=(Text(text="x"),), meta=NOTE)),
    "a reply": (assistant("x"), Assistant(parts=(Text(text="x"),), meta=NOTE)),
    "a tool call": (tool_call("t"), ToolCall(id="call_t", name="t", meta=NOTE)),
    "its message": (tool_call("t"), ToolCall(id="call_t", name="t", meta=note("openai", message={"a": "x" * 4_000}))),
    "a tool result": (tool_result("x"), ToolResult(id="call_", parts=(Text(text="x"),), meta=NOTE)),
    "a text": (user("x"), User(parts=(Text(text="x", meta=NOTE),))),
    "a field": (user("x"), User(parts=(Text(text="x", meta=note("openai", place={"field": "y" * 400})),))),
}


@pytest.mark.parametrize(("plain", "noted"), UNSENT.values(), ids=UNSENT.keys())
def test_fields_of_a_foreign_format_are_kept_but_not_sent_and_not_counted(plain: Event, noted: Event) -> None:
    assert sizes(noted) == sizes(plain)


@pytest.mark.parametrize("make", [user, assistant, system, tool_result])
def test_an_applications_metadata_is_not_counted(make: Any) -> None:
    assert sizes(make("x", metadata={"trace": "y" * 4_000})) == sizes(make("x"))
    assert sizes(tool_call("t", metadata={"trace": "y" * 4_000})) == sizes(tool_call("t"))


# -- images as OpenAI charges them -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("width", "height", "tokens"),
    [
        (1024, 1024, 765),  # OpenAI's own example: 768 by 768, four tiles
        (2048, 4096, 1105),  # and its other: 768 by 1536, six
        (512, 512, 255),
        (513, 512, 425),
        (1, 1, 255),
        (768, 2048, 1445),
        (2048, 769, 1445),
        (4096, 512, 765),  # to 2048 by 256
        (100_000, 1, 765),
        (2**31, 2**31, 765),
        (0, 0, 1445),
        (0, 500, 1445),
        (-1, 500, 1445),
    ],
)
def test_openai_charges_an_image_by_its_tiles(width: int, height: int, tokens: int) -> None:
    assert image_tiles(width, height, 85, 170) == tokens


@given(st.integers(1, 2**31), st.integers(1, 2**31))
def test_an_image_has_one_to_eight_tiles_whichever_way_it_is_turned(width: int, height: int) -> None:
    tiles = image_tiles(width, height, 0, 1)
    assert 1 <= tiles <= 8
    assert tiles == image_tiles(height, width, 0, 1)


@pytest.mark.parametrize(
    ("width", "height", "crops"),
    [
        (384, 384, 1),
        (960, 540, 6),  # Google's own example
        (1920, 1080, 6),
        (1024, 1024, 4),
        (1920, 40, 8),  # no crop is smaller than 256 by 256
        (8001, 3, 12),
        (3, 8001, 12),
        (2**31, 1, 12),
        (4032, 3024, 12),  # nor larger than 768 by 768, of no more than 3072 by 3072
        (2**31, 2**31, 16),
        (0, 0, 6),
    ],
)
def test_google_charges_an_image_by_its_crops(width: int, height: int, crops: int) -> None:
    assert image_crops(width, height, 258) == crops * 258


# -- tools -------------------------------------------------------------------------------------------------


def _tool(name: str, fields: dict[str, Any], description: str = "", required: tuple[str, ...] = ()) -> dict[str, Any]:
    schema = {"type": "object", "properties": fields, "required": list(required)}
    return {"name": name, "description": description, "schema": schema}


TEXT, NUMBER = {"type": "string"}, {"type": "number"}
LETTERS = {"type": "string", "enum": ["a", "b", "c"]}
INGREDIENT = {
    "type": "object",
    "required": ["name", "unit", "amount"],
    "properties": {
        "name": TEXT,
        "unit": {"enum": ["grams", "ml", "cups", "pieces", "teaspoons"], "type": "string"},
        "amount": NUMBER,
    },
}
RECIPE = {
    "ingredients": {"type": "array", "items": INGREDIENT},
    "instructions": {"type": "array", "items": TEXT, "description": "Steps to prepare the recipe (no numbering)"},
    "time_to_cook": {"type": "number", "description": "Total time to prepare the recipe in minutes"},
}


@pytest.mark.parametrize(
    ("tool", "tokens"),
    [
        (_tool("foo", {}), 23),
        (_tool("foo", {}, "Do a foo"), 28),
        (_tool("bing_bong", {"foo": TEXT}, "Do a bing bong"), 41),
        (_tool("bing_bong", {"foo": TEXT, "bar": NUMBER | {"description": "A number"}}, "Do a bing bong"), 49),
        (
            _tool(
                "bing_bong",
                {"foo": {"type": "object", "properties": {"bar": LETTERS, "baz": {"type": "boolean"}}}},
                "Do a bing bong",
            ),
            60,
        ),
        (_tool("get_recipe", RECIPE, required=tuple(RECIPE)), 98),
    ],
    ids=["no arguments", "description", "one field", "two fields", "nested", "list of objects"],
)
def test_tools_cost_what_openai_has_reported_for_them(tool: dict[str, Any], tokens: int) -> None:
    """What gpt-3.5-turbo's usage said of these tools, in the encoding it has."""
    assert tools_size([tool], "cl100k") == tokens


def test_no_tools_cost_nothing() -> None:
    assert tools_size([]) == tools_size(()) == 0


def test_every_tool_adds_to_the_size() -> None:
    one, other = _tool("find", {"text": TEXT}), _tool("open", {"id": NUMBER}, "Open it.")
    assert 0 < tools_size([one]) < tools_size([one, other]) < tools_size([one]) + tools_size([other])


SCHEMAS: dict[str, Any] = {
    "union": {"anyOf": [TEXT, {"type": "null"}]},
    "several types": {"type": ["string", "integer", "null"]},
    "constants": {"enum": [1, 2.5, True, None, "x", ["odd"]]},
    "tuple": {"type": "array", "prefixItems": [TEXT, NUMBER]},
    "map": {"type": "object", "additionalProperties": {"type": "array", "items": NUMBER}},
    "no type": {"properties": {"inner": TEXT}},
    "no type, a list": {"items": TEXT},
    "fields and alternatives": {"type": "object", "properties": {"a": TEXT}, "anyOf": [{"required": ["a"]}]},
    "reference": {"$ref": "#/$defs/node"},
    "anything": {},
    "true": True,
    "nothing": None,
    "a word": "string",
    "a list": [TEXT],
    "wrong type": {"type": 5},
    "wrong properties": {"type": "object", "properties": ["a"], "required": 7},
    "wrong alternatives": {"anyOf": {"type": "string"}},
    "wrong description": {"type": "string", "description": 7},
    "not a dict, but as good": MappingProxyType({"type": "string", "description": "d"}),
    "lone surrogate": {"type": "string", "description": "\ud800"},
}


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS.keys())
def test_any_schema_has_a_size(schema: Any) -> None:
    plain = tools_size([{"name": "f"}])
    assert tools_size([_tool("f", {"field": schema})]) > plain
    assert tools_size([{"name": "f", "description": None, "schema": schema}]) >= plain


@settings(deadline=None)
@given(plain_json)
def test_no_schema_makes_the_counting_fail(schema: Any) -> None:
    assert tools_size([{"name": "f", "schema": schema}, _tool("g", {"field": schema})]) > 0


def test_what_a_schema_refers_to_is_charged_once() -> None:
    """References may go round in circles, and one definition may be used everywhere."""
    node = {"type": "object", "description": "A node.", "properties": {"next": {"$ref": "#/$defs/node"}}}
    fields = {f"field{number}": {"$ref": "#/$defs/node"} for number in range(10)}
    without = _tool("f", fields)
    within = _tool("f", fields)
    within["schema"]["$defs"] = {"node": node}
    assert 10 < tools_size([within]) - tools_size([without]) < 40


def test_a_schema_may_be_deeper_than_anybody_reads() -> None:
    schema: dict[str, Any] = {}
    deeper: list[dict[str, Any]] = []
    for _ in range(100_000):
        schema = {"type": "array", "items": schema}
        deeper.append(schema)
    assert tools_size([_tool("f", {"x": schema})]) >= tools_size([_tool("f", {"x": deeper[DEEPEST // 2]})])
    while deeper:  # taken apart from the outside, or freeing it would go as deep
        deeper.pop().clear()


def test_a_schema_that_repeats_itself_at_every_level_is_read_once() -> None:
    """Were each `object` read, the work would double at every level, and this would not come back."""
    schema: dict[str, Any] = TEXT
    for _ in range(DEEPEST - 2):
        schema = {"type": ["object", "object", "array"], "properties": {"x": schema}}
    assert 100 < tools_size([{"name": "f", "schema": schema}]) < 10_000


def test_a_schema_of_many_fields_costs_by_their_number() -> None:
    few, many = (tools_size([_tool("f", {f"n{x:05d}": TEXT for x in range(n)})]) for n in (1_000, 10_000))
    assert 9 < many / few < 11


WORDS = {"type": "string", "description": "one of so many words " * 200}


@pytest.mark.parametrize(
    "more",
    [
        {"additionalProperties": WORDS},
        {"additionalProperties": {"type": "object", "properties": {"of": WORDS}}},
        {"required": [f"name_number_{number}" for number in range(300)]},
    ],
    ids=["any name", "any name of an object", "required"],
)
@pytest.mark.parametrize("properties", [{}, {"x": TEXT}], ids=["no fields", "a field"])
def test_what_a_schema_says_beside_its_fields_is_counted(properties: dict[str, Any], more: dict[str, Any]) -> None:
    tool = {"name": "f", "schema": {"type": "object", "properties": properties, **more}}
    nested = _tool("f", {"inner": tool["schema"]})
    assert tools_size([tool]) > 600
    assert tools_size([nested]) > 600


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {}, "items": WORDS},
        {"type": "object", "properties": {"x": TEXT}, "items": WORDS},
        {"type": "object", "properties": {"x": TEXT}, "prefixItems": [TEXT, WORDS]},
        {"type": "array", "prefixItems": [TEXT], "items": WORDS},
        {"type": "array", "items": TEXT, "properties": {"x": WORDS}},
        {"type": "array", "items": TEXT, "additionalProperties": WORDS},
        {"type": "string", "items": WORDS},
        {"enum": ["a"], "properties": {"x": WORDS}},
        {"enum": ["a"], "anyOf": [WORDS]},
        {"$ref": "#/$defs/node", "properties": {"x": WORDS}},
        {"type": "string", "$defs": {"node": WORDS}},
        {"type": "object", "properties": [WORDS]},
    ],
    ids=lambda schema: " ".join(schema),
)
def test_what_its_type_does_not_say_of_a_schema_is_counted_all_the_same(schema: dict[str, Any]) -> None:
    assert tools_size([_tool("f", {"inner": schema})]) > 600
    assert tools_size([{"name": "f", "schema": schema}]) > 600

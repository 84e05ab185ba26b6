"""The tools that draw on the canvas: what they draw, what they refuse, and that every provider takes their schemas."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.validator import refusals
from everthread import Drawing, canvas_tools, text_of, tool_call
from everthread.core.canvas import EMPTY, Canvas, Card, Mode, Put, Remove, Update, fold, line_of, read_changes
from everthread.core.canvas.elements import ELEMENTS
from everthread.core.canvas.limits import ELEMENT_BYTES, ID_MOST, checked
from everthread.core.parts import Text
from everthread.core.request import MessageItem, Request
from everthread.core.values import plain
from everthread.errors import BadValue
from everthread.providers.base import Media
from everthread.providers.models import model as known
from everthread.providers.registry import provider
from everthread.providers.shapes import shape_of
from everthread.tools import Toolbox
from everthread.tools.toolbox import ToolOutcome
from tests.examples import examples
from tests.transcripts import CHAT, CLAUDE, FORMS, GEMINI, RESPONSES
from tests.waiting import PATIENCE

BOX = Toolbox(canvas_tools())

NAMES = [
    "canvas_add_card",
    "canvas_add_chart",
    "canvas_add_code",
    "canvas_add_form",
    "canvas_add_image",
    "canvas_add_list",
    "canvas_add_table",
    "canvas_remove_element",
    "canvas_set_mode",
    "canvas_show_text",
    "canvas_update_element",
]


async def outcome(name: str, **arguments: Any) -> ToolOutcome:
    return await BOX.outcome(tool_call(f"canvas_{name}", arguments), None, seconds=PATIENCE)


async def refused(name: str, **arguments: Any) -> str:
    """What the model is told; nothing is drawn."""
    result, changes = await outcome(name, **arguments)
    assert result.error
    assert changes == ()
    return text_of(result)


SHOWN: list[tuple[str, dict[str, Any], str]] = [
    (
        "add_card",
        {"title": "Hotel Belém", "text": "Booked", "link": "https://hotel.example"},
        "- card `hotel-belém` Hotel Belém: Booked https://hotel.example",
    ),
    ("show_text", {"id": "plan", "text": "# Day 1\nPorto"}, "- text `plan` # Day 1 Porto"),
    (
        "add_chart",
        {"id": "s", "chart": "bar", "labels": ["a", "b"], "series": [{"values": [3, None]}], "unit": "days"},
        "- chart `s` bar in days: a 3, b –",
    ),
    (
        "add_chart",
        {"id": "s", "chart": "scatter", "series": [{"name": "x", "x": [1.5, 2.5], "values": [3, 4]}]},
        "- chart `s` scatter: x 1.5 3, 2.5 4",
    ),
    (
        "add_table",
        {"id": "t", "columns": ["city", "nights"], "rows": [["Porto", 3], ["Faro", None]]},
        "- table `t` 2 rows of city, nights: Porto, 3; Faro, –",
    ),
    ("add_image", {"id": "map", "url": "https://maps.example/p.png", "alt": "A map"},
     "- image `map` A map https://maps.example/p.png"),
    ("add_image", {"id": "map", "blob": "0f" * 32, "alt": "A map"}, "- image `map` A map"),
    (
        "add_list",
        {"title": "Packing", "boxes": True, "items": [{"text": "passport", "done": True}, {"text": "socks"}]},
        "- list `packing` Packing: [x] passport; [ ] socks",
    ),
    ("add_code", {"id": "run", "code": "make run", "language": "sh"}, "- code `run` sh, 1 line: make run"),
    (
        "add_form",
        {"title": "When?", "fields": [{"name": "d", "label": "Day", "kind": "date"}, {"name": "early", "value": True}]},
        "- form `when` When?: Day: not filled in; early: yes",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "arguments", "told"), SHOWN, ids=[name for name, _, _ in SHOWN])
async def test_an_element_is_drawn_as_it_was_asked_for(name: str, arguments: dict[str, Any], told: str) -> None:
    result, changes = await outcome(name, **arguments)
    canvas = checked(EMPTY, read_changes(plain(changes)))
    assert not result.error
    assert [line_of(element) for element in canvas.elements] == [told]
    assert text_of(result) == f"Shown as `{canvas.elements[0].id}`."


def test_every_type_of_element_has_a_tool_and_every_tool_a_name() -> None:
    assert [tool.name for tool in BOX.offered] == NAMES
    kinds = [name.split("_")[-1] for name in NAMES if name.startswith(("canvas_add", "canvas_show"))]
    assert sorted(kinds) == sorted(ELEMENTS)


async def test_an_element_may_be_given_its_place() -> None:
    first = (await outcome("add_card", title="Last")).changes
    second = (await outcome("add_card", title="First", before="last")).changes
    assert [element.title for element in fold(EMPTY, [*first, *second]).elements] == ["First", "Last"]


@pytest.mark.parametrize(
    ("title", "id"),
    [
        ("Sales, 2026 (Q1)", "sales-2026-q1"),
        ("売上 2026", "売上-2026"),
        ("word " * 20, "word-word-word-word-word-word-word-word"),
        ("¿?", "card-c4f22c"),
        (None, "card-fcd1cc"),
    ],
)
async def test_without_an_id_the_title_or_the_content_names_it(title: str | None, id: str) -> None:
    _, (put,) = await outcome("add_card", title=title, text="x")
    assert isinstance(put, Put)
    assert put.element.id == id
    assert (await outcome("add_card", title=title, text="x")).changes == (put,)


async def test_an_update_says_which_fields_and_no_more() -> None:
    result, (change,) = await outcome(
        "update_element", id="s", type="chart", unit="EUR", series=[{"values": [1, None]}]
    )
    assert change == Update(id="s", type="chart", fields={"unit": "EUR", "series": [{"values": [1, None]}]})
    assert text_of(result) == "Changed `s`."


async def test_null_leaves_a_field_as_it_is_and_nothing_empties_it() -> None:
    _, changes = await outcome("update_element", id="c", type="card", title=None, text="new", link="")
    card = Card(id="c", title="T", text="old", link="https://a.example")
    assert fold(Canvas(), [Put(element=card), *changes]).elements == (Card(id="c", title="T", text="new"),)


async def test_every_field_of_an_element_can_be_updated_but_those_of_a_picture() -> None:
    [update] = [tool for tool in BOX.offered if tool.name == "canvas_update_element"]
    fields = {name for type, one in ELEMENTS.items() for name in one.__struct_fields__ if type != "image"}
    assert update.schema["properties"].keys() - {"type"} == fields


async def test_removing_and_modes() -> None:
    assert (await outcome("remove_element", id="a")).changes == (Remove(id="a"),)
    result, changes = await outcome("set_mode", mode="split")
    assert (changes, text_of(result)) == ((Mode(mode="split"),), "Its mode is split now.")
    assert text_of((await outcome("set_mode", mode="clear")).result) == "The canvas is empty now."


async def test_bad_arguments_come_back_as_a_result_that_says_what_was_wrong() -> None:
    assert "must be an address that begins with https://" in await refused("add_card", link="javascript:alert(1)")
    assert "must be an address that begins with https://" in await refused("add_image", url="data:image/png;base64,x")
    assert "must be an address" in await refused("update_element", id="a", type="card", link="file:///etc/passwd")
    assert "but not both" in await refused("add_image", alt="nothing")
    assert "but not both" in await refused("add_image", url="https://a.example", blob="0f" * 32)
    assert "the hash of a picture" in await refused("add_image", blob="../../etc/passwd")
    assert "missing required field `text`" in await refused("show_text", title="empty")
    assert "Invalid enum value 'donut'" in await refused("add_chart", chart="donut", series=[])
    assert "unknown field `colour`" in await refused("add_card", colour="red")
    assert "$.series[0].values[0]" in await refused("add_chart", chart="bar", series=[{"values": ["many"]}])
    assert f"1 to {ID_MOST} characters" in await refused("add_card", id="x" * 65)
    assert "can be printed" in await refused("add_card", id="a\x1b[2J")
    assert f"at most {ELEMENT_BYTES:,} bytes: shorten it" in await refused("show_text", text="x" * 70_000)
    assert "type is 'table', but must be one with the field 'text'; it has title, columns, rows" in await refused(
        "update_element", id="a", type="table", text="x"
    )
    assert "some of title, text, link" in await refused("update_element", id="a", type="card")
    assert "Invalid enum value 'huge'" in await refused("set_mode", mode="huge")


async def test_a_number_that_json_cannot_say_is_refused() -> None:
    call = tool_call("canvas_add_chart", '{"chart": "line", "series": [{"values": [1e999]}]}')
    result, changes = await BOX.outcome(call, None, seconds=PATIENCE)
    assert result.error
    assert changes == ()


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-3, 3) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=examples(100), deadline=None)
@given(st.data())
async def test_whatever_a_model_writes_a_drawing_fits_or_nothing_is_drawn(data: st.DataObject) -> None:
    """Any arguments: a result comes of it, and what it draws can be stored and folded."""
    tool = data.draw(st.sampled_from(BOX.offered))
    names = st.sampled_from([*tool.schema["properties"], "else"])
    pieces = st.sampled_from([[{"text": "x"}], [{"name": "x"}], [{"values": [1]}], ["x"], [["x", 1]], "card", "bar"])
    arguments = data.draw(st.dictionaries(names, pieces | _json, max_size=6))
    result, changes = await BOX.outcome(tool_call(tool.name, arguments), None, seconds=PATIENCE)
    assert text_of(result)
    assert bool(changes) is not result.error
    assert tuple(read_changes(json.loads(json.dumps(plain(changes), allow_nan=False)))) == changes
    puts = [change for change in changes if isinstance(change, Put)]
    assert [change.element for change in puts] == list(checked(EMPTY, puts).elements)


# -- what carries them -------------------------------------------------------------------------------------


async def test_a_tool_of_ones_own_may_draw() -> None:
    def plain_one() -> Drawing:
        return Drawing((Remove(id="a"),), "Gone.")

    async def other() -> Drawing:
        return Drawing((Remove(id="b"),))

    box = Toolbox([plain_one, other])
    gone, nothing = [await box.outcome(tool_call(name), None, seconds=PATIENCE) for name in ("plain_one", "other")]
    assert (text_of(gone.result), gone.changes) == ("Gone.", (Remove(id="a"),))
    assert (text_of(nothing.result), nothing.changes) == ("(no output)", (Remove(id="b"),))


async def test_run_gives_the_result_alone() -> None:
    result = await BOX.run(tool_call("canvas_remove_element", {"id": "a"}), None, seconds=PATIENCE)
    assert text_of(result) == "Removed `a`."


async def test_the_functions_can_be_called_as_they_are() -> None:
    [card] = [tool for tool in canvas_tools() if tool.said.name == "canvas_add_card"]
    assert card(title="A").text == "Shown as `a`."
    with pytest.raises(BadValue):
        card(link="ftp://a.example")


# -- what the providers take --------------------------------------------------------------------------------


@pytest.mark.parametrize("model", FORMS)
def test_every_provider_takes_the_tools(model: str) -> None:
    about = known(model)
    said = MessageItem(role="user", parts=(Text(text="Hello."),), seq=1)
    request = Request(model=about.name, items=(said,), tools=BOX.offered)
    assert refusals(model, provider(about.provider).request_form().render(request, about, Media({})).body) == []


@pytest.mark.parametrize("model", [CHAT, RESPONSES, CLAUDE, GEMINI])
def test_every_schema_can_be_said_in_the_strict_dialect_of_every_provider(model: str) -> None:
    about = known(model)
    form = provider(about.provider).request_form()
    said = MessageItem(role="user", parts=(Text(text="Hello."),), seq=1)
    for tool in BOX.offered:
        shape = shape_of(json.dumps(tool.schema), form.dialect(about, tools=False))
        assert shape.text, f"{tool.name}: {shape.why}"
        request = Request(model=about.name, items=(said,), output=json.loads(shape.text))
        assert refusals(model, form.render(request, about, Media({})).body) == [], tool.name


def test_every_argument_that_needs_words_has_them_and_all_together_stay_small() -> None:
    unsaid = {"chart", "code", "series", "columns", "rows", "items", "fields"}  # which their names and types explain
    for tool in BOX.offered:
        assert {name for name, one in tool.schema["properties"].items() if "description" not in one} <= unsaid
    assert len(json.dumps([tool.schema for tool in BOX.offered], separators=(",", ":"))) < 10_000

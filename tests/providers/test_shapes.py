"""The schema of a reply becomes one that its provider takes, whatever it was; or it is told in words."""

from __future__ import annotations

import json
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.validator import refusals
from everthread import user
from everthread.core.parts import Text
from everthread.core.request import MessageItem, Request, Tool
from everthread.core.schemas import problem_of, without_nulls
from everthread.providers.base import Media
from everthread.providers.models import model as known
from everthread.providers.registry import provider
from everthread.providers.shapes import shape_of
from tests.examples import examples
from tests.providers.conftest import Ask
from tests.transcripts import CHAT, CLAUDE, FORMS, GEMINI, GEMINI_3, RESPONSES

Json = dict[str, Any]
create_model: Any = pydantic.create_model

WHOLE: Json = {"type": "integer"}
NODE: Json = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}, "n": WHOLE}, "required": ["n"]}
ITSELF: Json = {"$ref": "#/$defs/Node", "$defs": {"Node": NODE}}


def shape(model: str, schema: Json, *, tools: bool = False) -> Json:
    """The schema as the model's provider takes it."""
    about = known(model)
    found = shape_of(json.dumps(schema), provider(about.provider).request_form().dialect(about, tools=tools))
    assert found.text, found.why
    made: Json = json.loads(found.text)
    return made


def why_not(model: str, schema: Json) -> str:
    about = known(model)
    return shape_of(json.dumps(schema), provider(about.provider).request_form().dialect(about, tools=False)).why


def of(**properties: Json) -> Json:
    return {"type": "object", "properties": properties, "required": list(properties)}


def refused(model: str, schema: Json) -> list[str]:
    """What the provider refuses of a request with this shape."""
    about = known(model)
    said = MessageItem(role="user", parts=(Text(text="Hello."),), seq=1)
    request = Request(model=about.name, items=(said,), output=schema)
    return refusals(model, provider(about.provider).request_form().render(request, about, Media({})).body)


# -- one by one --------------------------------------------------------------------------------------------


def test_openai_wants_every_property_and_null_for_those_that_may_be_missing() -> None:
    schema = {"type": "object", "properties": {"a": WHOLE, "b": {"type": "string", "default": "x"}}, "required": ["a"]}
    assert shape(CHAT, schema) == {
        "type": "object",
        "properties": {"a": WHOLE, "b": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
        "required": ["a", "b"],
        "additionalProperties": False,
    }
    assert shape(CLAUDE, schema)["required"] == ["a"]


def test_limits_that_a_provider_does_not_know_are_told_in_the_description() -> None:
    schema = of(a={"type": "integer", "minimum": 3, "description": "how many"}, b={"type": "string", "maxLength": 5})
    assert shape(CLAUDE, schema)["properties"] == {
        "a": {"type": "integer", "description": "how many; (minimum: 3)"},
        "b": {"type": "string", "description": "(maxLength: 5)"},
    }
    assert shape(CHAT, schema)["properties"]["a"]["minimum"] == 3


def test_references_are_written_out_unless_they_lead_back() -> None:
    schema = {**of(a={"$ref": "#/$defs/N", "description": "one"}), "$defs": {"N": WHOLE}}
    assert shape(CHAT, schema)["properties"] == {"a": {"type": "integer", "description": "one"}}
    assert refused(CHAT, shape(CHAT, ITSELF)) == []
    assert why_not(CLAUDE, ITSELF) == "it leads back to itself"


def test_parts_of_an_object_are_one_object() -> None:
    parts = {"allOf": [{"$ref": "#/$defs/A"}, of(b=WHOLE)], "$defs": {"A": of(a=WHOLE)}}
    assert list(shape(CHAT, parts)["properties"]) == ["a", "b"]
    assert shape(CHAT, parts)["required"] == ["a", "b"]


def test_a_list_of_fixed_places_is_one_of_any_of_them() -> None:
    pair = {"type": "array", "prefixItems": [WHOLE, {"type": "string"}], "items": False, "minItems": 2, "maxItems": 2}
    found = shape(CHAT, of(pair=pair))["properties"]["pair"]
    assert found["items"] == {"anyOf": [WHOLE, {"type": "string"}]}
    assert (found["minItems"], found["maxItems"]) == (2, 2)


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "object"}, "an object in it may have any names"),
        ({"type": "object", "additionalProperties": WHOLE}, "an object in it may have any names"),
        (of(a={}), "a part of it allows anything, or nothing"),
        (of(a={"$ref": "elsewhere.json"}), "the reference 'elsewhere.json' points nowhere"),
        ({"type": "array", "items": WHOLE}, "it is not of an object"),
        (of(a={"allOf": [WHOLE, {"type": "string"}]}), "parts of it exclude each other"),
        (of(a={"enum": [{"b": 1}]}), "a value that it names is neither text nor a number"),
        (of(a={"enum": [str(n) for n in range(1_001)]}), "it is too large"),
        ({"type": "object", "properties": 3}, "an object in it may have any names"),
        ({"type": "object", "properties": {"a": {"type": "array"}}}, "a part of it allows anything, or nothing"),
    ],
)
def test_what_strict_mode_cannot_say_has_a_reason(schema: Json, why: str) -> None:
    assert why_not(CHAT, schema) == why


async def test_what_a_provider_cannot_be_told_strictly_is_told_in_words(ask: Ask) -> None:
    schema = {"type": "object", "additionalProperties": {"type": "integer"}}
    for model in (CHAT, RESPONSES, CLAUDE):
        context = await ask(model, user("Hello."), settings={"output": schema})
        assert "additionalProperties" in json.dumps(context.request)
        assert not {"response_format", "text", "output_config"} & context.request.keys()
        told = "the schema of the reply is told in the instructions, because an object in it may have any names"
        assert told in context.degraded
        assert context.explain().sections["output"] > 10


async def test_a_model_that_knows_no_schemas_is_told_in_words(ask: Ask) -> None:
    for model in ("openai:gpt-3.5-turbo", "anthropic:claude-3-5-haiku-latest"):
        context = await ask(model, user("Hello."), settings={"output": of(a=WHOLE)})
        assert any("because the model takes no schema" in words for words in context.degraded)


async def test_an_older_gemini_with_tools_is_told_in_words(ask: Ask) -> None:
    tools = [{"name": "find", "schema": of(a=WHOLE)}]
    older = await ask(GEMINI, user("Hello."), settings={"output": of(a=WHOLE)}, tools=tools)
    newer = await ask(GEMINI_3, user("Hello."), settings={"output": of(a=WHOLE)}, tools=tools)
    assert "responseMimeType" not in older.request["config"]
    assert newer.request["config"]["responseMimeType"] == "application/json"


# -- whatever the schema -----------------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "c d", "größe"])
PLAIN = st.one_of(
    st.sampled_from(
        [WHOLE, {"type": "string"}, {"type": "boolean"}, {"type": "null"}, {"const": 3}, {"enum": ["x", 1]}]
    ),
    st.builds(lambda low: {"type": "number", "minimum": low, "multipleOf": 0.5}, st.integers(-9, 9)),
    st.builds(lambda text: {"type": "string", "pattern": text, "minLength": 1}, st.sampled_from(["^a+$", "(?=a)"])),
    st.sampled_from(["date", "email", "uri", "odd"]).map(lambda form: {"type": "string", "format": form}),
    st.sampled_from([{"type": ["string", "null"]}, {"enum": [None, True, 2.5]}, {"$ref": "#/$defs/N"}, {}, True]),
)


def _nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    objects = st.builds(
        lambda properties, some, more: {
            "type": "object",
            "properties": properties,
            "required": [name for name in properties if name in some],
            **more,
        },
        st.dictionaries(NAMES, inner, max_size=4),
        st.sets(NAMES),
        st.sampled_from([{}, {"additionalProperties": True}, {"title": "T", "description": "d", "default": {}}]),
    )
    lists = st.builds(
        lambda items, least: {"type": "array", "items": items, "minItems": least, "uniqueItems": True},
        inner,
        st.integers(0, 3),
    )
    unions = st.builds(
        lambda key, parts: {key: parts}, st.sampled_from(["anyOf", "oneOf"]), st.lists(inner, min_size=1)
    )
    return objects | lists | unions


SCHEMAS = st.recursive(PLAIN, _nested, max_leaves=12).map(
    lambda inner: {
        "type": "object",
        "properties": {"value": inner},
        "required": ["value"],
        "$defs": {"N": {"type": "object", "properties": {"n": WHOLE}}},
    }
)


@pytest.mark.parametrize("model", [*FORMS, GEMINI_3])
def test_a_shape_is_taken_by_its_provider_whatever_the_schema(model: str) -> None:
    about = known(model)
    dialect = provider(about.provider).request_form().dialect(about, tools=False)

    @settings(max_examples=examples(150), deadline=None)
    @given(SCHEMAS)
    def taken(schema: Json) -> None:
        found = shape_of(json.dumps(schema), dialect)
        assert bool(found.text) != bool(found.why)
        if found.text:
            jsonschema.Draft202012Validator.check_schema(json.loads(found.text))
            assert refused(model, json.loads(found.text)) == []

    taken()


TYPES: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from([int, str, bool, float]),
    lambda inner: st.one_of(
        inner.map(lambda kind: list[kind]),  # type: ignore[valid-type]
        inner.map(lambda kind: kind | None),
        st.tuples(inner, inner).map(lambda pair: tuple[pair]),  # type: ignore[valid-type]
        st.dictionaries(st.sampled_from(["a", "b", "c"]), st.tuples(inner, st.booleans()), max_size=3).map(
            lambda fields: create_model(
                "Inner", **{name: (kind, ...) if must else (kind | None, None) for name, (kind, must) in fields.items()}
            )
        ),
    ),
    max_leaves=6,
)


@pytest.mark.parametrize("model", [*FORMS, GEMINI_3])
def test_the_schemas_of_pydantics_models_are_taken(model: str) -> None:
    @settings(max_examples=examples(60), deadline=None)
    @given(st.dictionaries(st.sampled_from(["one", "two"]), TYPES, min_size=1))
    def taken(fields: dict[str, Any]) -> None:
        made: Any = create_model("Made", **{name: (kind, ...) for name, kind in fields.items()})
        assert refused(model, shape(model, made.model_json_schema())) == []

    taken()


@settings(max_examples=examples(150), deadline=None)
@given(st.data())
def test_what_follows_a_strict_shape_follows_the_schema_once_nulls_are_gone(data: st.DataObject) -> None:
    """What OpenAI's strict mode makes of a schema loses nothing but what is said in words."""
    fields = data.draw(
        st.dictionaries(NAMES, st.sampled_from([WHOLE, {"type": "string"}, {"type": ["null", "string"]}]))
    )
    required = [name for name in fields if data.draw(st.booleans())]
    schema = {"type": "object", "properties": fields, "required": required}
    values = {"integer": st.integers(), "string": st.text(), "null": st.none()}
    kinds = {name: [one["type"]] if isinstance(one["type"], str) else one["type"] for name, one in fields.items()}
    said = {
        name: data.draw(st.one_of(*(values[kind] for kind in kinds[name]), *([] if name in required else [st.none()])))
        for name in fields
    }
    jsonschema.validate(said, shape(CHAT, schema))
    assert problem_of(without_nulls(said, schema, schema), schema, schema) == ""
    jsonschema.validate(without_nulls(said, schema, schema), schema)


# -- checking ----------------------------------------------------------------------------------------------

ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats(-3, 3)
    | st.sampled_from(["", "a", "aa", "x", "2024-01-01"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=examples(300), deadline=None)
@given(SCHEMAS, ANYTHING)
def test_a_reply_is_checked_as_a_validator_of_json_schema_checks_it(schema: Json, value: Any) -> None:
    """But for what it passes over: formats, unique items, and that of `oneOf` only one may fit."""
    loose = json.loads(json.dumps(schema).replace('"oneOf"', '"anyOf"').replace('"uniqueItems": true', '"title": ""'))
    said = {"value": value}
    fits = jsonschema.Draft202012Validator(loose).is_valid(said)
    assert (problem_of(said, schema, schema) == "") == fits


def test_tools_stay_as_they_are() -> None:
    """Only the reply's schema is strict: tools may take what they say."""
    about = known(CHAT)
    tool = Tool(name="f", schema={"type": "object"})
    said = MessageItem(role="user", parts=(Text(text="Hello."),), seq=1)
    body = (
        provider("openai")
        .request_form()
        .render(Request(model="gpt-4o", items=(said,), tools=(tool,)), about, Media({}))
    )
    assert "strict" not in body.body["tools"][0]["function"]

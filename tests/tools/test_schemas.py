"""A function's hints become a schema that every provider takes, and what a model wrote becomes its arguments."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, TypedDict

import msgspec
import pydantic
import pytest

from benchmarks.validator import refusals
from everthread import Everthread, Talk, user
from everthread.errors import BadTool
from everthread.tools import ToolContext
from everthread.tools.schemas import Misfit, accepted, arguments_of, check

MODELS = ["openai:gpt-4o", "openai-responses:gpt-5", "anthropic:claude-sonnet-4-6", "google:gemini-2.5-flash"]


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Stop:
    """A place on the way."""

    name: str
    nights: int = 1
    note: Optional[str] = None  # noqa: UP045 - both spellings are met
    then: list[Stop] = field(default_factory=list)


class Limits(msgspec.Struct):
    most: int
    least: int | None = None


class Filter(TypedDict, total=False):
    word: str


class Person(pydantic.BaseModel):
    name: str
    friends: list[Person] = []


def everything(  # type: ignore[no-untyped-def]
    city: Annotated[str, "Where to."],
    days: Annotated[int, msgspec.Meta(ge=1)],
    first: Stop,
    *,
    colour: Colour = Colour.RED,
    kind: Literal["fast", "cheap"] = "fast",
    number: Literal[1, 2] = 1,
    maybe: int | None = None,
    either: int | str = 1,
    limits: Limits | None = None,
    filter: Filter | None = None,
    tags: list[str] = [],  # noqa: B006 - a default like any other
    sizes: dict[str, float] | None = None,
    pair: tuple[int, str] = (1, "a"),
    on: date = date(2026, 1, 2),
    path: Path = Path(),
    person: Person | None = None,
    anything: Any = None,
    unhinted=None,
) -> str:
    """Plans a journey."""
    return ""


def schema_of(function: Callable[..., Any]) -> dict[str, Any]:
    return arguments_of(function, "f").schema


def bound(function: Callable[..., Any], **given: Any) -> dict[str, Any]:
    return arguments_of(function, "f").bind(given)


# -- schemas -----------------------------------------------------------------------------------------------


def test_each_hint_has_its_schema() -> None:
    properties = schema_of(everything)["properties"]
    assert properties["city"] == {"type": "string", "description": "Where to."}
    assert properties["days"] == {"type": "integer", "minimum": 1}
    assert properties["colour"] == {"type": "string", "enum": ["blue", "red"], "default": "red"}
    assert properties["kind"] == {"type": "string", "enum": ["cheap", "fast"], "default": "fast"}
    assert properties["number"] == {"type": "integer", "enum": [1, 2], "default": 1}
    assert properties["either"] == {"anyOf": [{"type": "integer"}, {"type": "string"}], "default": 1}
    assert properties["tags"] == {"type": "array", "items": {"type": "string"}}
    assert properties["sizes"] == {"type": "object", "additionalProperties": {"type": "number"}}
    assert properties["on"] == {"type": "string", "format": "date"}
    assert properties["path"] == {"type": "string"}
    assert properties["anything"] == properties["unhinted"] == {}


def test_what_has_a_default_is_not_required() -> None:
    assert schema_of(everything)["required"] == ["city", "days", "first"]


def test_what_may_be_none_is_not_required_and_needs_no_null() -> None:
    def find(word: str | None, limit: int | None = None) -> None: ...

    schema = schema_of(find)
    assert schema["properties"] == {"word": {"type": "string"}, "limit": {"type": "integer"}}
    assert "required" not in schema or schema["required"] == []
    assert bound(find) == {"word": None, "limit": None}
    assert bound(find, word=None) == {"word": None, "limit": None}


def test_null_stays_where_it_says_something_else_than_leaving_it_out() -> None:
    def find(limit: int | None = 5) -> None: ...

    assert {"type": "null"} in schema_of(find)["properties"]["limit"]["anyOf"]
    assert bound(find, limit=None) == {"limit": None}
    assert bound(find) == {"limit": 5}


def test_references_are_written_out_and_one_to_itself_ends() -> None:
    schema = schema_of(everything)
    assert "$" not in json.dumps(schema)
    first = schema["properties"]["first"]
    assert first["description"] == "A place on the way."
    assert first["properties"]["then"] == {"type": "array", "items": {"type": "object"}}
    assert schema["properties"]["person"]["properties"]["friends"]["items"] == {"type": "object"}


@pytest.mark.parametrize("model", MODELS)
async def test_every_provider_takes_them(model: str, tmp_path: Path) -> None:
    def nothing() -> None: ...

    async with Everthread.open(f"sqlite:///{tmp_path}/talk.db") as et:
        talk = await et.begin(user="ana")
        await talk.append(user("Hello."))
        tools = [
            {"name": "a", "schema": schema_of(everything)},
            {"name": "b", "schema": schema_of(nothing)},
            {"name": "c", "schema": accepted({"oneOf": [{"required": ["x"]}], "$defs": {}}, "c")},
        ]
        request = (await talk.context(model=model, tools=tools)).request
    assert refusals(model, request) == []
    assert "Where to." in json.dumps(request)


# -- docstrings --------------------------------------------------------------------------------------------


def google(city: str, days: int) -> None:
    """Says the weather.

    In the days to come.

    Args:
        city: Its name,
            in English.
        days (int): How many.

    Returns:
        A sentence.
    """


def numpy(city: str, days: int) -> None:
    """Says the weather.

    In the days to come.

    Parameters
    ----------
    city : str
        Its name,
        in English.
    days
        How many.

    Returns
    -------
    A sentence.
    """


def sphinx(city: str, days: int) -> None:
    """Says the weather.

    In the days to come.

    :param city: Its name, in English.
    :param int days: How many.
    """


@pytest.mark.parametrize("function", [google, numpy, sphinx])
def test_a_docstring_describes_the_tool_and_its_parameters(function: Callable[..., Any]) -> None:
    takes = arguments_of(function, "f")
    described = {name: about["description"] for name, about in takes.schema["properties"].items()}
    assert described == {"city": "Its name, in English.", "days": "How many."}
    assert takes.description.startswith("Says the weather.\n\nIn the days to come.")
    assert "Its name" not in takes.description


def test_what_follows_the_parameters_stays_in_the_description() -> None:
    def pay(amount: int) -> None:
        """Pays.

        Args:
            amount: How much.

        Use it once: it costs money.
        """

    assert arguments_of(pay, "f").description == "Pays.\n\nUse it once: it costs money."


def test_a_function_without_a_docstring_has_no_description() -> None:
    def bare(n: int) -> None: ...

    assert arguments_of(bare, "f").description == ""


# -- the conversation --------------------------------------------------------------------------------------


def by_type(n: int, conversation: Talk) -> None: ...


def by_protocol(n: int, conversation: ToolContext) -> None: ...


def by_type_or_none(n: int, conversation: Talk | None = None) -> None: ...


def by_name(n: int, talk) -> None:  # type: ignore[no-untyped-def]
    ...


def by_a_name_that_is_not_imported(n: int, conversation: "everthread.Talk") -> None:  # type: ignore[name-defined]  # noqa: F821, UP037
    ...


@pytest.mark.parametrize("function", [by_type, by_protocol, by_type_or_none, by_name, by_a_name_that_is_not_imported])
def test_a_parameter_for_the_conversation_is_not_the_models(function: Callable[..., Any]) -> None:
    takes = arguments_of(function, "f")
    assert list(takes.schema["properties"]) == ["n"]
    assert takes.talk in ("conversation", "talk")


def test_a_text_that_is_called_talk_is_an_argument() -> None:
    def give(talk: str) -> None: ...

    takes = arguments_of(give, "f")
    assert (takes.talk, list(takes.schema["properties"])) == ("", ["talk"])


# -- arguments ---------------------------------------------------------------------------------------------


def test_arguments_become_what_the_hints_say() -> None:
    first = {"name": "Porto", "then": [{"name": "Braga"}]}
    person = {"name": "Ana", "friends": [{"name": "Rui"}]}
    found = bound(
        everything, city="Porto", days=2, first=first, colour="blue", on="2026-03-04", path="/x", person=person
    )
    assert found["first"] == Stop(name="Porto", then=[Stop(name="Braga")])
    assert (found["colour"], found["on"], found["path"]) == (Colour.BLUE, date(2026, 3, 4), Path("/x"))
    assert found["person"] == Person(name="Ana", friends=[Person(name="Rui")])
    assert (found["kind"], found["pair"], found["maybe"]) == ("fast", (1, "a"), None)


def test_a_number_in_quotes_is_taken_where_a_number_is_wanted() -> None:
    def f(n: int, yes: bool, text: str) -> None: ...

    assert bound(f, n="5", yes="true", text="5") == {"n": 5, "yes": True, "text": "5"}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        pytest.param({}, "missing required field `n`", id="missing"),
        pytest.param({"n": "many"}, "Expected `int`, got `str` - at `$.n`", id="another type"),
        pytest.param({"n": None}, "Expected `int`, got `null` - at `$.n`", id="null"),
        pytest.param({"n": 1, "m": 2}, "unknown field `m`", id="unknown"),
        pytest.param({"n": 1, "kind": "c"}, "Invalid enum value 'c' - at `$.kind`", id="not among the choices"),
        pytest.param({"n": 1, "stop": {"nights": 1}}, "missing required field `name` - at `$.stop`", id="inside"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_in_words(given: dict[str, Any], words: str) -> None:
    def f(n: int, kind: Literal["a", "b"] = "a", stop: Stop | None = None) -> None: ...

    with pytest.raises(Misfit) as misfit:
        arguments_of(f, "f").bind(given)
    assert words in str(misfit.value)


def test_partial_functions_methods_and_callables_are_functions_too() -> None:
    class Shop:
        def sell(self, what: str) -> None:
            """Sells."""

        def __call__(self, much: int) -> None:
            """Buys."""

    assert list(schema_of(Shop().sell)["properties"]) == ["what"]
    assert list(schema_of(Shop())["properties"]) == ["much"]
    takes = arguments_of(partial(google, days=3), "f")
    assert takes.description.startswith("Says the weather.")
    assert takes.schema["required"] == ["city"]


# -- what cannot be a tool ---------------------------------------------------------------------------------


def starred(*names: str) -> None: ...


def double_starred(**names: str) -> None: ...


def positional(n: int, /) -> None: ...


def unknown_hint(n: "Nowhere") -> None:  # type: ignore[name-defined]  # noqa: F821, UP037
    ...


def strange(n: Everthread) -> None: ...


def two_classes(n: Stop | Limits) -> None: ...


def foreign(größe: int) -> None: ...  # noqa: PLC2401, RUF100


@pytest.mark.parametrize(
    ("function", "words"),
    [
        pytest.param(starred, ["*names", "name each parameter"], id="*args"),
        pytest.param(double_starred, ["**names", "name each parameter"], id="**kwargs"),
        pytest.param(positional, ["n can be given by its place only", "wrap it"], id="positional only"),
        pytest.param(unknown_hint, ["'Nowhere' of n", "at the top of the module"], id="unknown hint"),
        pytest.param(strange, ["Everthread of n", "cannot be told to a model"], id="no JSON"),
        pytest.param(two_classes, ["of n", "cannot be told to a model"], id="two classes"),
        pytest.param(foreign, ["'größe'", "a to z"], id="a name that Anthropic refuses"),
        pytest.param(print, ["print"], id="built in"),
    ],
)
def test_what_cannot_be_a_tool_is_refused_in_words(function: Callable[..., Any], words: list[str]) -> None:
    with pytest.raises(BadTool) as refused:
        arguments_of(function, function.__name__)
    assert [word for word in words if word not in str(refused.value)] == []


# -- schemas that come from elsewhere ----------------------------------------------------------------------


def test_a_schema_from_elsewhere_is_said_in_a_way_that_all_take() -> None:
    given = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Arguments",
        "anyOf": [{"required": ["title"]}],
        "properties": {
            "title": {"$ref": "#/definitions/a~1b", "description": "Its name."},
            "kind": {"const": "x"},
            "size": {"type": ["integer", "null"], "default": None},
            "other": {"$ref": "https://example.org/schema"},
            "lost": {"$ref": "#/nowhere"},
        },
        "definitions": {"a/b": {"type": "string", "title": "B", "description": "not this"}},
    }
    assert accepted(given, "f") == {
        "type": "object",
        "properties": {
            "title": {"type": "string", "description": "Its name."},
            "kind": {"type": "string", "enum": ["x"]},
            "size": {"type": "integer"},
            "other": {},
            "lost": {},
        },
    }


def test_a_schema_whose_references_multiply_is_refused() -> None:
    doubled = {
        str(n): {"properties": {"a": {"$ref": f"#/$defs/{n + 1}"}, "b": {"$ref": f"#/$defs/{n + 1}"}}}
        for n in range(40)
    }
    with pytest.raises(BadTool, match="larger than any provider takes"):
        accepted({"properties": {"x": {"$ref": "#/$defs/0"}}, "$defs": doubled}, "f")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        pytest.param({}, "`n` is missing", id="missing"),
        pytest.param({"n": "1"}, "`n` must be of the type integer", id="another type"),
        pytest.param({"n": True}, "`n` must be of the type integer", id="true is no number"),
        pytest.param({"n": 1, "kind": "c"}, "`kind` must be one of ['a', 'b']", id="not among the choices"),
        pytest.param({"n": 1, "m": 1}, "there is no argument `m`; there are: n, kind", id="unknown"),
        pytest.param({"n": 1.0, "kind": "a"}, "", id="a whole number with a point"),
    ],
)
def test_arguments_are_checked_against_a_schema(given: dict[str, Any], words: str) -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer"}, "kind": {"enum": ["a", "b"]}},
        "required": ["n"],
        "additionalProperties": False,
    }
    try:
        check(schema, given)
        said = ""
    except Misfit as misfit:
        said = str(misfit)
    assert (words in said) if words else not said

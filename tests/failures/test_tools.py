"""Tools are taken in the forms that people have them in, and sent in one order; what is no tool is refused in words."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from everthread import Talk, user
from everthread.context.tools import tools_of
from everthread.core.request import Tool
from everthread.errors import BadValue
from tests.failures.aftermath import clear

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
FIND = Tool(name="find", description="Finds.", schema=SCHEMA)
PLAIN = {"name": "find", "description": "Finds."}
OPENAI = {**PLAIN, "parameters": SCHEMA}
ANTHROPIC = {**PLAIN, "input_schema": SCHEMA}


@pytest.mark.parametrize(
    ("given", "tool"),
    [
        pytest.param(FIND, FIND, id="made"),
        pytest.param({**PLAIN, "schema": SCHEMA}, FIND, id="ours"),
        pytest.param({"name": "find"}, Tool(name="find"), id="a name alone"),
        pytest.param({"name": "_find-2"}, Tool(name="_find-2"), id="a name with everything"),
        pytest.param(
            {"name": "find", "schema": {"$ref": "#/x"}},
            Tool(name="find", schema={"type": "object", "properties": {}, "$ref": "#/x"}),
            id="$ref",
        ),
        pytest.param({"type": "function", "function": OPENAI}, FIND, id="Chat"),
        pytest.param({"type": "function", "function": {**OPENAI, "strict": True}}, FIND, id="Chat, strict"),
        pytest.param({"type": "function", "function": {"name": "find"}}, Tool(name="find"), id="Chat, bare"),
        pytest.param({"type": "function", **OPENAI}, FIND, id="Responses"),
        pytest.param({"type": "function", **OPENAI, "strict": True, "defer_loading": True}, FIND, id="Responses, more"),
        pytest.param({"type": "function", "name": "find", "parameters": None}, Tool(name="find"), id="Responses, none"),
        pytest.param(ANTHROPIC, FIND, id="Anthropic"),
        pytest.param({**ANTHROPIC, "type": "custom"}, FIND, id="Anthropic, custom"),
        pytest.param({**ANTHROPIC, "cache_control": {"type": "ephemeral"}, "strict": True}, FIND, id="Anthropic, more"),
    ],
)
def test_a_tool_is_taken_in_whichever_form_it_has(given: Any, tool: Tool) -> None:
    assert tools_of([given]) == (tool,)


@pytest.mark.parametrize("given", [None, (), [], iter(())], ids=["None", "a tuple", "a list", "an iterator"])
def test_no_tools_are_none(given: Any) -> None:
    assert tools_of(given) == ()


def _anything(**schema: Any) -> list[dict[str, Any]]:
    return [{"name": "f", "schema": schema}]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        pytest.param(5, ["tools is 5", "a list", "name, description and schema"], id="a number"),
        pytest.param("find", ["tools is 'find'", "a list"], id="text"),
        pytest.param({"name": "f"}, ["tools is {'name': 'f'}", "a list"], id="one tool"),
        pytest.param(FIND, ["tools is Tool(", "a list"], id="one tool, made"),
        pytest.param(["a"], ["one of the tools is 'a'", "name, description and schema"], id="names"),
        pytest.param([None], ["one of the tools is None", "OpenAI's or Anthropic's form"], id="nothing among them"),
        pytest.param([print], ["one of the tools is <built-in", "name, description and schema"], id="a function"),
        pytest.param([{}], ["one of the tools is {}", "missing", "`name`"], id="empty"),
        pytest.param([{"name": "1st"}], ["'1st'", "the first is a letter or _"], id="a digit first"),
        pytest.param([{"name": "-f"}], ["'-f'", "the first is a letter or _"], id="a dash first"),
        pytest.param([{"name": "a b"}], ["'a b'", "a to z, digits, _ and -"], id="a space"),
        pytest.param([{"name": "f"}, {"name": "g"}, {"name": "f"}], ["'f'", "two of this name"], id="twice"),
        pytest.param([Tool(name=5)], ["Expected `str`, got `int`"], id="made wrongly"),  # type: ignore[arg-type]
        pytest.param([{"name": "f", "parameters": {}}], ["unknown field `parameters`"], id="nobody's form"),
        pytest.param([{**ANTHROPIC, "stric": True}], ["Anthropic's have no 'stric'"], id="Anthropic's, misspelt"),
        pytest.param([{**ANTHROPIC, "parameters": {}}], ["Anthropic's have no 'parameters'"], id="two forms"),
        pytest.param(
            [{"type": "function", "function": {**OPENAI, "cache_control": {}}}],
            ["OpenAI's have no 'cache_control'"],
            id="OpenAI's with Anthropic's key",
        ),
        pytest.param(
            [{"type": "function", "function": OPENAI, "strict": True}],
            ["OpenAI's have no 'strict' beside the function"],
            id="a key in the wrong place",
        ),
        pytest.param([{"type": "function", "function": "find"}], ["the function is no object"], id="no function"),
        pytest.param([{"type": "function"}], ["missing", "`name`"], id="no name"),
        pytest.param(
            [{"type": "web_search"}], ["'web_search'", "a provider's own", "added to the request"], id="hosted"
        ),
        pytest.param(
            [{"type": "web_search_20250305", "name": "web_search", "max_uses": 5}],
            ["'web_search_20250305'", "a function of your application"],
            id="Anthropic's hosted",
        ),
        pytest.param([{"type": "custom", "name": "f", "format": {}}], ["'custom'", "a provider's own"], id="custom"),
        pytest.param(_anything(type="string"), ["schema of the tool f", "of the type 'object'"], id="text arguments"),
        pytest.param(_anything(type=["object", "null"]), ["schema of the tool f", "'object'"], id="two types"),
        pytest.param(_anything(enum={1}), ["set is not JSON serializable"], id="a set"),
        pytest.param([{"name": "f", "schema": "{}"}], ["Expected `object`, got `str`"], id="a schema as text"),
        pytest.param([{"name": "f", "description": "\ud800"}], ["surrogates not allowed"], id="broken text"),
    ],
)
def test_what_is_no_tool_is_refused_in_words(given: Any, words: list[str]) -> None:
    with pytest.raises(BadValue) as refused:
        tools_of(given)
    assert clear(refused.value, *words)


def test_a_schema_without_end_is_refused() -> None:
    schema: dict[str, Any] = {}
    schema["items"] = schema
    with pytest.raises(BadValue, match="Circular"):
        tools_of([{"name": "f", "schema": schema}])


@pytest.mark.parametrize(
    "model", ["openai:gpt-4o", "openai-responses:gpt-5", "anthropic:claude-sonnet-4-6", "google:x"]
)
async def test_the_same_tools_give_the_same_bytes(talk: Talk, model: str) -> None:
    """In whichever order and form they are given."""
    await talk.append(user("Hello."))
    forms: list[Any] = [
        {**ANTHROPIC, "name": "b"},
        {"type": "function", "function": {**OPENAI, "name": "a"}},
        {"name": "c"},
    ]
    requests = [(await talk.context(model=model, tools=given)).request for given in permutations(forms)]
    assert all(request == requests[0] for request in requests)
    assert "'name': 'c'" in str(requests[0])


async def test_none_is_no_tools(talk: Talk) -> None:
    await talk.append(user("Hello."))
    assert "tools" not in (await talk.context(model="openai:gpt-4o", tools=None)).request

"""What the settings ask of the reply passes through to the provider, and tools are declared as they are given."""

from __future__ import annotations

from typing import Any

import pytest

from everthread import assistant, tool_call, tool_result, user
from everthread.core.events import Event
from everthread.errors import BadValue
from tests.providers.conftest import Ask
from tests.transcripts import CHAT, CLAUDE, FORMS, GEMINI, GEMINI_3, RESPONSES

Json = dict[str, Any]


def _thinks(**how: object) -> dict[str, object]:
    """What Gemini is told of thinking: how much, and that it may be seen."""
    return {**how, "includeThoughts": True}


SCHEMA = '{"type": "object", "properties": {"name": {"type": "string"}}}'
CLOSED = {"required": ["name"], "additionalProperties": False}
BODY = {"type": "object", "properties": {"name": {"type": "string"}}, **CLOSED, "required": []}
STRICT = {"type": "object", "properties": {"name": {"anyOf": [{"type": "string"}, {"type": "null"}]}}, **CLOSED}
PASSED: dict[str, list[tuple[Json, Json]]] = {
    CLAUDE: [
        ({}, {"max_tokens": 4_096}),
        ({"reply_tokens": 100}, {"max_tokens": 100}),
        # No parameter of the SDK's any more, but still one of this model's.
        ({"temperature": 0.5}, {"extra_body": {"temperature": 0.5}}),
        ({"effort": "minimal"}, {"thinking": {"type": "enabled", "budget_tokens": 1_024}}),
        # The limit on the reply holds for thinking too, and half of it is left for the answer.
        ({"effort": "high"}, {"max_tokens": 4_096, "thinking": {"type": "enabled", "budget_tokens": 2_048}}),
        ({"effort": "low", "reply_tokens": 100}, {"max_tokens": 100}),
        ({"output": SCHEMA}, {"output_config": {"format": {"type": "json_schema", "schema": BODY}}}),
    ],
    CHAT: [
        ({"reply_tokens": 100}, {"max_completion_tokens": 100}),
        ({"temperature": 0}, {"temperature": 0}),
        (
            {"output": SCHEMA},
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "reply", "schema": STRICT, "strict": True},
                }
            },
        ),
    ],
    "openai:gpt-5": [({"effort": "high"}, {"reasoning_effort": "high"})],
    # A server that merely speaks this API knows the older name only.
    "openai:local-model-of-test-options": [({"reply_tokens": 100}, {"max_tokens": 100})],
    RESPONSES: [
        ({"reply_tokens": 100}, {"max_output_tokens": 100, "store": False}),
        ({}, {"include": ["reasoning.encrypted_content"]}),
        ({"effort": "minimal"}, {"reasoning": {"effort": "minimal"}}),
        (
            {"output": SCHEMA},
            {"text": {"format": {"type": "json_schema", "name": "reply", "schema": STRICT, "strict": True}}},
        ),
    ],
    "openai-responses:gpt-4o": [({"temperature": 1.5}, {"temperature": 1.5})],
    GEMINI: [
        (
            {"reply_tokens": 100, "temperature": 2},
            {"config": {"maxOutputTokens": 100, "temperature": 2}},
        ),
        ({"effort": "low"}, {"config": {"maxOutputTokens": 4_096, "thinkingConfig": _thinks(thinkingBudget=1_024)}}),
        (
            {"output": SCHEMA, "reply_tokens": 9},
            {
                "config": {
                    "maxOutputTokens": 9,
                    "responseMimeType": "application/json",
                    "responseJsonSchema": BODY,
                }
            },
        ),
    ],
    GEMINI_3: [
        ({"effort": "low"}, {"config": {"maxOutputTokens": 4_096, "thinkingConfig": _thinks(thinkingLevel="low")}})
    ],
}


@pytest.mark.parametrize("model", PASSED)
async def test_options_pass_through(ask: Ask, model: str) -> None:
    for settings, passed in PASSED[model]:
        request = (await ask(model, user("Hello."), settings=settings)).request
        assert {name: request[name] for name in passed} == passed


async def test_what_was_not_asked_for_is_not_there(ask: Ask) -> None:
    unasked = {"temperature", "thinking", "reasoning", "reasoning_effort", "tools", "system", "text", "output_config"}
    for model in FORMS:
        request = (await ask(model, user("Hello."))).request
        assert not unasked & {*request, *request.get("config", ())}


async def test_requests_of_one_conversation_are_routed_to_one_cache(ask: Ask) -> None:
    for model in (CHAT, RESPONSES):
        assert (await ask(model, user("Hello."))).request["prompt_cache_key"]
        assert "prompt_cache_key" not in (await ask(model, user("Hello."), settings={"cache": False})).request
    assert "prompt_cache_key" not in (await ask("openai:local-model-of-test-options", user("Hello."))).request


# -- settings that providers do not take together ----------------------------------------------------------

LOOP: list[Event] = [user("Go."), assistant("A moment.", model=CHAT), tool_call("f"), tool_result("done", name="f")]


async def test_thinking_is_not_asked_for_in_a_tool_loop_that_began_without_it(ask: Ask) -> None:
    """Claude refuses it; another model may have begun the turn, or its thinking was left out at a step."""
    await ask(CLAUDE, *LOOP, settings={"effort": "low"})


@pytest.mark.parametrize(
    ("model", "settings"),
    [
        pytest.param(CLAUDE, {"effort": "low", "temperature": 0.5}, id="Claude: no temperature beside thinking"),
        pytest.param(CLAUDE, {"temperature": 1.5}, id="Claude: a temperature of at most 1"),
        pytest.param("openai:gpt-5", {"temperature": 0.5}, id="Chat: no temperature for a model that reasons"),
        pytest.param(RESPONSES, {"temperature": 0.5}, id="Responses: no temperature for a model that reasons"),
        pytest.param(RESPONSES, {"reply_tokens": 10}, id="Responses: a reply of at least 16 tokens"),
    ],
)
async def test_settings_that_a_model_does_not_take(ask: Ask, model: str, settings: Json) -> None:
    """Settings outlive a switch of model, and then must not stop the conversation."""
    await ask(model, user("Hello."), settings=settings)


async def test_the_room_for_the_reply_includes_thinking(ask: Ask) -> None:
    context = await ask("anthropic:claude-haiku-4-5", user("Hello."), budget=0, settings={"effort": "high"})
    assert context.budget + context.request["max_tokens"] <= 200_000


# -- tools -------------------------------------------------------------------------------------------------

TOOL = {"name": "find", "description": "Finds.", "schema": {"type": "object", "properties": {"n": {"type": "integer"}}}}


@pytest.mark.parametrize("tool", [TOOL, {"name": "find"}], ids=["whole", "bare"])
@pytest.mark.parametrize("model", FORMS)
async def test_tools_are_declared_in_the_order_of_their_names(ask: Ask, model: str, tool: Json) -> None:
    request = (await ask(model, user("Hello."), tools=[{**tool, "name": "z"}, tool])).request
    tools = request["tools"] if "tools" in request else request["config"]["tools"][0]["functionDeclarations"]
    assert [(found.get("function") or found)["name"] for found in tools] == ["find", "z"]


async def test_claude_is_told_of_tools_that_only_the_history_knows(ask: Ask) -> None:
    """It refuses tool calls in a request that declares no tools."""
    context = await ask(CLAUDE, *LOOP)
    assert [tool["name"] for tool in context.request["tools"]] == ["f"]
    assert "the tools that the history calls were declared, because none were given" in context.repaired


async def test_the_estimate_includes_tools_that_only_the_history_knows(ask: Ask) -> None:
    """With their hidden instructions, 346 tokens."""
    declared = await ask(CLAUDE, *LOOP, tools=[{"name": "f"}])
    assert (await ask(CLAUDE, *LOOP)).estimate >= declared.estimate - 10


@pytest.mark.parametrize(
    "tools",
    [
        pytest.param([{"name": "a b"}], id="a space in a name"),
        pytest.param([{"name": ""}], id="no name"),
        pytest.param([{"name": "größe"}], id="letters that providers refuse"),
        pytest.param([{"name": "x" * 65}], id="a name that is too long"),
        pytest.param([{"name": "f"}, {"name": "f"}], id="one name twice"),
        pytest.param([{"name": 3}], id="no text for a name"),
        pytest.param([{"name": "f", "parameters": {}}], id="another form of tool"),
        pytest.param([{"name": "f", "schema": []}], id="no schema"),
        pytest.param([{"name": "f", "schema": {"a": float("nan")}}], id="a schema that is not JSON"),
        pytest.param([{"name": "f", "schema": {"a": "\ud800"}}], id="a schema that is not UTF-8"),
    ],
)
async def test_tools_that_no_provider_takes_are_refused(ask: Ask, tools: list[Json]) -> None:
    with pytest.raises(BadValue, match="tool"):
        await ask(CLAUDE, user("Hello."), tools=tools)

"""What the settings ask of the reply passes through to the provider, and tools are declared as they are given."""

from __future__ import annotations

from typing import Any

import pytest

from everthread import assistant, tool_call, tool_result, user
from everthread.context.record import record
from everthread.core.events import Event
from everthread.errors import BadSetting, BadValue
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
        ({"stop": ["END", "STOP"]}, {"stop_sequences": ["END", "STOP"]}),
        ({"top_p": 0.5, "extra_body": {"top_k": 5}}, {"extra_body": {"top_p": 0.5, "top_k": 5}}),
        # No parameter of the SDK's any more, but still one of this model's.
        ({"temperature": 0.5}, {"extra_body": {"temperature": 0.5}}),
        ({"effort": "minimal"}, {"thinking": {"type": "enabled", "budget_tokens": 1_024}}),
        # The limit on the reply holds for thinking too, and half of it is left for the answer.
        ({"effort": "high"}, {"max_tokens": 4_096, "thinking": {"type": "enabled", "budget_tokens": 2_048}}),
        ({"effort": "low", "reply_tokens": 100}, {"max_tokens": 100}),
        ({"output": SCHEMA}, {"output_config": {"format": {"type": "json_schema", "schema": BODY}}}),
    ],
    CHAT: [
        ({"top_p": 0.5, "stop": ["END"], "seed": 7}, {"top_p": 0.5, "stop": ["END"], "seed": 7}),
        ({"extra_body": {"service_tier": "flex"}}, {"extra_body": {"service_tier": "flex"}}),
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
        ({"extra_body": {"service_tier": "flex"}}, {"extra_body": {"service_tier": "flex"}}),
        ({"effort": "minimal"}, {"reasoning": {"effort": "minimal"}}),
        (
            {"output": SCHEMA},
            {"text": {"format": {"type": "json_schema", "name": "reply", "schema": STRICT, "strict": True}}},
        ),
    ],
    "openai-responses:gpt-4o": [({"temperature": 1.5, "top_p": 0.5}, {"temperature": 1.5, "top_p": 0.5})],
    GEMINI: [
        (
            {"top_p": 0.5, "stop": ["END"], "seed": 7, "extra_body": {"labels": {}}},
            {
                "config": {
                    "maxOutputTokens": 4_096,
                    "topP": 0.5,
                    "stopSequences": ["END"],
                    "seed": 7,
                    "httpOptions": {"extraBody": {"labels": {}}},
                }
            },
        ),
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


@pytest.mark.parametrize(
    ("model", "settings", "said"),
    [
        (CLAUDE, {"seed": 7}, "the seed was left out, because the provider has no field for it"),
        (CLAUDE, {"stop": ["\n\n", "END"]}, "a text that ends the reply was left out, because it is blank"),
        (CLAUDE, {"top_p": 0.5, "temperature": 0.5}, "top_p was left out, because this model does not take it beside"),
        (CLAUDE, {"top_p": 0.5, "effort": "low"}, "top_p was left out, because this model does not take it, or not"),
        (
            "anthropic:claude-opus-5",
            {"top_p": 0.5, "temperature": 1},
            "the temperature was left out, because this model",
        ),
        ("openai:gpt-5", {"top_p": 0.5}, "top_p was left out, because this model does not take it"),
        ("openai:gpt-5", {"stop": ["END"]}, "what ends the reply was left out, because this model does not take it"),
        (
            CHAT,
            {"stop": list("abcde")},
            "what ends the reply, beyond 4 texts, was left out, because the provider takes",
        ),
        (RESPONSES, {"seed": 7}, "the seed was left out, because the provider has no field for it"),
        (RESPONSES, {"stop": ["END"]}, "what ends the reply was left out, because the provider has no field for it"),
        (GEMINI, {"stop": list("abcdef")}, "what ends the reply, beyond 5 texts, was left out, because the provider"),
        ("openai:gpt-5", {"temperature": 0.5}, "the temperature was left out, because this model does not take it"),
    ],
)
async def test_what_is_left_out_is_said(ask: Ask, model: str, settings: Json, said: str) -> None:
    context = await ask(model, user("Hello."), settings=settings)
    assert any(words.startswith(said) for words in context.degraded), context.degraded


async def test_fields_of_ones_own_count_and_are_part_of_the_record(ask: Ask) -> None:
    for model in FORMS:
        plain = await ask(model, user("Hello."))
        more = await ask(model, user("Hello."), settings={"extra_body": {"metadata": {"note": "word " * 200}}})
        assert more.estimate - plain.estimate > 150
        assert more.explain().sections["extra body"] > 150
        recorded, other = record(more), record(plain)
        assert recorded.request != other.request
        assert recorded.inputs["settings"] != other.inputs["settings"]


@pytest.mark.parametrize("name", ["model", "messages", "tools", "max_tokens", "stream"])
async def test_what_everthread_writes_itself_is_not_for_others(ask: Ask, name: str) -> None:
    with pytest.raises(BadSetting, match="without what Everthread writes itself"):
        await ask(CHAT, user("Hello."), settings={"extra_body": {name: 1}})


async def test_the_room_for_the_reply_includes_thinking(ask: Ask) -> None:
    context = await ask("anthropic:claude-haiku-4-5", user("Hello."), budget=0, settings={"effort": "high"})
    assert context.budget + context.request["max_tokens"] <= 200_000


# -- which tool is called ----------------------------------------------------------------------------------

CHOSEN: dict[str, dict[str, Json]] = {
    CLAUDE: {
        "auto": {"tool_choice": {"type": "auto"}},
        "none": {"tool_choice": {"type": "none"}},
        "required": {"tool_choice": {"type": "any"}},
        "find": {"tool_choice": {"type": "tool", "name": "find"}},
    },
    CHAT: {
        **{choice: {"tool_choice": choice} for choice in ("auto", "none", "required")},
        "find": {"tool_choice": {"type": "function", "function": {"name": "find"}}},
    },
    RESPONSES: {"required": {"tool_choice": "required"}, "find": {"tool_choice": {"type": "function", "name": "find"}}},
    GEMINI: {
        "none": {"toolConfig": {"functionCallingConfig": {"mode": "NONE"}}},
        "find": {"toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["find"]}}},
    },
}


@pytest.mark.parametrize("model", CHOSEN)
async def test_the_choice_of_a_tool_passes_through(ask: Ask, model: str) -> None:
    for choice, passed in CHOSEN[model].items():
        request = (await ask(model, user("Hello."), tools=[TOOL], tool_choice=choice)).request
        told = {**request, **request.get("config", {})}
        assert {name: told[name] for name in passed} == passed


async def test_claude_does_not_think_where_a_tool_must_be_called(ask: Ask) -> None:
    """It refuses both together."""
    for model in (CLAUDE, "anthropic:claude-opus-5"):
        asked: Json = {"tools": [TOOL], "tool_choice": "required", "settings": {"effort": "low"}}
        context = await ask(model, user("Hello."), **asked)
        assert "thinking" not in context.request
        assert any(words.startswith("thinking was not asked for") for words in context.degraded)


async def test_a_choice_without_tools_is_left_out_and_said(ask: Ask) -> None:
    for model in FORMS:
        context = await ask(model, user("Hello."), tools=[], tool_choice="required")
        assert any(words.startswith("the choice of a tool was left out") for words in context.degraded)


async def test_no_tool_must_be_called_where_only_the_past_has_some(ask: Ask) -> None:
    """Claude must be told of a tool that it has called once, but nobody would run it now. That none is to be called
    can still be said."""
    past = (user("Find it."), tool_call("find", "{}", id="1"), tool_result("Here.", id="1", name="find"))
    for model in FORMS:
        context = await ask(model, *past, assistant("Found."), user("Hello."), tools=[], tool_choice="required")
        assert any(words.startswith("the choice of a tool was left out") for words in context.degraded), model
    context = await ask(CLAUDE, *past, assistant("Found."), user("Hello."), tools=[], tool_choice="none")
    assert context.request["tool_choice"] == {"type": "none"}


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

"""Those who call the model themselves: the request, the SDKs' own objects, and the record of the call.

Through the providers' own SDKs, to servers that refuse what the providers refuse.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import anthropic
import msgspec
import openai
import pytest
from google import genai
from pydantic import BaseModel

from benchmarks.loopback.anthropic import AnthropicServer
from benchmarks.loopback.google import GoogleServer
from benchmarks.loopback.http import Server
from benchmarks.loopback.model import Called, Replies, Script, Thought
from benchmarks.loopback.openai import OpenAIServer, ResponsesServer
from everthread import Context, Everthread, Talk, assistant, tool, tool_result, user, wire
from everthread.core.branches import ENDLESS
from everthread.core.deltas import Usage
from everthread.core.events import Assistant, ModelCall, ToolCall, text_of
from everthread.core.parts import Reasoning, Text
from everthread.core.strategies import View
from everthread.errors import BadFormat, BadValue, EverthreadError
from everthread.jobs.worker import Worker
from everthread.testing.scripted import call, script
from tests.agent.support import calls
from tests.agent.test_records import Ears

TOOLS = [{"name": "weather", "description": "The weather of a city.", "schema": {"type": "object", "properties": {}}}]
REPLIES: list[Replies] = [
    [Thought("I should look."), "Let me look.", Called("weather", '{"city": "Rome"}'), Called("weather", "{}")],
    [Thought("Both are known."), "Sunny."],
    ["Goodbye."],
]


async def by_anthropic(address: str, request: dict[str, Any]) -> Any:
    async with anthropic.AsyncAnthropic(api_key="test-key", base_url=address, max_retries=0) as client:
        return await client.messages.create(**request)


async def by_openai(address: str, request: dict[str, Any]) -> Any:
    async with openai.AsyncOpenAI(api_key="test-key", base_url=address, max_retries=0) as client:
        return await client.chat.completions.create(**request)


async def by_responses(address: str, request: dict[str, Any]) -> Any:
    async with openai.AsyncOpenAI(api_key="test-key", base_url=address, max_retries=0) as client:
        return await client.responses.create(**request)


async def by_google(address: str, request: dict[str, Any]) -> Any:
    options = genai.types.HttpOptions(base_url=address, api_version="v1beta")
    client = genai.Client(api_key="test-key", http_options=options)
    try:
        return await client.aio.models.generate_content(**request)
    finally:
        await client.aio.aclose()
        client.close()


Call = Callable[[str, dict[str, Any]], Any]
LOOPS: dict[str, tuple[Callable[[Script], Any], Call]] = {
    "anthropic:claude-sonnet-4-6": (AnthropicServer, by_anthropic),
    "openai:gpt-5": (OpenAIServer, by_openai),
    "openai-responses:gpt-5": (ResponsesServer, by_responses),
    "google:gemini-3-pro-preview": (GoogleServer, by_google),
}


@pytest.fixture(autouse=True)
def _without(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is on here, but for its worker."""
    monkeypatch.setattr(Worker, "remind", lambda *_: None)


@pytest.fixture
async def store(address: str) -> AsyncIterator[Everthread]:
    async with Everthread.open(address, settings={"memory": True}) as et:
        yield et


@pytest.fixture
async def own(store: Everthread, someone: str) -> Talk:
    return await store.begin(user=someone)


async def call_model(talk: Talk, ask: Call, server: Server, model: str) -> Any:
    """One model call of an own loop: asked, appended as it came, recorded."""
    settings: Any = {"effort": "low", "reply_tokens": 4_000}
    context = await talk.context(model=model, tools=TOOLS, settings=settings)
    response = await ask(server.address, context.request)
    await talk.append(response)
    await talk.record(context, response, seconds=1.5, first_seconds=0.25)
    return response


async def answer(talk: Talk) -> None:
    """Append a result for each tool call of the newest reply."""
    newest = [event.event for event in await talk.range(1, ENDLESS)]
    for event in [event for event in newest if isinstance(event, ToolCall)]:
        await talk.append(tool_result("Sunny, 25 degrees.", id=event.id, name=event.name))


@pytest.mark.parametrize("model", LOOPS)
async def test_a_loop_with_tools_appends_what_the_sdk_gives_and_its_requests_are_accepted(
    own: Talk, model: str
) -> None:
    kind, ask = LOOPS[model]
    async with kind(Script(REPLIES)) as server:
        await own.append(user("What is the weather in Rome?"))
        await call_model(own, ask, server, model)
        await answer(own)
        await call_model(own, ask, server, model)
        await own.append(user("Thank you."))
        await call_model(own, ask, server, model)
    said = [event.event for event in await own.range(1, ENDLESS)]
    assert [text_of(event) for event in said if isinstance(event, Assistant) and text_of(event)] == [
        "Let me look.",
        "Sunny.",
        "Goodbye.",
    ]
    asked = [event for event in said if isinstance(event, ToolCall)]
    assert [event.arguments for event in asked] == ['{"city": "Rome"}', "{}"]
    assert len({event.id for event in asked}) == 2
    assert all(event.model.startswith(model) for event in said if isinstance(event, Assistant))
    assert [event.kind for event in said].count("model_call") == 3


@pytest.mark.parametrize("model", ["anthropic:claude-sonnet-4-6", "openai-responses:gpt-5"])
async def test_reasoning_goes_back_as_it_came(own: Talk, model: str) -> None:
    kind, ask = LOOPS[model]
    async with kind(Script(REPLIES)) as server:
        await own.append(user("What is the weather in Rome?"))
        await call_model(own, ask, server, model)
        await answer(own)
        context = await own.context(model=model, tools=TOOLS, settings={"effort": "low", "reply_tokens": 4_000})
        await ask(server.address, context.request)  # which refuses a signature that is not as it was given
    assert "I should look." in str(context.request)
    assert any(isinstance(part, Reasoning) for event in await own.range(1, ENDLESS) for part in _parts(event.event))


def _parts(event: Any) -> tuple[Any, ...]:
    return getattr(event, "parts", ())


async def test_a_dated_name_of_the_same_model_is_taken_for_it(own: Talk) -> None:
    """Which providers report where an alias was asked for."""
    from everthread.providers.models import model

    known = model("anthropic:claude-sonnet-4-5")
    assert known.made("anthropic:claude-sonnet-4-5-20250929")
    assert known.made("claude-sonnet-4-5")
    assert model("openai:gpt-5").made("gpt-5-2025-08-07")
    assert not model("openai:gpt-5").made("gpt-5-mini")
    assert not known.made("openai:claude-sonnet-4-5")
    assert model("anthropic:claude-3-7-sonnet-latest").made("claude-3-7-sonnet-20250219")


# -- the record ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", LOOPS)
async def test_a_record_has_usage_price_time_and_hashes_as_one_of_say_has(own: Talk, model: str) -> None:
    kind, ask = LOOPS[model]
    async with kind(Script([["Hello."]])) as server:
        await own.append(user("Hello?"))
        response = await call_model(own, ask, server, model)
    (record,) = await calls(own)
    assert (record.model, record.at, record.cutoff) == (model, 2, 1)
    assert record.input > 0
    assert record.output > 0
    assert (record.ms, record.first_ms) == (1_500, 250)
    assert record.finish == "stop"
    assert set(record.inputs) == {"settings", "instructions", "tools"}
    assert len(record.request) == 64
    for told in (getattr(response, "usage", None) or response.usage_metadata, record):
        assert told is not None


async def test_a_call_that_failed_is_recorded_without_usage(own: Talk) -> None:
    await own.append(user("Hello?"))
    context = await own.context(model="openai:gpt-5")
    await own.record(context, None, error="It was away.")
    (record,) = await calls(own)
    assert (record.input, record.error) == (0, "It was away.")


async def test_recorded_usage_teaches_the_factor(store: Everthread, own: Talk) -> None:
    model = "anthropic:claude-sonnet-4-6"
    await own.append(user("word " * 3_000))
    context = await own.context(model=model)
    before = context.estimate
    for _ in range(25):
        await own.record(context, Usage(input=round(context.canonical * 1.6), output=1))
    await asyncio.wait(store._runtime._beside or [asyncio.ensure_future(asyncio.sleep(0))])
    assert (await own.context(model=model)).estimate > before


async def test_a_context_of_another_conversation_is_not_recorded(store: Everthread, own: Talk, someone: str) -> None:
    other = await store.begin(user=f"{someone}-other")
    await other.append(user("A secret."))
    context = await other.context(model="openai:gpt-5")
    with pytest.raises(BadValue, match="a context of this conversation"):
        await own.record(context, Usage(input=1))


async def test_a_call_is_not_recorded_for_a_user_whose_conversation_it_is_not(store: Everthread, own: Talk) -> None:
    await own.append(user("A secret."))
    context = await own.context(model="openai:gpt-5")
    forged = store.talk(msgspec.structs.replace(own.conversation, user="somebody-else"))
    with pytest.raises(EverthreadError):
        await forged.record(context, Usage(input=1))
    assert await calls(own) == []


async def test_a_record_stands_on_the_branch_that_the_context_was_built_from(own: Talk) -> None:
    await own.append(user("One."), assistant("Noted."), user("Two."))
    context = await own.context(model="openai:gpt-5")
    await own.rewind(to=2)
    await own.record(context, Usage(input=1))
    assert await calls(own) == []
    assert len(await calls(await own.on("main"))) == 1


async def test_a_context_that_came_back_from_json_is_refused_with_advice(own: Talk) -> None:
    await own.append(user("Hello."))
    context = wire.loads(Context, wire.dumps(await own.context(model="openai:gpt-5")))
    with pytest.raises(BadValue, match="not its JSON form"):
        await own.record(context, Usage(input=1))


async def test_usage_as_langchain_tells_it_says_what_came_from_the_cache(own: Talk) -> None:
    await own.append(user("Hello."))
    details = {
        "input_token_details": {"cache_read": 60, "cache_creation": 30},
        "output_token_details": {"reasoning": 4},
    }
    usage = {"input_tokens": 100, "output_tokens": 9, "total_tokens": 109, **details}
    record = (await own.record(await own.context(model="openai:gpt-5"), usage)).event
    assert isinstance(record, ModelCall)
    assert (record.input, record.output, record.cache_read, record.cache_write, record.reasoning) == (100, 9, 60, 30, 4)


@pytest.mark.parametrize("usage", ["much", {"tokens": 1}, 7, {"prompt_tokens": "many"}])
async def test_usage_that_tells_no_tokens_is_refused(own: Talk, usage: object) -> None:
    await own.append(user("Hello?"))
    with pytest.raises(BadValue, match="usage"):
        await own.record(await own.context(model="openai:gpt-5"), usage)


async def test_a_recorded_request_is_built_again(own: Talk) -> None:
    """With the tools of now, and without memory's own, as it was made."""
    await own.append(user("Hello?"))
    context = await own.context(model="openai:gpt-5")
    logged = await own.record(context, Usage(input=10, output=1))
    await own.append(user("And now?"))
    again = await own.rebuild(logged.seq)
    assert again.differences == ()
    assert again.context.request == context.request


@pytest.mark.parametrize("lookups", [True, False])
async def test_what_was_given_for_a_call_alone_is_given_again(own: Talk, lookups: bool) -> None:
    """Tools, settings, instructions and what the reply was to be: of these the log has hashes only."""
    given: dict[str, Any] = {"tools": TOOLS, "tool_choice": "weather", "output": Advice, "instructions": "Be brief."}
    given["settings"] = {"extra_body": {"service_tier": "flex"}, "stop": ["END"], "budget": 5_000}
    await own.append(user("Hello?"))
    context = await own.context(model="openai:gpt-4o", lookups=lookups, **given)
    logged = await own.record(context, Usage(input=10, output=1))
    await own.append(user("And now?"))
    again = await own.rebuild(logged.seq, **given)
    assert again.differences == ()
    assert again.context.request == context.request
    told = " ".join((await own.rebuild(logged.seq)).differences)
    assert all(name in told for name in ("settings: ", "instructions: ", "tools: ", "tool_choice: "))


async def test_the_same_is_given_for_every_call_of_a_turn(own: Talk, someone: str) -> None:
    @tool
    def look() -> str:
        """Looks."""
        return "nothing"

    script(someone, [call("look")], '{"umbrella": true}')
    given: dict[str, Any] = {"tools": [look], "tool_choice": "look", "output": Advice, "settings": {"top_p": 0.5}}
    await own.say("Look.", model=f"scripted:{someone}", **given)
    seqs = [event.seq for event in await own.range(1, ENDLESS) if event.kind == "model_call"]
    assert [(await own.rebuild(seq, **given)).differences for seq in seqs] == [(), ()]


@pytest.mark.parametrize("given", [{"role": "user", "content": "Hi"}, [{"role": "user", "content": "Hi"}]])
async def test_who_appends_a_list_of_messages_is_told_how(own: Talk, given: object) -> None:
    with pytest.raises(BadValue, match=r"everthread\.formats.*append\(\*from_openai\(messages\)\)"):
        await own.append(given)


# -- objects that are refused ----------------------------------------------------------------------------------


async def test_several_choices_are_refused_until_one_is_chosen(own: Talk) -> None:
    message = {"role": "assistant", "content": "One."}
    choices = [{"index": n, "finish_reason": "stop", "message": message} for n in range(2)]
    given = {"id": "1", "object": "chat.completion", "created": 1, "model": "gpt-5", "choices": choices}
    completion = openai.types.chat.ChatCompletion.model_validate(given)
    with pytest.raises(BadFormat, match="the one that counts"):
        await own.append(completion)
    await own.append(completion.choices[0].message)
    assert [event.text for event in await own.range(1, ENDLESS)] == ["One."]


async def test_a_piece_of_a_stream_is_refused(own: Talk) -> None:
    choice = {"index": 0, "delta": {"content": "Su"}, "finish_reason": None}
    given = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-5", "choices": [choice]}
    with pytest.raises(BadFormat, match="append the whole reply"):
        await own.append(openai.types.chat.ChatCompletionChunk.model_validate(given))
    assert await own.range(1, ENDLESS) == []


async def test_the_pieces_of_a_stream_of_geminis_are_one_content(own: Talk) -> None:
    parts = [genai.types.Part(text=piece) for piece in ('{"umbrella"', ": true", "}")]
    (logged,) = await own.append(genai.types.Content(role="model", parts=parts))
    assert logged.text == '{"umbrella": true}'


@pytest.mark.parametrize("call", [{"name": "recall_context"}, None, "recall_context"])
async def test_what_is_no_tool_call_is_not_looked_up(own: Talk, call: Any) -> None:
    with pytest.raises(BadValue, match="a tool call of the log"):
        await own.look_up(call)


async def test_an_object_that_says_nothing_is_refused(own: Talk) -> None:
    with pytest.raises(BadValue, match="an event, or a reply"):
        await own.append(openai.types.CompletionUsage(completion_tokens=1, prompt_tokens=1, total_tokens=2))
    assert await own.range(1, ENDLESS) == []


async def test_what_an_sdk_gave_is_redacted_like_any_other_message(own: Talk) -> None:
    message = openai.types.chat.ChatCompletionMessage(role="assistant", content="The code is 4711.")
    (logged,) = await own.append(message)
    await own.redact(logged.seq)
    assert "4711" not in str([event.event for event in await own.range(1, ENDLESS)])


# -- the model, memory's own tools, a strategy -----------------------------------------------------------------


async def test_a_context_without_a_model_is_for_the_one_that_say_would_choose(
    address: str, someone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "k-1")
    async with Everthread.open(address, settings={}) as et:
        talk = await et.begin(user=someone)
        await talk.append(user("Hello?"))
        assert (await talk.context()).model == (await et.default_model()).model
        assert await talk.steps() == []


@pytest.mark.parametrize("model", LOOPS)
@pytest.mark.parametrize("budget", [40, 80, 160, 320, 640, 1_280, 2_560])
async def test_a_request_is_over_its_budget_only_when_all_that_is_optional_has_left(
    store: Everthread, own: Talk, model: str, budget: int
) -> None:
    """Law 3: older turns, pins, large results, then what memory adds, the time and its own tools."""
    for number in range(8):
        await own.append(user(f"Thing {number} is {'rather ' * 20}heavy."), assistant("Noted."))
    await own.append(user("What may I put into the cake?"))
    asked: dict[str, Any] = {"model": model, "budget": budget, "instructions": "You bake. " * 10}
    with_lookups = await own.context(**asked, tools=TOOLS, lookups=True)
    without = await own.context(**asked, tools=TOOLS)
    for context in (with_lookups, without):
        assert bool(context.over_budget) == (context.estimate > budget)
        if context.over_budget:
            assert {tool.name for tool in context.inputs["tools"]} == {"weather"}
            assert context.explain().sections.keys() <= {"persona", "tools", "overhead", "form"}
            assert context.sent == 1
    assert bool(with_lookups.over_budget) == bool(without.over_budget)
    assert not {"recall_context", "open_event", "write_memory"} & {tool.name for tool in without.inputs["tools"]}


async def test_with_room_enough_memorys_own_tools_stand_beside_those_that_are_only_told_of(own: Talk) -> None:
    await own.append(user("Hello?"))
    context = await own.context(model="openai:gpt-5", tools=TOOLS, lookups=True)
    offered = {tool.name for tool in context.inputs["tools"]}
    assert {"weather", "recall_context", "open_event", "write_memory"} == offered


@pytest.mark.parametrize("budget", [30, 60, 120, 240, 480, 960, 4_000])
async def test_say_with_a_tiny_budget_sends_the_message_and_says_what_it_left_out(
    store: Everthread, someone: str, budget: int
) -> None:
    heard = Ears()
    script(someone, *[heard("Yes.")] * 3)
    talk = await store.begin(user=someone)
    for text in ("One.", "Two.", "Three."):
        await talk.say(text, model=f"scripted:{someone}", settings={"budget": budget})
    offered = [tool["function"]["name"] for tool in heard.heard[-1].get("tools", ())]
    assert "Three." in str(heard.heard[-1]["messages"][-1])
    record = (await calls(talk))[-1]
    assert bool(offered) == (budget == 4_000)
    assert record.estimate <= max(budget, 30)
    assert bool(offered) != any("memory's own tools were left out" in note for note in record.degraded)


# -- a strategy of one's own -----------------------------------------------------------------------------------


def newest(view: View) -> int:
    """The newest turn alone."""
    return view.newest.first


@pytest.fixture
async def spoken(own: Talk) -> Talk:
    await own.append(user("One."), assistant("Noted."), user("Two."), assistant("Noted."))
    return own


async def test_a_strategy_of_ones_own_works_in_say_as_in_context(spoken: Talk, someone: str) -> None:
    heard = Ears()
    script(someone, heard("Yes."))
    await spoken.say("Three.", model=f"scripted:{someone}", strategy=newest, settings={"clock": "off"})
    assert [message["content"] for message in heard.heard[0]["messages"] if message["role"] == "user"] == ["Three."]
    (record,) = await calls(spoken)
    assert (record.sent, record.past) == (1, 4)


async def test_what_it_chose_is_built_again_with_it_and_without_it_the_rebuild_says_so(
    spoken: Talk, someone: str
) -> None:
    script(someone, "Yes.")
    await spoken.say("Three.", model=f"scripted:{someone}", strategy=newest)
    (seq,) = [event.seq for event in await spoken.range(1, ENDLESS) if event.kind == "model_call"]
    assert (await spoken.rebuild(seq, strategy=newest)).differences == ()
    (first, *_) = [why for why in (await spoken.rebuild(seq)).differences if why.startswith("strategy")]
    assert "the application's own" in first
    with pytest.raises(BadValue, match="a function of your own"):
        await spoken.rebuild(seq, strategy="budget")  # type: ignore[arg-type]


async def test_a_store_is_opened_with_a_strategy_and_a_call_may_name_another(address: str, someone: str) -> None:
    async with Everthread.open(address, settings={"model": f"scripted:{someone}"}, strategy=newest) as et:
        talk = await et.begin(user=someone)
        await talk.append(user("One."), assistant("Noted."))
        await talk.say("Two.")
        assert (await calls(talk))[0].sent == 1
        assert (await talk.context(strategy="budget")).sent == 4
        (seq,) = [event.seq for event in await talk.range(1, ENDLESS) if event.kind == "model_call"]
        assert (await talk.rebuild(seq)).differences == ()


async def test_a_tool_call_that_was_approved_goes_on_with_the_strategy_that_is_given_again(
    spoken: Talk, someone: str
) -> None:
    script(someone, [call("sail")], "Done.")

    @tool(approval=True)
    def sail() -> str:
        """Sails."""
        return "Sailed."

    given: dict[str, Any] = {"model": f"scripted:{someone}", "strategy": newest, "tools": [sail]}
    await spoken.say("Sail.", **given)
    await spoken.approve(**given)
    assert [record.past for record in await calls(spoken)] == [4, 4]


class Advice(BaseModel):
    umbrella: bool


async def test_what_sdks_have_parsed_goes_in_like_the_reply_that_it_is(own: Talk) -> None:
    """Nothing of what they add is kept."""
    await own.append(user("An umbrella?"))
    said = '{"umbrella": true}'
    async with (
        ResponsesServer(Script([[said]])) as server,
        openai.AsyncOpenAI(api_key="test-key", base_url=server.address, max_retries=0) as client,
    ):
        request = (await own.context(model="openai-responses:gpt-5")).request
        await own.append(await client.responses.parse(**request, text_format=Advice))
    async with (
        OpenAIServer(Script([[said]])) as chat,
        openai.AsyncOpenAI(api_key="test-key", base_url=chat.address, max_retries=0) as client,
    ):
        request = (await own.context(model="openai:gpt-5")).request
        await own.append(await client.chat.completions.parse(**request, response_format=Advice))
    replies = [event.event for event in await own.range(2, ENDLESS)]
    assert [reply.parts for reply in replies if isinstance(reply, Assistant)] == [(Text(text=said),)] * 2

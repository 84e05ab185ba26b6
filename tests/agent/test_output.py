"""`output=`: a reply as a value of the caller's own type, or an error that says why there is none."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Any, TypedDict, assert_type

import msgspec
import pydantic
import pytest

from everthread import Everthread, Reply, Talk, TurnResult, assistant, sync, tool, user
from everthread.core.deltas import Done, TextDelta
from everthread.core.events import Assistant, SettingsChanged
from everthread.errors import BadOutput, BadSetting, BadValue, Overloaded, RequestRefused
from everthread.providers.client import NO_HEADERS
from everthread.providers.scripted import client
from everthread.providers.shapes import shape_of
from everthread.store.log import Log
from everthread.store.open import open_log
from everthread.testing.scripted import call, script
from tests.agent.conftest import Speak
from tests.agent.support import calls, failing, heard
from tests.contract.support import Interleaved

INVOICE = '{"number": 7, "paid": null, "lines": [{"text": "ink", "price": 2.5}]}'


class Line(pydantic.BaseModel):
    text: str
    price: float


class Invoice(pydantic.BaseModel):
    number: int
    paid: bool = False
    lines: list[Line] = []


@dataclasses.dataclass
class Plain:
    number: int
    paid: bool = False
    lines: list[Any] = dataclasses.field(default_factory=list)


class Struct(msgspec.Struct):
    number: int
    paid: bool = False
    lines: list[dict[str, Any]] = []


class Typed(TypedDict, total=False):
    number: int
    paid: bool
    lines: list[dict[str, Any]]


class Unknown:
    """Of no library."""


SCHEMA = {"type": "object", "properties": {"number": {"type": "integer"}, "paid": {"type": "boolean"}, "lines": {}}}
LINES = [{"text": "ink", "price": 2.5}]


@pytest.mark.parametrize(
    ("output", "value"),
    [
        pytest.param(Invoice, Invoice(number=7, lines=[Line(text="ink", price=2.5)]), id="Pydantic"),
        pytest.param(Plain, Plain(7, lines=LINES), id="dataclass"),
        pytest.param(Struct, Struct(7, lines=LINES), id="msgspec"),
        pytest.param(Typed, {"number": 7, "lines": LINES}, id="TypedDict"),
        pytest.param(SCHEMA, {"number": 7, "lines": LINES}, id="JSON Schema"),
        pytest.param(
            pydantic.TypeAdapter(Invoice), Invoice(number=7, lines=[Line(text="ink", price=2.5)]), id="adapter"
        ),
    ],
)
async def test_the_value_is_of_the_type_that_was_asked_for(talk: Talk, speak: Speak, output: Any, value: Any) -> None:
    """And null, where the type takes none, is what was left out: so a strict provider says it."""
    speak(INVOICE)
    assert (await talk.say("Read the invoice.", output=output)).value == value


@pytest.mark.parametrize(
    ("output", "said", "value"),
    [
        (list[int], '{"value": [1, 2]}', [1, 2]),
        (list[Line], '{"value": [{"text": "ink", "price": 1}]}', [Line(text="ink", price=1)]),
        (int | None, '{"value": null}', None),
        ({"enum": ["yes", "no"]}, '{"value": "no"}', "no"),
    ],
)
async def test_what_is_no_object_is_asked_for_inside_one(
    talk: Talk, speak: Speak, output: Any, said: str, value: Any
) -> None:
    speak(said)
    assert (await talk.say("Well?", output=output)).value == value


async def test_a_reply_that_streams_has_its_value_at_the_end(talk: Talk, speak: Speak) -> None:
    speak(INVOICE)
    reply = talk.say("Read the invoice.", output=Invoice)
    pieces = [delta.text async for delta in reply if isinstance(delta, TextDelta)]
    assert len(pieces) > 1
    assert json.loads("".join(pieces))["number"] == 7
    assert reply.value.number == 7


async def test_only_what_was_said_after_the_last_tool_is_read(talk: Talk, speak: Speak) -> None:
    @tool
    def look(place: str) -> str:
        """Looks somewhere."""
        return "an invoice"

    speak(["Let me see.", call("look", {"place": "desk"})], INVOICE)
    found = await talk.say("Read the invoice.", output=Invoice, tools=[look])
    assert found.value.number == 7
    assert found.text.startswith("Let me see.")


async def test_a_reply_in_a_code_fence_is_read_all_the_same(talk: Talk, speak: Speak) -> None:
    """Models that were told the schema in words like to write one."""
    speak(f"Here it is:\n```json\n{INVOICE}\n```\n")
    assert (await talk.say("Read the invoice.", output=Invoice)).value.number == 7


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("I would rather not.", "it is not JSON"),
        ('{"number": "seven"}', "number: Input should be a valid integer"),
        ("{}", "number"),
        ("[7]", "it: Input should be"),
        ("```json\n{}\n```\n```json\n{}\n```", "it is not JSON"),
    ],
)
async def test_what_is_not_what_was_asked_for_is_an_error_and_the_log_has_it(
    talk: Talk, speak: Speak, said: str, why: str
) -> None:
    speak(said)
    deltas = await failing(talk.say("Read the invoice.", output=Invoice), BadOutput, "The reply is not what `output`")
    assert deltas[-1].state == "idle"  # type: ignore[union-attr]
    speak(said)
    with pytest.raises(BadOutput, match=why) as caught:
        await talk.say("Again.", output=Invoice)
    assert caught.value.text == said
    [*_, reply, _] = await talk.range(1, 50)
    assert isinstance(reply.event, Assistant)
    assert reply.text == said


async def test_a_reply_that_was_cut_says_what_to_raise(talk: Talk, speak: Speak) -> None:
    speak(INVOICE)
    with pytest.raises(BadOutput, match="raise reply_tokens"):
        await talk.say("Read the invoice.", output=Invoice, settings={"reply_tokens": 5})


async def test_a_turn_says_how_its_last_reply_ended(talk: Talk, speak: Speak) -> None:
    speak("Yes.")
    [*_, done] = await heard(talk.say("Well?"))
    assert isinstance(done, Done)
    assert done.finish == "stop"


async def test_a_turn_that_waits_has_no_value_yet(talk: Talk, speak: Speak) -> None:
    @tool(approval=True)
    def pay() -> str:
        """Pays."""
        return "paid"

    speak([call("pay")], INVOICE)
    asked: TurnResult = await talk.say("Pay, and read the invoice.", output=Invoice, tools=[pay])
    assert (asked.done.state, asked.value) == ("waiting", None)
    assert (await talk.approve(output=Invoice, tools=[pay])).value.number == 7


@pytest.mark.parametrize("output", [3, "Invoice", [Invoice], object(), {"a": object()}, lambda: None, Unknown])
async def test_what_is_no_type_is_refused_before_anything_is_said(talk: Talk, output: Any) -> None:
    with pytest.raises(BadValue, match="output"):
        talk.say("Read the invoice.", output=output)
    assert await talk.range(1, 50) == []


async def test_a_schema_with_a_type_that_json_does_not_have_is_refused_before_anything_is_said(talk: Talk) -> None:
    inner = {"type": "object", "properties": {"n": {"anyOf": [{"type": "int"}, {"type": ["null", "text"]}]}}}
    with pytest.raises(BadValue, match=r"no type int, text\)"):
        talk.say("Read the invoice.", output={"type": "array", "items": inner})
    assert await talk.range(1, 50) == []
    named = {"type": "object", "properties": {"type": {"type": "string"}, "items": {"type": ["string", "null"]}}}
    assert (await talk.context(model="openai:gpt-4o", output=named)).request["response_format"]


async def test_a_context_asks_for_the_same_and_reads_a_reply(talk: Talk) -> None:
    await talk.append(user("Read the invoice."))
    context = await talk.context(model="openai:gpt-4o", output=Invoice)
    form = context.request["response_format"]["json_schema"]
    assert form["strict"] is True
    assert form["schema"]["required"] == ["number", "paid", "lines"]
    assert context.parse(INVOICE).number == 7
    with pytest.raises(BadOutput, match="not JSON"):
        context.parse("No.")
    with pytest.raises(BadValue, match="output"):
        (await talk.context(model="openai:gpt-4o")).parse(INVOICE)


async def test_the_setting_is_the_same_thing(talk: Talk) -> None:
    context = await talk.context(model="openai:gpt-4o", settings={"output": json.dumps(Invoice.model_json_schema())})
    assert context.parse(INVOICE) == {"number": 7, "lines": LINES}
    assert context.request == (await talk.context(model="openai:gpt-4o", output=Invoice)).request


async def test_a_past_request_with_a_form_is_built_again(talk: Talk, speak: Speak) -> None:
    """Where it was a setting of the branch, byte for byte; where it was of the call alone, that is said."""
    speak('{"a": 1}', INVOICE)
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    await talk.append(SettingsChanged(values={"output": json.dumps(schema)}))
    await talk.say("One.")
    await talk.say("Two.", output=Invoice)
    first, second = await calls(talk)
    seqs = [event.seq for event in await talk.range(1, 50) if event.kind == "model_call"]
    assert first.request != second.request
    assert (await talk.rebuild(seqs[0])).differences == ()
    assert any("settings" in words for words in (await talk.rebuild(seqs[1])).differences)


async def test_fields_of_a_branch_are_in_its_past_requests_and_headers_in_none(talk: Talk, speak: Speak) -> None:
    speak("One.", "Two.")
    await talk.append(SettingsChanged(values={"extra_body": '{"service_tier": "flex"}', "stop": '["END"]'}))
    await talk.say("One.", extra_headers={"X-Team": "secret-secret"})
    [call] = [event for event in await talk.range(1, 50) if event.kind == "model_call"]
    found = await talk.rebuild(call.seq)
    assert found.differences == ()
    assert found.context.request["extra_body"] == {"service_tier": "flex"}


async def test_a_branch_takes_lists_and_mappings_as_a_call_does(talk: Talk) -> None:
    schema = {"type": "object", "properties": {"number": {"type": "integer"}}}
    given: dict[str, Any] = {"extra_body": {"service_tier": "flex"}, "stop": ["END"], "output": schema, "seed": 7}
    await talk.configure(**given)
    await talk.append(user("Hello?"))
    request = (await talk.context(model="openai:gpt-4o")).request
    assert request["extra_body"] == {"service_tier": "flex"}
    assert (request["stop"], request["seed"]) == (["END"], 7)
    assert request["response_format"]["json_schema"]["schema"]["required"] == ["number"]
    await talk.configure(extra_body=None, stop=None, output=None)
    assert not {"extra_body", "stop", "response_format"} & (await talk.context(model="openai:gpt-4o")).request.keys()


async def test_a_schema_that_is_redacted_is_gone_from_memory_too(talk: Talk) -> None:
    schema = '{"type": "object", "properties": {"walnuts": {"type": "integer"}}}'
    [event] = await talk.append(SettingsChanged(values={"output": schema}))
    assert "walnuts" in json.dumps((await talk.context(model="openai:gpt-4o")).request)
    assert shape_of.cache_info().currsize
    await talk.redact(event.seq)
    assert shape_of.cache_info().currsize == 0
    assert "walnuts" not in json.dumps((await talk.context(model="openai:gpt-4o")).request)


@pytest.mark.parametrize("verb", ["context", "steps"])
async def test_a_schema_that_was_read_before_a_redaction_and_shaped_after_it_is_not_remembered(
    address: str, someone: str, verb: str
) -> None:
    """Redacted between any two questions of whoever reads it, until it is redacted after the last."""
    schema, raced = '{"type": "object", "properties": {"walnuts": {"type": "integer"}}}', 0
    engine = Interleaved((await open_log(address))._engine)
    et = Everthread(Log(engine), {"memory": False, "model": "openai:gpt-4o"})
    try:
        for turn in range(1, 100):
            talk = await et.begin(user=someone)
            [event] = await talk.append(SettingsChanged(values={"output": schema}))
            await talk.append(user("Hello?"))
            redacting = Nth(turn, lambda talk=talk, seq=event.seq: talk.redact(seq))  # type: ignore[misc]
            engine.between = redacting
            found = await getattr(talk, verb)()
            engine.between = None
            if not redacting.done:
                break
            assert shape_of.cache_info().currsize == 0
            raced += verb == "context" and "walnuts" in json.dumps(found.request)
    finally:
        await et.close()
    assert (turn > 3, bool(raced)) == (True, verb == "context")  # it was read before, and sent this once


class Nth:
    """Does something the nth time that it is called."""

    def __init__(self, nth: int, work: Callable[[], Awaitable[None]]) -> None:
        self._left, self._work, self.done = nth, work, False

    async def __call__(self) -> None:
        self._left -= 1
        if self._left == 0:
            self.done = True
            await self._work()


async def test_what_was_read_before_a_redaction_and_packed_after_it_is_not_remembered(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    contexts = talk._runtime.contexts
    await talk.append(user("My PIN is 4711."), assistant("Noted."))
    await talk.append(user("And now?"))
    told = contexts._gaps.told

    async def redacting(*given: Any) -> Any:
        await talk.redact(1)
        return await told(*given)

    monkeypatch.setattr(contexts._gaps, "told", redacting)
    await talk.context(model="openai:gpt-4o")
    assert not contexts._turn_cache._kept


async def test_type_checkers_know_the_value(talk: Talk, speak: Speak) -> None:
    """Of `output`'s type; None where nothing was asked for; anything where no type says what."""
    speak("Hello.", *[INVOICE] * 3)
    assert_type((await talk.say("Hello.")).value, None)
    assert_type((await talk.say("Read it.", output=Invoice, metadata={"row": 1})).value, Invoice)
    schema: dict[str, Any] = {"type": "object"}
    assert_type((await talk.say("Read it.", output=schema)).value, Any)
    reply = talk.say("Read it.", output=Invoice)
    assert_type(reply, Reply[Invoice])
    anyones: Reply = reply  # whatever it is of
    assert (await anyones).value == reply.value


def _without_await(talk: sync.Talk) -> None:
    """The same; looked at by type checkers alone."""
    assert_type(talk.say("Hello.").value, None)
    assert_type(talk.say("Read it.", output=list[Invoice]).result(), TurnResult[list[Invoice]])
    assert_type(talk.say("Read it.", output=Invoice), sync.Reply[Invoice])


# -- options of one call -----------------------------------------------------------------------------------


async def test_a_choice_of_tool_is_for_the_first_model_call_alone(talk: Talk, speak: Speak) -> None:
    """Else a model that must call a tool would never reply."""
    bodies: list[dict[str, Any]] = []

    @tool
    def look() -> str:
        """Looks."""
        return "nothing"

    def noting(reply: Any) -> Any:
        def told(body: dict[str, Any]) -> Any:
            bodies.append(body)
            return reply

        return told

    speak(noting([call("look")]), noting("Nothing there."))
    await talk.say("Look.", tools=[look], tool_choice="look")
    chosen = {"type": "function", "function": {"name": "look"}}
    assert [body.get("tool_choice") for body in bodies] == [chosen, None]


async def test_a_tool_that_there_is_not_cannot_be_chosen(talk: Talk) -> None:
    with pytest.raises(
        BadValue, match="tool_choice is 'lose', but must be auto, none, required, or the name of a tool"
    ):
        await talk.say("Look.", tool_choice="lose")
    assert await talk.range(1, 50) == []


async def test_the_fallback_gets_neither_the_headers_nor_the_fields_of_the_first(
    talk: Talk, speak: Speak, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may be a secret between the caller and the first one's provider."""
    sent: list[tuple[str, dict[str, str], Any]] = []
    reply = client._ScriptedClient.reply

    def noting(self: Any, body: Any, *, headers: Any = NO_HEADERS) -> Any:
        sent.append((body["model"], dict(headers), body.get("extra_body")))
        return reply(self, body, headers=headers)

    monkeypatch.setattr(client._ScriptedClient, "reply", noting)
    speak(Overloaded("scripted", "full"))
    settings: Any = {"fallback": script("second", "Hello."), "extra_body": {"k": 1}, "retries": 0}
    await talk.say("Hello.", settings=settings, extra_headers={"X-Team": "secret-secret"})
    assert [(headers, extra) for _, headers, extra in sent] == [({"X-Team": "secret-secret"}, {"k": 1}), ({}, None)]


async def test_the_values_of_headers_are_in_no_error_no_record_and_no_repr(talk: Talk, speak: Speak) -> None:
    speak(RequestRefused("scripted", "no such team: secret-secret"))
    with pytest.raises(RequestRefused) as caught:
        await talk.say("Hello.", extra_headers={"X-Team": "secret-secret"})
    assert "secret-secret" not in str(caught.value)
    assert "no such team: …" in str(caught.value)
    assert not [event for event in await talk.range(1, 50) if b"secret-secret" in event.body]


async def test_a_count_takes_headers_as_a_turn_does(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the provider is behind a proxy that demands one. An error repeats no value, and a client of somebody's own
    that knows no headers is told of none."""
    await talk.append(user("Hello?"))

    async def behind_a_proxy(_: Any, _body: Any, *, headers: Any) -> int:
        if headers.get("X-Team") != "blue-blue":
            raise RequestRefused("scripted", f"no such team: {headers['X-Team']}")
        return 7

    monkeypatch.setattr(client._ScriptedClient, "count", behind_a_proxy)
    assert await talk.count(extra_headers={"X-Team": "blue-blue"}) == 7
    with pytest.raises(RequestRefused, match="no such team: …"):
        await talk.count(extra_headers={"X-Team": "secret-secret"})
    with pytest.raises(BadValue, match="extra_headers"):
        await talk.count(extra_headers={"Host": "elsewhere"})

    async def knows_none(_: Any, _body: Any) -> int:
        return 8

    monkeypatch.setattr(client._ScriptedClient, "count", knows_none)
    assert await talk.count() == 8


async def test_a_key_in_a_header_is_not_repeated_without_its_scheme_either(talk: Talk, speak: Speak) -> None:
    speak(RequestRefused("scripted", "Incorrect API key provided: sk-gateway-1"))
    with pytest.raises(RequestRefused, match="provided: …"):
        await talk.say("Hello.", extra_headers={"Authorization": "Bearer sk-gateway-1"})
    assert not [event for event in await talk.range(1, 50) if b"sk-gateway-1" in event.body]


async def test_fields_that_are_refused_are_named(talk: Talk) -> None:
    await talk.append(user("Hello?"))
    with pytest.raises(BadSetting, match=r"without what Everthread writes itself \(model, .* stream, "):
        await talk.context(model="openai:gpt-4o", settings={"extra_body": {"stream": False, "model": "x", "n": 1}})


@pytest.mark.parametrize(
    "headers",
    [
        {"a b": "x"},
        {"": "x"},
        {"Host": "x"},
        {"a": "hidden\r\nb: c"},
        {"a": "hidden\u2026"},
        {"a": 3},
        ["a"],
        {"a": ""},
    ],
)
async def test_headers_that_no_request_can_carry_are_refused_and_not_repeated(talk: Talk, headers: Any) -> None:
    with pytest.raises(BadValue, match="extra_headers") as caught:
        talk.say("Hello.", extra_headers=headers)
    assert "hidden" not in str(caught.value)


async def test_pydantic_is_imported_only_where_something_of_it_is_given() -> None:
    program = (
        "import dataclasses, sys\nfrom everthread.context.output import output_of\n"
        "@dataclasses.dataclass\nclass A:\n    n: int\n"
        "assert output_of(A).parse('{\"n\": 1}').n == 1\nassert 'pydantic' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

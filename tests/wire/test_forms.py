"""Every value that a verb returns has a JSON form, and comes back from it equal to what it was."""

from __future__ import annotations

import base64
import inspect
import json
import typing
from datetime import UTC, datetime
from types import UnionType
from typing import Any

import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everthread import Everthread, Talk, image, user, wire
from everthread.agent.child import Child
from everthread.agent.children import ListedChild
from everthread.agent.personas import Agent, Agents, Server, Versioned
from everthread.agent.prepare import Rebuilt
from everthread.agent.reply import Reply, TurnResult
from everthread.config import Resolved
from everthread.context.build import Context
from everthread.context.explain import Explanation, StepLine
from everthread.core.branches import Branch, Line
from everthread.core.deltas import Delta, Done, ReasoningDelta, TextDelta, Usage
from everthread.core.events import Event, Other, Redacted, User
from everthread.core.logged import Logged
from everthread.core.parts import Part
from everthread.core.schedules import Schedule
from everthread.core.told import Told
from everthread.core.turns import Session, Turn
from everthread.core.values import Value
from everthread.errors import BadAgent, BadValue, Corrupt
from everthread.jobs.worker import Did
from everthread.language.facts import Fact
from everthread.memory.correct import Remembered
from everthread.memory.status import Status
from everthread.providers.choose import Chosen
from everthread.store.beside.usage import UsageTotal
from everthread.store.conversations import BranchTotals, Conversation, Totals
from everthread.store.recall.hits import Hit
from everthread.wire import FrozenContext
from scripts import forms
from tests.examples import examples
from tests.wire.strategies import logged, values

TYPES: dict[str, Any] = {
    "Event": Event,
    "Part": Part,
    "Delta": Delta,
    "Usage": Usage,
    "TurnResult": TurnResult,
    "ListedChild": ListedChild,
    "Hit": Hit,
    "Turn": Turn,
    "Session": Session,
    "Branch": Branch,
    "Totals": Totals,
    "BranchTotals": BranchTotals,
    "Conversation": Conversation,
    "UsageTotal": UsageTotal,
    "Remembered": Remembered,
    "Fact": Fact,
    "Status": Status,
    "Explanation": Explanation,
    "StepLine": StepLine,
    "FrozenContext": FrozenContext,
    "Agent": Agent,
    "Versioned": Versioned,
    "Chosen": Chosen,
    "Did": Did,
    "Schedule": Schedule,
    "Told": Told,
    "Resolved": Resolved,
}


LIST: Any = list  # of types that only the test knows
DICT: Any = dict


@pytest.mark.parametrize("name", TYPES)
def test_a_value_comes_back_equal(name: str) -> None:
    wanted = TYPES[name]
    made = values(wanted).map(_without_servers) if name in ("Agent", "Versioned") else values(wanted)

    @settings(max_examples=examples(40), deadline=None)
    @given(st.data())
    def holds(data: Any) -> None:
        value = data.draw(made)
        assert _back(wanted, value) == value
        assert _back(LIST[wanted], [value, value]) == [value, value]
        assert _back(DICT[str, wanted], {"a": value}) == {"a": value}

    holds()


@settings(max_examples=examples(150), deadline=None)
@given(logged(values(Event)))
def test_an_event_of_the_log_comes_back_equal_whatever_its_kind(one: Logged) -> None:
    assert _back(Logged, one) == one
    assert _back(Logged | Delta, one) == one
    assert _back(Event, one.event) == one.event


def _back(wanted: Any, value: Any) -> Any:
    """There and back, as others see it: JSON in UTF-8, which any library reads and writes."""
    body = wire.dumps(value)
    body.decode("utf-8")
    assert json.loads(json.dumps(wire.plain(value), ensure_ascii=False).encode("utf-8")) == json.loads(body)
    return wire.loads(wanted, body)


def _without_servers(value: Any) -> Any:
    """Those do not come back: what they are given in secret is not told."""
    if isinstance(value, Versioned):
        return msgspec.structs.replace(value, agent=_without_servers(value.agent))
    return msgspec.structs.replace(value, mcp={})


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(logged(values(Event)), max_size=4))
def test_a_page_says_what_its_events_say_one_by_one(page: list[Logged]) -> None:
    assert json.loads(wire.dumps(page)) == [json.loads(wire.dumps(one)) for one in page]


@pytest.mark.parametrize("kind", [TextDelta, ReasoningDelta])
@given(st.text(st.characters(codec=None), max_size=20))
def test_words_that_are_told_are_written_as_any_other_value_is(
    kind: type[TextDelta] | type[ReasoningDelta], text: str
) -> None:
    told = Told("3.5.ab/1", kind(text=text))
    assert wire.dumps(told) == msgspec.json.encode(wire.plain(told))


def test_a_page_with_a_damaged_event_is_refused_as_the_event_is() -> None:
    whole = Logged(1, 1, "a", "user", 0, 1, 1, 1, 1, b'{"kind":"user"}')
    for damaged in (b'{"kind":"user"', b'{"kind":"user"},{"kind":"user"}', b"\xff"):
        with pytest.raises(Corrupt):
            wire.dumps([whole, msgspec.structs.replace(whole, body=damaged)])


async def test_what_a_conversation_gives_comes_back(talk: Talk) -> None:
    await talk.append(user("Look.", image(b"GIF89a\x01\0\x02\0")), Other(kind="app.seen", data={"by": "ana"}))
    await talk.redact((await talk.append(user("secret")))[0].seq)
    for wanted, value in (
        (list[Logged], await talk.after()),
        (list[Turn], await talk.turns()),
        (list[Session], await talk.sessions()),
        (list[BranchTotals], await talk.branches()),
        (Remembered, await talk.remembered()),
        (Status, await talk.memory()),
        (dict[str, bytes], await talk.blobs(await talk.after())),
    ):
        assert _back(wanted, value) == value


async def test_a_context_comes_back_with_its_account(talk: Talk) -> None:
    await talk.append(user("What may I put into the cake?"))
    context = await talk.context(model="scripted:a", instructions="Be brief.")
    back = _back(Context, context)
    assert isinstance(back, FrozenContext)
    assert back.request == context.request
    assert back.explain() == context.explain()
    assert back.inputs == context.inputs
    public = [name for name in vars(context) if not name.startswith("_")]
    assert {name: getattr(back, name) for name in public} == {name: getattr(context, name) for name in public}
    assert _back(FrozenContext, back) == back
    rebuilt = _back(Rebuilt, Rebuilt(context, ("tools: changed",)))
    assert (rebuilt.context, rebuilt.differences) == (back, ("tools: changed",))


async def test_a_context_beyond_its_model_has_no_request(talk: Talk) -> None:
    await talk.append(user("a word " * 4_000))
    context = await talk.context(model="scripted:a", settings={"model_window": 2_000, "reply_tokens": 100})
    assert wire.plain(context)["request"] is None


# -- the contract ------------------------------------------------------------------------------------------


def test_a_time_is_iso_8601_with_a_z() -> None:
    began = datetime(2026, 1, 31, 9, 30, 0, 5, tzinfo=UTC)
    form = wire.plain(Conversation(tenant="t", id="c", user="ana", agent="a", began=began))
    assert (form["began"], form["erased"]) == ("2026-01-31T09:30:00.000005Z", None)


def test_keys_that_are_not_known_are_passed_over() -> None:
    """A newer service may say more."""
    form = {"kind": "user", "parts": [{"type": "text", "text": "hi", "bold": True}], "mood": "good"}
    assert wire.read(Event, form) == user("hi")
    assert wire.read(Usage, {"input": 5, "spoken": 7}) == Usage(input=5)


def test_an_event_of_a_kind_that_is_not_known_is_kept_whole() -> None:
    assert wire.read(Event, {"kind": "poll", "votes": [1]}) == Other(kind="poll", data={"votes": [1]})


def test_text_beyond_utf_8_is_readable_and_exact() -> None:
    form = wire.plain(TextDelta(text="half \ud83d a face"))
    assert form["text"] == "half \N{REPLACEMENT CHARACTER} a face"
    assert wire.read(TextDelta, form).text == "half \ud83d a face"
    assert wire.plain(TextDelta(text="nul \0"))["text"] == "nul \0"


@pytest.mark.parametrize("exact", ['{"kind": "text", "text": "secret \ud83d"}', "[1]", '"a"'])
def test_an_exact_form_that_says_something_else_is_refused(exact: str) -> None:
    """Who takes a text out of a form and leaves the exact one has not taken it out."""
    said = base64.b64encode(exact.encode("utf-8", "surrogatepass")).decode()
    with pytest.raises(BadValue, match="something else"):
        wire.read(TextDelta, {"kind": "text", "text": "[removed]", "wtf8": said})


def test_whole_numbers_of_any_size_come_back() -> None:
    event = Other(kind="app.big", data={"n": 10**40, "said": "\ud800"})
    assert _back(Event, event) == event


def test_secrets_of_mcp_servers_are_not_told() -> None:
    agent = Agent(name="a", mcp={"files": Server(command=("run",), env={"KEY": "s3cret"}, headers={"X": "s3cret"})})
    assert b"s3cret" not in wire.dumps(Versioned(agent, 1))
    assert wire.plain(agent)["mcp"]["files"]["env"] == {"KEY": "…"}


async def test_an_agent_that_has_lost_its_secrets_is_not_saved(et: Everthread) -> None:
    agent = Agent(name="a", mcp={"files": Server(command=("run",), env={"KEY": "s3cret"})})
    with pytest.raises(BadAgent, match="JSON form leaves out"):
        await et.agents.save("default", wire.read(Agent, wire.plain(agent)))


@pytest.mark.parametrize(
    ("wanted", "form", "said"),
    [
        (Hit, {"seq": 1}, "'text' is missing"),
        (Usage, {"input": "five"}, "int"),
        (Usage, [1, 2], "list in place of an object"),
        (Delta, {"kind": "song"}, "none of the kind 'song'"),
        (Done, {"kind": "text", "text": "a"}, "none of the kind 'text'"),
        (Event, {"parts": []}, "'kind'"),
        (User, {"kind": "user", "wtf8": "!"}, "wtf8|base64|character"),
        (Turn, None, "NoneType in place of an object"),
    ],
)
def test_what_is_no_form_is_refused_with_a_reason(wanted: Any, form: Any, said: str) -> None:
    with pytest.raises(BadValue, match=said):
        wire.read(wanted, form)


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(BadValue, match="JSON"):
        wire.loads(Usage, b"{")


def test_what_is_no_value_is_refused_with_advice(talk: Talk) -> None:
    with pytest.raises(BadValue, match="`conversation`"):
        wire.plain(talk)


def test_the_value_that_a_reply_gave_is_written_as_plain_data() -> None:
    class Invoice(pydantic.BaseModel):
        total: float
        due: datetime

    value = [Invoice(total=12.5, due=datetime(2026, 3, 1, tzinfo=UTC))]
    result = TurnResult("…", Done(state="idle", model="scripted:x", seq=3), value)
    assert wire.plain(result)["value"] == [{"total": 12.5, "due": "2026-03-01T00:00:00Z"}]
    assert wire.loads(TurnResult, wire.dumps(result)).value == wire.plain(result)["value"]


# -- nothing is left out -----------------------------------------------------------------------------------

HANDLES = {Talk, Everthread, Agents, Reply, Child, Line}  # things to act with, not values
ASKED_FOR = {"Context.parse"}  # which gives what `output` asked for, whatever that is


def test_all_that_verbs_return_has_a_form() -> None:
    left_out = []
    for cls in (Everthread, Talk, Agents, Context, Reply, Child, Conversation, Logged):
        for name, verb in inspect.getmembers(cls, inspect.isfunction):
            if name.startswith("_") or f"{cls.__name__}.{name}" in ASKED_FOR:
                continue
            returned = eval(verb.__annotations__["return"], verb.__globals__)  # as its module writes it
            left_out += [f"{cls.__name__}.{name}: {one}" for one in _classes(returned) if not _has_form(one)]
    assert left_out == []


def _classes(wanted: Any) -> list[type]:
    inner = typing.get_args(wanted)
    if inner and (typing.get_origin(wanted) in (typing.Union, UnionType) or typing.get_origin(wanted)):
        return [one for part in inner for one in _classes(part)]
    return [wanted] if isinstance(wanted, type) else []


def _has_form(cls: type) -> bool:
    simple = (str, int, float, bool, bytes, type(None), dict)
    return cls in simple or cls in HANDLES or issubclass(cls, Value) or any(issubclass(one, cls) for one in HANDLES)


def test_a_tombstone_says_what_it_was_and_no_more() -> None:
    assert wire.plain(Redacted(was="user")) == {"kind": "redacted", "was": "user"}


def test_the_page_about_json_shows_the_forms_as_they_are() -> None:
    assert forms.PAGE.read_text("utf-8") == forms.page(), "run `make reference`"


def test_the_tables_name_every_key_of_every_value() -> None:
    told = forms.tables()
    for name, wanted in TYPES.items():
        for cls in typing.get_args(wanted) or [wanted]:
            missing = [key for key in getattr(cls, "__struct_fields__", ()) if f"`{key}`" not in told and key != "data"]
            assert missing == [], name

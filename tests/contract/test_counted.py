"""The budget is a ceiling for what is sent: whenever the finished request has more tokens, the context says so.

What it has is counted anew, from the body, with OpenAI's own encoder (`benchmarks.counting`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.counting import true_tokens
from benchmarks.validator import refusals
from everthread import Everthread, GivenSettings, Talk, assistant, system, tool_call, tool_result, user
from everthread.app import TENANT
from everthread.context.build import Context
from everthread.core.events import Event, SettingsChanged, ToolCall
from everthread.core.ids import make_id
from everthread.core.parts import File, Image
from everthread.store.conversations import Owner
from everthread.transfer import export_lines, read_file
from tests.contract.test_seed_properties import Store
from tests.core.pictures import png
from tests.core.strategies import any_text, plain_json, storable
from tests.examples import examples
from tests.transcripts import CHAT, CLAUDE, FORMS

BUDGET = 8_000
ROOMY: GivenSettings = {"model_window": 4_000_000}  # so that what is over the budget can be looked at all the same
OLDER = "openai:gpt-4"  # another encoding, and no pictures
SCHEMA = {
    "type": "object",
    "properties": {"answer": {"type": "string", "description": "the answer, at length " * 3_000}},
}


def told(context: Context) -> int:
    return true_tokens(context.model, context.request, times=context.factor or 1.0)


def is_honest(context: Context) -> bool:
    """Whether its estimate is no less than what is sent, and it says when that is beyond the budget."""
    return told(context) <= context.estimate and bool(context.over_budget) == (context.estimate > context.budget)


LARGE: dict[str, list[Event]] = {
    "arguments that are no JSON": [ToolCall(id="1", name="run", arguments='say "no" \\ \n' * 1_500)],
    "arguments in numbers that grow": [tool_call("sum", '{"of": [' + "1e15," * 3_000 + "0]}")],
    "a message of many parts": [user(*["a"] * 5_000)],
    "a reply of many parts": [assistant(*["a"] * 5_000)],
    "a result of many parts": [tool_call("find", id="1"), tool_result(*["a"] * 5_000, id="1")],
    "pictures told in words": [user(*(Image(url=f"ftp://example.org/{n}/" + "x7%" * 150) for n in range(20)))],
    "a picture of an odd type": [user(Image(media_type="image/" + "x9-" * 8_000))],
    "a picture in its address": [user(Image(url="data:image/png;base64," + "iVBOR+/w0" * 3_000))],
    "a picture that is larger than it says": [user(*[Image(data=png(2_000, 2_000), width=1, height=1)] * 40)],
    "a file by its name": [user(File(name="n-8/" * 6_000))],
    "a file that is larger than it says": [user(File(data=b"12 34 " * 6_000, size=1, media_type="text/plain"))],
    "many instructions on the way": [user("Now."), *[system("Be kind.")] * 1_500],
    "many late results": [user("Now."), *[tool_result("ok", id="x") for _ in range(1_200)]],
    "many calls without a result": [user("Now."), *[tool_call("go", id=f"c{n}") for n in range(500)]],
    "many empty messages": [user("") for _ in range(2_000)],
}


@pytest.mark.parametrize("model", [*FORMS, OLDER])
@pytest.mark.parametrize("events", LARGE.values(), ids=LARGE.keys())
async def test_whatever_a_turn_holds_the_request_is_counted_as_it_is_sent(
    talk: Talk, model: str, events: list[Event]
) -> None:
    await talk.append(user("Before."), assistant("Yes."), *events)
    context = await talk.context(model=model, budget=BUDGET, settings=ROOMY)
    assert is_honest(context)
    assert refusals(model, context.request) == []


@pytest.mark.parametrize("model", FORMS)
async def test_older_turns_leave_for_what_the_form_of_the_request_adds(talk: Talk, model: str) -> None:
    """Not only is it told: what does not fit is not sent."""
    for n in range(40):
        await talk.append(
            user(*["a"] * 200), ToolCall(id=f"{n}", name="run", arguments='"\\\n' * 120), assistant("Done.")
        )
    await talk.append(user("And now?"))
    context = await talk.context(model=model, budget=BUDGET)
    assert is_honest(context)
    assert not context.over_budget
    assert context.estimate > BUDGET / 3


@pytest.mark.parametrize("model", FORMS)
async def test_the_schema_of_the_reply_counts(talk: Talk, model: str) -> None:
    await talk.append(user("Now."))
    context = await talk.context(model=model, budget=BUDGET, settings=ROOMY | {"output": json.dumps(SCHEMA)})
    assert is_honest(context)
    assert context.over_budget


@pytest.mark.parametrize("key", ["default", "pattern", "title", "examples", "$comment", "description", "const"])
@pytest.mark.parametrize("model", FORMS)
async def test_every_word_of_a_tools_schema_counts(talk: Talk, model: str, key: str) -> None:
    """Wherever it stands: in the schema, in a field, in the items of a list, beside a reference."""
    await talk.append(user("Now."))
    long: Any = ["word " * 2_000] if key == "examples" else "word " * 2_000
    places = {"a": {"type": "string", key: long}, "b": {"type": "array", "items": {"type": "integer", key: long}}}
    places["c"] = {"$ref": "#/$defs/C", key: long}
    tool = {"name": "find", "schema": {"type": "object", key: long, "properties": places, "$defs": {"C": {}}}}
    context = await talk.context(model=model, budget=BUDGET, tools=[tool], settings=ROOMY)
    assert is_honest(context)
    assert context.over_budget


@pytest.mark.parametrize("key", ["items", "prefixItems"])
@pytest.mark.parametrize("model", FORMS)
async def test_so_does_what_an_object_cannot_have(talk: Talk, model: str, key: str) -> None:
    await talk.append(user("Now."))
    long = {"type": "string", "description": "word " * 9_000}
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, key: [long] if key == "prefixItems" else long}
    context = await talk.context(model=model, budget=BUDGET, tools=[{"name": "f", "schema": schema}], settings=ROOMY)
    assert is_honest(context)
    assert context.over_budget


async def test_sizes_are_not_believed_from_a_file(et: Everthread, talk: Talk, tmp_path: Path, someone: str) -> None:
    await talk.append(user("long " * 100_000), assistant("Yes."), user("Now."))
    lines = [json.loads(line) async for line in export_lines(talk._log, talk.conversation)]
    path = tmp_path / "talk.jsonl"
    smaller = [line | {"tokens": 1, "settled": 1} if "tokens" in line else line for line in lines]
    path.write_text("\n".join(map(json.dumps, smaller)))
    (whole,) = read_file(path, Owner(TENANT, someone), agent="any")
    about = msgspec.structs.replace(whole.conversation, id=make_id(0, 1))
    await et.log.restore([msgspec.structs.replace(whole, conversation=about)])
    came = await et.conversation(user=someone, id=about.id)
    context = await came.context(model=CHAT, budget=BUDGET)
    assert is_honest(context)
    assert not context.over_budget


# -- whatever there is ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    opened = Store(f"sqlite:///{tmp_path_factory.mktemp('counted')}/talk.db")
    yield opened
    opened.close()


_often = st.lists(storable.filter(lambda event: not isinstance(event, SettingsChanged)), min_size=1, max_size=8)
_sayable = plain_json.filter(lambda value: json.dumps(value, ensure_ascii=False).isascii())
_tool = st.fixed_dictionaries(
    {"name": st.from_regex(r"[a-z]{1,12}", fullmatch=True)},
    optional={
        "description": any_text.filter(lambda text: text.isascii()),
        "schema": st.fixed_dictionaries(
            {"type": st.just("object")},
            optional={
                "description": st.text("ab \n", max_size=30),
                "default": _sayable,
            },
        ),
    },
)


@given(
    events=_often,
    times=st.sampled_from([1, 1, 30]),
    model=st.sampled_from([*FORMS, OLDER]),
    budget=st.sampled_from([60, 400, 2_000, 8_000]),
    tools=st.lists(_tool, max_size=2, unique_by=lambda tool: str(tool["name"])),
    output=st.booleans(),
)
@settings(max_examples=examples(150), deadline=None)
def test_the_estimate_is_never_below_what_is_sent(
    store: Store, events: list[Event], times: int, model: str, budget: int, tools: list[dict[str, Any]], output: bool
) -> None:
    talk = store.begin(events * times)
    chosen: GivenSettings = {"output": json.dumps({"type": "object", "title": "x y " * 40})} if output else {}
    context = store.do(talk.context(model=model, budget=budget, tools=tools, settings=ROOMY | chosen))
    assert is_honest(context)
    assert refusals(model, context.request) == []


@given(
    texts=st.lists(st.text(max_size=300), min_size=1, max_size=20),
    model=st.sampled_from([CLAUDE, CHAT, OLDER]),
)
@settings(max_examples=examples(100), deadline=None)
def test_the_estimate_of_what_is_said_is_close(store: Store, texts: list[str], model: str) -> None:
    """A few tokens for each message, and a few for the request."""
    events: list[Event] = [user(text) if place % 2 else assistant(text) for place, text in enumerate(texts)]
    context = store.do(store.begin(events).context(model=model, budget=0, settings=ROOMY | {"clock": "off"}))
    assert is_honest(context)
    assert context.estimate <= told(context) + (3 * len(texts) + 20) * max(1.0, context.factor)

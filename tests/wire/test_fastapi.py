"""What a verb returns can be returned from a handler of FastAPI as it is, and can be a field of a Pydantic model."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any

import pytest
from fastapi import Body, FastAPI
from fastapi.testclient import TestClient
from pydantic import BaseModel, TypeAdapter, ValidationError

from everthread import Everthread, Talk, assistant, user, wire
from everthread.context.build import Context
from everthread.core.deltas import Delta, Done, TextDelta
from everthread.core.events import Event, Other, Redacted
from everthread.core.logged import Logged
from everthread.memory.status import Status
from everthread.store.conversations import BranchTotals, Conversation, Totals
from everthread.store.recall.hits import Hit

WALNUTS = "My son is allergic to walnuts."


@pytest.fixture
async def talk(tmp_path: Path) -> AsyncIterator[Talk]:
    async with Everthread.open(f"sqlite:///{tmp_path}/talk.db", settings={"worker": "apart"}) as et:
        talk = await et.conversation(user="ana")
        await talk.append(user(WALNUTS), assistant("Noted."), Other(kind="app.seen", data={"by": "ana"}))
        yield talk


async def _values(talk: Talk) -> dict[str, tuple[Any, Any]]:
    """By name a type, and something of it that a verb returned."""
    page = await talk.after()
    await talk.redact(2)
    return {
        "logged": (Logged, page[0]),
        "page": (list[Logged], page),
        "redacted": (Logged, (await talk.after(1))[0]),
        "event": (Event, page[2].event),
        "hits": (list[Hit], await talk.recall("walnuts")),
        "by_name": (dict[str, Hit], {"first": (await talk.recall("walnuts"))[0]}),
        "conversation": (Conversation, talk.conversation),
        "totals": (Totals, await talk.totals()),
        "branches": (list[BranchTotals], await talk.branches()),
        "memory": (Status, await talk.memory()),
        "context": (Context, await talk.context(model="scripted:a")),
        "heard": (list[Logged | Delta], [page[0], TextDelta(text="No"), Done(state="idle", model="m", seq=2)]),
        "nothing": (Conversation | None, None),
        "beyond": (Logged, (await talk.append(user("half \ud83d a face, \0")))[0]),
    }


NAMES = ["logged", "page", "redacted", "event", "hits", "by_name", "conversation", "totals", "branches", "memory"]
NAMES += ["context", "heard", "nothing", "beyond"]


@pytest.mark.parametrize("typed", [True, False, None], ids=["return type", "no return type", "response_model"])
@pytest.mark.parametrize("name", NAMES)
async def test_a_handler_returns_what_a_verb_returned(talk: Talk, name: str, typed: bool | None) -> None:
    wanted, value = (await _values(talk))[name]
    app = FastAPI()

    async def handler():  # type: ignore[no-untyped-def]
        return value

    if typed:
        handler.__annotations__["return"] = wanted
    app.get("/", response_model=wanted)(handler) if typed is None else app.get("/")(handler)
    answer = TestClient(app).get("/")
    assert answer.status_code == 200
    assert answer.json() == wire.plain(value)
    assert answer.content.decode("utf-8")
    back = wire.loads(wanted, answer.content)
    assert wire.plain(back) == wire.plain(value)
    if name != "context":
        assert back == value


@pytest.mark.parametrize("wanted", [dict[str, Any], dict[str, object], Any, dict, None], ids=str)
async def test_a_handler_puts_values_into_an_answer_of_its_own(talk: Talk, wanted: Any) -> None:
    app, page = FastAPI(), await talk.tail()
    answer = {"about": talk.conversation, "page": page, "more": {"totals": await talk.totals()}, "odd": user("\ud83d")}
    app.get("/", response_model=wanted)(lambda: answer)
    got = TestClient(app).get("/")
    assert got.status_code == 200
    assert got.json() == wire.plain(answer)


class Free(BaseModel):
    anything: Any


async def test_a_pydantic_model_writes_values_that_it_was_not_told_of(talk: Talk) -> None:
    page = await talk.tail()
    assert json.loads(Free(anything=page).model_dump_json()) == {"anything": wire.plain(page)}
    assert Free(anything=page[0]).model_dump() == {"anything": page[0]}


async def test_openapi_describes_each_value_once_under_its_name(talk: Talk) -> None:
    app = FastAPI()
    app.get("/one", response_model=Logged)(lambda: None)
    app.get("/page", response_model=list[Logged])(lambda: None)
    app.get("/hits", response_model=list[Hit])(lambda: None)

    @app.post("/")
    async def take(sent: Annotated[Logged, Body()]) -> Answer:
        raise NotImplementedError

    page = app.openapi()
    one = page["paths"]["/one"]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    many = page["paths"]["/page"]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    sent = page["paths"]["/"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert one == many["items"] == {"$ref": "#/components/schemas/Logged"}
    assert sent["$ref"] == "#/components/schemas/Logged"
    assert {"Logged", "Hit", "Answer"} <= set(page["components"]["schemas"])
    assert page["components"]["schemas"]["Logged"]["properties"]["seq"] == {"type": "integer"}
    assert len(json.dumps(page)) < 3 * len(json.dumps(wire.schema_of(Logged)))


async def test_openapi_tells_the_fields(talk: Talk) -> None:
    app = FastAPI()
    for name, (wanted, _) in (await _values(talk)).items():
        app.get(f"/{name}", response_model=wanted)(lambda: None)
    page = json.loads(json.dumps(app.openapi()))
    said = page["paths"]["/hits"]["get"]["responses"]["200"]["content"]["application/json"]["schema"]["items"]
    said = page["components"]["schemas"]["Hit"] if "$ref" in said else said
    assert said["properties"]["time"] == {"type": "string", "format": "date-time"}
    assert said["properties"]["neighbours"]["items"]["properties"]["seq"] == {"type": "integer"}
    assert TestClient(app).get("/openapi.json").status_code == 200


class Answer(BaseModel):
    hit: Hit
    heard: list[Logged | Delta] = []
    event: Event | None = None


async def test_a_pydantic_model_has_fields_of_these_types(talk: Talk) -> None:
    hit, page = (await talk.recall("walnuts"))[0], await talk.after()
    answer = Answer(hit=hit, heard=[page[0], TextDelta(text="No")], event=page[2].event)
    assert answer.hit is hit
    assert json.loads(answer.model_dump_json())["hit"] == wire.plain(hit)
    assert Answer.model_validate_json(answer.model_dump_json()) == answer
    schema = Answer.model_json_schema()
    assert schema["properties"]["hit"] == {"$ref": "#/$defs/Hit"}
    assert schema["$defs"]["Hit"]["title"] == "Hit"
    with pytest.raises(ValidationError, match="'text' is missing"):
        Answer.model_validate({"hit": {"seq": 1}})
    with pytest.raises(ValidationError, match="in place of an object"):
        TypeAdapter(Redacted).validate_python(7)


async def test_what_a_client_sends_becomes_a_value(talk: Talk) -> None:
    app, heard = FastAPI(), list[Event]()

    @app.post("/")
    async def take(event: Annotated[Event, Body()]) -> int:
        heard.append(event)
        return len(heard)

    client = TestClient(app)
    assert client.post("/", json=wire.plain(user("hi"))).json() == 1
    assert heard == [user("hi")]
    for body, said in BAD.items():
        refused = client.post("/", content=body, headers={"content-type": "application/json"})
        assert refused.status_code == 422
        (one,) = refused.json()["detail"]  # and not one for each kind of event
        assert said in one["msg"]
        assert one["loc"] == ["body"]


AS_WRITTEN = "must be as everthread.wire writes it"
BAD = {
    '{"kind": "user", "parts": 3}': "the form of an event of the kind 'user' is",
    '{"kind": "pin"}': f"an event of the kind 'pin' is {{'kind': 'pin'}}, but {AS_WRITTEN} ('turn' is missing)",
    '{"no": "kind"}': f"the form of an event is {{'no': 'kind'}}, but {AS_WRITTEN} ('kind' is missing)",
    "7": f"the form of an event is 7, but {AS_WRITTEN} (int in place of an object)",
    '{"kind": "No Kind"}': "kind is 'No Kind', but must be a lower-case name",
    '{"kind": 4}': "of the kind 4",
}


def test_neither_pydantic_nor_fastapi_is_imported_unasked() -> None:
    code = (
        "import sys, everthread; from everthread import Everthread, Talk, wire, user; wire.dumps(user('hi')); "
        "print([name for name in ('pydantic', 'pydantic_core', 'fastapi') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


async def test_a_redacted_event_leaves_nothing_in_its_form(talk: Talk) -> None:
    """Forgotten means gone: a form is made of what the log holds at that moment."""
    await talk.redact(1)
    form = wire.dumps([await talk.after(), await talk.recall("walnuts"), await talk.context(model="scripted:a")])
    assert b"walnuts" not in form
    assert b'"kind":"redacted"' in form

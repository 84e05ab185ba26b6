"""Listening over HTTP: a connection that is lost again and again loses nothing, and nothing is told twice."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, NamedTuple

from everthread.testing import scripted
from tests.server.serving import Person, Served, asked
from tests.waiting import PATIENCE

WORDS = " ".join(f"word{number}" for number in range(40))


class Heard(NamedTuple):
    name: str
    data: Any
    id: str = ""


async def stream(
    served: Served, method: str, path: str, who: Person, *, last: str = "", body: Any = None
) -> AsyncIterator[Heard]:
    """The events of a stream."""
    headers = {**who.bearer, "accept": "text/event-stream"} | ({"last-event-id": last} if last else {})
    found = dict[str, str]()
    async with (
        asyncio.timeout(PATIENCE),
        served.http.stream(method, path, headers=headers, json=body, timeout=PATIENCE) as answer,
    ):
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        async for line in answer.aiter_lines():
            name, _, value = line.partition(": ")
            if line and name:
                found[name] = value
            elif found:
                yield Heard(found["event"], json.loads(found["data"]), found.get("id", ""))
                found = {}


async def test_a_listener_that_comes_back_in_the_middle_of_a_reply_hears_everything_once(served: Served) -> None:
    scripted.script("served", WORDS, pace=0.01)
    ana = served.people["ana"]
    id = await served.begin(ana)
    said = await served.http.post(f"/api/conversations/{id}/say", json={"pieces": ["Go on."]}, headers=ana.bearer)
    assert said.status_code == 202
    assert said.json()["text"] == "Go on."
    items, last, over = list[Any](), "", False
    while not over:
        async with aclosing(stream(served, "GET", f"/api/conversations/{id}/listen", ana, last=last)) as heard:  # type: ignore[type-var]
            count = 0
            async for one in heard:
                if one.name != "told":
                    assert one.name == "snapshot"
                    continue
                items.append(one.data["item"])
                last, count = one.id, count + 1
                over = items[-1]["kind"] == "done"
                if over or count == 5:
                    break
    events = [one for one in items if "event" in one]
    assert [one["kind"] for one in events] == ["user", "assistant", "model_call"]
    assert events[1]["text"] == WORDS
    told = "".join(one["text"] for one in items if one["kind"] == "text")
    assert WORDS.startswith(told)
    assert len(told) > 0


async def test_a_turn_streams_its_own_deltas_to_who_asks_for_them(served: Served) -> None:
    scripted.script("served", WORDS)
    ana = served.people["ana"]
    path = f"/api/conversations/{await served.begin(ana)}/say"
    heard = [one async for one in stream(served, "POST", path, ana, body={"pieces": ["Go on."]})]
    assert [heard[0].name, heard[0].data["text"]] == ["accepted", "Go on."]
    deltas = [one.data for one in heard[1:]]
    assert "".join(one["text"] for one in deltas if one["kind"] == "text") == WORDS
    assert (deltas[-1]["kind"], deltas[-1]["state"]) == ("done", "idle")


async def test_what_went_wrong_with_a_turn_is_told_as_a_problem_and_never_as_words(served: Served) -> None:
    ana = served.people["ana"]
    path = f"/api/conversations/{await served.begin(ana)}/say"
    body = {"pieces": ["Hello?"], "model": "anthropic:claude-sonnet-4-6"}
    heard = [one async for one in stream(served, "POST", path, ana, body=body)]
    assert heard[-1].name == "problem"
    assert heard[-1].data["type"] == "urn:everthread:NoKey"
    assert not [one for one in heard if one.name == "delta" and one.data["kind"] == "text"]


async def test_a_message_that_is_not_taken_is_answered_with_the_reason(served: Served) -> None:
    ana = served.people["ana"]
    path = f"/api/conversations/{await served.begin(ana)}/say"
    first = await served.http.post(path, json={"pieces": ["One."], "key": "a"}, headers=ana.bearer)
    again = await served.http.post(path, json={"pieces": ["One."], "key": "a"}, headers=ana.bearer)
    other = await served.http.post(path, json={"pieces": ["Two."], "key": "a"}, headers=ana.bearer)
    assert [first.status_code, again.status_code, other.status_code] == [202, 202, 409]
    assert again.json() == first.json()
    assert other.json()["type"] == "urn:everthread:KeyReused"


async def test_the_snapshot_has_the_canvas_and_later_changes_come_as_events(served: Served) -> None:
    ana = served.people["ana"]
    id = await served.begin(ana, "Hello.")
    put = {"do": "put", "element": {"type": "card", "id": "hotel", "title": "Hotel"}}
    await served.http.post(f"/api/conversations/{id}/canvas", json={"changes": [put]}, headers=ana.bearer)
    path = f"/api/conversations/{id}/listen?after=2"
    async with aclosing(stream(served, "GET", path, ana)) as heard:  # type: ignore[type-var]
        first = await anext(heard)
        assert first.name == "snapshot"
        assert first.data["seq"] == 2
        assert first.data["canvas"]["shown"][0]["element"]["id"] == "hotel"
        await served.http.post(
            f"/api/conversations/{id}/canvas", json={"changes": [{"do": "remove", "id": "hotel"}]}, headers=ana.bearer
        )
        second = await anext(heard)
        assert (second.data["item"]["kind"], second.data["item"]["seq"]) == ("canvas", 3)


WRONG: dict[str | bytes, tuple[int, str]] = {
    "garbage": (400, "a message is a JSON object in text"),
    "[1]": (400, "a message is a JSON object in text"),
    b"{}": (400, "a message is a JSON object in text"),
    '{"verb": "tail", "verb": "tail"}': (400, "a name stands in an object twice"),
    '{"id": 1}': (422, "verb is None, but must be 'open', or a verb of a conversation: 'look', 'before'"),
    '{"verb": "listen"}': (422, "verb is 'listen', but must be 'open', or a verb of a conversation"),
    '{"verb": "mark"}': (422, "name is None, but must be given in the arguments"),
    '{"verb": "mark", "arguments": [1]}': (400, "the arguments of a verb are a JSON object"),
}


async def test_what_a_socket_cannot_understand_says_what_is_wrong_and_what_to_send(served: Served) -> None:
    ana = served.people["ana"]
    id = await served.begin(ana)
    async with asyncio.timeout(PATIENCE), served.socket(f"/api/conversations/{id}/live", ana.bearer) as socket:
        for sent, expected in WRONG.items():
            await socket.send(sent)
            while (told := json.loads(await socket.recv()))["kind"] != "problem":
                pass
            assert (told["problem"]["status"], expected[1] in told["problem"]["detail"]) == (expected[0], True), told


async def test_a_socket_opens_conversations_one_after_another_and_acts_in_the_one_that_is_open(served: Served) -> None:
    scripted.script("served", WORDS)
    ana = served.people["ana"]
    first, second = await served.begin(ana, "one"), await served.begin(ana, "two")
    async with asyncio.timeout(PATIENCE), served.socket(f"/api/conversations/{first}/live", ana.bearer) as socket:
        opened = json.loads(await socket.recv())
        assert (opened["kind"], opened["conversation"]["id"]) == ("opened", first)
        assert json.loads(await socket.recv())["item"]["text"] == "one"
        opened = await asked(socket, "open", {"conversation": second, "after": 1})
        assert opened["conversation"]["id"] == second
        said = await asked(socket, "say", {"pieces": ["Go on."]}, id=7)
        assert said["value"]["text"] == "Go on."
        kinds, text = list[str](), ""
        while "done" not in kinds:
            told = json.loads(await socket.recv())
            if told["kind"] == "told":
                kinds.append(told["item"]["kind"])
                text += told["item"]["text"] if kinds[-1] == "text" else ""
        assert text == WORDS
        refused = await asked(socket, "pin", {"seq": 99}, id=8)
        assert (refused["kind"], refused["problem"]["status"]) == ("problem", 404)
    told = await served.http.get(f"/api/conversations/{first}/totals", headers=ana.bearer)
    assert told.json()["events"] == 1  # nothing was said there

"""How much a caller may ask for: beyond that 429, which says when to come back."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from everthread import errors
from everthread.core.events import ModelCall
from everthread.problems import status_of
from everthread.server.limits import Allowance
from everthread.testing import scripted
from tests.server.serving import Person, Served, asked, serving
from tests.waiting import until

HERE = "/api/conversations"


def _limited(tmp_path: Path, **most: int) -> Any:
    return serving(f"sqlite:///{tmp_path}/limited.db", "here", allowance=Allowance(**{"requests": 0, **most}))


def _refused(answer: httpx2.Response) -> None:
    assert answer.status_code == 429, answer.text
    assert int(answer.headers["retry-after"]) >= 1
    assert answer.json()["type"] == "urn:everthread:TooMany"


async def test_too_many_requests(tmp_path: Path) -> None:
    """By a key and by a page, counted together, or many keys would be many times as much; another user is not held
    up."""
    async with _limited(tmp_path, requests=20) as site:
        ana, bob = await site.join("ana"), await site.join("bob")
        answers = [await site.http.get("/api/me", headers=ana.bearer) for _ in range(25)]
        assert answers[0].status_code == 200
        for headers in (ana.bearer, ana.page):
            _refused(await site.http.get("/api/me", headers=headers))
        assert (await site.http.get("/api/me", headers=bob.bearer)).status_code == 200
        async with site.socket("/api/live", ana.bearer) as socket:
            await socket.wait_closed()
            assert socket.close_code == 1013


async def test_too_many_messages_of_a_socket(tmp_path: Path) -> None:
    """They are refused one by one, and the socket stays."""
    async with _limited(tmp_path, requests=40) as site:
        ana = await site.join("ana")
        async with site.socket("/api/live", ana.bearer) as socket:
            for number in range(60):
                await socket.send(json.dumps({"id": number, "verb": "tail"}))
            told = [json.loads(await socket.recv()) for _ in range(60)]
            assert {one["problem"]["status"] for one in told} == {400, 429}
            assert sorted(one["id"] for one in told) == list(range(60))


async def test_too_many_connections(tmp_path: Path) -> None:
    """Streams and sockets together; one that ends makes room."""
    async with _limited(tmp_path, connections=2) as site:
        ana = await site.join("ana")
        id = await site.begin(ana, "Hello.")
        listen = f"{HERE}/{id}/listen"
        async with site.socket("/api/live", ana.bearer) as first:
            async with site.http.stream("GET", listen, headers=ana.bearer) as stream:
                assert stream.status_code == 200
                _refused(await site.http.get(listen, headers=ana.bearer))
                streamed = {**ana.bearer, "accept": "text/event-stream"}
                _refused(await site.http.post(f"{HERE}/{id}/say", json={"pieces": ["Hi."]}, headers=streamed))
                async with site.socket("/api/live", ana.bearer) as another:
                    await another.wait_closed()
                    assert another.close_code == 1013
            assert (await asked(first, "tail"))["problem"]["status"] == 400  # it is still there
            await until(lambda: _connections(site) == 1)
            async with site.http.stream("GET", listen, headers=ana.bearer) as stream:
                assert stream.status_code == 200
        await until(lambda: _connections(site) == 0)


def _connections(site: Served) -> int:
    return sum(site.service.meter._connections.values())


async def test_too_many_turns_at_once(tmp_path: Path) -> None:
    async with _limited(tmp_path, turns=2) as site:
        ana = await site.join("ana")
        scripted.script("served", *["word " * 500] * 3, pace=0.1)
        ids = [await site.begin(ana) for _ in range(3)]
        for id in ids[:2]:
            assert (await _say(site, ana, id)).status_code == 202
        _refused(await _say(site, ana, ids[2]))
        await site.http.post(f"{HERE}/{ids[0]}/stop", json={}, headers=ana.bearer)
        await until(lambda: sum(site.service.meter._turns.values()) == 1)
        assert (await _say(site, ana, ids[2])).status_code == 202
        for id in ids[1:]:
            await site.http.post(f"{HERE}/{id}/stop", json={}, headers=ana.bearer)


async def test_too_many_tokens_a_day(tmp_path: Path) -> None:
    """Of all that a user's model calls took, by turns or children, whoever asks for them."""
    async with _limited(tmp_path, tokens=1_000) as site:
        ana, bob = await site.join("ana"), await site.join("bob")
        id = await site.begin(ana, "Hello.")
        talk = await site.service.et.conversation(user="ana", tenant="here", id=id)
        await talk.append(ModelCall(model="scripted:served", at=1, input=900, output=200))
        _refused(await _say(site, ana, id))
        _refused(await site.http.post(f"{HERE}/{id}/children", json={"task": "x"}, headers=ana.bearer))
        assert (await _say(site, bob, await site.begin(bob))).status_code == 202
        async with site.socket(f"{HERE}/{id}/live", ana.bearer) as socket:
            await socket.recv()
            assert (await asked(socket, "say", {"pieces": ["Hi."]}))["problem"]["status"] == 429


@pytest.mark.parametrize(("name", "value"), [("at_once", 1_000), ("depth", 50)])
async def test_a_caller_raises_no_bound_of_children(tmp_path: Path, name: str, value: int) -> None:
    async with _limited(tmp_path) as site:
        ana = await site.join("ana")
        id = await site.begin(ana, "Hello.")
        answer = await site.http.post(f"{HERE}/{id}/children", json={"task": "x", name: value}, headers=ana.bearer)
        assert answer.status_code == 422, answer.text


async def test_who_guesses_passwords_has_to_wait(tmp_path: Path) -> None:
    async with _limited(tmp_path) as site:
        await site.join("ana")
        wrong = {"user": "ana", "password": "not this one either", "tenant": "here"}
        answers = [await site.http.post("/api/sign-in", json=wrong) for _ in range(8)]
        assert answers[0].status_code == 401
        assert answers[-1].status_code == 429
        assert int(answers[-1].headers["retry-after"]) >= 1


def test_every_error_of_ours_has_a_status_that_says_whose_fault_it_is() -> None:
    """500 is for faults of the service; what never reaches a caller has none."""
    every = [one for one in vars(errors).values() if inspect.isclass(one) and issubclass(one, errors.EverthreadError)]
    faults = {one.__name__ for one in every if status_of(one.__new__(one)) == 500}
    assert faults == {"EverthreadError", "Corrupt", "CannotStart", "ServiceUnreachable"}


async def _say(site: Served, person: Person, id: str) -> httpx2.Response:
    return await site.http.post(f"{HERE}/{id}/say", json={"pieces": ["Go."]}, headers=person.bearer)

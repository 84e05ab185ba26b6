"""A process of the service that is told to end: it takes nothing new, tells who listens, and ends its turns well."""

from __future__ import annotations

import asyncio
import json
import signal
from typing import Any

import httpx2
import pytest

from everthread import Everthread
from everthread.server.serve import listening_socket
from tests.server.processes import Gated, begun, client_of, key_for, options, process
from tests.waiting import until

SAID = "One two three four five six seven eight nine ten."


async def _said(client: httpx2.AsyncClient, id: str, text: str = "Count.", **more: Any) -> httpx2.Response:
    return await client.post(f"/api/conversations/{id}/say", json={"pieces": [text], **more})


async def _texts(address: str, id: str) -> list[tuple[str, str]]:
    async with Everthread.open(address) as et:
        talk = await et.conversation(user="ana", id=id)
        return [
            (one.kind, one.text) for one in await talk.after(0) if one.kind in ("user", "assistant", "agent_killed")
        ]


async def test_a_turn_that_can_finish_in_time_does(fresh_address: str) -> None:
    key = await key_for(fresh_address)
    async with Gated(SAID) as provider, process(options(fresh_address, settings={"address": provider.address})) as one:
        async with client_of(one.url, key) as client:
            id = await begun(client)
            answer = await _said(client, id)
            assert answer.status_code == 202, answer.text
            await provider.begun.wait()
            one.tell(signal.SIGTERM)
            await until(lambda: _refuses(one.url))
        provider.let_go.set()
        assert await one.ended() == 0
    assert await _texts(fresh_address, id) == [("user", "Count."), ("assistant", SAID)]
    assert await _leases(fresh_address) == []


async def test_a_turn_that_cannot_is_interrupted_and_what_had_come_is_kept(fresh_address: str) -> None:
    key = await key_for(fresh_address)
    async with Gated(SAID) as provider:
        made = options(fresh_address, settings={"address": provider.address}, drain=1.5)
        async with process(made) as one:
            async with client_of(one.url, key) as client:
                id = await begun(client)
                await _said(client, id)
                await provider.begun.wait()
                one.tell(signal.SIGTERM)
                one.tell(signal.SIGTERM)  # twice is no more than once
            assert await one.ended() == 0
    [asked, came, killed] = await _texts(fresh_address, id)
    assert asked == ("user", "Count.")
    assert came[0] == "assistant"
    assert SAID.startswith(came[1])
    assert len(came[1]) > 5
    assert killed[0] == "agent_killed"
    assert await _leases(fresh_address) == []


async def test_who_listens_is_told_to_come_back(fresh_address: str) -> None:
    key = await key_for(fresh_address)
    async with process(options(fresh_address)) as one, client_of(one.url, key) as client:
        id = await begun(client)
        told: list[str] = []
        async with client.stream("GET", f"/api/conversations/{id}/listen") as stream:
            async for line in stream.aiter_lines():
                if line.startswith("event: "):
                    told.append(line.removeprefix("event: "))
                    if told == ["snapshot"]:
                        one.tell(signal.SIGTERM)
        assert told == ["snapshot", "reconnect"]
        assert await one.ended() == 0


async def test_a_connection_that_is_kept_open_is_refused_or_closed(fresh_address: str) -> None:
    """A turn runs on, so the process does; it answers nothing but what watches over it, or closes the connection."""
    key = await key_for(fresh_address)
    async with Gated(SAID) as provider, process(options(fresh_address, settings={"address": provider.address})) as one:
        async with client_of(one.url, key) as client:
            id = await begun(client)
            await _said(client, id)
            await provider.begun.wait()
            one.tell(signal.SIGTERM)
            refused = None
            while refused is None:
                try:
                    answer = await client.get("/api/conversations")
                except httpx2.HTTPError:
                    break
                if answer.status_code != 200:
                    refused = answer
            if refused is not None:
                assert refused.status_code == 503
                assert refused.headers["retry-after"] == "1"
                assert refused.json()["type"].endswith("GoingAway")
        provider.let_go.set()
        assert await one.ended() == 0


async def test_what_cannot_be_answered_in_time_is_refused_as_what_comes_later_is(fresh_address: str) -> None:
    """A message that waits for a turn that is under way, and is not written down yet."""
    key = await key_for(fresh_address)
    async with Gated(SAID) as provider, process(options(fresh_address, settings={"address": provider.address})) as one:
        async with client_of(one.url, key) as client:
            id = await begun(client)
            await _said(client, id)
            await provider.begun.wait()
            waiting = asyncio.create_task(_said(client, id, "And then?"))
            await until(lambda: _is_asked(one.url))
            one.tell(signal.SIGTERM)
            answer = await waiting
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
            assert answer.json()["type"].endswith("GoingAway")
        provider.let_go.set()
        assert await one.ended() == 0


async def test_told_to_end_while_it_starts_it_ends(fresh_address: str) -> None:
    async with process(options(fresh_address), wait=False) as one:
        one.tell(signal.SIGTERM)
        assert await one.ended() == 0


async def test_told_twice_by_ctrl_c_turns_are_interrupted_at_once(fresh_address: str) -> None:
    key = await key_for(fresh_address)
    async with Gated(SAID) as provider, process(options(fresh_address, settings={"address": provider.address})) as one:
        async with client_of(one.url, key) as client:
            id = await begun(client)
            await _said(client, id)
            await provider.begun.wait()
            one.tell(signal.SIGINT)
            await until(lambda: _refuses(one.url))
            one.tell(signal.SIGINT)
        assert await one.ended() == 0
    assert [kind for kind, _ in await _texts(fresh_address, id)][-1] == "agent_killed"


@pytest.mark.parametrize("engine", ["postgres"])
async def test_a_process_that_is_killed_leaves_its_turn_to_another_though_nobody_listens(
    fresh_address: str, engine: str
) -> None:
    key = await key_for(fresh_address)
    async with Gated(SAID) as provider:
        made = options(fresh_address, settings={"address": provider.address})
        async with process(made) as other, process(made) as one:
            async with client_of(one.url, key) as client:
                id = await begun(client)
                await _said(client, id)
                await provider.begun.wait()
                await until(lambda: _is_kept(fresh_address))
            one.tell(signal.SIGKILL)
            async with client_of(other.url, key) as client:
                await until(lambda: _is_closed(client, id))
            figures = await _figures(other.url)
            assert figures["everthread_takeovers_total"] == 1
    [_, came, _] = await _texts(fresh_address, id)
    assert SAID.startswith(came[1])
    assert len(came[1]) > 5


async def _is_closed(client: httpx2.AsyncClient, id: str) -> bool:
    answer = await client.get(f"/api/conversations/{id}/after", params={"seq": 0})
    assert answer.status_code == 200, answer.text
    return "agent_killed" in [one["event"]["kind"] for one in answer.json()]


async def _figures(url: str) -> dict[str, float]:
    async with httpx2.AsyncClient() as client:
        lines = (await client.get(f"{url}/metrics")).text.splitlines()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}


async def _refuses(url: str) -> bool:
    async with httpx2.AsyncClient() as client:
        try:
            return (await client.get(f"{url}/ready")).status_code == 503
        except httpx2.HTTPError:
            return True


async def _is_asked(url: str) -> bool:
    return (await _figures(url))["everthread_turns_running"] == 2


async def _leases(address: str) -> list[Any]:
    async with Everthread.open(address) as et:
        return [*await et.log.leases.all_turns(), *await et.log.leases.named("*", "process/")]


async def _is_kept(address: str) -> bool:
    async with Everthread.open(address) as et:
        for one in await et.log.leases.all_turns():
            kept = await et.log.leases.partial(one.tenant, f"turn/{one.conversation}/{one.branch}")
            if kept and kept.text:
                return "two" in json.dumps(kept.text)
    return False


async def test_before_a_process_serves_connections_are_refused_and_not_kept_waiting() -> None:
    """A balancer goes on to the next process then; in a queue, requests would wait for one that is still starting."""
    with listening_socket(options("sqlite:///:memory:")) as at:
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*at.getsockname())
        with pytest.raises(OSError, match="in use"):
            listening_socket(options("sqlite:///:memory:", port=at.getsockname()[1]))

"""Figures for Prometheus: what is counted, who may ask, and that nobody is named in them."""

from __future__ import annotations

import asyncio

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.loopback.http import Fault
from benchmarks.loopback.openai import OpenAIServer
from everthread.core.accounts import Scope, operator
from everthread.server.app import application
from everthread.server.serve import opened
from tests.server.processes import begun, here, key_for, options
from tests.waiting import until


def _figures(text: str) -> dict[str, float]:
    return {
        f"{sample.name}{sorted(sample.labels.items())}": sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.fixture
def address(engine: str, fresh_address: str) -> str:
    return fresh_address


async def test_requests_turns_models_and_tokens_are_counted_and_nobody_is_named(
    address: str, provider: OpenAIServer
) -> None:
    key = await key_for(address)
    provider.script.add(["Good morning."])
    made = options(address, settings={"address": provider.address, "retries": 0})
    async with opened(made) as service, here(application(service), key, user="ana-the-user") as client:
        id = await begun(client)
        answer = await client.post(f"/api/conversations/{id}/say", json={"pieces": ["Hello!"]})
        assert answer.status_code == 202
        await service.et.idle()
        provider.faults.append(Fault(hang_up=True))
        await client.post(f"/api/conversations/{id}/say", json={"pieces": ["Again!"]})
        await service.et.idle()
        await client.get("/api/nothing")
        text = (await client.get("/metrics")).text
    found = _figures(text)
    say = "[('method', 'POST'), ('route', '/api/conversations/{conversation}/say'), ('status', '202')]"
    assert found[f"everthread_requests_total{say}"] == 2
    assert found["everthread_requests_total[('method', 'GET'), ('route', 'unmatched'), ('status', '404')]"] == 1
    assert found["everthread_turns_total[('outcome', 'finished')]"] == 1
    assert found["everthread_turns_total[('outcome', 'failed')]"] == 1
    assert found["everthread_turns_running[]"] == 0
    assert found["everthread_model_calls_total[('model', 'openai:gpt-4o'), ('outcome', 'finished')]"] == 1
    assert found["everthread_tokens_total[('kind', 'output'), ('model', 'openai:gpt-4o')]"] > 0
    assert found["everthread_deltas_total[]"] > 1
    assert any(name.startswith("everthread_build_info") for name in found)
    assert id not in text
    assert "ana-the-user" not in text
    assert "morning" not in text


async def test_what_is_open_is_counted_while_it_is(address: str) -> None:
    key = await key_for(address)
    async with opened(options(address)) as service:
        app = application(service)
        async with here(app, key) as client:
            id = await begun(client)
            listening = asyncio.create_task(client.get(f"/api/conversations/{id}/listen"))
            await until(lambda: service.metrics.streams._value.get() == 1)
            service.leave()
            await listening
            assert service.metrics.streams._value.get() == 0


async def test_a_models_name_that_was_made_up_is_no_label(address: str, provider: OpenAIServer) -> None:
    key = await key_for(address)
    async with (
        opened(options(address, settings={"address": provider.address})) as service,
        here(application(service), key) as client,
    ):
        id = await begun(client)
        body = {"pieces": ["Hello!"], "model": "openai:made-up-4711"}
        await client.post(f"/api/conversations/{id}/say", json=body)
        await service.et.idle()
        text = (await client.get("/metrics")).text
    assert "4711" not in text
    assert 'model="openai:other"' in text


@pytest.mark.parametrize(
    ("client", "headers", "status"),
    [
        (("127.0.0.1", 1), {}, 200),
        (("::1", 1), {}, 200),
        (("127.0.0.1", 1), {"x-forwarded-for": "203.0.113.9"}, 401),
        (("203.0.113.9", 1), {}, 401),
        (("203.0.113.9", 1), {"key": "user"}, 403),
        (("203.0.113.9", 1), {"key": "administrator"}, 200),
    ],
    ids=["here", "here by IPv6", "by a proxy", "elsewhere", "elsewhere with a user's key", "with an administrator's"],
)
async def test_who_may_ask(client: tuple[str, int], headers: dict[str, str], status: int, tmp_path: object) -> None:
    async with opened(options(f"sqlite:///{tmp_path}/a.db")) as service:
        if kind := headers.pop("key", ""):
            scopes: list[Scope] = ["read", "admin"] if kind == "administrator" else ["read"]
            made = await service.door.identity.make_key(operator("default"), label="a", application="a", scopes=scopes)
            headers["authorization"] = f"Bearer {made.secret}"
        transport = httpx2.ASGITransport(application(service), client=client)
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as asking:
            assert (await asking.get("/metrics", headers=headers)).status_code == status

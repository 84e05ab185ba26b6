"""The description of the service is whole and true: requests that nobody thought of, made from it, with a key and
without, meet no fault of ours and no answer that it does not tell of."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import hypothesis
import jsonschema_rs
import pytest
import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from everthread.server.app import BESIDE, TABLE
from everthread.server.limits import Allowance
from everthread.server.openapi import described
from tests.server.attacks import WORD, served_by
from tests.server.serving import Served, serving

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
ENDLESS = ("/api/conversations/{conversation}/listen",)  # a stream, which lasts
# What would end the account that asks, or wait for a model.
LEFT_OUT = (*ENDLESS, "/api/forget-me", "/api/sign-out-everywhere", "/metrics")
NO_LIMITS = Allowance(requests=0, connections=0, turns=0)


async def test_the_description_has_every_address_of_the_application(site: Served) -> None:
    document = (await site.http.get("/openapi.json")).json()
    told = {f"{method.upper()} {path}" for path, ways in document["paths"].items() for method in ways}
    assert told == {one for one in served_by(site.service) if not one.startswith("SOCKET")}


def test_the_description_is_one() -> None:
    """It is valid OpenAPI 3.1, each operation has a name of its own, and each schema in it is one."""
    document = described(TABLE, BESIDE, "1.0")
    schemathesis.openapi.from_dict(document).validate()
    names = [way["operationId"] for ways in document["paths"].values() for way in ways.values()]
    assert len(names) == len(set(names))
    for schema in document["components"]["schemas"].values():
        jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})


def test_changes_of_the_canvas_are_described_by_what_each_says() -> None:
    document = described(TABLE, BESIDE, "1.0")
    takes = document["paths"]["/api/conversations/{conversation}/canvas"]["post"]["requestBody"]
    changes = takes["content"]["application/json"]["schema"]["properties"]["changes"]["items"]["anyOf"]
    schemas = [document["components"]["schemas"][one["$ref"].rpartition("/")[2]] for one in changes]
    does = {schema["properties"]["do"]["const"]: schema for schema in schemas}
    assert list(does) == ["put", "update", "remove", "mode", "tick", "fill"]
    assert does["mode"]["properties"]["mode"]["enum"] == ["chat", "split", "full", "clear"]
    assert does["tick"]["required"] == ["do", "id", "item"]


@pytest.mark.parametrize("who", ["ana", "nobody"])
def test_nothing_that_the_description_allows_is_a_fault(tmp_path: Path, who: str) -> None:
    _fuzz(tmp_path, who, examples=2)


@pytest.mark.prove
@pytest.mark.parametrize("who", ["ana", "ada", "nobody"])
def test_nothing_that_the_description_allows_is_a_fault_many_times(tmp_path: Path, who: str) -> None:
    _fuzz(tmp_path, who, examples=100)


def _fuzz(tmp_path: Path, who: str, *, examples: int) -> None:
    found: list[str] = []
    with _running(tmp_path) as (address, headers, conversation):
        schema = schemathesis.openapi.from_url(f"{address}/openapi.json")
        for made in schema.get_all_operations():
            operation: Any = made.ok()  # type: ignore[union-attr]
            if operation.path not in LEFT_OUT:
                found += _tried(operation, address, headers[who], conversation, who, examples)
    assert found == []


def _tried(
    operation: Any, address: str, headers: dict[str, str], conversation: str, who: str, examples: int
) -> list[str]:
    found: list[str] = []

    @hypothesis.settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=[hypothesis.Phase.generate],
    )
    @hypothesis.given(case=operation.as_strategy())
    def tried(case: Any) -> None:
        if "conversation" in (case.path_parameters or {}):
            case.path_parameters["conversation"] = conversation
        response = case.call(base_url=address, headers=headers, timeout=60)
        if who == "nobody" and operation.path.startswith("/api/") and operation.path != "/api/sign-in":
            assert response.status_code in (400, 401, 404, 405, 422), response.status_code
        if who != "ana":
            assert WORD not in response.text
        case.validate_response(response, checks=CHECKS)

    try:
        tried()
    except BaseException as problem:  # noqa: BLE001 -- all that is found is told at once
        found.append(f"{operation.method.upper()} {operation.path}: {problem}")
    return found


@contextmanager
def _running(tmp_path: Path) -> Iterator[tuple[str, dict[str, dict[str, str]], str]]:
    """A service in a thread of its own: its address, who may call, and a conversation of Ana's."""
    ready, ended, loop = threading.Event(), asyncio.Event(), asyncio.new_event_loop()
    told: list[Any] = []

    async def serve() -> None:
        async with serving(f"sqlite:///{tmp_path}/fuzzed.db", "here", allowance=NO_LIMITS) as site:
            ana, ada = await site.join("ana"), await site.join("ada", role="administrator")
            conversation = await site.begin(ana, f"Hello, {WORD}.", "And again.")
            told.extend([site.address, {"ana": ana.bearer, "ada": ada.bearer, "nobody": {}}, conversation])
            ready.set()
            await ended.wait()

    def run() -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_until_complete(serve())
        finally:
            ready.set()
            loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert ready.wait(120)
        assert told, "the service did not start"
        yield told[0], told[1], told[2]
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()

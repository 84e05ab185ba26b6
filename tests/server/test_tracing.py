"""Traces: spans by the conventions for generative AI, rightly nested across a detached turn, and without content."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from benchmarks.loopback.http import Fault
from benchmarks.loopback.model import Called
from benchmarks.loopback.openai import OpenAIServer
from everthread.server.app import application
from everthread.server.serve import opened
from everthread.server.service import Service
from everthread.server.tracing import Tracing
from tests.server.processes import begun, here, key_for, options


@pytest.fixture
def exporter() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    yield exporter
    exporter.shutdown()


@pytest.fixture
def traces(exporter: InMemorySpanExporter) -> Iterator[Tracing]:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield Tracing(provider)
    provider.shutdown()


async def _talked(address: str, provider: OpenAIServer, traces: Tracing, *texts: str) -> None:
    key = await key_for(address)
    made = options(address, settings={"address": provider.address, "retries": 0}, canvas=True)
    async with opened(made) as plain:
        service = Service(plain.et, plain.door, plain.vault, made.allowance, traces)
        async with here(application(service), key) as client:
            id = await begun(client)
            for text in texts:
                headers = {"traceparent": f"00-{'ab' * 16}-{'cd' * 8}-01"}
                body = {"pieces": [text]}
                answer = await client.post(f"/api/conversations/{id}/say", json=body, headers=headers)
                assert answer.status_code == 202
                await service.et.idle()


def _named(spans: tuple[ReadableSpan, ...], name: str) -> list[tuple[ReadableSpan, dict[str, Any]]]:
    return [(span, dict(span.attributes or {})) for span in spans if span.name == name]


async def test_a_turn_belongs_to_its_request_though_that_was_answered_before_it_ended(
    fresh_address: str, provider: OpenAIServer, exporter: InMemorySpanExporter, traces: Tracing
) -> None:
    provider.script.add([Called("canvas_add_card", '{"title": "KESTREL"}')], ["KESTREL is there."])
    await _talked(fresh_address, provider, traces, "Draw a KESTREL.")
    spans = exporter.get_finished_spans()
    [(request, asked)] = _named(spans, "POST /api/conversations/{conversation}/say")
    [(turn, told)] = _named(spans, "invoke_agent default")
    calls = _named(spans, "chat gpt-4o")
    [(tool, used)] = _named(spans, "execute_tool canvas_add_card")
    assert request.context
    assert turn.context
    assert turn.parent
    assert tool.parent
    assert f"{request.context.trace_id:032x}" == "ab" * 16
    assert turn.parent.span_id == request.context.span_id
    assert (turn.end_time or 0) > (request.end_time or 0) > 0
    assert {one.parent.span_id for one, _ in calls if one.parent} == {turn.context.span_id}
    assert tool.parent.span_id == turn.context.span_id
    assert (asked["http.route"], asked["http.response.status_code"]) == ("/api/conversations/{conversation}/say", 202)
    assert told["gen_ai.operation.name"] == "invoke_agent"
    for _, call in calls:
        assert call["gen_ai.operation.name"] == "chat"
        assert call["gen_ai.provider.name"] == "openai"
        assert call["gen_ai.request.model"] == "gpt-4o"
        assert call["gen_ai.usage.input_tokens"] > call["gen_ai.usage.output_tokens"] > 0
    assert used["gen_ai.tool.name"] == "canvas_add_card"
    assert "KESTREL" not in "".join(span.to_json() for span in spans)


async def test_what_failed_says_so_by_its_class_alone(
    fresh_address: str, provider: OpenAIServer, exporter: InMemorySpanExporter, traces: Tracing
) -> None:
    provider.faults.append(Fault(hang_up=True))
    await _talked(fresh_address, provider, traces, "KESTREL?")
    spans = exporter.get_finished_spans()
    [(call, told)] = _named(spans, "chat gpt-4o")
    assert call.status.status_code.name == "ERROR"
    assert told["error.type"] in ("Unreachable", "BrokenOff")
    assert not call.events
    assert call.status.description is None


@pytest.mark.parametrize(
    ("environ", "imported"),
    [({}, False), ({"OTEL_TRACES_EXPORTER": "none"}, False), ({"OTEL_TRACES_EXPORTER": "console"}, True)],
    ids=["not asked for", "refused", "asked for"],
)
def test_nothing_is_imported_unless_it_is_asked_for(environ: dict[str, str], imported: bool) -> None:
    program = (
        "import os, sys; from everthread.server.serve import serve; from everthread.server.tracing import tracing\n"
        "found = tracing(os.environ); print(found is not None, any(m.startswith('opentelemetry') for m in sys.modules))"
    )
    around = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")} | environ
    done = subprocess.run([sys.executable, "-c", program], env=around, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(imported), str(imported)]

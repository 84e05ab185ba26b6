"""Traces by OpenTelemetry, where they are wanted: a span for each request, turn, model call and tool.

Nothing of it is imported unless it is asked for, by OpenTelemetry's own variables (OTEL_TRACES_EXPORTER, or an
OTEL_EXPORTER_OTLP_ENDPOINT) or by a program that has set a tracer provider before (`opentelemetry-instrument`). Spans
have the names and attributes of the conventions for generative AI, and no content: of an error its class. A turn's span
belongs to the request that began it, also when it goes on after that is answered.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import entry_points, version
from typing import TYPE_CHECKING, Any

from everthread.errors import BadSetting, Conflict, MissingExtra

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

    from everthread.agent.call import Calling
    from everthread.core.events import ToolCall
    from everthread.store.conversations import Conversation

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
GROUP = "opentelemetry_traces_exporter"
# How the conventions call providers, where it is not as we do.
PROVIDERS = {"openai-responses": "openai", "google": "gcp.gemini"}


def tracing(environ: Mapping[str, str]) -> Tracing | None:
    """What traces, where that is wanted."""
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    wanted = environ.get("OTEL_TRACES_EXPORTER") or ("otlp" if any(environ.get(one) for one in ENDPOINTS) else "none")
    if wanted == "none" and "opentelemetry.trace" not in sys.modules:
        return None
    try:
        from opentelemetry import trace
    except ImportError:
        raise MissingExtra("tracing") from None
    found = trace.get_tracer_provider()
    if isinstance(found, trace.ProxyTracerProvider):  # nobody has set one
        if wanted == "none":
            return None
        found = _provider(wanted)
        trace.set_tracer_provider(found)
    return Tracing(found)


def _provider(wanted: str) -> Any:
    """OpenTelemetry's SDK with the exporters that a variable names."""
    try:
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise MissingExtra("tracing", otherwise=", with opentelemetry-sdk and an exporter") from None
    provider = TracerProvider()
    for name in (one.strip() for one in wanted.split(",")):
        exporters = list(entry_points(group=GROUP, name=name))
        if not exporters:
            raise BadSetting("OTEL_TRACES_EXPORTER", name, "an exporter that is installed", "the environment")
        provider.add_span_processor(BatchSpanProcessor(exporters[0].load()()))
    return provider


class Tracing:
    """An observer of turns (`agent.observer`), and of requests."""

    def __init__(self, provider: Any) -> None:
        from opentelemetry import propagate, trace

        self._provider, self._propagate, self._trace = provider, propagate, trace
        self._tracer: Tracer = provider.get_tracer("everthread", version("everthread"))

    def close(self) -> None:
        """Send what is left."""
        if flush := getattr(self._provider, "force_flush", None):
            flush()

    @contextmanager
    def request(self, method: str, headers: list[tuple[bytes, bytes]]) -> Iterator[Span]:
        """Around a request, which may belong to a trace of its caller's."""
        carrier = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}
        kept = {name: carrier[name] for name in ("traceparent", "tracestate") if name in carrier}
        with self._span(method, "SERVER", {"http.request.method": method}, self._propagate.extract(kept)) as span:
            yield span

    def answered(self, span: Span, method: str, route: str, status: int) -> None:
        span.update_name(f"{method} {route}")
        span.set_attributes({"http.route": route, "http.response.status_code": status})
        if status >= 500:
            span.set_status(self._trace.StatusCode.ERROR)

    @contextmanager
    def turn(self, conversation: Conversation) -> Iterator[None]:
        told = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": conversation.agent,
            "gen_ai.conversation.id": conversation.id,
        }
        with self._span(f"invoke_agent {conversation.agent}", "INTERNAL", told):
            yield

    @contextmanager
    def model_call(self, calling: Calling) -> Iterator[None]:
        about = calling.about
        told = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": PROVIDERS.get(about.provider, about.provider),
            "gen_ai.request.model": about.name,
        }
        with self._span(f"chat {about.name}", "CLIENT", told) as span:
            yield
            record = calling.record
            span.set_attributes(
                {
                    "gen_ai.usage.input_tokens": record.input,
                    "gen_ai.usage.output_tokens": record.output,
                    "gen_ai.usage.cache_read.input_tokens": record.cache_read,
                    "gen_ai.usage.cache_creation.input_tokens": record.cache_write,
                    "gen_ai.response.finish_reasons": (record.finish,),
                }
            )

    @contextmanager
    def tool_call(self, call: ToolCall) -> Iterator[None]:
        told = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": call.name,
            "gen_ai.tool.call.id": call.id,
            "gen_ai.tool.type": "function",
        }
        with self._span(f"execute_tool {call.name}", "INTERNAL", told):
            yield

    def taken_over(self) -> None:
        pass

    @contextmanager
    def _span(self, name: str, kind: str, told: dict[str, Any], context: Any = None) -> Iterator[Span]:
        """A span, current while it lasts. An error's own words may quote anything: only its class is told."""
        options: dict[str, Any] = {"record_exception": False, "set_status_on_exception": False}
        kinds = self._trace.SpanKind
        with self._tracer.start_as_current_span(
            name, context=context, kind=kinds[kind], attributes=told, **options
        ) as span:
            try:
                yield span
            except BaseException as problem:
                span.set_attribute("error.type", type(problem).__name__)
                if not isinstance(problem, Conflict | asyncio.CancelledError):
                    span.set_status(self._trace.StatusCode.ERROR)
                raise

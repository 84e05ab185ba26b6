"""Figures for Prometheus, at `/metrics`.

What is counted: requests by route and status, connections, turns and how they ended, model calls with their tokens and
price by model, tools, what memory has to do, errors of the store, turns that were closed for a process that is gone. No
label names a user or a conversation; a model that is not known here counts as its provider's `other`, since any text
can be a model's name.

Several processes (`--workers`) count together: each writes its figures into a folder that they share, and whichever is
asked adds them up (prometheus_client's multiprocess mode, by PROMETHEUS_MULTIPROC_DIR). `/metrics` answers callers on
the machine itself who come by no proxy, and elsewhere those with an administrator's key. A balancer on the machine that
passes on TCP connections makes everybody look local: then it answers those with a key alone (`--metrics key`).
"""

from __future__ import annotations

import asyncio
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from starlette.requests import Request
from starlette.responses import Response

from everthread.errors import Conflict, StoreError

if TYPE_CHECKING:
    from everthread.agent.call import Calling
    from everthread.core.events import ModelCall, ToolCall
    from everthread.server.service import Service
    from everthread.store.conversations import Conversation

SHARED = "PROMETHEUS_MULTIPROC_DIR"
KINDS = ("input", "output", "cache_read", "cache_write", "reasoning")
FAST = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
SLOW = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
FORWARDED = ("x-forwarded-for", "x-forwarded-host", "x-real-ip", "forwarded", "via")
DUE = 1_000  # reminders that are counted at most


class Metrics:
    """The figures of one process. It is an observer of turns (`agent.observer`)."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        if SHARED not in os.environ:  # of the one process that there is
            for collector in (ProcessCollector, PlatformCollector, GCCollector):
                collector(registry=registry)

        def counter(name: str, about: str, *labels: str) -> Counter:
            return Counter(f"everthread_{name}", about, labels, registry=registry)

        def gauge(name: str, about: str, *labels: str, mode: Any = "livesum") -> Gauge:
            return Gauge(f"everthread_{name}", about, labels, registry=registry, multiprocess_mode=mode)

        def histogram(name: str, about: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
            return Histogram(f"everthread_{name}", about, labels, registry=registry, buckets=buckets)

        self._requests = counter("requests", "Requests that were answered.", "method", "route", "status")
        self._request_seconds = histogram("request_seconds", "How long they took; not of streams.", FAST, "route")
        self.streams = gauge("streams_open", "Streams of server-sent events that are open.")
        self.sockets = gauge("sockets_open", "WebSockets that are open.")
        self._running = gauge("turns_running", "Turns that run or wait for their branch.")
        self._turns = counter("turns", "Turns that have ended: finished, failed, interrupted or refused.", "outcome")
        self._turn_seconds = histogram("turn_seconds", "How long turns took.", SLOW)
        self._calls = counter("model_calls", "Model calls, turns' and memory's.", "model", "outcome")
        self._call_seconds = histogram("model_call_seconds", "How long model calls took.", SLOW, "model")
        self._tokens = counter("tokens", "Tokens as providers report them; input is all input.", "model", "kind")
        self._price = counter("price_dollars", "What model calls cost, where a price is known.", "model")
        self._deltas = counter("deltas", "Pieces of replies that came from models.")
        self._tools = counter("tool_calls", "Tools that were run.", "outcome")
        self._backlog = gauge("memory_backlog", "Branches that this service's memory has still to look at.")
        self._reminders = gauge("reminders_due", "Reminders for a worker apart; 1000 at most.", mode="mostrecent")
        self._store = counter("store_errors", "Errors of the store that a request or a turn met.", "error")
        self._takeovers = counter("takeovers", "Turns closed because the process that ran them is gone.")
        # To look a figure up by its labels takes longer than to count. There are as many as routes and statuses.
        self._counter_of, self._histogram_of = cache(self._requests.labels), cache(self._request_seconds.labels)
        build = gauge("build_info", "The version that runs.", "version", "python", mode="livemax")
        build.labels(version("everthread"), platform.python_version()).set(1)

    # -- requests ----------------------------------------------------------------------------------------------

    def request(self, method: str, route: str, status: int, seconds: float, *, streamed: bool) -> None:
        self._counter_of(method if method in METHODS else "OTHER", route, status).inc()
        if not streamed:
            self._histogram_of(route).observe(seconds)

    def problem(self, problem: BaseException) -> None:
        """Something went wrong: it is counted where the store did."""
        if isinstance(problem, StoreError):
            self._store.labels(type(problem).__name__).inc()

    # -- turns -------------------------------------------------------------------------------------------------

    @contextmanager
    def turn(self, conversation: Conversation) -> Iterator[None]:
        began = time.perf_counter()
        self._running.inc()
        outcome = "failed"
        try:
            yield
            outcome = "finished"
        except BaseException as problem:
            outcome = outcome_of(problem)
            self.problem(problem)
            raise
        finally:
            self._running.dec()
            self._turns.labels(outcome).inc()
            self._turn_seconds.observe(time.perf_counter() - began)

    @contextmanager
    def model_call(self, calling: Calling) -> Iterator[None]:
        began, model = time.perf_counter(), model_label(calling)
        outcome = "failed"
        try:
            yield
            outcome = "finished"
            self._count(model, calling.record)
        except BaseException as problem:
            outcome = outcome_of(problem)
            raise
        finally:
            self._calls.labels(model, outcome).inc()
            self._call_seconds.labels(model).observe(time.perf_counter() - began)
            self._deltas.inc(calling.pieces)

    def _count(self, model: str, record: ModelCall) -> None:
        for kind in KINDS:
            if tokens := getattr(record, kind):
                self._tokens.labels(model, kind).inc(tokens)
        if record.price:
            self._price.labels(model).inc(record.price)

    @contextmanager
    def tool_call(self, call: ToolCall) -> Iterator[None]:
        try:
            yield
        except BaseException as problem:
            self._tools.labels(outcome_of(problem)).inc()
            raise
        self._tools.labels("finished").inc()

    def taken_over(self) -> None:
        self._takeovers.inc()

    # -- what is asked for -------------------------------------------------------------------------------------

    def backlog(self, branches: int, reminders: int) -> None:
        self._backlog.set(branches)
        self._reminders.set(reminders)

    def written(self) -> bytes:
        """All figures, of all processes where there are several, as Prometheus reads them."""
        if SHARED not in os.environ:
            return generate_latest(self._registry)
        together = CollectorRegistry()
        MultiProcessCollector(together, path=os.environ[SHARED])  # type: ignore[no-untyped-call]
        return generate_latest(together)


def forget_process(pid: int) -> None:
    """A process of several is gone: what it had open is so no longer. What it counted stays."""
    if SHARED in os.environ:
        mark_process_dead(pid, os.environ[SHARED])  # type: ignore[no-untyped-call]


def outcome_of(problem: BaseException) -> str:
    if isinstance(problem, asyncio.CancelledError):
        return "interrupted"
    return "refused" if isinstance(problem, Conflict) else "failed"


def model_label(calling: Calling) -> str:
    """A model's name, where it is one that is known: what a caller makes up must not become a label."""
    return calling.model if calling.about.known else f"{calling.about.provider}:other"


async def look_at_backlog(service: Service) -> None:
    """Count what memory has to do."""
    reminders = len(await service.et.log.reminders.due(limit=DUE))
    service.metrics.backlog(service.et.memory.backlog, reminders)


async def metrics(service: Service, request: Request) -> Response:
    """Figures for Prometheus."""
    service.door.check_host(request)
    if not (service.local_metrics and _is_from_here(request)):
        await service.enter(request, "admin")
    body = await asyncio.to_thread(service.metrics.written)
    return Response(body, headers={"content-type": CONTENT_TYPE_LATEST})


def _is_from_here(request: Request) -> bool:
    """Whether the caller is on this machine, and not behind a proxy that is."""
    if request.client is None or any(name in request.headers for name in FORWARDED):
        return False
    try:
        return ip_address(request.client.host).is_loopback
    except ValueError:
        return False

"""Settings as a caller gives them: any of the table `config.Settings`, by name, for type checkers.

A plain dict is the same at run time, and is checked there. None is "not set here". A test compares this with the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict


class GivenSettings(TypedDict, total=False):
    """Some settings, as in `settings={"budget": 50_000}`. docs/reference.md says what each means."""

    model: str | None
    budget: int | None
    strategy: Literal["budget", "messages", "session", "importance"] | None
    step: float | None
    messages: int | None
    active_messages: int | None
    pins: float | None
    instructions: str | None
    reply_tokens: int | None
    temperature: float | None
    top_p: float | None
    seed: int | None
    stop: str | Sequence[str] | None
    effort: Literal["", "minimal", "low", "medium", "high"] | None
    output: str | Mapping[str, Any] | None
    extra_body: str | Mapping[str, Any] | None
    fallback: str | None
    address: str | None
    call_seconds: float | None
    tool_seconds: float | None
    retries: int | None
    turn_calls: int | None
    turn_seconds: float | None
    turn_dollars: float | None
    threads: int | None
    model_window: int | None
    factor: float | None
    margin: float | None
    brief_tokens: int | None
    facts_tokens: int | None
    recap_tokens: int | None
    summary_tokens: int | None
    summarise_after: int | None
    summary_model: str | None
    summary_reply_tokens: int | None
    summary_temperature: float | None
    memory: bool | None
    worker: Literal["here", "apart"] | None
    memory_calls: int | None
    memory_dollars: float | None
    memory_seconds: float | None
    session_gap: float | None
    cache: bool | None
    cache_ttl: Literal["5m", "1h"] | None
    clock: Literal["off", "day", "hour", "minute"] | None
    canvas: Literal["message", "instructions", "off"] | None
    canvas_tokens: int | None
    mirror: str | None
    retention: float | None
    archive: bool | None
    archive_after: float | None
    archive_place: str | None
    archive_encryption: bool | None

"""The service's log: lines to stderr, as JSON for programs or as text for people.

    {"time": "2026-10-05T08:15:00.042Z", "level": "info", "type": "request", "route": "/api/conversations", …}

A line says when, what type of thing, whose and how much, and never what was said: fields are names, ids and figures;
of an error its class, and its sentence only where the store or the service itself is the matter; of what nobody
expected a trace of places in the code, without the error's own words, which may quote anything.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, TextIO

from everthread.errors import CannotStart, GoingAway, OneProcessOnly, StoreError, TooMany
from everthread.server.metrics import outcome_of

if TYPE_CHECKING:
    from everthread.agent.call import Calling
    from everthread.core.events import ToolCall
    from everthread.store.conversations import Conversation

Format = Literal["text", "json"]

FIELDS = "everthread_fields"
SAYABLE = (StoreError, CannotStart, GoingAway, OneProcessOnly, TooMany)  # whose sentences hold nothing of anybody's
_PLAIN = re.compile(r"[\w./:{}@+-]+")

_log = logging.getLogger("everthread.server")


def to_stderr(format: Format = "text", stream: TextIO | None = None) -> None:
    """Have everything that this process logs written to stderr, in this form. For programs, not for libraries."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(Json() if format == "json" else Text())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("everthread").setLevel(logging.INFO)
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)  # what it tells of errors, we have told by then
    logging.captureWarnings(True)


def notes(level: int = logging.INFO) -> bool:
    """Whether a line of this level is written at all."""
    return _log.isEnabledFor(level)


def note(type: str, fields: Mapping[str, object], level: int = logging.INFO) -> None:
    """Write a line of a type, with fields; those that are empty are left out."""
    if notes(level):
        _log.log(level, type, extra={FIELDS: {"type": type, **fields}})


class Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(line_of(record), ensure_ascii=False, default=str)


class Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = line_of(record)
        trace = "".join(f"\n    {place}" for place in fields.pop("trace", ()))
        head = [fields.pop(name) for name in ("time", "level", "type")]
        said = [fields.pop("message")] if "message" in fields else []
        rest = [f"{name}={_quoted(value)}" for name, value in fields.items()]
        return " ".join([head[0], head[1].upper(), head[2], *said, *rest]).replace("\n", "\\n") + trace


def line_of(record: logging.LogRecord) -> dict[str, Any]:
    """What a line says."""
    at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    fields = getattr(record, FIELDS, None) or {"type": record.name, "message": _said(record)}
    told = {name: value for name, value in fields.items() if value not in ("", None)}
    line = {"time": at, "level": record.levelname.lower(), **told}
    if record.exc_info and (problem := record.exc_info[1]) is not None:
        line |= {"error": _named(problem), "trace": _places(problem)}
    return line


def _said(record: logging.LogRecord) -> str:
    """The message, with errors that it tells of by their names."""
    args = record.args
    if record.name == "asyncio":  # whose messages have the errors themselves in them
        return "A task failed"
    if not isinstance(args, tuple):
        return str(record.msg)
    safe = tuple(_named(one) if isinstance(one, BaseException) else one for one in args)
    return str(record.msg) % safe if safe else str(record.msg)


def _named(problem: BaseException) -> str:
    name = type(problem).__name__
    return f"{name}: {problem}" if isinstance(problem, SAYABLE) else name


def _places(problem: BaseException) -> list[str]:
    """Where it went wrong: of the error and of those that it came from, the newest place last."""
    causes: list[BaseException] = []
    one: BaseException | None = problem
    while one is not None and one not in causes:
        causes.append(one)
        one = one.__cause__ or one.__context__
    places = []
    for cause in reversed(causes):
        frames = traceback.extract_tb(cause.__traceback__)
        places += [f"{frame.filename}:{frame.lineno} in {frame.name}" for frame in frames] + [type(cause).__name__]
    return places


def _quoted(value: object) -> str:
    text = str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)


class TurnLog:
    """Writes a line when a turn has ended, and when a model call has. It is an observer of turns (`agent.observer`)."""

    @contextmanager
    def turn(self, conversation: Conversation) -> Iterator[None]:
        whose = {"tenant": conversation.tenant, "user": conversation.user, "conversation": conversation.id}
        with _ended("turn", {**whose, "agent": conversation.agent}):
            yield

    @contextmanager
    def model_call(self, calling: Calling) -> Iterator[None]:
        told: dict[str, object] = {"model": calling.model}
        with _ended("model_call", told):
            yield
            record = calling.record
            told |= {"pieces": calling.pieces, "input": record.input, "output": record.output, "tries": record.tries}

    @contextmanager
    def tool_call(self, call: ToolCall) -> Iterator[None]:
        with _ended("tool_call", {"tool": call.name}):
            yield

    def taken_over(self) -> None:
        note("taken_over", {}, logging.WARNING)


@contextmanager
def _ended(type: str, told: Mapping[str, object]) -> Iterator[None]:
    """Write a line at the end of something: how it ended, and how long it took."""
    began, ended = time.perf_counter(), {"outcome": "finished"}
    try:
        yield
    except BaseException as problem:
        ended = {"outcome": outcome_of(problem), "error": _named(problem)}
        raise
    finally:
        note(type, {**told, **ended, "ms": round((time.perf_counter() - began) * 1000)})

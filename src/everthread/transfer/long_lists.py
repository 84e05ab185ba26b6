"""A message list that is too long for memory: it is converted some messages at a time.

It is gone through once before, for its format and its hash. It is cut before a user's message, where no tool call waits
for its result, so that each part is understood as it would be within the whole.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, NamedTuple

from everthread.core.events import Event
from everthread.errors import BadFormat
from everthread.store.log import now
from everthread.transfer.detect import Format, detect
from everthread.transfer.streams import JsonLine
from everthread.transfer.times import times_of

SHORT = 2_000  # messages that are converted together, where that is all of them
PART = 500  # of a longer list, at least
MOST = 50_000  # of it, at most: here it is cut whatever waits
WEIGHT = 8 * 1024 * 1024  # characters of a part

_BEFORE: tuple[Format, ...] = ("anthropic", "responses", "gemini", "openai")  # which is told from another first

Convert = Callable[[Format, JsonLine], list[Event]]
Part = tuple[list[Event], list[int | None], bool]


def is_long(values: Iterator[JsonLine]) -> tuple[Iterator[JsonLine], bool]:
    """All values again, and whether they are too many, or too large, to be taken together."""
    looked, size = list[JsonLine](), 0
    for one in values:
        looked.append(one)
        size += _size(one.value)
        if len(looked) > SHORT or size > WEIGHT:
            return chain(looked, values), True
    return iter(looked), False


def _size(value: Any) -> int:
    content = value.get("content", value.get("parts", "")) if isinstance(value, dict) else ""
    return len(content) if isinstance(content, str) else len(str(content))


class LongList(NamedTuple):
    format: Format
    digest: bytes

    @classmethod
    def of(cls, values: Iterable[JsonLine], format: Format | None) -> LongList:
        """What a whole list says of itself."""
        found, digest = set[Format | None](), hashlib.sha256()
        for _, value in values:
            found.add(detect([value]))
            written = json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
            digest.update(len(written).to_bytes(8, "big") + written)
        known = [one for one in _BEFORE if one in found]
        chosen: Format = format or (known[0] if known else "openai")
        return cls(chosen, hashlib.sha256(chosen.encode() + digest.digest()).digest())

    def events(self, values: Iterable[JsonLine], where: str, convert: Convert) -> Iterator[Part]:
        """The events part by part, with their times, and whether it is the last part."""
        newest: int | None = None
        held: Part | None = None
        for part in self._parts(values):
            first, messages = part
            try:
                events = convert(self.format, JsonLine(f"{where}, from {first} on", messages))
            except RecursionError:
                raise BadFormat("nested too deeply", where=where) from None
            times = times_of(events, now=now(), newest=newest)
            newest = times[-1] if times else newest
            if held:
                yield held
            held = (events, times, False)
        if held:
            yield held[0], held[1], True

    def _parts(self, values: Iterable[JsonLine]) -> Iterator[tuple[str, list[Any]]]:
        part, first, size = list[Any](), "", 0
        waiting = _Waiting()
        for where, value in values:
            full = len(part) >= PART or size > WEIGHT
            if part and full and ((_begins_turn(value) and not waiting) or len(part) >= MOST):
                yield first, part
                part, size, waiting = [], 0, _Waiting()
            first = first if part else where
            part.append(value)
            size += _size(value)
            waiting.see(value)
        if part:
            yield first, part


def _begins_turn(value: Any) -> bool:
    if not isinstance(value, dict) or value.get("role") != "user":
        return False
    blocks = value.get("content", value.get("parts"))
    results = ("tool_result", "function_call_output")
    return not isinstance(blocks, list) or not any(
        isinstance(block, dict) and (block.get("type") in results or "functionResponse" in block) for block in blocks
    )


class _Waiting:
    """How many tool calls have no result yet, whatever the format calls them."""

    def __init__(self) -> None:
        self._count = 0

    def __bool__(self) -> bool:
        return self._count > 0

    def see(self, value: Any) -> None:
        if not isinstance(value, dict):
            return
        calls = value.get("tool_calls")
        self._count += len(calls) if isinstance(calls, list) else 0
        self._count += value.get("type") in ("function_call", "custom_tool_call")
        self._count -= value.get("role") in ("tool", "function") or value.get("type") in (
            "function_call_output",
            "custom_tool_call_output",
        )
        blocks = value.get("content", value.get("parts"))
        for block in blocks if isinstance(blocks, list) else ():
            if isinstance(block, dict):
                self._count += block.get("type") == "tool_use" or "functionCall" in block
                self._count -= block.get("type") == "tool_result" or "functionResponse" in block

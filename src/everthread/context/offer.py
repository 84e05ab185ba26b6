"""The tools that a model is told of: as many as its provider takes, no longer described than it takes, and their size.

Memory's own tools are given up first, where they would take too much of a small budget.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import NamedTuple

import msgspec

from everthread.core.estimates import Measure, counting, uncounted
from everthread.core.fence import Fence, without_number
from everthread.core.request import Tool
from everthread.core.tokens import tools_size
from everthread.providers.models import Limits, Model

LOOKUPS_SHARE = 1 / 3  # of the budget, the most for memory's own tools


class Offered(NamedTuple):
    tools: tuple[Tool, ...]
    tokens: int


class _Same:
    """Tools that equal only the very same ones: an agent's are the same from request to request."""

    def __init__(self, tools: tuple[Tool, ...]) -> None:
        self.tools, self._ids = tools, tuple(map(id, tools))

    def __hash__(self) -> int:
        return hash(self._ids)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self._ids == other._ids


def offer(
    tools: tuple[Tool, ...], lookups: tuple[Tool, ...], model: Model, measure: Measure, *, budget: int
) -> tuple[Offered, tuple[str, ...]]:
    """The tools that the model is told of, in the order of their names, and what was given up: memory's own, where they
    would take too much of a small budget."""
    return _offered(_Same(tools), _Same(lookups), model, measure, budget)


@lru_cache(maxsize=64)
def _offered(given: _Same, own: _Same, model: Model, measure: Measure, budget: int) -> tuple[Offered, tuple[str, ...]]:
    tools, lookups = given.tools, own.tools
    both = tuple(sorted((*tools, *lookups), key=lambda tool: tool.name)) if lookups else tools
    every, notes = _taken(both, model.limits)
    found, most = weighed(every, model, measure), int(budget * LOOKUPS_SHARE)
    if not lookups or found.tokens <= most:
        return found, tuple(notes)
    others, left_out = _taken(tools, model.limits)
    without = weighed(others, model, measure)
    if found.tokens - without.tokens <= most:
        return found, tuple(notes)
    return without, (*left_out, "memory's own tools were left out: they would take more than a third of the budget")


def weighed(tools: tuple[Tool, ...], model: Model, measure: Measure) -> Offered:
    hidden = model.hidden if tools else 0
    return Offered(tools, measure.tokens(_tools_size(tools, model, measure)) + hidden)


def _taken(tools: tuple[Tool, ...], limits: Limits) -> tuple[tuple[Tool, ...], list[str]]:
    """As many tools as the provider takes, none described at greater length than it takes; and what was given up."""
    notes = []
    if limits.properties and (odd := [tool for tool in tools if not _has_names(tool, limits.properties)]):
        names = ", ".join(tool.name for tool in odd)
        notes.append(f"tools whose arguments have names that the provider refuses, left out: {names}")
        tools = tuple(tool for tool in tools if tool not in odd)
    if limits.tools and len(tools) > limits.tools:
        left = len(tools) - limits.tools
        notes.append(f"tools beyond the {limits.tools} that the provider takes, left out: {left}")
        tools = tools[: limits.tools]
    most = limits.description
    if most and (long := sum(len(tool.description) > most for tool in tools)):
        notes.append(f"descriptions of tools, shortened to the {most:,} characters that the provider takes: {long}")
        tools = tuple(_shortened(tool, most) for tool in tools)
    return tools, notes


def unfenced(tool: Tool, fence: Fence) -> Tool:
    """A tool's description may be a server's own words."""
    told = without_number(fence, tool.description)
    return tool if told is tool.description else msgspec.structs.replace(tool, description=told)


def _has_names(tool: Tool, pattern: str) -> bool:
    """Whether the provider takes the names of its arguments."""
    return all(re.fullmatch(pattern, str(name)) for name in tool.schema.get("properties", ()))


def _shortened(tool: Tool, most: int) -> Tool:
    if len(tool.description) <= most:
        return tool
    return msgspec.structs.replace(tool, description=f"{tool.description[: most - 1]}…")


def _tools_size(tools: tuple[Tool, ...], model: Model, measure: Measure) -> int:
    """OpenAI turns the schemas into a shorter text first; the others are told them as they are."""
    if not tools:
        return 0
    plain = [{"name": tool.name, "description": tool.description, "schema": tool.schema} for tool in tools]
    if model.encoding and measure.counter is not uncounted and not measure.own:
        with counting():
            return tools_size(plain, model.encoding)
    return measure.text(json.dumps(plain, ensure_ascii=False))

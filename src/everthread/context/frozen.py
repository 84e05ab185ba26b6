"""A context as a value: all that it says of itself, without what it was made from. Its JSON form is this value's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from everthread.config import Settings, without_secrets
from everthread.context.explain import Explanation
from everthread.core.request import Tool
from everthread.core.values import Value
from everthread.errors import BeyondModel
from everthread.providers.models import Model

if TYPE_CHECKING:
    from everthread.context.build import Context


class FrozenContext(msgspec.Struct, Value, frozen=True, kw_only=True):
    """What a `Context` says of itself. `request` is None where it is more than the model can take."""

    model: str
    strategy: str
    budget: int
    estimate: int
    over_budget: int
    cutoff: int
    sent: int
    past: int
    at: int
    memory: int
    forgotten: int
    redacted: bool
    factor: float
    canonical: int
    window: int
    place: str  # the model, with the address of its server where that is not the provider's own
    notes: str
    degraded: tuple[str, ...]
    repaired: tuple[str, ...]
    about: Model
    settings: Settings
    instructions: dict[str, str]
    tools: tuple[Tool, ...]
    tool_choice: str = ""
    own_strategy: str = ""  # the name of the function that chose the turns
    agent: str = ""
    explanation: Explanation
    request: dict[str, Any] | None

    @property
    def inputs(self) -> dict[str, Any]:
        """The settings, instructions and tools of the request."""
        given = {"settings": self.settings, "instructions": self.instructions, "tools": self.tools}
        more = {"tool_choice": self.tool_choice, "strategy": self.own_strategy}
        return given | {name: value for name, value in more.items() if value}

    def explain(self) -> Explanation:
        return self.explanation


def frozen(context: Context) -> FrozenContext:
    inputs = context.inputs
    said: dict[str, Any] = {"instructions": dict(inputs["instructions"]), "tools": tuple(inputs["tools"])}
    said |= {"tool_choice": inputs.get("tool_choice", ""), "own_strategy": inputs.get("strategy", "")}
    said |= {"explanation": context.explain(), "request": _request(context)}
    address = context.settings.address
    said["place"] = context.place.removesuffix(address) + without_secrets(address)
    same = [name for name in FrozenContext.__struct_fields__ if name not in said]
    return FrozenContext(**said, **{name: getattr(context, name) for name in same})


def _request(context: Context) -> dict[str, Any] | None:
    try:
        return context.request
    except BeyondModel:
        return None

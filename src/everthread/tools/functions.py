"""`tool`: says of a function what its hints and its docstring cannot.

A plain function is a tool already. `tool` gives it another name or description, asks for approval before it runs, or
gives it more or less time. What it returns can be called like the function itself, also as a method.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar, overload

import msgspec

from everthread.tools.context import ToolContext

P = ParamSpec("P")
R = TypeVar("R", covariant=True)

Approval = bool | Callable[[dict[str, Any]], bool]
Fits = Callable[[dict[str, Any], ToolContext], bool]


class ToolOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What `tool` was told of a function; what is empty is taken from the function. `fits`: whether arguments that
    have the right types can be used now, in a conversation; of those that cannot, nobody is asked for approval."""

    name: str = ""
    description: str = ""
    approval: Approval = False
    seconds: float | None = None
    fits: Fits | None = None


class FunctionTool(Generic[P, R]):
    """A function, and what was said of it."""

    def __init__(self, function: Callable[P, R], said: ToolOptions) -> None:
        self.function = function
        self.said = said
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> FunctionTool[..., R]:
        if instance is None:
            return self
        return FunctionTool(functools.partial(self.function, instance), self.said)  # type: ignore[arg-type]


@overload
def tool(
    function: Callable[P, R],
    *,
    name: str = "",
    description: str = "",
    approval: Approval = False,
    seconds: float | None = None,
) -> FunctionTool[P, R]: ...


@overload
def tool(
    *, name: str = "", description: str = "", approval: Approval = False, seconds: float | None = None
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


def tool(function: Any = None, **said: Any) -> Any:
    """A function as a tool: `tool(pay, approval=True)`, or above it `@tool` or `@tool(approval=True)`.

    `approval`: whether somebody must agree before it runs, or a function that says so of the arguments, which are by
    name and as the function will get them. `seconds`: how long it may run, in place of the setting tool_seconds.
    """
    if function is None:
        return functools.partial(tool, **said)
    return FunctionTool(function, ToolOptions(**said))

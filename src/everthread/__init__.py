"""LLM conversations that never end. See `Everthread`, and CONTEXT.md for the words.

Importing this imports nothing yet: each name is fetched from its module when it is first used, so that a program or
command that needs little starts at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from everthread.agent.personas import Agent
    from everthread.app import Everthread
    from everthread.core.events import Other, Redacted, assistant, marker, system, tool_call, tool_result, user
    from everthread.core.happenings import artifact_created, canvas_changed, flow_completed, flow_started, user_edit
    from everthread.core.parts import file, image
    from everthread.errors import EverthreadError
    from everthread.talk import Talk
    from everthread.tools import McpServer, tool

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "Everthread",
    "EverthreadError",
    "McpServer",
    "Other",
    "Redacted",
    "Talk",
    "artifact_created",
    "assistant",
    "canvas_changed",
    "file",
    "flow_completed",
    "flow_started",
    "image",
    "marker",
    "system",
    "tool",
    "tool_call",
    "tool_result",
    "user",
    "user_edit",
]

_HOMES = {
    "Agent": "everthread.agent.personas",
    "Everthread": "everthread.app",
    "Talk": "everthread.talk",
    **dict.fromkeys(
        ("Other", "Redacted", "assistant", "marker", "system", "tool_call", "tool_result", "user"),
        "everthread.core.events",
    ),
    **dict.fromkeys(
        ("artifact_created", "canvas_changed", "flow_completed", "flow_started", "user_edit"),
        "everthread.core.happenings",
    ),
    **dict.fromkeys(("file", "image"), "everthread.core.parts"),
    "EverthreadError": "everthread.errors",
    **dict.fromkeys(("McpServer", "tool"), "everthread.tools"),
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})

"""LLM conversations that never end. See `Everthread`, and CONTEXT.md for the words."""

from everthread.app import Everthread, Talk
from everthread.core.events import Redacted, assistant, system, tool_call, tool_result, user
from everthread.core.parts import file, image
from everthread.errors import EverthreadError

__version__ = "0.1.0"

__all__ = [
    "Everthread",
    "EverthreadError",
    "Redacted",
    "Talk",
    "assistant",
    "file",
    "image",
    "system",
    "tool_call",
    "tool_result",
    "user",
]

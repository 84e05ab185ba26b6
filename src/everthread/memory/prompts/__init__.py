"""What models are told when they summarise or name a conversation: texts, in files beside this one."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from everthread.errors import BadValue

NAMES = ("brief", "recap", "summary")


@cache
def text(name: str) -> str:
    """The prompt of this name."""
    if name not in NAMES:
        raise BadValue("prompt", name, f"one of {', '.join(NAMES)}")
    return (files(__package__) / f"{name}.md").read_text("utf-8").strip()

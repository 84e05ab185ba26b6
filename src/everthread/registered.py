"""Providers that are somebody else's: registered by the program, or brought by a package that is installed.

A package names its own as an entry point of the group `everthread.providers`: the provider's name, and the module or
object that it is. Installed packages are looked through only when a name is met that is neither ours nor registered.
What a provider must have is for `providers.registry` to say.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from everthread.errors import BadValue

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "everthread.providers"
_NAME = re.compile(r"[a-z][a-z0-9-]{0,63}")

registered: dict[str, Any] = {}


def register(name: str, found: object) -> None:
    """Make a provider known by its name; the same one may be registered again."""
    if not _NAME.fullmatch(name):
        raise BadValue("the name of a provider", name, "a to z, digits and -, of which the first is a letter")
    if registered.setdefault(name, found) is not found:
        raise BadValue("the name of a provider", name, "named like no other; there is one of this name")


def is_added(name: str) -> bool:
    """Whether a provider of this name was added to Everthread's own."""
    return name in registered or (bool(_NAME.fullmatch(name)) and name in _installed())


def named(ours: tuple[str, ...]) -> str:
    """All providers that there are, as an error names them: ours, and those that were added."""
    *first, last = dict.fromkeys((*ours, *registered, *_installed()))
    return f"{', '.join(first)} or {last}"


def added(name: str) -> Any:
    """A provider that was added to Everthread's own. BadValue: there is none of this name, or the package that brings
    it is broken."""
    if not is_added(name):
        raise BadValue("the provider", name, "one of Everthread's own, or one that is registered or installed")
    if name not in registered:
        try:
            found = _installed()[name].load()
        except Exception as problem:
            raise BadValue("the provider", name, f"one whose package can be imported ({problem})") from problem
        register(name, found)
    return registered[name]


@cache
def _installed() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points  # takes a while: only where a name is not known

    return {found.name: found for found in entry_points(group=GROUP)}

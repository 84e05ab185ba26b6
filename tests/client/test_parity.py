"""The client's classes are the library's: every verb has its remote form, with the same signature and words."""

from __future__ import annotations

import inspect
from types import FunctionType

import pytest

import everthread
from everthread import client
from everthread.agent import child, personas
from everthread.client.app import RemoteAgents

# Made of other verbs, here as there: what these give is asked of the service.
DERIVED = {"blobs", "configure", "upload", "must_be", "sync", "listen"}
CLASSES = [
    (client.Everthread, everthread.Everthread),
    (client.Talk, everthread.Talk),
    (client.Child, child.Child),
    (RemoteAgents, personas.Agents),
]


def verbs(of: type) -> list[str]:
    return [name for name in dir(of) if not name.startswith("_") and isinstance(getattr(of, name), FunctionType)]


def taken(verb: FunctionType) -> list[tuple[str, object, object]]:
    return [(one.name, one.kind, one.default) for one in inspect.signature(verb).parameters.values()]


@pytest.mark.parametrize(("ours", "theirs"), CLASSES)
def test_every_verb_of_the_library_has_a_remote_form(ours: type, theirs: type) -> None:
    assert issubclass(ours, theirs)
    same = {name for name in verbs(theirs) if getattr(ours, name) is getattr(theirs, name)}
    assert same <= DERIVED, f"without a route in everthread.routes, or a form in everthread.client: {same - DERIVED}"


@pytest.mark.parametrize(("ours", "theirs"), CLASSES)
def test_a_remote_verb_takes_what_the_librarys_takes_and_says_what_it_says(ours: type, theirs: type) -> None:
    for name in set(verbs(theirs)) - {"open", "context"}:
        here, there = getattr(ours, name), getattr(theirs, name)
        assert taken(here) == taken(there), name
        assert inspect.getdoc(here)

"""What users meet can be imported from `everthread`, and what stands on the canvas from `everthread.canvas`; importing
it costs nothing."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections import abc
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
import pytest

import everthread
from everthread import canvas, errors
from everthread.core.deltas import Delta

# `et.log` is the operator's door, and an engine is what it stands on; what is behind them has its own modules. The last
# two are between the package's parts.
OPERATORS = {"Log", "Line", "Engine"}
WITHIN = {"Current", "Listed"}
PUBLIC = {name: getattr(everthread, name) for name in everthread.__all__}


def test_every_type_in_a_public_signature_is_exported() -> None:
    known = {id(value) for value in (*PUBLIC.values(), *(getattr(canvas, name) for name in canvas.__all__))}
    met = {found for name, value in PUBLIC.items() if name not in OPERATORS for found in met_in(value)}
    missing = {one.__qualname__ for one in met if one.__module__.startswith("everthread.") and id(one) not in known}
    assert missing - WITHIN == set()


def met_in(value: Any) -> Iterator[type]:
    """The types in the signatures and fields of a class or function."""
    told: list[Any] = [one for one in (value, *verbs_of(value)) if inspect.isfunction(one)]
    if isinstance(value, type) and issubclass(value, msgspec.Struct):
        told.append(value)
    for one in told:
        for hint in get_type_hints(one, localns={**vars(abc), "Any": Any, **PUBLIC}).values():
            yield from types_in(hint)


def verbs_of(value: Any) -> Iterator[Any]:
    for name, one in inspect.getmembers(value) if isinstance(value, type) else ():
        if not name.startswith("_"):
            yield one.fget if isinstance(one, property) else one


def types_in(hint: Any) -> Iterator[type]:
    if isinstance(hint, list):
        hint = tuple[*hint] if hint else None
    if isinstance(get_origin(hint) or hint, type):
        yield get_origin(hint) or hint
    for part in get_args(hint):
        yield from types_in(part)


def test_every_error_is_exported() -> None:
    assert set(errors.__all__) - {"GO_ON"} - set(everthread.__all__) == set()


def test_every_delta_is_exported_under_its_own_name() -> None:
    assert [one for one in get_args(Delta) if PUBLIC[one.__name__] is not one] == []


def test_type_checkers_see_what_python_sees() -> None:
    tree = ast.parse(Path(everthread.__file__).read_text("utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    seen = {alias.asname: node.module for node in imports for alias in node.names}
    assert seen == everthread._HOMES


def test_a_name_is_what_its_module_has() -> None:
    there = {name: getattr(import_module(module), name) for name, module in everthread._HOMES.items()}
    assert [name for name, value in PUBLIC.items() if value is not there[name]] == []


def test_an_unknown_name_is_refused_as_python_does() -> None:
    with pytest.raises(AttributeError, match="module 'everthread' has no attribute 'Thread'"):
        everthread.Thread  # noqa: B018


def test_importing_everthread_imports_none_of_its_modules() -> None:
    program = "import sys, everthread; print([name for name in sys.modules if name.startswith('everthread.')])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout.strip() == "[]"

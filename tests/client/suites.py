"""The library's own suites, run through the client: the same tests, on a service in place of a store.

    through(globals(), "contract.test_append", …)      in a file of tests

takes the tests and fixtures of these files. Those that are named `but` with a reason need what no client can have.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from _pytest.fixtures import FixtureFunctionDefinition


def through(namespace: dict[str, Any], *modules: str, but: Mapping[str, str]) -> None:
    found = [import_module(f"tests.{name}") for name in modules]
    gone = [name for name in but if not any(hasattr(module, name) for module in found)]
    assert not gone, f"There are no such tests: {gone}"
    for name, module in zip(modules, found, strict=True):
        for key, value in vars(module).items():
            if not is_test(key, value, module.__name__) or key in but:
                continue
            assert namespace.get(key) in (None, value), f"There are two {key}: put {name} into another file."
            namespace[key] = value


def is_test(name: str, value: Any, module: str) -> bool:
    if isinstance(value, FixtureFunctionDefinition):
        return True
    return name.startswith("test_") and callable(value) and value.__module__ == module

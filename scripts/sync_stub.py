"""Writes src/everthread/sync/__init__.pyi from the code: what type checkers see of the verbs without `await`.

Each class there has its own methods and, by their signatures, the verbs of the asynchronous class that it mirrors.
`--check` says whether the file is up to date.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from everthread import sync
from everthread.sync.mirrored import OTHERWISE, Mirrored, without_await

PAGE = Path(sync.__file__).with_suffix(".pyi")
HEAD = '"""Written by scripts/sync_stub.py from the asynchronous classes: `make reference`."""'
FORMS = {"AsyncIterator": "Stream", "Opening": ""}  # what a result is without `await`; "": what is in its brackets
SHOWN = ("__iter__", "__enter__", "__exit__")

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Member(NamedTuple):
    """A method or attribute, in the class and module that define it."""

    node: Function | ast.AnnAssign
    module: str
    mirrored: bool

    @property
    def name(self) -> str:
        return self.node.target.id if isinstance(self.node, ast.AnnAssign) else self.node.name  # type: ignore[union-attr]


def page() -> str:
    classes = [getattr(sync, name) for name in sorted(sync.__all__, key=lambda name: (name != "Stream", name))]
    imports: set[str] = {"from typing import TypeVar, Generic"}
    bodies = [_class(cls, imports) for cls in classes]
    text = "\n\n".join([HEAD, "\n".join(sorted(imports)), f"__all__ = {sync.__all__}", 'T = TypeVar("T")', *bodies])
    return _ruff("format", "-", text=_ruff("check", "--fix", "--quiet", "--select", "I,F401", "-", text=text))


def _class(cls: type[Mirrored], imports: set[str]) -> str:
    bases = {"Stream": "(Generic[T])", "Reply": "(Stream[Delta], Generic[V])"}.get(cls.__name__, "")
    imports.add("from everthread.core.deltas import Delta")
    body: list[ast.stmt] = []
    for member in _members(cls):
        imports.update(_imports(member))
        body.append(_written(member))
    lines = "\n".join(f"    {line}" if line else "" for node in body for line in ast.unparse(node).splitlines())
    about = (inspect.getdoc(cls) or "").replace("\n", "\n    ")
    return f'class {cls.__name__}{bases}:\n    """{about}"""\n{lines}'


def _members(cls: type[Mirrored]) -> Iterator[Member]:
    """Its own methods first, then what it mirrors; of what is overloaded, the overloads alone."""
    own = [one for one in _of_class(cls, mirrored=False) if not _said(one, "derived")]
    yield from own
    seen = {one.name for one in own} | OTHERWISE
    for part in getattr(getattr(cls, "_of", None), "__mro__", ()):
        if part.__module__.startswith("everthread."):
            members = [one for one in _of_class(part, mirrored=True) if one.name not in {*seen, *SHOWN}]
            yield from members
            seen |= {one.name for one in members}


def _of_class(cls: type, *, mirrored: bool) -> list[Member]:
    found = [Member(node, cls.__module__, mirrored) for node in _nodes(cls)]
    overloaded = {one.name for one in found if _said(one, "overload")}
    _document([one for one in found if one.name in overloaded])
    return [one for one in found if _is_public(one) and (one.name not in overloaded or _said(one, "overload"))]


def _document(overloaded: list[Member]) -> None:
    """Give the first overload the docstring of the function that they are all of."""
    about = {one.name: ast.get_docstring(one.node) for one in overloaded if not _said(one, "overload")}  # type: ignore[arg-type]
    for one in overloaded:
        if _said(one, "overload") and (said := about.pop(one.name, None)):
            one.node.body = [ast.Expr(ast.Constant(said))]  # type: ignore[union-attr]


def _nodes(cls: type) -> list[Function | ast.AnnAssign]:
    module = ast.parse(inspect.getsource(sys.modules[cls.__module__]))
    [found] = [node for node in module.body if isinstance(node, ast.ClassDef) and node.name == cls.__name__]
    return [node for node in found.body if isinstance(node, Function | ast.AnnAssign)]


def _is_public(member: Member) -> bool:
    return member.name in SHOWN or not member.name.startswith("_")


def _said(member: Member, decorator: str) -> bool:
    return any(decorator in ast.unparse(one) for one in getattr(member.node, "decorator_list", ()))


def _written(member: Member) -> ast.stmt:
    if isinstance(member.node, ast.AnnAssign):
        of = ast.unparse(member.node.annotation)
        return ast.parse(f"@property\ndef {member.name}(self) -> {of}: ...").body[0]
    node, about = member.node, without_await(ast.get_docstring(member.node)) or ""
    node.args.defaults = [_default(value) for value in node.args.defaults]
    node.args.kw_defaults = [value and _default(value) for value in node.args.kw_defaults]
    body: list[ast.stmt] = [ast.Expr(ast.Constant(about.replace("\n", "\n    ") or ...))]
    kept = [one for one in node.decorator_list if ast.unparse(one) in ("staticmethod", "overload", "property")]
    returns = _without_await(node.returns) if member.mirrored else node.returns
    return ast.fix_missing_locations(ast.FunctionDef(node.name, node.args, body, kept, returns))


def _default(value: ast.expr) -> ast.expr:
    return value if isinstance(value, ast.Constant) else ast.Constant(...)


def _without_await(returns: ast.expr | None) -> ast.expr | None:
    if isinstance(returns, ast.Subscript) and (form := FORMS.get(ast.unparse(returns.value))) is not None:
        return ast.Subscript(ast.Name(form), returns.slice) if form else returns.slice
    return returns


def _imports(member: Member) -> Iterator[str]:
    """What its annotations and decorators need that the stub does not define."""
    froms = {
        alias.asname or alias.name: f"from {node.module} import {ast.unparse(alias)}"
        for node in _imported(member.module)
        for alias in node.names
    }
    for name in _names(member) - {*sync.__all__, "T"}:
        if name in froms or not hasattr(builtins, name):
            yield froms.get(name, f"from {member.module} import {name}")


def _imported(module: str) -> list[ast.ImportFrom]:
    found = ast.walk(ast.parse(inspect.getsource(sys.modules[module])))
    return [node for node in found if isinstance(node, ast.ImportFrom)]


def _names(member: Member) -> set[str]:
    node = member.node
    if isinstance(node, ast.AnnAssign):
        parts: list[ast.AST | None] = [node.annotation]
    else:
        given = node.args
        every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
        parts = [one.annotation for one in every if one]
        parts += [_without_await(node.returns) if member.mirrored else node.returns]
        parts += [one for one in node.decorator_list if ast.unparse(one) == "overload"]
    return {name.id for part in parts if part for name in ast.walk(part) if isinstance(name, ast.Name)}


def _ruff(*what: str, text: str) -> str:
    command = [str(Path(sys.executable).with_name("ruff")), *what, "--stdin-filename", str(PAGE)]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    if "--check" not in sys.argv:
        PAGE.write_text(page(), "utf-8")
    elif PAGE.read_text("utf-8") != page():
        raise SystemExit("src/everthread/sync/__init__.pyi is not what the code says: run `make reference`.")

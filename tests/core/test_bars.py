"""How large a function or a file may grow before it must be split: the longest ones decide how code reads."""

from __future__ import annotations

import ast
from pathlib import Path

import everthread

BRANCHES, USUAL_BRANCHES, LINES = 15, 6, 450  # of any function, of nine functions in ten, of any file
BRANCHING = (
    ast.If, ast.IfExp, ast.BoolOp, ast.For, ast.AsyncFor, ast.While,
    ast.comprehension, ast.match_case, ast.ExceptHandler,
)  # fmt: skip
ROOT = Path(everthread.__file__).parent


def test_no_function_has_more_than_15_branches() -> None:
    assert {name: count for name, count in branches().items() if count > BRANCHES} == {}


def test_nine_functions_in_ten_have_at_most_6_branches() -> None:
    counts = sorted(branches().values())
    assert counts[len(counts) * 9 // 10] <= USUAL_BRANCHES


def test_no_file_has_more_than_450_lines() -> None:
    lines = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in ROOT.rglob("*.py")}
    assert {name: count for name, count in lines.items() if count > LINES} == {}


def branches() -> dict[str, int]:
    """The branches of each function, those of the functions inside it included, by file, line and name."""
    return {
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}": sum(
            isinstance(inner, BRANCHING) for inner in ast.walk(node)
        )
        for path in ROOT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }

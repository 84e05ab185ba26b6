"""How large a function or a file may grow before it must be split: the longest ones decide how code reads.

Branches are counted as McCabe does: one for a function, and one for each way out of its straight line.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import everthread

BRANCHES, LINES = 15, 450  # of any function, of any file
USUAL_BRANCHES, USUAL_LINES = 6, 20  # of nine functions in ten
BRANCHING = (
    ast.If, ast.IfExp, ast.For, ast.AsyncFor, ast.While,
    ast.comprehension, ast.match_case, ast.ExceptHandler,
)  # fmt: skip
ROOT = Path(everthread.__file__).parent


def test_no_function_has_more_than_15_branches() -> None:
    assert {name: count for name, count in branches().items() if count > BRANCHES} == {}


def test_nine_functions_in_ten_have_at_most_6_branches() -> None:
    counts = sorted(branches().values())
    assert counts[len(counts) * 9 // 10] <= USUAL_BRANCHES


def test_nine_functions_in_ten_have_at_most_20_lines() -> None:
    lengths = sorted(1 + (node.end_lineno or 0) - node.lineno for _, node in functions())
    assert lengths[len(lengths) * 9 // 10] <= USUAL_LINES


def test_no_file_has_more_than_450_lines() -> None:
    lines = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in ROOT.rglob("*.py")}
    assert {name: count for name, count in lines.items() if count > LINES} == {}


Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions() -> Iterator[tuple[str, Function]]:
    """Each function with its file and the line where it begins."""
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}", node


def branches() -> dict[str, int]:
    """The branches of each function, those of the functions inside it included."""
    return {name: 1 + sum(map(_ways, ast.walk(node))) for name, node in functions()}


def _ways(node: ast.AST) -> int:
    return len(node.values) - 1 if isinstance(node, ast.BoolOp) else isinstance(node, BRANCHING)

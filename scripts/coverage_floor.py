"""Fail when coverage falls below the project's floors.

coverage.py knows a single threshold that mixes lines and branches. Everthread keeps one for each, in
`[tool.everthread.coverage]` of pyproject.toml. This reads the report that `coverage json` wrote and compares.
"""

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def main(report: Path) -> int:
    floors = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["everthread"]["coverage"]
    totals = json.loads(report.read_text("utf-8"))["totals"]
    reached = {
        "lines": percent(totals, "covered_lines", "num_statements"),
        "branches": percent(totals, "covered_branches", "num_branches"),
    }
    below = [name for name, value in reached.items() if value < floors[name]]
    for name, value in reached.items():
        verdict = "BELOW THE FLOOR" if name in below else "ok"
        print(f"coverage of {name}: {value:.1f} % (floor {floors[name]} %) {verdict}")
    if below:
        print(f"Add tests that reach more {' and '.join(below)}; the report above lists what is missing.")
    return 1 if below else 0


def percent(totals: dict[str, Any], covered: str, possible: str) -> float:
    """An empty report counts as 0 %: measuring nothing is a fault of the set-up, not full coverage."""
    return 100 * float(totals[covered]) / totals[possible] if totals[possible] else 0.0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "coverage.json")))

"""How long a process takes from its start to its end: a bare Python, the package imported, the command's help.

They take turns, so that what else the machine does falls on all of them. The bars are 100 ms for the import and 200 ms
for the help, or three times a bare start, whichever is more. Importing the package fetches nothing yet, so what a
program waits for when it first uses it is told as well.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

COMMAND = str(Path(sys.executable).parent / "everthread")
BARE = "python -c pass"
PROCESSES = {
    BARE: [sys.executable, "-c", "pass"],
    "import everthread": [sys.executable, "-c", "import everthread"],
    "from everthread import Everthread": [sys.executable, "-c", "from everthread import Everthread"],
    "everthread --help": [COMMAND, "--help"],
}
BARS = {"import everthread": 100.0, "everthread --help": 200.0}
TIMES = 3  # a bare start


class Started(NamedTuple):
    """Milliseconds, as medians."""

    what: str
    ours: float
    bare: float | None = None
    bar: float | None = None


def cold_starts(times: int) -> list[Started]:
    spent: dict[str, list[float]] = {what: [] for what in PROCESSES}
    for _ in range(times + 1):
        for what, command in PROCESSES.items():
            began = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            spent[what].append((time.perf_counter() - began) * 1000)
    # The first of each may have to compile what the others find compiled.
    medians = {what: statistics.median(list_[1:]) for what, list_ in spent.items()}
    bare = medians.pop(BARE)
    bars = {what: max(bar, TIMES * bare) for what, bar in BARS.items()}
    ours = [Started(what, found, bare, bars.get(what)) for what, found in medians.items()]
    return [Started(BARE, bare), *ours]

"""What a benchmark tells: figures with bars that they must not miss, as a table or as JSON; and the store for it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.postgres_server import ENVIRONMENT_VARIABLE, PrivatePostgres, postgres_for_tests


class Result(NamedTuple):
    """`least`: the bar is a floor, otherwise a ceiling. Without a unit the figure is a share or a count."""

    engine: str
    what: str
    ours: float
    unit: str = ""
    bar: float | None = None
    least: bool = False
    other: float | None = None
    note: str = ""

    @property
    def missed(self) -> bool:
        return self.bar is not None and (self.ours < self.bar if self.least else self.ours > self.bar)


@contextmanager
def store(engine: str, folder: str, *, private: bool = False) -> Iterator[str]:
    """The address of an empty store that is gone afterwards. `private`: the server's files lie in the folder, too."""
    if engine == "sqlite":
        yield f"sqlite:///{folder}/bench.db"
        return
    wanted = private and ENVIRONMENT_VARIABLE not in os.environ
    with PrivatePostgres(parent=Path(folder)) if wanted else postgres_for_tests() as server:
        yield server.create_database("bench")


def say(engine: str, what: str) -> None:
    print(f"  {engine}: {what} …", file=sys.stderr, flush=True)


def report(results: list[Result], *, other: str, as_json: bool) -> None:
    """All results, beside those of the `other`, whatever that is."""
    if as_json:
        print(json.dumps([{**result._asdict(), "missed": result.missed} for result in results], indent=2))
        return
    print(f"| engine | what | Everthread | {other} | bar | |")
    print("| --- | --- | ---: | ---: | ---: | --- |")
    for r in results:
        ours, beside = _figure(r.ours, r.unit), "" if r.other is None else _figure(r.other, r.unit)
        bar = "" if r.bar is None else f"{'≥' if r.least else '≤'} {_figure(r.bar, r.unit)}"
        print(f"| {r.engine} | {r.what} | {ours} | {beside} | {bar}{' **missed**' if r.missed else ''} | {r.note} |")
    bars = [result for result in results if result.bar is not None]
    print(f"\n{sum(result.missed for result in bars)} of {len(bars)} bars missed.")


def _figure(figure: float, unit: str) -> str:
    if not unit:
        return f"{figure:.3f}".removesuffix(".000")
    return f"{figure:,.2f} {unit}" if abs(figure) < 10 else f"{figure:,.1f} {unit}"

"""Charts as text: bars in eighths of a character, lines and points in dots of Braille, eight to a character.

Several series are told apart by their colours. Where there are no colours each has a picture of its own, all to the
same scale, because nobody could tell the lines apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle, pairwise
from math import isfinite
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from everthread.core.canvas import Chart, Series
from everthread.language.shown import printable

COLOURS = ("cyan", "yellow", "magenta", "green", "blue", "red")
NOTHING = "There are no values in it."
EIGHTHS = " ▏▎▍▌▋▊▉█"
LEAST_BAR = 6  # columns of the longest bar
SHORT = 6  # digits of a number on a scale
LOWEST, HIGHEST = 6, 16  # lines of a plot
DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # of a Braille character, by line and column
BRAILLE = 0x2800

Number = int | float


def shown_number(value: Number, digits: int = 10) -> str:
    """A number as people write it: whole where it is, and of no more digits than are of use."""
    return f"{value + 0.0:.{digits}g}" if isinstance(value, float) else str(value)  # which makes 0 of -0


class Drawn:
    """A chart as wide as there is room."""

    def __init__(self, chart: Chart) -> None:
        self._chart = chart

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        chart, width = self._chart, options.max_width
        if not any(value is not None for series in chart.series for value in _values(series)):
            yield Text(NOTHING, style="dim")
            return
        if chart.unit:
            yield Text(one_line(chart.unit), style="dim")
        ascii_only = options.ascii_only
        if chart.chart == "bar":
            yield from _bars(_rows_of(chart), width, ascii_only)
        elif chart.chart == "pie":
            yield from _bars(_shares_of(chart), width, ascii_only)
        else:
            plain = console.color_system is None or console.no_color
            yield from _plots(chart, width, ascii_only, apart=plain)


def one_line(text: str) -> str:
    return printable(" ".join(text.split()))


def _values(series: Series) -> list[float | None]:
    """Its values, none where there is no number that can be drawn."""
    return [value if value is not None and isfinite(value) else None for value in series.values]


# -- bars --------------------------------------------------------------------------------------------------


class Bar(NamedTuple):
    """`value`: None where there is none. `told`: how it is written after the bar."""

    label: str
    series: str
    value: float | None
    told: str
    colour: str


def _rows_of(chart: Chart) -> list[Bar]:
    """Bar by bar, those of all series for a label together."""
    every = [(one_line(series.name) if len(chart.series) > 1 else "", _values(series)) for series in chart.series]
    count = max(len(values) for _, values in every)
    rows = []
    for place in range(count):
        label = one_line(chart.labels[place]) if place < len(chart.labels) else str(place + 1)
        for (name, values), colour in zip(every, cycle(COLOURS), strict=False):
            value = values[place] if place < len(values) else None
            rows.append(Bar(label, name, value, "–" if value is None else shown_number(value), colour))
            label = ""  # which stands above those that follow
    return rows


def _shares_of(chart: Chart) -> list[Bar]:
    """A pie, piece by piece: what share of the whole each is."""
    pieces = [
        (one_line(chart.labels[place] if place < len(chart.labels) else series.name) or str(place + 1), value)
        for series in chart.series
        for place, value in enumerate(_values(series))
        if value is not None
    ]
    whole = sum(max(value, 0.0) for _, value in pieces) or 1.0
    widest = max(len(shown_number(value)) for _, value in pieces)
    return [
        Bar(label, "", max(value, 0.0), f"{max(value, 0.0) / whole:.1%}  {shown_number(value):>{widest}}", colour)
        for (label, value), colour in zip(pieces, cycle(COLOURS), strict=False)
    ]


def _bars(rows: list[Bar], width: int, ascii_only: bool) -> Iterator[Text]:
    told = max(cell_len(row.told) for row in rows)
    label = min(max(cell_len(row.label) for row in rows), max(width // 3, 1))
    series = min(max(cell_len(row.series) for row in rows), max(width // 5, 1))
    before = label + 1 + (series + 1 if series else 0)
    room = max(LEAST_BAR, width - before - told - 1)
    scale = _Scale.of([row.value for row in rows if row.value is not None] + [0.0])
    for row in rows:
        line = Text(_cut(row.label, label) + " ")
        line.append(_cut(row.series, series) + " " if series else "", style="dim")
        line.append(_bar(row.value or 0.0, scale, room, ascii_only), style=row.colour)
        line.append(f" {row.told.rjust(told)}")
        yield line


def _bar(value: float, scale: _Scale, room: int, ascii_only: bool) -> str:
    """A bar between nothing and the value; what is below nothing lies left of it."""
    zero, end = scale.share(0.0) * room, scale.share(value) * room
    if scale.low < 0 or ascii_only:
        first, last = sorted((round(zero), round(end)))
        return (" " * first + ("#" if ascii_only else "█") * (last - first)).ljust(room)
    eighths = max(round(end * 8), 1 if value else 0)
    return ("█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()).ljust(room)


def _cut(text: str, width: int) -> str:
    """A text of exactly so many columns."""
    return set_cell_size(text, width) if cell_len(text) <= width else set_cell_size(text, width - 1) + "…"


class _Scale(NamedTuple):
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> _Scale:
        """From the lowest to the highest; from nothing, where that is the same."""
        low, high = min(values), max(values)
        return cls(low, high) if low < high else cls(min(low, 0.0), max(high, 0.0) or float(not low))

    def share(self, value: float) -> float:
        """Where a value lies: from 0 to 1. Halves, because the whole of two large numbers may be more than there is."""
        whole = self.high / 2 - self.low / 2
        return (value / 2 - self.low / 2) / whole if whole else 0.0


# -- lines, areas, points ----------------------------------------------------------------------------------


Point = tuple[float, float]


class Curve(NamedTuple):
    """The points of a series; None where its line is interrupted."""

    name: str
    points: list[Point | None]
    colour: str


def _plots(chart: Chart, width: int, ascii_only: bool, *, apart: bool) -> Iterator[Text]:
    curves = [
        Curve(one_line(series.name) or str(number), list(_points(series)), colour)
        for number, (series, colour) in enumerate(zip(chart.series, cycle(COLOURS), strict=False), 1)
    ]
    points = [point for curve in curves for point in curve.points if point]
    if not points:
        yield Text(NOTHING, style="dim")
        return
    across = _Scale.of([x for x, _ in points])
    upward = _Scale.of([y for _, y in points] + [0.0] * (chart.chart == "area"))
    for group in [[curve] for curve in curves] if apart else [curves]:
        if len(curves) > 1:
            yield _legend(group, ascii_only)
        plot = _Plot(chart, across, upward, width, ascii_only)
        for curve in group:
            plot.add(curve)
        yield from plot.lines()


def _legend(curves: Sequence[Curve], ascii_only: bool) -> Text:
    mark = "-" if ascii_only else "━"
    return Text("   ").join(Text.assemble((mark, curve.colour), f" {curve.name}") for curve in curves)


def _points(series: Series) -> Iterator[Point | None]:
    """Its points in their order."""
    xs = series.x or tuple(map(float, range(len(series.values))))
    for x, value in zip(xs, _values(series), strict=False):
        yield None if value is None or not isfinite(x) else (x, value)


class _Plot:
    """Dots in a field of characters, with a scale beside and below it."""

    def __init__(self, chart: Chart, across: _Scale, upward: _Scale, width: int, ascii_only: bool) -> None:
        self._chart, self._across, self._upward, self._ascii = chart, across, upward, ascii_only
        self._top, self._bottom = shown_number(upward.high, SHORT), shown_number(upward.low, SHORT)
        self._beside = max(len(self._top), len(self._bottom))
        self._columns = max(2, width - self._beside - 2)
        self._rows = min(HIGHEST, max(LOWEST, width // 8))
        self._mark = "*" if ascii_only else "•" if chart.chart == "scatter" else ""
        self._wide, self._high = (1, 1) if self._mark else (2, 4)  # dots of a character
        self._dots: dict[tuple[int, int], int] = {}
        self._colours: dict[tuple[int, int], str] = {}

    def add(self, curve: Curve) -> None:
        for point in filter(None, curve.points):
            self._dot(*self._place(point), curve.colour)
        if self._chart.chart == "scatter":
            return
        for before, after in pairwise(curve.points):
            if before and after:
                self._join(self._place(before), self._place(after), curve.colour)

    def _place(self, point: Point) -> tuple[int, int]:
        """The dot that a point is, counted from below on the left."""
        x = self._across.share(point[0]) * (self._columns * self._wide - 1)
        return round(x), round(self._upward.share(point[1]) * (self._rows * self._high - 1))

    def _join(self, one: tuple[int, int], other: tuple[int, int], colour: str) -> None:
        steps = max(abs(other[0] - one[0]), abs(other[1] - one[1]), 1)
        for step in range(steps + 1):
            x = round(one[0] + (other[0] - one[0]) * step / steps)
            self._dot(x, round(one[1] + (other[1] - one[1]) * step / steps), colour)

    def _dot(self, x: int, y: int, colour: str) -> None:
        ground = self._place((self._across.low, 0.0))[1] if self._chart.chart == "area" else y
        for height in range(min(y, ground), max(y, ground) + 1):
            down = self._rows * self._high - 1 - height
            cell = (down // self._high, x // self._wide)
            self._dots[cell] = self._dots.get(cell, 0) | DOTS[down % self._high][x % self._wide]
            self._colours[cell] = colour

    def lines(self) -> Iterator[Text]:
        told = {0: self._top, self._rows - 1: self._bottom}
        tick, side, corner, floor = "+|+-" if self._ascii else "┤│└─"
        for row in range(self._rows):
            line = Text(f"{told.get(row, ''):>{self._beside}} {tick if row in told else side}", style="dim")
            for column in range(self._columns):
                line.append(*self._character((row, column)))
            yield line
        yield Text(f"{'':>{self._beside}} {corner}{floor * self._columns}", style="dim")
        yield Text(f"{'':>{self._beside}}  {self._below()}", style="dim")

    def _character(self, cell: tuple[int, int]) -> tuple[str, str]:
        dots = self._dots.get(cell, 0)
        return (self._mark or chr(BRAILLE + dots), self._colours[cell]) if dots else (" ", "")

    def _below(self) -> str:
        """What stands below the field: as many labels as have room, or the ends of the scale."""
        said, end = "", -2
        for x, label in self._labels():
            size = cell_len(label)
            first = round(self._across.share(x) * (self._columns - 1)) - size // 2
            first = max(0, min(first, self._columns - size))
            if first >= end + 2 and size <= self._columns:
                said += " " * (first - cell_len(said)) + label
                end = first + size
        return said

    def _labels(self) -> list[tuple[float, str]]:
        chart, across = self._chart, self._across
        if chart.labels and not any(series.x for series in chart.series):
            return [(float(place), one_line(label)) for place, label in enumerate(chart.labels) if place <= across.high]
        return [(end, shown_number(end, SHORT)) for end in across]

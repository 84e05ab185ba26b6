"""What the model is told of the canvas: a line for each element, with its type, id, title and the gist of its content.

It is told after the user's words, and stays there for as long as they are sent. The first time all of it is told, and
from then on only what is otherwise: telling it whole at every change would cost the model's attention, and the user
the price of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from everthread.core.canvas.changes import Change, Fill, Mode, Put, Remove, Tick, Update
from everthread.core.canvas.elements import (
    Card,
    Cell,
    Chart,
    Code,
    Element,
    Field,
    Form,
    List,
    ListItem,
    Picture,
    Series,
    Table,
    TextElement,
)
from everthread.core.canvas.fold import Canvas, Shown

GIST = 240  # characters of an element's content
SHORT = 60  # of a piece of it
ENDS = 4  # values that are told of either end of a series
ROWS, ITEMS = 4, 12
FORMS = 4  # times as much is told of forms and lists
USER = "user"  # who changed something that the agent did not


class Telling:
    """Tells of the canvas from message to message. `size` measures a text, and `most` is the most that is told at once:
    where it is not enough, less is told of each element, and in the end of fewer."""

    def __init__(self, most: int = 0, size: Callable[[str], int] = len) -> None:
        self._most, self._size = most, size
        self._told: dict[str, Shown] = {}
        self._mode = "chat"

    def of(self, canvas: Canvas) -> str:
        """What to say of the canvas as it is now; nothing where the same was said last."""
        now = {one.element.id: one for one in canvas.shown}
        mode = canvas.mode if now else self._mode
        new = [one for id, one in now.items() if not _same(self._told.get(id), one)]
        gone = [id for id in self._told if id not in now]
        lines = self._lines(new)
        said = [self._beginning, *lines] if lines else []
        if len(lines) < len(new):
            said.append(f"- … {len(new) - len(lines)} more, told with the next messages")
        if gone:
            said.append(f"No longer on it: {_listed(gone, ITEMS)}." if now else "The user's canvas is empty now.")
        if mode != self._mode:
            said.append(f"It has the mode {mode}.")
        self._told = {id: one for id, one in self._told.items() if id in now}
        self._told |= {one.element.id: one for one in new[: len(lines)]}
        self._mode = mode
        return "\n".join(said)

    @property
    def _beginning(self) -> str:
        return "On the user's canvas, changed since:" if self._told else "On the user's canvas:"

    def _lines(self, shown: list[Shown]) -> list[str]:
        """A line for each; where that is too much, shorter lines, and then the first of them."""
        lines = [_told_of(one, GIST) for one in shown]
        for gist in (GIST // 2, GIST // 4, 0):
            if self._fits(lines):
                return lines
            lines = [_told_of(one, gist) for one in shown]
        while len(lines) > 1 and not self._fits(lines):
            lines.pop()
        return lines

    def _fits(self, lines: list[str]) -> bool:
        return not self._most or self._size("\n".join(lines)) <= self._most


def _same(before: Shown | None, now: Shown) -> bool:
    return before is not None and (before.element, before.by) == (now.element, now.by)


def _told_of(shown: Shown, gist: int) -> str:
    by = "the user" if shown.by == USER else _short(shown.by)
    return line_of(shown.element, gist) + (f" (changed by {by})" if by else "")


def line_of(element: Element, gist: int = GIST) -> str:
    title = f" {_short(element.title)}:" if element.title else ""
    most = gist * FORMS if isinstance(element, Form | List) else gist  # what the user does there must be told
    told = f" {_cut(_plain(_gist(element)), most)}" if gist else ""
    return f"- {element.__struct_config__.tag} `{element.id}`{title}{told}".rstrip(" :")


def in_words(changes: Iterable[Change]) -> str:
    """What these changes say, and nothing of what was there before: an event must not repeat another."""
    return "\n".join(map(_said, changes))


def _said(change: Change) -> str:
    match change:
        case Mode(mode=mode):
            return "the canvas is emptied" if mode == "clear" else f"the canvas has the mode {mode}"
        case Remove(id=id):
            return f"`{id}` is taken from the canvas"
        case Put(element=element):
            return line_of(element).removeprefix("- ")
        case Update(id=id, fields=fields):
            return f"`{id}` is changed: {', '.join(fields)}"
        case Tick(id=id, item=item, done=done):
            return f"`{id}`: item {item} is {'ticked' if done else 'no longer ticked'}"
        case Fill(id=id, values=values):
            filled = [f"{name}: {_cell(value)}" for name, value in values.items()]
            return f"`{id}` is filled in: {_listed(filled, ITEMS, '; ')}"


def _gist(element: Element) -> str:
    match element:
        case Card(text=text, link=link):
            return " ".join(filter(None, (_plain(text), link)))
        case TextElement(text=text):
            return _plain(text)
        case Chart():
            return _chart(element)
        case Table():
            return _table(element)
        case Picture():
            return _picture(element)
        case List():
            return _list(element)
        case Code():
            return _code(element)
        case Form(fields=fields):
            return _listed([_field(field) for field in fields], ITEMS, "; ")


def _list(told: List) -> str:
    """Its first items, and of the others those that are ticked."""
    rest = [f"{number} {_item(item, told.boxes)}" for number, item in enumerate(told.items, 1)][ITEMS:]
    ticked = [told for told, item in zip(rest, told.items[ITEMS:], strict=True) if item.done]
    listed = _listed([_item(item, told.boxes) for item in told.items], ITEMS, "; ")
    return f"{listed}, ticked of these: {_listed(ticked, ITEMS, '; ')}" if ticked else listed


def _table(table: Table) -> str:
    told = "; ".join(", ".join(_short(_cell(cell)) for cell in row) for row in table.rows[:ROWS])
    return f"{len(table.rows)} rows of {_listed(table.columns, ITEMS)}: {told}{_more(len(table.rows), ROWS)}"


def _picture(picture: Picture) -> str:
    size = f"{picture.width}×{picture.height}" if picture.width and picture.height else ""
    return " ".join(filter(None, (picture.alt, size, picture.url)))


def _code(code: Code) -> str:
    lines = code.code.count("\n") + 1
    return f"{code.language or 'code'}, {lines} line{'' if lines == 1 else 's'}: {_plain(code.code)}"


def _chart(chart: Chart) -> str:
    told = "; ".join(_series(one, chart.labels) for one in chart.series)
    unit = f" in {_short(chart.unit)}" if chart.unit else ""
    return f"{chart.chart}{unit}: {told}"


def _series(series: Series, labels: tuple[str, ...]) -> str:
    """Its first and last values: what lies between, the user sees."""
    names = series.x or labels
    pairs = [
        f"{_short(_cell(names[place]))} {_cell(value)}" if place < len(names) else _cell(value)
        for place, value in enumerate(series.values)
    ]
    if len(pairs) > 2 * ENDS:
        pairs = [*pairs[:ENDS], f"… ({len(pairs)} values) …", *pairs[-ENDS:]]
    return f"{_short(series.name)} {', '.join(pairs)}".strip()


def _item(item: ListItem, boxes: bool) -> str:
    return f"[{'x' if item.done else ' '}] {_short(item.text)}" if boxes else _short(item.text)


def _field(field: Field) -> str:
    value = "not filled in" if field.value is None else _cut(_plain(_cell(field.value)), GIST)
    return f"{_short(field.label or field.name)}: {value}"


def _cell(value: Cell) -> str:
    match value:
        case None:
            return "–"
        case bool():
            return "yes" if value else "no"
        case float():
            rounded = float(f"{value:.6g}")
            return str(int(rounded)) if rounded.is_integer() and abs(rounded) < 1e15 else str(rounded)
        case _:
            return _cut(_plain(str(value)), GIST)


def _listed(pieces: Iterable[str], most: int, between: str = ", ") -> str:
    found = list(pieces)
    return between.join(found[:most]) + _more(len(found), most)


def _more(count: int, most: int) -> str:
    return f"; … {count - most} more" if count > most else ""


def _plain(text: str) -> str:
    return " ".join(text.split())


def _short(text: str) -> str:
    return _cut(_plain(text), SHORT)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"

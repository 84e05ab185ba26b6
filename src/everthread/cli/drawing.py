"""The canvas on a terminal: a frame for each element, as wide as the terminal.

Pure functions from values to what rich renders. What an element holds is data: none of it can steer the terminal, no
address is loaded or followed, and HTML in a text is shown as it is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest

from markdown_it import MarkdownIt  # with which rich reads Markdown
from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.constrain import Constrain
from rich.markdown import Markdown
from rich.panel import Panel
from rich.segment import Segment
from rich.style import Style
from rich.syntax import Syntax
from rich.table import Table as Grid
from rich.text import Text

from everthread.cli.charts import Drawn, one_line, shown_number
from everthread.core.canvas import (
    Canvas,
    Card,
    Chart,
    Code,
    Element,
    Field,
    Form,
    List,
    Picture,
    Shown,
    Table,
    TextElement,
)
from everthread.core.canvas.elements import Cell
from everthread.language.shown import counted, printable

EMPTY = "Nothing is on the canvas."
WIDEST_TEXT = 100  # columns that are easily read
GAP = 3  # columns between those of a table
NARROWEST = 8  # columns of a table's column that is still read with pleasure
ABSENT = "–"


def drawn(canvas: Canvas) -> RenderableType:
    """The whole canvas, in its order."""
    if not canvas:
        return Text(EMPTY, style="dim")
    about = Text(f"{counted(len(canvas.shown), 'element')} · mode {one_line(canvas.mode)}", style="dim")
    return _Harmless(Group(about, *map(_framed, canvas.shown)))


class _Harmless:
    """What is drawn, without anything that would steer the terminal. Every text is looked at before as well, so that it
    takes the room that it was given; this holds whatever the libraries make of it."""

    def __init__(self, within: RenderableType) -> None:
        self._within = within

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for text, style, control in console.render(self._within, options):
            if not control:
                yield Segment(printable(text), _unlinked(style))


def _unlinked(style: Style | None) -> Style | None:
    """Without a link, which a terminal would open under words that say something else."""
    return style.update_link(None) if style and style.link else style


def _framed(shown: Shown) -> RenderableType:
    element = shown.element
    kind = str(element.__struct_config__.tag)
    changed = f" · changed by {one_line(shown.by)}" if shown.by else ""
    return Panel(
        _inside(element),
        title=Text(one_line(element.title) or kind, style="bold"),
        title_align="left",
        subtitle=Text(f"{kind} {one_line(element.id)}{changed}", style="dim"),
        subtitle_align="right",
        border_style="dim",
        box=box.ROUNDED,
    )


def _inside(element: Element) -> RenderableType:
    match element:
        case Card(text=text, link=link):
            return Group(_markdown(text), *([Text(one_line(link), style="blue underline")] if link else []))
        case TextElement(text=text):
            return _markdown(text)
        case Chart():
            return Drawn(element)
        case Table():
            return _Rows(element)
        case Picture():
            return _picture(element)
        case List():
            return _list(element)
        case Code(code=code, language=language):
            return Syntax(
                printable(code.rstrip()),
                one_line(language),
                theme="ansi_dark",
                background_color="default",
                word_wrap=True,
            )
        case Form():
            return _form(element)


# -- text --------------------------------------------------------------------------------------------------


def _markdown(text: str) -> RenderableType:
    made = Markdown("", code_theme="ansi_dark", hyperlinks=False)
    made.parsed = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"]).parse(printable(text))
    for token in made.parsed:
        for one in token.children or ():
            one.content = printable(one.content)  # &#8238; is a character only now
    return Constrain(made, WIDEST_TEXT)


def _cell(value: Cell) -> str:
    match value:
        case None:
            return ABSENT
        case bool():
            return "yes" if value else "no"
        case int() | float():
            return shown_number(value)
        case _:
            return printable(value)


# -- tables ------------------------------------------------------------------------------------------------


class _Rows:
    """A table; where its columns would be too narrow, a line for each cell of a row."""

    def __init__(self, table: Table) -> None:
        count = max([len(table.columns), *map(len, table.rows)])
        self._columns = [*map(one_line, table.columns), *[""] * (count - len(table.columns))]
        self._rows = table.rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        columns = list(zip_longest(*self._rows, fillvalue=None)) or [()] * len(self._columns)
        columns += [(None,) * len(self._rows)] * (len(self._columns) - len(columns))
        needed = [_needed(name, cells) for name, cells in zip(self._columns, columns, strict=True)]
        if sum(needed) + GAP * (len(needed) - 1) > options.max_width:
            yield from self._one_below_another()
        else:
            yield self._grid([_are_numbers(cells) for cells in columns], needed)

    def _grid(self, numbers: list[bool], needed: list[int]) -> RenderableType:
        grid = Grid(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False, padding=(0, 1), show_edge=False)
        for name, right, width in zip(self._columns, numbers, needed, strict=True):
            grid.add_column(Text(name), justify="right" if right else "left", min_width=width, overflow="fold")
        for row in self._rows:
            grid.add_row(*[Text(_cell(value)) for value in row], *[ABSENT] * (len(self._columns) - len(row)))
        return grid

    def _one_below_another(self) -> Iterable[RenderableType]:
        for number, row in enumerate(self._rows):
            if number:
                yield Text("")
            lines = zip_longest(self._columns, map(_cell, row), fillvalue=ABSENT)
            yield _pairs([(Text(name, style="bold"), Text(value)) for name, value in lines])


def _needed(name: str, cells: Sequence[Cell]) -> int:
    """The columns of the terminal that a column must at least have."""
    return min(NARROWEST, max(cell_len(name), *(cell_len(_cell(cell)) for cell in cells), 1))


def _are_numbers(cells: Sequence[Cell]) -> bool:
    numbers = [isinstance(cell, int | float) and not isinstance(cell, bool) for cell in cells if cell is not None]
    return bool(numbers) and all(numbers)


def _pairs(lines: Iterable[tuple[RenderableType, RenderableType]]) -> RenderableType:
    """Two columns, without lines between them."""
    grid = Grid.grid(padding=(0, 1))
    grid.add_column(overflow="fold")
    grid.add_column(overflow="fold", ratio=1)
    for line in lines:
        grid.add_row(*line)
    return grid


# -- pictures, lists, forms --------------------------------------------------------------------------------


def _picture(picture: Picture) -> RenderableType:
    size = f"{picture.width}×{picture.height}" if picture.width and picture.height else ""
    about = " · ".join(filter(None, (size, one_line(picture.media_type))))
    where = Text(one_line(picture.url), style="blue underline") if picture.url else Text("", style="dim")
    if picture.blob:
        where = Text(f"kept with the conversation: {one_line(picture.blob)[:12]}…", style="dim")
    lines = [Text(one_line(picture.alt) or "A picture"), Text(about, style="dim"), where]
    return Group(*[line for line in lines if line])


def _list(element: List) -> RenderableType:
    return _pairs(
        (Text(_box(item.done) if element.boxes else "•"), Text(printable(item.text), style=_faint(element, item.done)))
        for item in element.items
    )


def _faint(element: List, done: bool) -> str:
    return "dim" if element.boxes and done else ""


def _box(ticked: bool) -> str:
    return "[x]" if ticked else "[ ]"


def _form(form: Form) -> RenderableType:
    fields = _pairs((_label(field), _filled(field)) for field in form.fields)
    return Group(_markdown(form.text), Text(""), fields) if form.text else fields


def _label(field: Field) -> Text:
    return Text(f"{one_line(field.label or field.name)}{' *' if field.required else ''}", style="bold")


def _filled(field: Field) -> Text:
    """What was filled in; of a choice, what there is to choose from."""
    if field.kind == "check":
        return Text(_box(field.value is True))
    if field.kind == "choice" and field.choices:
        given = [f"({'•' if choice == field.value else ' '}) {one_line(choice)}" for choice in field.choices]
        return Text("\n".join(given))
    if field.value is None:
        return Text("not filled in", style="dim italic")
    return Text(_cell(field.value))

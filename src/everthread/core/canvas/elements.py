"""Elements of the canvas: each with an id, by which it is replaced, changed and removed, and a title if it has one.

What they hold is data. Text may be Markdown, but no HTML in it is ever interpreted; a link leads to http or https; a
picture is a blob of the conversation, or an address that is loaded only when the user asks for it, because loading it
would tell its server that somebody reads this.

No field depends on another, so that a change of one field can never make an element unreadable: a row may be longer
than the columns say, and whoever draws a table copes with that.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from everthread.core.values import Value, stored_form
from everthread.errors import BadValue

LINKS = ("https://", "http://")

ChartKind = Literal["line", "bar", "pie", "area", "scatter"]
FieldKind = Literal["text", "long", "number", "date", "choice", "check"]
Cell = str | int | float | bool | None


class _Piece(msgspec.Struct, Value, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    def _form(self) -> dict[str, Any]:
        return stored_form(self)


class _Element(_Piece, tag_field="type", frozen=True, kw_only=True):
    id: str
    title: str = ""


class Card(_Element, tag="card", frozen=True, kw_only=True):
    """A few lines that stand for something, and where there is more of it."""

    text: str = ""
    link: str = ""

    def __post_init__(self) -> None:
        check_link(self.link)


class TextElement(_Element, tag="text", frozen=True, kw_only=True):
    """A longer text, as Markdown."""

    text: str


class Series(_Piece, frozen=True, kw_only=True):
    """Values that belong together; where there is none, null. `x`: where each stands, in a scatter chart."""

    name: str = ""
    values: tuple[float | None, ...] = ()
    x: tuple[float, ...] = ()


class Chart(_Element, tag="chart", frozen=True, kw_only=True):
    """`labels`: what the values of each series stand for, in their order."""

    chart: ChartKind
    series: tuple[Series, ...]
    labels: tuple[str, ...] = ()
    unit: str = ""


class Table(_Element, tag="table", frozen=True, kw_only=True):
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...] = ()


class Picture(_Element, tag="image", frozen=True, kw_only=True):
    """A picture that the conversation keeps (`blob`) or one elsewhere (`url`); `alt` says what it shows."""

    blob: str = ""
    url: str = ""
    alt: str = ""
    media_type: str = ""
    width: int = 0
    height: int = 0

    def __post_init__(self) -> None:
        check_link(self.url)


class ListItem(_Piece, frozen=True, kw_only=True):
    """`id`: by which it is ticked. One that is given none gets one when the list is shown."""

    text: str
    id: str = ""
    done: bool = False


class List(_Element, tag="list", frozen=True, kw_only=True):
    """`boxes`: whether its items can be ticked."""

    items: tuple[ListItem, ...]
    boxes: bool = False

    @property
    def ids(self) -> list[str]:
        """The ids of its items. Where two have the same, the first is meant."""
        return [item.id or str(number) for number, item in enumerate(self.items, 1)]


class Code(_Element, tag="code", frozen=True, kw_only=True):
    code: str
    language: str = ""


class Field(_Piece, frozen=True, kw_only=True):
    """What a form asks for, and what was filled in. `choices`: of which a field of the kind `choice` has one."""

    name: str
    label: str = ""
    kind: FieldKind = "text"
    choices: tuple[str, ...] = ()
    required: bool = False
    value: Cell = None


class Form(_Element, tag="form", frozen=True, kw_only=True):
    fields: tuple[Field, ...]
    text: str = ""  # what stands above it


Element = Card | TextElement | Chart | Table | Picture | List | Code | Form
ELEMENTS: dict[str, type[Element]] = {
    str(one.__struct_config__.tag): one for one in (Card, TextElement, Chart, Table, Picture, List, Code, Form)
}


def check_link(link: str) -> None:
    if link and not link.lower().startswith(LINKS):
        raise BadValue("link", link, "an address that begins with https:// or http://")


def changed(element: Element, fields: dict[str, Any]) -> Element:
    """The element with other values in some of its fields, from plain JSON. BadValue: it has no such field, or that
    cannot be in it."""
    form = stored_form(element) | {name: value for name, value in fields.items() if name not in ("id", "type")}
    return element_of(form)


def element_of(form: object) -> Element:
    """An element from plain JSON. BadValue: it is none."""
    try:
        found: Element = msgspec.convert(form, Element)
    except msgspec.ValidationError as problem:
        raise BadValue("element", form, f"an element of the canvas ({problem})") from None
    return found

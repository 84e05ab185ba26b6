"""The tools by which a model draws on the canvas: eight show an element, the others change or remove one, or set the
mode.

They write nothing, and do not know what is on the canvas. Each makes of its arguments a `Drawing`, which whoever runs
the tool appends together with the result; arguments that fit no element become a result that says why, and nothing is
drawn. They are off unless an agent or the application wants them: `tools=[*canvas_tools(), …]`.

Every schema is closed and names all that there is, so every provider's strict dialect has words for it. That is why
`canvas_update_element` has an argument for each field rather than one object of any names. A text that spells JSON
would be smaller, but models escape code and tables wrongly in there, and no provider watches over what it holds. An
argument that is left out or null leaves its field as it is; no field of an element is ever null, so that says nothing
else.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Annotated, Any, Literal

from everthread.core.canvas import EMPTY, Field, ListItem, Mode, Put, Remove, Series, Update
from everthread.core.canvas.changes import ModeName
from everthread.core.canvas.elements import ELEMENTS, Cell, ChartKind, check_link, element_of
from everthread.core.canvas.limits import checked
from everthread.core.events.kinds import dump
from everthread.core.values import inner_form
from everthread.errors import BadValue
from everthread.tools.functions import FunctionTool, tool
from everthread.tools.results import Drawing

LONGEST_ID = 40  # characters of one that is made of a title
_BLOB = re.compile(r"[0-9a-f]{64}")

Type = Literal["card", "text", "chart", "table", "image", "list", "code", "form"]


Id = Annotated[
    str | None,
    "By which it is changed or removed later; showing one that exists replaces it. Made of the title if absent.",
]
Before = Annotated[str | None, "The id of the element that a new one stands before. Last if absent."]
Title = Annotated[str | None, "What stands above it."]
Words = Annotated[str | None, "Markdown."]
Link = Annotated[str | None, "Where there is more of it: https:// or http://."]
Lines = Annotated[tuple[Series, ...], "The values. A pie has one series."]
Labels = Annotated[tuple[str, ...] | None, "What the values of each series stand for, in their order."]
Unit = Annotated[str | None, "Of the values: EUR, %, days."]
Columns = Annotated[tuple[str, ...], "The names of the columns."]
Rows = Annotated[tuple[tuple[Cell, ...], ...], "Each with a cell for every column."]
Alt = Annotated[str | None, "What the picture shows, in words."]
Url = Annotated[str | None, "Its address, https:// or http://. It is shown as a link, which the user may follow."]
Blob = Annotated[str | None, "In place of an address: the hash of a picture of this conversation, as you were told it."]
Items = Annotated[tuple[ListItem, ...], "In their order."]
Boxes = Annotated[bool | None, "Whether the user can tick the items."]
Language = Annotated[str | None, "The programming language, such as python."]
Fields = Annotated[tuple[Field, ...], "What the user is asked for."]


def canvas_tools() -> list[FunctionTool[..., Any]]:
    """The tools by which a model draws on the canvas: `Everthread.open(…, tools=canvas_tools())`, or of one message
    `talk.say(…, tools=canvas_tools())`."""
    functions: list[Callable[..., Drawing]] = [
        *(_add_card, _show_text, _add_chart, _add_table, _add_image, _add_list, _add_code, _add_form),
        *(_update_element, _remove_element, _set_mode),
    ]
    return [tool(function, name=f"canvas{function.__name__}") for function in functions]


def _add_card(
    title: Title = None, text: Words = None, link: Link = None, id: Id = None, before: Before = None
) -> Drawing:
    """Shows a card on the user's canvas: a few lines that stand for something."""
    return _shown("card", id, before, title=title, text=text, link=link)


def _show_text(text: Annotated[str, "Markdown."], title: Title = None, id: Id = None, before: Before = None) -> Drawing:
    """Shows a longer text on the user's canvas."""
    return _shown("text", id, before, title=title, text=text)


def _add_chart(
    chart: ChartKind,
    series: Lines,
    labels: Labels = None,
    unit: Unit = None,
    title: Title = None,
    id: Id = None,
    before: Before = None,
) -> Drawing:
    """Shows a chart on the user's canvas."""
    return _shown("chart", id, before, title=title, chart=chart, series=series, labels=labels, unit=unit)


def _add_table(columns: Columns, rows: Rows, title: Title = None, id: Id = None, before: Before = None) -> Drawing:
    """Shows a table on the user's canvas."""
    return _shown("table", id, before, title=title, columns=columns, rows=rows)


def _add_image(
    url: Url = None, blob: Blob = None, alt: Alt = None, title: Title = None, id: Id = None, before: Before = None
) -> Drawing:
    """Shows a picture on the user's canvas."""
    if bool(url) is bool(blob):
        raise BadValue("url", url, "given, or else blob, but not both")
    return _shown("image", id, before, title=title, url=url, blob=_hash(blob), alt=alt)


def _add_list(items: Items, boxes: Boxes = None, title: Title = None, id: Id = None, before: Before = None) -> Drawing:
    """Shows a list on the user's canvas. You are told which items the user ticks."""
    return _shown("list", id, before, title=title, items=items, boxes=boxes)


def _add_code(
    code: str, language: Language = None, title: Title = None, id: Id = None, before: Before = None
) -> Drawing:
    """Shows code on the user's canvas."""
    return _shown("code", id, before, title=title, code=code, language=language)


def _add_form(
    fields: Fields,
    text: Annotated[str | None, "What stands above the fields."] = None,
    title: Title = None,
    id: Id = None,
    before: Before = None,
) -> Drawing:
    """Shows a form on the user's canvas. You are told what the user fills in."""
    return _shown("form", id, before, title=title, fields=fields, text=text)


def _update_element(
    id: Annotated[str, "That of an element on the canvas."],
    type: Annotated[Type, "Its type. Only fields of this type can be given."],
    title: Title = None,
    text: Words = None,
    link: Link = None,
    chart: ChartKind | None = None,
    series: Lines | None = None,
    labels: Labels = None,
    unit: Unit = None,
    columns: Columns | None = None,
    rows: Rows | None = None,
    items: Items | None = None,
    boxes: Boxes = None,
    code: str | None = None,
    language: Language = None,
    fields: Fields | None = None,
) -> Drawing:
    """Changes an element on the user's canvas: the fields that are given, each as a whole. The others stay.

    A picture is replaced by showing another under its id.
    """
    given = {name: value for name, value in locals().items() if value is not None and name not in ("id", "type")}
    return _updated(id, type, given)


def _remove_element(id: Annotated[str, "That of an element on the canvas."]) -> Drawing:
    """Takes an element off the user's canvas."""
    return Drawing((Remove(id=id),), f"Removed `{id}`.")


def _set_mode(
    mode: Annotated[
        ModeName, "chat: the talk has the screen; split: both; full: the canvas has it; clear: empties it."
    ],
) -> Drawing:
    """Sets how much of the user's screen the canvas has, or empties it."""
    return Drawing((Mode(mode=mode),), "The canvas is empty now." if mode == "clear" else f"Its mode is {mode} now.")


# -- drawings ----------------------------------------------------------------------------------------------


def _shown(type: Type, id: str | None, before: str | None, **fields: Any) -> Drawing:
    given = _plain({name: value for name, value in fields.items() if value is not None})
    element = element_of({"type": type, "id": id or _id_for(type, given), **given})
    put = Put(element=element, before=before or "")
    checked(EMPTY, [put])
    return Drawing((put,), f"Shown as `{element.id}`.")


def _updated(id: str, type: Type, fields: dict[str, Any]) -> Drawing:
    there = [name for name in ELEMENTS[type].__struct_fields__ if name != "id"]
    if unknown := [name for name in fields if name not in there]:
        raise BadValue("type", type, f"one with the field {unknown[0]!r}; it has {', '.join(there)}")
    if not fields:
        raise BadValue("fields", "none", f"some of {', '.join(there)}")
    check_link(fields.get("link", ""))
    return Drawing((Update(id=id, type=type, fields=_plain(fields)),), f"Changed `{id}`.")


def _plain(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields as they are stored. BadValue for a number that JSON cannot say."""
    form: dict[str, Any] = inner_form(fields)
    dump(form)
    return form


def _id_for(type: str, fields: dict[str, Any]) -> str:
    """An id made of the title; of the content, where the title has no words."""
    words = re.findall(r"\w+", fields.get("title", "").lower())
    content = hashlib.sha256(dump(fields).encode()).hexdigest()
    return "-".join(words)[:LONGEST_ID].strip("-_") or f"{type}-{content[:6]}"


def _hash(blob: str | None) -> str | None:
    if blob and not _BLOB.fullmatch(blob):
        raise BadValue("blob", blob, "the hash of a picture: 64 of 0 to 9 and a to f")
    return blob

"""The canvas: what an agent shows its user beside the talk. Its state is a fold of the events that changed it."""

from everthread.core.canvas.changes import Change, Fill, Mode, Put, Remove, Tick, Update, change_of, read_changes
from everthread.core.canvas.elements import (
    Card,
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
from everthread.core.canvas.fold import EMPTY, Canvas, Shown, fold
from everthread.core.canvas.telling import Telling, in_words, line_of

__all__ = [
    "EMPTY",
    "Canvas",
    "Card",
    "Change",
    "Chart",
    "Code",
    "Element",
    "Field",
    "Fill",
    "Form",
    "List",
    "ListItem",
    "Mode",
    "Picture",
    "Put",
    "Remove",
    "Series",
    "Shown",
    "Table",
    "Telling",
    "TextElement",
    "Tick",
    "Update",
    "change_of",
    "fold",
    "in_words",
    "line_of",
    "read_changes",
]

"""The canvas, as a public door: its elements, the changes that are made to it, and what is on it.

from everthread import canvas

await talk.act(canvas.Tick(id="packing", item="2"))
"""

from everthread.core.canvas import (
    Canvas,
    Card,
    Change,
    Chart,
    Code,
    Element,
    Field,
    Fill,
    Form,
    List,
    ListItem,
    Mode,
    Picture,
    Put,
    Remove,
    Series,
    Shown,
    Table,
    TextElement,
    Tick,
    Update,
    change_of,
    fold,
    read_changes,
)

__all__ = [
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
    "TextElement",
    "Tick",
    "Update",
    "change_of",
    "fold",
    "read_changes",
]

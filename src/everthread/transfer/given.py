"""An object of another program's export that knows its place, so that an error can name it.

Exports leave fields out, or write null, where there is nothing to say; a field is then empty, unless it is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from everthread.core.parts import Part, Reasoning, Text
from everthread.providers.checks import a_list, a_string, an_object


class ExportedObject(NamedTuple):
    fields: dict[str, Any]
    where: str

    @classmethod
    def of(cls, value: object, where: str) -> ExportedObject:
        return cls(an_object(value, where), where)

    def at(self, field: str) -> str:
        """Where a field stands, as an error names it."""
        return f"{self.where}.{field}"

    def get(self, field: str) -> Any:
        """A field as it is; None where it is missing."""
        return self.fields.get(field)

    def text(self, field: str) -> str:
        return text_or_null(self.get(field), self.at(field))

    def needed_text(self, field: str) -> str:
        return a_string(self.get(field), self.at(field))

    def object(self, field: str) -> ExportedObject:
        return ExportedObject.of(self.get(field) or {}, self.at(field))

    def needed_object(self, field: str) -> ExportedObject:
        return ExportedObject.of(self.get(field), self.at(field))

    def items(self, field: str) -> Iterator[tuple[Any, str]]:
        """What a list holds, each with its place."""
        for index, item in enumerate(a_list(self.get(field) or [], self.at(field))):
            yield item, f"{self.at(field)}[{index}]"

    def objects(self, field: str) -> Iterator[ExportedObject]:
        """The objects that a list holds."""
        return (ExportedObject.of(item, place) for item, place in self.items(field))


def text_or_null(value: object, where: str) -> str:
    return "" if value is None else a_string(value, where, understood="a string or null")


def text_part(text: str | None, kind: type[Text | Reasoning] = Text) -> list[Part]:
    """A text as a part; none where it is empty or null."""
    return [kind(text=text)] if text else []

"""Happenings: markers by which an application records what happened beside the conversation.

Each kind names a few texts. Whatever else was stored with one, by an application or by another version of Everthread,
is kept in `data`, so that an event of these kinds can always be read and is written as it was. Recall finds a happening
by all of its texts; no model is sent it as a message.

Stored form: one flat JSON object with its `kind`, the texts that are not empty, and `data` beside them.
"""

from __future__ import annotations

import json
from typing import Any, Self

import msgspec

from everthread.core.quotes import Quote
from everthread.core.values import Value
from everthread.errors import BadValue


class Happening(msgspec.Struct, Value, frozen=True, kw_only=True, tag_field="kind"):
    data: dict[str, Any] = {}

    def __post_init__(self) -> None:
        for name in self._texts():
            self._check_text(name, getattr(self, name))
        if "kind" in self.data or not _is_plain(self.data):
            raise BadValue("data", self.data, "plain JSON (lists, not tuples; text keys) without a key 'kind'")

    def _check_text(self, name: str, text: object) -> None:
        if not isinstance(text, str):
            raise BadValue(name, text, "text")
        if name in self.data and (text or _is_text(self.data[name])):
            raise BadValue("data", self.data, f"without {name!r}, which has a field of its own")

    @property
    def kind(self) -> str:
        return str(self.__struct_config__.tag)

    @property
    def quotes(self) -> tuple[Quote, ...]:
        """Of which events it repeats something; it is forgotten with any of them."""
        given = self.data.get("quotes", ())
        return tuple([Quote(*one) for one in given if _is_quote(one)]) if isinstance(given, list) else ()

    @property
    def contents(self) -> dict[str, Any]:
        """All that it says, as it is stored."""
        return {name: text for name in self._texts() if (text := getattr(self, name))} | self.data

    @classmethod
    def read(cls, stored: dict[str, Any]) -> Self:
        """From what is stored, without its kind. What is no text stays in `data`, under its name."""
        texts = {name: stored[name] for name in cls._texts() if _is_text(stored.get(name))}
        return cls(**texts, data={name: value for name, value in stored.items() if name not in texts})

    def _form(self) -> dict[str, Any]:
        return {"kind": self.kind, **self.contents}

    @classmethod
    def _of_form(cls, form: dict[str, Any]) -> Happening:
        return HAPPENINGS[form["kind"]].read({name: said for name, said in form.items() if name != "kind"})

    @classmethod
    def _schema(cls) -> dict[str, Any]:
        texts = {name: {"type": "string"} for name in cls._texts()}
        kinds = {"enum": [*HAPPENINGS]} if cls is Happening else {"const": cls.__struct_config__.tag}
        properties = {"kind": kinds, **texts}
        return {"title": cls.__name__, "type": "object", "properties": properties, "required": ["kind"]}

    @classmethod
    def _fits(cls, form: dict[str, Any]) -> bool:
        return form.get("kind") in (HAPPENINGS if cls is Happening else (cls.__struct_config__.tag,))

    @classmethod
    def _texts(cls) -> list[str]:
        return [name for name in cls.__struct_fields__ if name != "data"]


class ArtifactCreated(Happening, tag="artifact_created", frozen=True):
    """The agent produced something that outlives the turn; `address` says where it is."""

    title: str = ""
    address: str = ""


class UserEdit(Happening, tag="user_edit", frozen=True):
    """The user changed something by hand: `target` says what, and `text` how it reads now."""

    target: str = ""
    text: str = ""


class FlowStarted(Happening, tag="flow_started", frozen=True):
    """A longer piece of work began."""

    name: str = ""


class FlowCompleted(Happening, tag="flow_completed", frozen=True):
    """A longer piece of work came to its end; `result` says with what."""

    name: str = ""
    result: str = ""


class CanvasChanged(Happening, tag="canvas", frozen=True):
    """The canvas changed: `text` says how, and `data` has the `changes`, which `core.canvas` makes and reads. `by`: who
    changed it, empty for the agent."""

    text: str = ""
    by: str = ""


HAPPENINGS: dict[str, type[Happening]] = {
    str(c.__struct_config__.tag): c for c in (ArtifactCreated, UserEdit, FlowStarted, FlowCompleted, CanvasChanged)
}


def artifact_created(title: str, *, address: str = "", **data: Any) -> ArtifactCreated:
    """The agent produced something that outlives the turn; `address` says where it is."""
    return ArtifactCreated(title=title, address=address, data=data)


def user_edit(target: str, text: str = "", **data: Any) -> UserEdit:
    """The user changed something by hand: what, and how it reads now."""
    return UserEdit(target=target, text=text, data=data)


def flow_started(name: str, **data: Any) -> FlowStarted:
    """A longer piece of work began."""
    return FlowStarted(name=name, data=data)


def flow_completed(name: str, result: str = "", **data: Any) -> FlowCompleted:
    """A longer piece of work came to its end."""
    return FlowCompleted(name=name, result=result, data=data)


def canvas_changed(text: str, *, by: str = "", **data: Any) -> CanvasChanged:
    """The canvas changed: in words, by whom, and the `changes`."""
    return CanvasChanged(text=text, by=by, data=data)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _is_quote(given: object) -> bool:
    try:
        msgspec.convert(given, Quote)
    except (msgspec.ValidationError, BadValue):
        return False
    return True


def _is_plain(data: dict[str, Any]) -> bool:
    try:  # Not as ASCII: that would join two lone surrogates.
        return bool(json.loads(json.dumps(data, ensure_ascii=False, allow_nan=False)) == data)
    except (TypeError, ValueError, RecursionError):
        return False

"""The typed pieces of a message: text, image, file, reasoning.

All are frozen values. An image or file is known by the hash of its bytes; the bytes themselves ride along in
`data` only until the log has put them aside, so that a conversation keeps them once and its events stay
small. `meta` holds what a provider wants echoed (signatures, encrypted reasoning), one exact text per
provider name, into which Everthread never looks; or a note of what a foreign format had beside it, which is not sent.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from everthread.core.images import dimensions, media_type_of
from everthread.core.values import Value, stored_form
from everthread.errors import BadValue

NOTES = ('{"fields": ', '{"place": ', '{"message": ')  # with which a note begins (`providers.leftovers`), or once did


class _Part(
    msgspec.Struct,
    Value,
    frozen=True,
    kw_only=True,
    tag_field="type",
    omit_defaults=True,
    forbid_unknown_fields=True,
    gc=False,  # read by the thousand, and never part of a cycle
):
    meta: dict[str, str] = {}

    def _form(self) -> dict[str, Any]:
        return stored_form(self)


class Text(_Part, tag="text", frozen=True):
    text: str


class Reasoning(_Part, tag="reasoning", frozen=True):
    text: str = ""


class Image(_Part, tag="image", frozen=True):
    """Kept in the store (`blob`) or elsewhere (`url`)."""

    blob: str = ""
    url: str = ""
    media_type: str = ""
    width: int = 0
    height: int = 0
    data: bytes | None = None


class File(_Part, tag="file", frozen=True):
    blob: str = ""
    url: str = ""
    media_type: str = ""
    name: str = ""
    size: int = 0
    data: bytes | None = None


Part = Text | Image | File | Reasoning


def text(content: str, *, meta: dict[str, str] | None = None) -> Text:
    return Text(text=content, meta=meta or {})


def image(data: bytes | str, *, media_type: str = "") -> Image:
    """An image from its bytes, whose type and dimensions are read from them where they can be; or from its URL."""
    if isinstance(data, str):
        if "://" not in data:
            raise BadValue("image", data, "bytes, or a URL; of a file: image(Path(…).read_bytes())")
        return Image(url=data, media_type=media_type)
    _check_bytes("image", data)
    width, height = dimensions(data)
    return Image(
        blob=blob_hash(data), media_type=media_type or media_type_of(data), width=width, height=height, data=data
    )


def file(data: bytes, *, name: str = "", media_type: str = "application/octet-stream") -> File:
    """A file from its bytes."""
    _check_bytes("file", data)
    return File(blob=blob_hash(data), media_type=media_type, name=name, size=len(data), data=data)


def _check_bytes(what: str, data: object) -> None:
    if not isinstance(data, bytes):
        raise BadValue(
            what, data, f"bytes{', or a URL' if what == 'image' else ''}; of a file: {what}(Path(…).read_bytes())"
        )


def blob_hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()

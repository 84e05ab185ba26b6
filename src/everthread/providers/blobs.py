"""The bytes of images and files, decoded from base64 and data URLs and encoded again."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from urllib.parse import unquote_to_bytes

from everthread.core.parts import File, Image
from everthread.errors import BadFormat, BadValue

Blob = Callable[[str], bytes]


def from_base64(text: str, where: str) -> bytes:
    try:
        # Wrapped lines are common in stored traces; every other stray character is an error.
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError) as problem:
        raise BadFormat(f"found invalid base64 ({problem})", where=where) from None


def is_data_url(text: str) -> bool:
    return text[:5].lower() == "data:"


def from_data_url(url: str, where: str) -> tuple[str, bytes]:
    """Media type ("" where it is not said) and bytes."""
    head, comma, body = url[5:].partition(",")
    if not comma:
        raise BadFormat("found a data: URL without a comma before its data", where=where)
    if head.lower().endswith(";base64"):
        return head[: -len(";base64")], from_base64(body, where)
    return head, unquote_to_bytes(body.encode("utf-8", "surrogatepass"))


def to_base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def to_data_url(data: bytes, media_type: str) -> str:
    return f"data:{media_type};base64,{to_base64(data)}"


def bytes_of(part: Image | File, blob: Blob | None) -> bytes | None:
    """The part's bytes, from itself or by its hash; None where it is kept elsewhere."""
    if part.data is not None or not part.blob:
        return part.data
    if blob is None:
        raise BadValue("blob", blob, f"a function that gives the bytes of {part.blob}, which the event left aside")
    return blob(part.blob)

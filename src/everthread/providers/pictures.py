"""Keeping the pictures of a request within what the provider takes: number, size, and the bytes of all.

What is too large is scaled down, by Pillow where it is installed (`everthread[images]`); what cannot be scaled, and the
oldest of too many, are told in words. The same picture is scaled once, and always in the same way.
"""

from __future__ import annotations

import base64
import hashlib
import io
import math
import sys
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from everthread.core.images import dimensions
from everthread.providers.base import Media, in_brackets, sides
from everthread.providers.models import Limits

Block = dict[str, Any]

SCALED = "images that were scaled down, because the provider refuses larger ones"
KEPT = 128  # scaled pictures that are remembered, because the next request shows most of them again
HOLDS = ("content", "parts", "output")  # the keys under which request forms hold blocks
TRIES = 12
MOST_PIXELS = 100_000_000  # a larger picture is not opened: it would take a gigabyte of memory
FORMATS = {"image/png": "PNG", "image/jpeg": "JPEG", "image/webp": "WEBP", "image/gif": "PNG"}

_kept: OrderedDict[tuple[str, Bounds], tuple[str, str] | tuple[()]] = OrderedDict()  # empty: it cannot be scaled


class SentPicture(NamedTuple):
    """A picture or file in a request: its type and its bytes in base64, where they are known."""

    is_image: bool
    media_type: str = ""
    data: str = ""


class Bounds(NamedTuple):
    """How large one picture may be: its base64 in bytes, and its longer side in pixels."""

    bytes: int
    side: int


class PictureForm(NamedTuple):
    """How a provider writes pictures: what one of its blocks shows, and the blocks for a picture and for a text."""

    read: Callable[[Block], SentPicture | None]
    picture: Callable[[str, str], Block]
    text: Callable[[str], Block]


def keep(messages: list[Block], form: PictureForm, limits: Limits, media: Media) -> list[str]:
    """Change the blocks that the provider would refuse. Returns what was changed, in words."""
    if not media.shows or not limits.media:
        return []
    shown = [(block, sent) for block in _blocks(messages) if (sent := form.read(block))]
    for block, sent in shown[: -limits.media]:
        _tell(block, sent, form, media, "one too many for the provider, not sent")
    shown = shown[-limits.media :]
    bounds = _bounds(shown, limits)
    scaled = sum(_scale(*one, form, bounds, media) for one in shown)
    _keep_bytes(shown, form, limits, media)
    return [f"{SCALED}: {scaled}"] if scaled else []


def _bounds(shown: list[tuple[Block, SentPicture]], limits: Limits) -> Bounds:
    many = 0 < limits.many_images < sum(sent.is_image for _, sent in shown)
    side = limits.many_image_side if many else limits.image_side
    return Bounds(limits.image_bytes or sys.maxsize, side or sys.maxsize)


def _keep_bytes(shown: list[tuple[Block, SentPicture]], form: PictureForm, limits: Limits, media: Media) -> None:
    """Keep the newest, as long as there is room for their bytes."""
    left = limits.media_bytes or sys.maxsize
    for block, _ in reversed(shown):
        sent = form.read(block)  # once more: it may have been scaled, or told
        left -= len(sent.data) if sent else 0
        if left < 0 and sent:
            _tell(block, sent, form, media, "too much for one request, not sent")


def of_data_url(url: str, *, is_image: bool = True) -> SentPicture:
    """What a data URL holds; only its kind, where it is an address."""
    if not url.startswith("data:"):
        return SentPicture(is_image)
    about, _, data = url.partition(",")
    return SentPicture(is_image, about.removeprefix("data:").partition(";")[0], data)


def forget() -> None:
    """Drop all scaled pictures, because something was redacted or erased."""
    _kept.clear()


def _blocks(pieces: list[Block]) -> Iterator[Block]:
    """The innermost blocks, under whichever keys the form holds them."""
    for piece in pieces:
        inside = [piece[key] for key in HOLDS if isinstance(piece.get(key), list)]
        if inside:
            yield from _blocks(inside[0])
        else:
            yield piece


def _tell(block: Block, sent: SentPicture, form: PictureForm, media: Media, why: str) -> None:
    size = sides(*dimensions(base64.b64decode(sent.data)))
    media.unsent += 1
    block.clear()
    block.update(form.text(in_brackets("image" if sent.is_image else "file", sent.media_type, size, why=why)))


def _scale(block: Block, sent: SentPicture, form: PictureForm, bounds: Bounds, media: Media) -> bool:
    """Scale a picture that is too large. Returns whether it was scaled."""
    if not sent.is_image or _fits(sent, bounds):
        return False
    found = _scaled(base64.b64decode(sent.data), sent.media_type, bounds)
    if found is None:
        _tell(block, sent, form, media, "too large for the provider, not sent")
        return False
    block.clear()
    block.update(form.picture(*found))
    return True


def _fits(sent: SentPicture, bounds: Bounds) -> bool:
    if len(sent.data) > bounds.bytes:
        return False
    return bounds.side == sys.maxsize or max(dimensions(base64.b64decode(sent.data))) <= bounds.side


def _scaled(whole: bytes, media_type: str, bounds: Bounds) -> tuple[str, str] | None:
    """`_smaller`, remembered. Another thread may call `forget` at any moment."""
    wanted = (hashlib.sha256(whole).hexdigest(), bounds)
    found = _kept.pop(wanted, None)
    if found is None:
        found = _smaller(whole, media_type, bounds) or ()
    _kept[wanted] = found
    with suppress(KeyError):
        while len(_kept) > KEPT:
            _kept.popitem(last=False)
    return found or None


def _smaller(data: bytes, media_type: str, bounds: Bounds) -> tuple[str, str] | None:
    """The type and the base64 of a smaller picture; None where none can be made."""
    width, height = dimensions(data)
    if not 0 < width * height <= MOST_PIXELS:
        return None
    try:
        from PIL import Image
    except ImportError:
        return None
    try:
        with warnings.catch_warnings(), Image.open(io.BytesIO(data)) as picture:
            warnings.simplefilter("ignore")  # about its size, which was checked above
            picture.load()
            return _fitted(picture, FORMATS[media_type], bounds)
    except Exception:  # noqa: BLE001 -- a broken picture: decoders raise anything
        return None


def _fitted(picture: Any, form: str, bounds: Bounds) -> tuple[str, str] | None:
    scale = min(1.0, bounds.side / max(picture.size))
    for _ in range(TRIES):
        size = tuple(max(1, math.floor(length * scale)) for length in picture.size)
        out = io.BytesIO()
        picture.resize(size).save(out, form)
        data = base64.b64encode(out.getvalue()).decode("ascii")
        if len(data) <= bounds.bytes:
            return f"image/{form.lower()}", data
        scale *= max(0.5, 0.95 * math.sqrt(bounds.bytes / len(data)))
    return None

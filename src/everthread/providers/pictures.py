"""Keeping the pictures of an Anthropic request within what the provider takes: number, size, and the bytes of all.

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
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from everthread.core.images import dimensions
from everthread.providers.base import Media
from everthread.providers.models import Limits

Block = dict[str, Any]

SCALED = "images that were scaled down, because the provider refuses larger ones"
KEPT = 128  # more than a request may show: pictures that were scaled; the next request shows most of them again
TRIES = 12
MOST_PIXELS = 100_000_000  # of a picture that is opened: more would take a gigabyte
FORMATS = {"image/png": "PNG", "image/jpeg": "JPEG", "image/webp": "WEBP", "image/gif": "PNG"}

_kept: OrderedDict[tuple[str, int, int], tuple[str, str] | tuple[()]] = OrderedDict()  # nothing: it cannot be scaled


def keep(messages: list[Block], limits: Limits, media: Media) -> list[str]:
    """Change the blocks that the provider would refuse; what was changed, in words."""
    shown = [block for message in messages for block in _blocks(message["content"])]
    if not shown or not limits.media:
        return []
    for block in shown[: -limits.media]:
        _tell(block, media, "one too many for the provider, not sent")
    shown = shown[-limits.media :]
    images = [block for block in shown if block["type"] == "image"]
    many = len(images) > limits.many_images
    side = (limits.many_image_side if many else limits.image_side) or sys.maxsize
    scaled = sum(_scale(block, limits.image_bytes or sys.maxsize, side, media) for block in images)
    left = limits.media_bytes
    for block in reversed(shown):
        left -= len(block.get("source", {}).get("data", ""))
        if left < 0 and "source" in block:
            _tell(block, media, "too much for one request, not sent")
    return [f"{SCALED}: {scaled}"] if scaled else []


def forget() -> None:
    """Pictures that were scaled: something was to be gone."""
    _kept.clear()


def _blocks(content: list[Block]) -> Iterator[Block]:
    for block in content:
        if block["type"] in ("image", "document"):
            yield block
        elif isinstance(block.get("content"), list):
            yield from _blocks(block["content"])


def _tell(block: Block, media: Media, why: str) -> None:
    source = block["source"]
    sides = dimensions(base64.b64decode(source.get("data", "")))
    size = f"{sides[0]}×{sides[1]}" if sides[0] else ""
    what = "image" if block["type"] == "image" else "file"
    about = ", ".join(word for word in (source.get("media_type", ""), size) if word)
    media.unsent += 1
    block.clear()
    block.update({"type": "text", "text": f"[{what}{f': {about}' if about else ''}; {why}]"})


def _scale(block: Block, most: int, side: int, media: Media) -> bool:
    """Whether a picture had to be scaled, and could be."""
    data = block["source"].get("data", "")
    whole = base64.b64decode(data)
    if len(data) <= most and max(dimensions(whole)) <= side:
        return False
    found = _scaled(whole, block["source"]["media_type"], most, side)
    if found is None:
        _tell(block, media, "too large for the provider, not sent")
        return False
    block["source"] = {"type": "base64", "media_type": found[0], "data": found[1]}
    return True


def _scaled(whole: bytes, media_type: str, most: int, side: int) -> tuple[str, str] | None:
    """The same, remembered. Requests are made in threads, too, and somebody may forget all of it meanwhile."""
    place = (hashlib.sha256(whole).hexdigest(), most, side)
    found = _kept.pop(place, None)
    if found is None:
        found = _smaller(whole, media_type, most, side) or ()
    _kept[place] = found
    with suppress(KeyError):
        while len(_kept) > KEPT:
            _kept.popitem(last=False)
    return found or None


def _smaller(data: bytes, media_type: str, most: int, side: int) -> tuple[str, str] | None:
    """The type and the base64 of a smaller picture; None where there is none to be had."""
    width, height = dimensions(data)
    if not 0 < width * height <= MOST_PIXELS:
        return None
    try:
        from PIL import Image
    except ImportError:
        return None
    try:
        with warnings.catch_warnings(), Image.open(io.BytesIO(data)) as picture:
            warnings.simplefilter("ignore")  # of its size, which was looked at
            picture.load()
            return _fitted(picture, FORMATS[media_type], most, side)
    except Exception:  # noqa: BLE001 -- no picture after all, in whichever way its decoder says so
        return None


def _fitted(picture: Any, form: str, most: int, side: int) -> tuple[str, str] | None:
    scale = min(1.0, side / max(picture.size))
    for _ in range(TRIES):
        size = tuple(max(1, math.floor(length * scale)) for length in picture.size)
        out = io.BytesIO()
        picture.resize(size).save(out, form)
        data = base64.b64encode(out.getvalue()).decode("ascii")
        if len(data) <= most:
            return f"image/{form.lower()}", data
        scale *= max(0.5, 0.95 * math.sqrt(most / len(data)))
    return None

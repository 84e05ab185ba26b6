"""What the rules of all providers have in common: a list of refusals that fills itself, and looks at media.

Nothing here comes from Everthread: these rules judge its requests and must not share its mistakes.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Collection, Iterator
from typing import Any

Json = dict[str, Any]

IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_DATA_URL = re.compile(r"data:([^;,]*);base64,(.*)", re.DOTALL)
_FIRST_BYTES = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}


class Refusals(list[str]):
    """Sentences that say what a provider would refuse; none, and it would accept."""

    def unless(self, right: object, sentence: str) -> bool:
        if not right:
            self.append(sentence)
        return bool(right)

    def objects(self, value: object, where: str) -> Iterator[tuple[str, Json]]:
        """The objects of a list, each with its place."""
        if not self.unless(isinstance(value, list), f"{where} must be a list"):
            return
        assert isinstance(value, list)
        for index, item in enumerate(value):
            place = f"{where}[{index}]"
            if self.unless(isinstance(item, dict), f"{place} must be an object"):
                yield place, item

    def fields(self, value: Json, allowed: str, where: str) -> None:
        extra = sorted(str(name) for name in value.keys() - set(allowed.split()))
        self.unless(not extra, f"{where}: fields that are not permitted: {', '.join(extra)}")

    def text(self, value: object, where: str, *, blank: bool = False) -> None:
        """Text that is there; `blank` allows white space alone."""
        if self.unless(isinstance(value, str), f"{where} must be text"):
            assert isinstance(value, str)
            self.unless(value if blank else value.strip(), f"{where}: text must not be empty or white space alone")

    def matches(self, value: object, pattern: str, where: str) -> None:
        right = isinstance(value, str) and re.fullmatch(pattern, value)
        self.unless(right, f"{where} {value!r:.80} must match the pattern {pattern}")

    def number(self, value: object, low: float, high: float, where: str) -> None:
        right = isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high
        self.unless(right, f"{where} must be a number from {low:g} to {high:g}")

    def schema(self, value: object, where: str) -> None:
        """The schema of a tool's arguments: of an object."""
        if self.unless(isinstance(value, dict), f"{where} must be a schema"):
            assert isinstance(value, dict)
            self.unless(value.get("type") == "object", f"{where}: the schema's type must be 'object'")
            properties = value.get("properties", {})
            self.unless(isinstance(properties, dict), f"{where}: the schema's properties must be an object")

    def unique(self, names: list[Any], what: str) -> None:
        twice = sorted({str(name) for name in names if names.count(name) > 1})
        self.unless(not twice, f"{what} must be unique: {', '.join(twice)}")

    def media(self, data: object, media_type: object, allowed: Collection[str], where: str) -> None:
        """Base64 of a supported media type; an image must be what it says that it is."""
        if not self.unless(media_type in allowed, f"{where}: the media type {media_type!r:.60} is not supported"):
            return
        from benchmarks.rules.pictures import sides  # which knows pictures by our `sniffed`

        whole = decoded(data)
        if self.unless(whole, f"{where}: data must be base64 that is not empty"):
            assert whole is not None
            fits = media_type not in IMAGES or sniffed(whole) == media_type
            self.unless(fits, f"{where}: the image does not match its media type {media_type}")
            self.unless(not fits or media_type not in IMAGES or all(sides(whole)), f"{where}: could not process image")
            is_pdf = media_type != "application/pdf" or b"%PDF" in whole[:1_024]
            self.unless(is_pdf, f"{where}: the PDF is not valid")

    def data_url(self, url: object, allowed: Collection[str], where: str, *, web: bool = True) -> None:
        """A data: URL of a supported media type, or, with `web`, the address of a page."""
        if web and isinstance(url, str) and re.match(r"https?://\S+\Z", url):
            return
        found = _DATA_URL.fullmatch(url) if isinstance(url, str) else None
        if self.unless(found, f"{where}: the URL {url!r:.40} must be a data URL{' or a web address' if web else ''}"):
            assert found is not None
            self.media(found[2], found[1], allowed, where)

    def weight(self, images: list[str], others: list[str], most: int, most_image: int, most_bytes: int) -> None:
        """How many pictures a request has, how large each is and how large all media are, in characters of base64."""
        self.unless(len(images) <= most, f"too many images: {len(images)} > {most}")
        for size in map(len, images):
            self.unless(size <= most_image, f"an image is too large: {size} > {most_image}")
        whole = sum(map(len, (*images, *others)))
        self.unless(whole <= most_bytes, f"images and files are too large: {whole} > {most_bytes}")


def decoded(data: object) -> bytes | None:
    """The bytes that base64 stands for, in either alphabet; None where it is none."""
    if not isinstance(data, str):
        return None
    try:
        return base64.b64decode(data.replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError):
        return None


def sniffed(data: bytes) -> str:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((name for first, name in _FIRST_BYTES.items() if data.startswith(first)), "")


def json_object(arguments: object) -> bool:
    """Whether a text is strict JSON of an object."""
    if not isinstance(arguments, str):
        return False
    try:
        return isinstance(json.loads(arguments, parse_constant=_refuse), dict)
    except (ValueError, RecursionError):
        return False


def unsayable(request: Json) -> list[str]:
    """What keeps a request from being strict JSON in UTF-8: then it never reaches the provider."""
    try:
        json.dumps(request, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError as problem:
        return [f"the request is not UTF-8: a lone surrogate {problem.object[problem.start]!a}"]
    except (TypeError, ValueError, RecursionError) as problem:
        return [f"the request is not JSON: {problem}"]
    return [
        f"the request is not JSON: the key {key!r} is no text" for key in _keys(request) if not isinstance(key, str)
    ]


def _keys(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        yield from value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ():
        yield from _keys(inner)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")

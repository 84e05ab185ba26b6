"""What the first bytes of a PNG, JPEG, GIF or WebP say: its type, and how wide and high it is.

The sizes are read by imagesize, which is imported when the first image comes. They are enough to estimate what a model
is charged. What cannot be read is (0, 0), never an error, and so is an image of another format: no provider takes it.
"""

from __future__ import annotations

import io

HEAD = 4_000_000  # bytes that are looked at
READS = 2_000  # pieces of them: a file made of nothing but headers would take seconds
UNKNOWN = "application/octet-stream"
_BEGINNINGS = {b"\x89PNG": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}


def dimensions(data: bytes) -> tuple[int, int]:
    """Width and height as they are stored, whatever rotation a camera has noted."""
    if media_type_of(data) == UNKNOWN:
        return 0, 0
    import imagesize  # slow to import, and most conversations have no image

    try:
        sides = imagesize.get(_Patience(data[:HEAD]), exif_rotation=False)
    except OverflowError:
        return 0, 0
    return (int(sides[0]), int(sides[1])) if min(sides) >= 0 else (0, 0)


class _Patience(io.BytesIO):
    """Bytes that can be read in at most `READS` pieces."""

    pieces = 0

    def read(self, size: int | None = -1, /) -> bytes:
        self.pieces += 1
        if self.pieces > READS:
            raise OverflowError("too many pieces")
        return super().read(size)


def media_type_of(data: bytes) -> str:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((name for magic, name in _BEGINNINGS.items() if data.startswith(magic)), UNKNOWN)

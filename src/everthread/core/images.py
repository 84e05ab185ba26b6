"""How wide and high an image is, read from the first bytes of PNG, JPEG, GIF and WebP.

Enough to estimate what a model is charged for it. What cannot be read is (0, 0), never an error.
"""

from __future__ import annotations

import struct

# Start-of-frame segments of JPEG: all of 0xC0–0xCF but the tables (C4, C8, CC).
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


def dimensions(data: bytes) -> tuple[int, int]:
    measure = _MEASURES.get(media_type_of(data))
    try:
        return measure(data) if measure else (0, 0)
    except (struct.error, IndexError):
        return 0, 0


def media_type_of(data: bytes) -> str:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    known = {b"\x89PNG": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}
    return next((name for magic, name in known.items() if data.startswith(magic)), "application/octet-stream")


def _png(data: bytes) -> tuple[int, int]:
    width, height = struct.unpack_from(">II", data, 16)
    return width, height


def _gif(data: bytes) -> tuple[int, int]:
    width, height = struct.unpack_from("<HH", data, 6)
    return width, height


def _jpeg(data: bytes) -> tuple[int, int]:
    at = 2
    while at < len(data):
        while data[at + 1] == 0xFF:  # any number of them may precede a marker
            at += 1
        marker, length = data[at + 1], struct.unpack_from(">H", data, at + 2)[0]
        if marker in _FRAMES:
            height, width = struct.unpack_from(">HH", data, at + 5)
            return width, height
        at += 2 + length
    return 0, 0


def _webp(data: bytes) -> tuple[int, int]:
    match data[12:16]:
        case b"VP8X" if len(data) >= 30:
            return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
        case b"VP8L" if len(data) >= 25:
            bits = int.from_bytes(data[21:25], "little")
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            width, height = struct.unpack_from("<HH", data, 26)
            return width & 0x3FFF, height & 0x3FFF
    return 0, 0


_MEASURES = {"image/png": _png, "image/gif": _gif, "image/jpeg": _jpeg, "image/webp": _webp}

"""How wide and high a picture is, for those who charge for it or refuse it. Written apart from Everthread's own."""

from __future__ import annotations

from benchmarks.rules.shared import sniffed

_NO_FRAME = (0xC4, 0xC8, 0xCC)


def sides(data: bytes) -> tuple[int, int]:
    """Width and height in pixels; (0, 0) where it cannot be told."""
    match sniffed(data):
        case "image/png":
            return _big(data[16:20]), _big(data[20:24])
        case "image/gif":
            return _little(data[6:8]), _little(data[8:10])
        case "image/jpeg":
            return _jpeg(data)
        case "image/webp":
            return _webp(data)
    return 0, 0


def _jpeg(data: bytes) -> tuple[int, int]:
    at = 2
    while at + 9 <= len(data):
        if data[at] != 0xFF or data[at + 1] == 0xFF:  # padding
            at += 1
            continue
        kind = data[at + 1]
        if kind >> 4 == 0xC and kind not in _NO_FRAME:
            return _big(data[at + 7 : at + 9]), _big(data[at + 5 : at + 7])
        at += 2 + max(2, _big(data[at + 2 : at + 4]))
    return 0, 0


def _webp(data: bytes) -> tuple[int, int]:
    form, body = data[12:16], data[20:]
    if form == b"VP8X":
        return _little(body[4:7]) + 1, _little(body[7:10]) + 1
    if form == b"VP8L":
        bits = _little(body[1:5])
        return bits % 2**14 + 1, (bits >> 14) % 2**14 + 1
    return _little(body[6:8]) % 2**14, _little(body[8:10]) % 2**14


def _big(some: bytes) -> int:
    return int.from_bytes(some, "big")


def _little(some: bytes) -> int:
    return int.from_bytes(some, "little")

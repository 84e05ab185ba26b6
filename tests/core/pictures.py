"""The smallest images that say how large they are, made by hand."""

from __future__ import annotations

import struct
import zlib


def png(width: int, height: int) -> bytes:
    head = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + head + struct.pack(">I", zlib.crc32(head))


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\0\0\0;"


def jpeg(width: int, height: int, *, frame: int = 0xC0, fill: int = 0) -> bytes:
    """With a JFIF header and a Huffman table before the frame, and `fill` padding bytes before its marker."""
    jfif = b"\xff\xe0" + struct.pack(">H", 16) + b"JFIF\0\1\1\0\0\1\0\1\0\0"
    table = b"\xff\xc4" + struct.pack(">H", 4) + b"\0\0"
    size = struct.pack(">HBHHB", 11, 8, height, width, 1) + b"\1\x11\0"
    return b"\xff\xd8" + jfif + table + b"\xff" * fill + bytes((0xFF, frame)) + size + b"\xff\xd9"


def webp(width: int, height: int, *, form: bytes = b"VP8 ") -> bytes:
    if form == b"VP8X":
        body = b"\0\0\0\0" + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    elif form == b"VP8L":
        body = b"\x2f" + ((width - 1) | (height - 1) << 14).to_bytes(4, "little")
    else:
        body = b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", width, height)
    chunk = form + struct.pack("<I", len(body)) + body
    return b"RIFF" + struct.pack("<I", len(chunk) + 4) + b"WEBP" + chunk

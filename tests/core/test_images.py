"""The dimensions of an image are read from its first bytes; what cannot be read is (0, 0)."""

from __future__ import annotations

import io
import struct

import imagesize
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everthread.core.images import HEAD, READS, dimensions
from everthread.core.parts import image
from tests.core.pictures import gif, jpeg, png, webp

PICTURES = {
    "png": png(640, 480),
    "gif": gif(640, 480),
    "jpeg baseline": jpeg(640, 480),
    "jpeg progressive": jpeg(640, 480, frame=0xC2),
    "jpeg lossless": jpeg(640, 480, frame=0xC3),
    "jpeg with padding before the marker": jpeg(640, 480, fill=3),
    "webp lossy": webp(640, 480),
    "webp lossless": webp(640, 480, form=b"VP8L"),
    "webp extended": webp(640, 480, form=b"VP8X"),
}


@pytest.mark.parametrize("data", PICTURES.values(), ids=PICTURES.keys())
def test_width_and_height_are_read(data: bytes) -> None:
    assert dimensions(data) == (640, 480)


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (png(1, 1), "image/png"),
        (gif(1, 1), "image/gif"),
        (jpeg(1, 1), "image/jpeg"),
        (webp(1, 1), "image/webp"),
    ],
    ids=["png", "gif", "jpeg", "webp"],
)
def test_the_type_is_read_from_the_bytes(data: bytes, media_type: str) -> None:
    assert image(data).media_type == media_type
    assert image(data, media_type="image/x").media_type == "image/x"


def test_a_sound_in_the_same_container_is_no_webp() -> None:
    assert image(b"RIFF\x24\0\0\0WAVEfmt ").media_type != "image/webp"


@pytest.mark.parametrize("data", PICTURES.values(), ids=PICTURES.keys())
def test_a_picture_cut_short_anywhere_is_measured_rightly_or_not_at_all(data: bytes) -> None:
    for length in range(len(data)):
        assert dimensions(data[:length]) in ((0, 0), (640, 480))


@pytest.mark.parametrize(
    "data",
    [b'<svg width="640" height="480"></svg>', b"BM" + struct.pack("<16xll", 640, 480), b"P6 640 480 255 "],
    ids=["svg", "bmp", "ppm"],
)
def test_a_format_that_no_provider_takes_is_not_measured(data: bytes) -> None:
    assert dimensions(data) == (0, 0)


def test_a_camera_that_was_turned_changes_nothing() -> None:
    """The sides are those of the pixels as they are stored."""
    turned = b"MM\0*" + struct.pack(">LHHHLHHL", 8, 1, 0x112, 3, 1, 6, 0, 0)
    note = b"Exif\0\0" + turned
    picture = jpeg(640, 480)
    noted = picture[:2] + b"\xff\xe1" + struct.pack(">H", len(note) + 2) + note + picture[2:]
    assert imagesize.get(io.BytesIO(noted)) == (480, 640)
    assert dimensions(noted) == (640, 480)


def test_a_picture_is_not_looked_through_for_long() -> None:
    """Somebody may send one that is all headers."""
    picture, comment = jpeg(640, 480), b"\xff\xfe" + struct.pack(">H", 60_002) + bytes(60_000)
    assert dimensions(picture[:2] + 10 * comment + picture[2:]) == (640, 480)
    assert dimensions(picture[:2] + (HEAD // 60_000 + 1) * comment + picture[2:]) == (0, 0)


@given(
    st.binary(max_size=64),
    st.sampled_from(
        [b"", b"\x89PNG", b"GIF8", b"\xff\xd8", b"RIFF1234WEBPVP8X", b"RIFF1234WEBPVP8L", b"RIFF1234WEBPVP8 "]
    ),
)
def test_any_bytes_have_dimensions_and_never_raise(noise: bytes, magic: bytes) -> None:
    width, height = dimensions(magic + noise)
    assert width >= 0
    assert height >= 0


def test_a_file_made_of_headers_is_not_read_for_long() -> None:
    whole, header = jpeg(640, 480), b"\xff\xe0\x00\x02"
    assert dimensions(whole[:2] + header * 10 + whole[2:]) == (640, 480)
    assert dimensions(whole[:2] + header * READS + whole[2:]) == (0, 0)

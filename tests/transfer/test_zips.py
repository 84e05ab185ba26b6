"""Zip files: exports are read from within them; what no export would be is refused before anything is unpacked."""

from __future__ import annotations

import json
import stat
import struct
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from everthread.errors import BadFormat
from everthread.store.conversations import Owner
from everthread.transfer import read_file, sources

SAID = json.dumps([{"messages": [{"role": "user", "content": word}]} for word in ("Hi", "Ho")])
Fill = Callable[[zipfile.ZipFile], None]


def zipped(path: Path, fill: Fill) -> Path:
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        warnings.simplefilter("ignore")  # of a name that is there twice
        fill(file)
    return path


def read(path: Path) -> int:
    return len(read_file(path, Owner("default", "ana"), agent="a"))


def test_conversations_are_read_from_within(tmp_path: Path) -> None:
    def fill(file: zipfile.ZipFile) -> None:
        file.writestr("export/conversations.json", SAID)
        file.writestr("export/user.json", '{"name": "Ana"}')
        file.writestr("export/image.png", b"\x89PNG")

    def parts(file: zipfile.ZipFile) -> None:
        for number in range(2):
            file.writestr(f"conversations-{number}.json", SAID)

    assert read(zipped(tmp_path / "export.zip", fill)) == 2
    assert read(zipped(tmp_path / "parts.zip", parts)) == 4
    assert read(zipped(tmp_path / "lines.zip", lambda file: file.writestr("a.jsonl", SAID))) == 2


def link(file: zipfile.ZipFile) -> None:
    entry = zipfile.ZipInfo("conversations.json")
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    file.writestr(entry, "/etc/passwd")


def twice(file: zipfile.ZipFile) -> None:
    for _ in range(2):
        file.writestr("conversations.json", SAID)


HOSTILE: dict[str, tuple[Fill, str]] = {
    "a path that leads out": (lambda file: file.writestr("../conversations.json", SAID), "leads out"),
    "an absolute path": (lambda file: file.writestr("/conversations.json", SAID), "leads out"),
    "a path with a drive": (lambda file: file.writestr("C:conversations.json", SAID), "leads out"),
    "a path of Windows": (lambda file: file.writestr("a\\..\\conversations.json", SAID), "leads out"),
    "a link": (link, "it is a link"),
    "a name that is there twice": (twice, "there twice"),
    "a bomb": (lambda file: file.writestr("conversations.json", b" " * (20 * 1024**2)), "times its size"),
    "a zip file in a zip file": (lambda file: file.writestr("conversations.json", b"PK\x03\x04more"), "packed once"),
    "gzip in a zip file": (lambda file: file.writestr("conversations.json", b"\x1f\x8bmore"), "packed once"),
    "nothing to read": (lambda file: file.writestr("readme.txt", "Hi"), "neither a conversations.json"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_what_no_export_would_be_is_refused(name: str, tmp_path: Path) -> None:
    fill, reason = HOSTILE[name]
    with pytest.raises(BadFormat, match=reason):
        read(zipped(tmp_path / "bad.zip", fill))


def test_more_than_there_may_be_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = zipped(tmp_path / "many.zip", lambda file: file.writestr("conversations.json", SAID))
    monkeypatch.setattr(sources, "UNPACKED", 10)
    with pytest.raises(BadFormat, match="unpack to more"):
        read(path)
    monkeypatch.setattr(sources, "ENTRIES", 0)
    with pytest.raises(BadFormat, match="more than 0 entries"):
        read(path)


def test_an_encrypted_entry_is_refused(tmp_path: Path) -> None:
    path = zipped(tmp_path / "secret.zip", lambda file: file.writestr("conversations.json", SAID))
    path.write_bytes(_flagged(path.read_bytes()))
    with pytest.raises(BadFormat, match="encrypted"):
        read(path)


def _flagged(data: bytes) -> bytes:
    """With the mark of encryption on its only entry, in both of its headers."""
    made = bytearray(data)
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        start = made.index(mark) + place
        struct.pack_into("<H", made, start, struct.unpack_from("<H", made, start)[0] | 1)
    return bytes(made)


def test_damage_at_any_byte_is_an_error_or_does_no_harm(tmp_path: Path) -> None:
    whole = zipped(tmp_path / "good.zip", lambda file: file.writestr("conversations.json", SAID)).read_bytes()
    path = tmp_path / "bad.zip"
    for place in range(0, len(whole), 2):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        try:
            assert read(path) == 2
        except BadFormat:
            continue
    for length in range(0, len(whole), 5):
        path.write_bytes(whole[:length])
        with pytest.raises(BadFormat):
            read(path)

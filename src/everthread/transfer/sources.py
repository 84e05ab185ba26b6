"""What is imported from: a file, a zip file, or a folder of files; each is opened as a stream, as often as is needed.

A zip file is a stranger's: it is looked at before anything is read, and refused whole where it is not what exports are
(entries that are links, leave their folder, are there twice, are encrypted or are zip files themselves; or that would
unpack to far more than they take). Nothing is ever unpacked to a disk. Of an export's entries those with conversations
are read, in the order of their names.
"""

from __future__ import annotations

import io
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO, NamedTuple, cast

from everthread.errors import BadFormat

ENTRIES = 100_000  # of a zip file
UNPACKED = 64 * 1024**3  # bytes of all that is read of one
DAMAGE = (zipfile.BadZipFile, OSError, EOFError, NotImplementedError, RuntimeError, ValueError, zlib.error)
RATIO, SMALL = 200, 16 * 1024**2  # how many times its size an entry may unpack to, if it is not small


class Input(NamedTuple):
    """One file that is read: its name, as errors tell it, its size, and how it is opened."""

    name: str
    size: int
    open: Callable[[], BinaryIO]
    lines: bool  # whether its name says that it has one value a line


def inputs(path: Path) -> list[Input]:
    """What there is to be read at a path."""
    with _readable(path):
        if path.is_dir():
            return [_file(one) for one in sorted(path.rglob("*")) if _is_history(one, path)]
        if path.is_file() and zipfile.is_zipfile(path):
            return _entries(path)
        return [_file(path)]


def _file(path: Path) -> Input:
    def opened() -> BinaryIO:
        with _readable(path):
            return open(path, "rb")

    with _readable(path):
        size = path.stat().st_size
    return Input(str(path), size, opened, path.suffix == ".jsonl")


def _is_history(path: Path, folder: Path) -> bool:
    hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
    return not hidden and path.suffix in (".jsonl", ".json") and path.is_file() and not path.is_symlink()


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        raise BadFormat(f"cannot be read ({problem.strerror})", where=str(path)) from None


# -- zip files ---------------------------------------------------------------------------------------------------


def _entries(path: Path) -> list[Input]:
    with _unzipping(path), zipfile.ZipFile(path) as file:
        entries = file.infolist()
        _check(entries, path)
    chosen = _with_conversations([one for one in entries if not one.is_dir()])
    if not chosen:
        raise BadFormat("there is neither a conversations.json nor any .jsonl or .json in it", where=str(path))
    if sum(one.file_size for one in chosen) > UNPACKED:
        raise BadFormat(f"it would unpack to more than {UNPACKED // 1024**3} GB", where=str(path))
    return [_entry(path, one) for one in chosen]


def _check(entries: list[zipfile.ZipInfo], path: Path) -> None:
    if len(entries) > ENTRIES:
        raise BadFormat(f"it has more than {ENTRIES:,} entries", where=str(path))
    names = set[str]()
    for one in entries:
        where = f"{path}, {one.filename[:200]!r}"
        if reason := _refusal(one):
            raise BadFormat(reason, where=where)
        if one.filename in names:
            raise BadFormat("it is there twice", where=where)
        names.add(one.filename)


def _refusal(one: zipfile.ZipInfo) -> str:
    """Why an entry has no place in an export; empty where it has."""
    name, kind = one.filename, one.external_attr >> 16
    if name.startswith(("/", "\\")) or "\\" in name or ":" in name[:2] or ".." in PurePosixPath(name).parts:
        return "its name leads out of the zip file"
    if kind and stat.S_ISLNK(kind):
        return "it is a link"
    if one.flag_bits & 0x1:
        return "it is encrypted: unpack it yourself first"
    if one.file_size > SMALL and one.file_size > RATIO * max(1, one.compress_size):
        return f"it would unpack to more than {RATIO} times its size"
    return ""


def _with_conversations(entries: list[zipfile.ZipInfo]) -> list[zipfile.ZipInfo]:
    """conversations.json and its like, as ChatGPT and Claude name them; else all lines; else all JSON."""
    named = {one.filename: PurePosixPath(one.filename) for one in entries}
    rules: tuple[Callable[[PurePosixPath], bool], ...] = (
        lambda name: name.suffix == ".json" and name.name.startswith("conversations"),
        lambda name: name.suffix == ".jsonl",
        lambda name: name.suffix == ".json",
    )
    for rule in rules:
        if found := [one for one in entries if rule(named[one.filename])]:
            return sorted(found, key=lambda one: one.filename)
    return []


def _entry(path: Path, one: zipfile.ZipInfo) -> Input:
    name = f"{path}, {one.filename!r}"

    def opened() -> BinaryIO:
        with _unzipping(path), ExitStack() as if_it_fails:
            file = if_it_fails.enter_context(zipfile.ZipFile(path))
            unpacked = _Unpacked(file, one, name)
            if_it_fails.pop_all()
            return cast(BinaryIO, io.BufferedReader(unpacked, 256 * 1024))

    return Input(name, one.file_size, opened, one.filename.endswith(".jsonl"))


class _Unpacked(io.RawIOBase):
    """An entry's bytes, never more of them than it said there are, and none of what is not sound."""

    def __init__(self, file: zipfile.ZipFile, one: zipfile.ZipInfo, name: str) -> None:
        self._file, self._name, self._left = file, name, one.file_size
        self._entry = file.open(one)
        try:
            _check_nested(cast(zipfile.ZipExtFile, self._entry).peek(4)[:4], name)
        except BaseException:
            self._entry.close()
            raise

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        with _unzipping(Path(self._name)):
            piece = self._entry.read(len(buffer))
        self._left -= len(piece)
        if self._left < 0:
            raise BadFormat("it unpacks to more than it says", where=self._name)
        buffer[: len(piece)] = piece
        return len(piece)

    def close(self) -> None:
        if not self.closed:
            self._entry.close()
            self._file.close()
        super().close()


def _check_nested(first: bytes, name: str) -> None:
    if first[:4] in (b"PK\x03\x04", b"PK\x05\x06") or first[:2] == b"\x1f\x8b":
        raise BadFormat("it is packed once more: unpack it yourself first", where=name)


@contextmanager
def _unzipping(path: Path) -> Iterator[None]:
    try:
        yield
    except DAMAGE as problem:
        raise BadFormat(f"the zip file is damaged ({problem})", where=str(path)) from None

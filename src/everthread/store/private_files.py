"""Files and folders for the account that runs us alone, however permissive its umask is.

What is there already stays as its owner has it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

FILE, FOLDER = 0o600, 0o700


def make_folders(path: Path) -> None:
    """The folder and those above it that are not there."""
    missing = [path, *path.parents]
    for folder in reversed([one for one in missing if not one.is_dir()]):
        folder.mkdir(mode=FOLDER, exist_ok=True)


def sync_folder(path: Path) -> None:
    """Make sure that the names in a folder outlive a crash of the machine: a file's own bytes do not bring its name."""
    if os.name != "posix":  # where a folder cannot be opened
        return
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def make_file(path: Path) -> None:
    """An empty file, where there is none."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, FILE))


def is_everybodys(path: Path) -> bool:
    """Whether every account of the machine can read a file."""
    return os.name == "posix" and bool(path.stat().st_mode & stat.S_IROTH)


@contextmanager
def private_file(path: Path) -> Iterator[BinaryIO]:
    """A file that is written anew. It may be there from a crash, with rights of its own."""
    with open(path, "wb", opener=lambda name, flags: os.open(name, flags, FILE)) as file:
        path.chmod(FILE)
        yield file

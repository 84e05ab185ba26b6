"""What a tool returns, as parts of a tool result: any value becomes something that a model can read.

Text stays text, pictures and files become parts, data becomes compact JSON, and what JSON cannot say is shown as
Python shows it, with a note. Nothing is too large: of a text beyond `MOST` characters head and tail are kept, with
a note between them, and an iterator is read up to a bound. Nothing here raises, but for an iterator that does.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence, Set, ValuesView
from pathlib import PurePath
from typing import Any

import msgspec

from everthread.core.canvas import Change
from everthread.core.images import media_type_of
from everthread.core.parts import File, Image, Part, Text, file, image
from everthread.core.quotes import Quote

MOST = 1_000_000  # characters of a result; they are kept, and all of them are read again with every recall
MOST_ITEMS = 10_000  # of an iterator
MOST_BYTES = 15_000_000  # of a picture or file: what the log takes, with some room
NOTHING = "(no output)"


class Quoting(tuple[Part, ...]):
    """Parts of a result that repeat events, and which events these are."""

    quotes: tuple[Quote, ...] = ()

    @classmethod
    def of(cls, text: str, quotes: Iterable[Quote]) -> Quoting:
        made = cls((Text(text=text),))
        made.quotes = tuple(dict.fromkeys(quotes))
        return made


class Drawing(msgspec.Struct, frozen=True):
    """What a tool returns that draws on the canvas: the changes to make there, and what to tell the model. The tool
    itself changes nothing; whoever runs it does, once the changes are found to fit what is there by then."""

    changes: tuple[Change, ...]
    text: str = ""


def parts_of(value: object) -> tuple[Part, ...]:
    """A value as the parts of a tool result."""
    if isinstance(value, Drawing):
        value = value.text
    if isinstance(value, Iterator):
        value = collected(value)
    if value is None or (isinstance(value, str) and not value):
        return (Text(text=NOTHING),)
    return _fitting(_shown(value)) or (Text(text=shortened(_in_words(value))),)


def shortened(text: str, most: int = MOST) -> str:
    """Head and tail of a text that is too long, and between them how much was left out."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half:,} characters were left out here …]\n{text[-half:]}"


# -- iterators ---------------------------------------------------------------------------------------------


class _Gathering:
    """Items of an iterator until they are too many: texts are joined, anything else is a list."""

    def __init__(self) -> None:
        self._items: list[Any] = []
        self._characters = 0

    def full(self, item: object) -> bool:
        """Take one more item. Whether it is the last that is taken."""
        self._items.append(item)
        self._characters += len(item) if isinstance(item, str) else 0
        return self._characters > MOST or len(self._items) >= MOST_ITEMS

    def result(self, *, cut: bool) -> Any:
        if all(isinstance(item, str) for item in self._items):
            whole = "".join(self._items)
            return f"{whole[:MOST]}\n[… there was more; the rest was left out …]" if cut else whole
        note = f"[there were more than {len(self._items):,} items; the rest was left out]"
        return [*self._items, note] if cut else self._items


def collected(items: Iterator[Any]) -> Any:
    """What an iterator yields, up to a bound; then the iterator is closed if it can be."""
    gathering, cut = _Gathering(), False
    for item in items:
        if gathering.full(item):
            cut = next(items, gathering) is not gathering
            break
    close = getattr(items, "close", None)
    if callable(close):
        close()
    return gathering.result(cut=cut)


async def gathered(items: AsyncIterator[Any]) -> Any:
    """The same for an asynchronous iterator."""
    gathering, cut = _Gathering(), False
    async for item in items:
        if gathering.full(item):
            cut = await anext(items, gathering) is not gathering
            break
    close = getattr(items, "aclose", None)
    if callable(close):
        await close()
    return gathering.result(cut=cut)


# -- parts -------------------------------------------------------------------------------------------------


def _shown(value: object) -> tuple[Part, ...]:
    """The parts that a value is, or is made of; none where it must be told in words."""
    if isinstance(value, Part):
        return (value,)
    if isinstance(value, bytes | bytearray | memoryview):
        return (_of_bytes(bytes(value)),)
    if isinstance(value, list | tuple) and _are_pieces(value):
        return tuple(Text(text=piece) if isinstance(piece, str) else piece for piece in value)
    return ()


def _are_pieces(value: Sequence[object]) -> bool:
    """Parts, perhaps with texts between them. Texts alone are data."""
    return any(isinstance(one, Part) for one in value) and all(isinstance(one, Part | str) for one in value)


def _of_bytes(data: bytes) -> Image | File:
    if media_type_of(data).startswith("image/"):
        return image(data)
    if data.startswith(b"%PDF-"):
        return file(data, media_type="application/pdf")
    try:
        data.decode()
    except UnicodeDecodeError:
        return file(data)
    return file(data) if b"\0" in data else file(data, media_type="text/plain")


def _fitting(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """The parts in a size that the log takes."""
    texts = [part for part in parts if isinstance(part, Text)]
    share = MOST if sum(len(part.text) for part in texts) <= MOST else MOST // len(texts)
    return tuple(_small(part, share) for part in parts)


def _small(part: Part, share: int) -> Part:
    if isinstance(part, Text):
        return msgspec.structs.replace(part, text=shortened(part.text, share))
    size = len(part.data or b"") if isinstance(part, Image | File) else 0
    if size <= MOST_BYTES:
        return part
    what = "an image" if isinstance(part, Image) else "a file"
    return Text(text=f"({what} of {size:,} bytes, which is too large to be kept; give its address or a part of it)")


# -- words -------------------------------------------------------------------------------------------------


def _in_words(value: object) -> str:
    try:
        return _said(value)
    except RecursionError:
        problem = "it goes in a circle, or too deep"
    except Exception as why:  # noqa: BLE001 - the value's own methods are asked, and may raise anything
        problem = in_a_line(why)
    return f"{_repr(value)}\n[shown as Python shows it, because JSON cannot say it: {problem}]"


def in_a_line(problem: BaseException) -> str:
    """An error's message, shortened to a line; its type where it has no message."""
    try:
        words = " ".join(str(problem).split())
    except BaseException:  # noqa: BLE001 - as above; nothing is awaited here, so that no turn is cancelled by it
        words = ""
    return shortened(words, 2_000).replace("\n", " ") or type(problem).__name__


def _said(value: object) -> str:
    plain = msgspec.to_builtins(value, enc_hook=_encodable, str_keys=True)
    if isinstance(plain, str):
        return plain
    return json.dumps(plain, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _encodable(value: Any) -> Any:
    """Values of types that msgspec does not know."""
    if isinstance(value, PurePath):
        return str(value)
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if hasattr(value, "tolist"):  # numpy's arrays and numbers
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence | Set | ValuesView):
        return list(value)
    if isinstance(value, Iterator):
        return collected(value)
    raise NotImplementedError(f"there is a {type(value).__name__} in it")


def _repr(value: object) -> str:
    try:
        return repr(value)
    except BaseException:  # noqa: BLE001 - as in `in_a_line`
        return f"<a {type(value).__name__}{_bytes(value)} that cannot be shown>"


def _bytes(value: object) -> str:
    try:
        return f" of {sys.getsizeof(value, 0):,} bytes"
    except BaseException:  # noqa: BLE001 - the same
        return ""

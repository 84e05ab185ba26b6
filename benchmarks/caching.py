"""What the providers' prompt caches would read, write and charge: a simulator that knows nothing of Everthread.

It is given requests as they would be sent, each with its time, and says of each how much of it would be read
from the cache. A request becomes one list of content blocks in the order in which it is cached (tools,
instructions, messages), where a message begins with its role; a prefix is known by the hash of its blocks.

Anthropic keeps a prefix only where the request marks its end, and from each mark looks back over a few blocks
for one it kept. OpenAI and Google keep every prefix by themselves, in steps of a number of tokens. All forget
after a while without use. Sizes are tokens of the o200k encoding whoever the provider is, because prices are
compared with each other, never with a bill; an image or file counts as a flat figure, never as its base64.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from itertools import accumulate
from typing import Any, NamedTuple, Protocol

from splintr import AnyTokenizer, Tokenizer

Request = dict[str, Any]

MEDIA_TOKENS = 1_000  # of an image or file
LIFETIMES = {"5m": 300.0, "1h": 3_600.0}  # seconds without use
WRITING = {"5m": 1.25, "1h": 2.0}  # price of a token that is written
MOST_MARKS = 4
LOOK_BACK = 20  # blocks that are tried from a mark back, itself the first
OPENAI_READING = {"gpt-4o": 0.5, "gpt-4.1": 0.25, "o3": 0.25}  # price of a token that is read; newer ones: 0.1


class Refused(ValueError):
    """The provider would not take this request."""


class Spent(NamedTuple):
    """The input of one request in tokens, and its price where a plain token costs 1."""

    read: int
    written: int
    plain: int
    price: float

    @property
    def total(self) -> int:
        return self.read + self.written + self.plain


class Cache(Protocol):
    def ask(self, seconds: float, request: Request) -> Spent:
        """Send a request at a time; times only go forward."""
        ...


class Asked(NamedTuple):
    seconds: float
    request: Request
    model: str  # provider:name


def simulate(asked: Iterable[Asked]) -> Iterator[Spent]:
    """What each of these requests costs, one cache to a model."""
    caches: dict[str, Cache] = {}
    for seconds, request, model in asked:
        yield caches.setdefault(model, cache_of(model)).ask(seconds, request)


def cache_of(model: str) -> Cache:
    """An empty cache as the provider of this model keeps it."""
    provider, _, name = model.partition(":")
    match provider:
        case "anthropic":
            return MarkedCache()
        case "openai" | "openai-responses":
            reading = next((price for old, price in OPENAI_READING.items() if name.startswith(old)), 0.1)
            return AutomaticCache(reading=reading)
        case "google":
            return AutomaticCache(minimum=4_096 if "pro" in name else 1_024)
        case _:
            raise ValueError(f"no cache is known of {model!r}")


class MarkedCache:
    """Anthropic's: a prefix is written where `cache_control` marks its end, and found by looking back from a mark.

    What lies before the longest prefix found is read, from there to the last mark is written, the rest is plain.
    A mark on less than `minimum` tokens counts for nothing. Every mark refreshes the prefix that it finds.
    """

    def __init__(self, *, minimum: int = 1_024, look_back: int = LOOK_BACK, reading: float = 0.1) -> None:
        self._minimum, self._look_back, self._reading = minimum, look_back, reading
        self._kept: dict[bytes, tuple[float, float]] = {}  # until when, and for how long after each use

    def ask(self, seconds: float, request: Request) -> Spent:
        blocks = blocks_of(request)
        marks = _marks(blocks)
        sums = list(accumulate(block.tokens for block in blocks))
        prefixes = list(accumulate((block.text for block in blocks), _longer, initial=_seed(request)))[1:]
        marks = {at: lifetime for at, lifetime in marks.items() if sums[at] >= self._minimum}
        found = max((self._look_back_from(at, prefixes, seconds) for at in marks), default=-1)
        read = reached = sums[found] if found >= 0 else 0
        price = read * self._reading
        for at, lifetime in marks.items():
            if at > found:
                price += (sums[at] - reached) * WRITING[lifetime]
                reached = sums[at]
            self._keep(prefixes[at], seconds, LIFETIMES[lifetime])
        plain = (sums[-1] if sums else 0) - reached
        return Spent(read, reached - read, plain, price + plain)

    def _look_back_from(self, mark: int, prefixes: list[bytes], seconds: float) -> int:
        for at in range(mark, max(-1, mark - self._look_back), -1):
            until, lifetime = self._kept.get(prefixes[at], (0.0, 0.0))
            if seconds < until:
                self._keep(prefixes[at], seconds, lifetime)
                return at
        return -1

    def _keep(self, prefix: bytes, seconds: float, lifetime: float) -> None:
        until, _ = self._kept.get(prefix, (0.0, 0.0))
        if seconds + lifetime > until:
            self._kept[prefix] = seconds + lifetime, lifetime


def _marks(blocks: list[Block]) -> dict[int, str]:
    """Where the marks are, each with its lifetime; refused where the provider would refuse them."""
    marks = {at: block.mark for at, block in enumerate(blocks) if block.mark}
    lifetimes = list(marks.values())
    if len(marks) > MOST_MARKS:
        raise Refused(f"{len(marks)} blocks have cache_control; {MOST_MARKS} may")
    if unknown := set(lifetimes) - set(LIFETIMES):
        raise Refused(f"no such lifetime: {unknown}")
    if lifetimes != sorted(lifetimes):  # "1h" sorts before "5m"
        raise Refused("a mark of 1h stands after one of 5m")
    return marks


class AutomaticCache:
    """OpenAI's and Google's: the longest prefix sent lately, from `minimum` tokens on, in steps. Writing is free.

    Google names no step; OpenAI's is taken for it. How long either remembers depends on how busy it is.
    """

    def __init__(
        self, *, minimum: int = 1_024, step: int = 128, lifetime: float = LIFETIMES["5m"], reading: float = 0.1
    ) -> None:
        self._minimum, self._step, self._lifetime, self._reading = minimum, step, lifetime, reading
        self._until: dict[bytes, float] = {}

    def ask(self, seconds: float, request: Request) -> Spent:
        ids = array("q")
        for block in blocks_of(request):
            ids.extend(_ids(block.text))
            ids.extend([-1] * (MEDIA_TOKENS * block.media))
        prefix, read, unbroken = _seed(request), 0, True
        for end in range(self._step, len(ids) + 1, self._step):
            prefix = _longer(prefix, ids[end - self._step : end].tobytes())
            if end < self._minimum:
                continue
            unbroken = unbroken and seconds < self._until.get(prefix, 0.0)
            read = end if unbroken else read
            self._until[prefix] = seconds + self._lifetime
        plain = len(ids) - read
        return Spent(read, 0, plain, read * self._reading + plain)


def _seed(request: Request) -> bytes:
    """What is no content, but must be equal for one request to read what another wrote."""
    same = [request.get(name) for name in ("model", "prompt_cache_key", "tool_choice", "thinking")]
    return hashlib.blake2b(json.dumps(same).encode(), digest_size=16).digest()


def _longer(prefix: bytes, more: str | bytes) -> bytes:
    content = more if isinstance(more, bytes) else more.encode("utf-8", "replace")
    return hashlib.blake2b(prefix + content, digest_size=16).digest()


# -- from a request to its blocks ----------------------------------------------------------------------------


class Block(NamedTuple):
    text: str
    media: int = 0  # images and files in it
    mark: str = ""  # the lifetime that cache_control asks for

    @property
    def tokens(self) -> int:
        return len(_ids(self.text)) + MEDIA_TOKENS * self.media


def blocks_of(request: Request) -> list[Block]:
    """A request of any provider as its content blocks, in the order in which they are cached."""
    return list(_blocks(request))


def _blocks(request: Request) -> Iterator[Block]:
    config = request.get("config", {})
    for tool in [*request.get("tools", []), *config.get("tools", [])]:
        for each in tool.get("functionDeclarations", [tool]):
            yield _block("<tool>", each)
    for form in (request.get("response_format"), request.get("text"), config.get("responseSchema")):
        if form:
            yield _block("<form>", form)
    for told in (request.get("system"), request.get("instructions"), config.get("systemInstruction")):
        yield from _message("<system>", _pieces(told))
    for message in (*request.get("messages", []), *request.get("input", []), *request.get("contents", [])):
        head = {key: value for key, value in message.items() if key not in _CONTENT}
        pieces = [piece for key in _CONTENT for piece in _pieces(message.get(key))]
        yield from _message(f"<message {_written(head)[0]}>", pieces or [""])


_CONTENT = ("content", "parts", "tool_calls")


def _pieces(content: Any) -> list[Any]:
    match content:
        case None:
            return []
        case list():
            return content
        case {"parts": list(parts)}:
            return parts
        case _:
            return [content]


def _message(head: str, pieces: list[Any]) -> Iterator[Block]:
    for number, piece in enumerate(pieces):
        yield _block("" if number else head, piece)


def _block(head: str, piece: Any) -> Block:
    if not isinstance(piece, dict):
        return Block(f"{head}{piece}")
    text, media = _written(_unmarked(piece))
    return Block(f"{head}{text}", media, _mark(piece))


def _mark(piece: dict[str, Any]) -> str:
    """The lifetime that a block asks for, itself or by a piece of its content."""
    if asked := piece.get("cache_control"):
        return str(asked.get("ttl", "5m"))
    inner = piece.get("content")
    return next((mark for part in inner if (mark := _mark(part))), "") if isinstance(inner, list) else ""


def _unmarked(piece: dict[str, Any]) -> dict[str, Any]:
    bare = {key: value for key, value in piece.items() if key != "cache_control"}
    if isinstance(bare.get("content"), list):
        bare["content"] = [_unmarked(part) for part in bare["content"]]
    return bare


def _written(value: Any) -> tuple[str, int]:
    """A value as text without JSON's escapes, which no model sees, in its order; and how many media are in it."""
    match value:
        case str():
            return value, 0
        case {"text": str(text)} if set(value) <= {"type", "text"}:
            return text, 0
        case dict():
            written = [(key, _media(key, each, value) or _written(each)) for key, each in value.items()]
            return f"{{{', '.join(f'{key}: {text}' for key, (text, _) in written)}}}", sum(n for _, (_, n) in written)
        case list():
            listed = [_written(each) for each in value]
            return f"[{', '.join(text for text, _ in listed)}]", sum(n for _, n in listed)
        case _:
            return json.dumps(value), 0


def _media(key: str, value: Any, around: dict[str, Any]) -> tuple[str, int] | None:
    """The bytes of an image or file: a few letters that tell them from others."""
    if not isinstance(value, str):
        return None
    is_data = key == "data" and not around.keys().isdisjoint(("media_type", "mimeType", "mime_type"))
    if is_data or (key in ("url", "image_url", "file_data") and value.startswith("data:")):
        return f"<{hashlib.blake2b(value.encode(), digest_size=4).hexdigest()}>", 1
    return None


@lru_cache(maxsize=100_000)
def _ids(text: str) -> list[int]:
    return list(_o200k().encode_ordinary(text.encode("utf-8", "replace").decode()))


@cache
def _o200k() -> AnyTokenizer:
    return Tokenizer.from_pretrained("o200k_base")

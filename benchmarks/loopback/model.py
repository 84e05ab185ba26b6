"""What the loopback servers have in common: what the model behind them says, and how strict they are.

A `Script` says what the model replies, one entry for each model call; with nothing left it replies with a text of its
own. Requests are refused as the provider refuses them, by `benchmarks.validator`; tokens are counted and prompts
cached as `benchmarks.caching` has it, so that the usage reported is what the provider would report.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from benchmarks.caching import Block, Cache, Spent, blocks_of, cache_of
from benchmarks.validator import refusals


class Called(NamedTuple):
    """A tool call of the model's. `arguments` is JSON as text, sent as it stands."""

    name: str
    arguments: str = "{}"


class Thought(NamedTuple):
    text: str


Piece = str | Called | Thought
Replies = Sequence[Piece]


class Script:
    """What the model says: a list of pieces for each model call, or a function of the request."""

    def __init__(
        self, replies: Iterable[Replies] = (), *, otherwise: Callable[[dict[str, Any]], Replies] | None = None
    ):
        self._left = deque(replies)
        self._otherwise = otherwise or (lambda _: ["Well, yes."])

    def add(self, *replies: Replies) -> None:
        self._left.extend(replies)

    def next(self, body: dict[str, Any]) -> Replies:
        return self._left.popleft() if self._left else self._otherwise(body)


# -- replies -----------------------------------------------------------------------------------------------


def tokens_of(*pieces: Piece) -> int:
    """What a reply comes to."""
    return sum(Block(_text(piece)).tokens for piece in pieces)


def limited(reply: Replies, most: int | None) -> tuple[list[Piece], bool]:
    """The reply as far as it has at most so many tokens, and whether it was cut: then its last piece is half there."""
    kept: list[Piece] = []
    left = tokens_of(*reply) if most is None else most
    for piece in reply:
        if (size := tokens_of(piece)) > left:
            text = _text(piece)
            while text and Block(text).tokens > left:
                text = text[: len(text) * 3 // 4]
            kept += [_with(piece, text)] if text else []
            return kept, True
        kept.append(piece)
        left -= size
    return kept, False


def streamed(text: str) -> list[str]:
    """A text in the pieces in which it is sent: words, and long ones in parts."""
    return re.findall(r"\s*\S{1,12}\s*|\s+", text)


def _text(piece: Piece) -> str:
    match piece:
        case Called(_, arguments):
            return arguments
        case Thought(text):
            return text
        case _:
            return piece


def _with(piece: Piece, text: str) -> Piece:
    match piece:
        case Called(name):
            return Called(name, text)
        case Thought():
            return Thought(text)
        case _:
            return text


# -- requests ----------------------------------------------------------------------------------------------


def size_of(body: dict[str, Any]) -> int:
    """The tokens of a request's input, in any provider's form."""
    return sum(block.tokens for block in blocks_of(body))


class Books:
    """Keeps what a provider would keep: the prompt cache of each model, and what it refused.

    `limit`: the most input tokens; what is more has nothing cached, and is for the server to refuse as too long.
    `clock`: seconds, for the cache's lifetime.
    """

    def __init__(self, provider: str, *, limit: int = 0, clock: Callable[[], float] = time.monotonic) -> None:
        self._provider, self._clock = provider, clock
        self._caches: dict[str, Cache] = {}
        self.limit = limit
        self.refused: list[str] = []
        self.spent: list[Spent] = []

    def enter(self, name: str, body: dict[str, Any]) -> Spent | str:
        """What the request's input comes to, or why it is refused. `body` is in the form that the SDK takes."""
        model = f"{self._provider}:{name}"
        if wrong := refusals(model, msgspec.json.decode(msgspec.json.encode(body))):
            self.refused += wrong
            return wrong[0]
        if self.limit and (size := size_of(body)) > self.limit:
            return Spent(0, 0, size, 0.0)
        cache = self._caches.setdefault(model, cache_of(model))
        spent = cache.ask(self._clock(), body)
        self.spent.append(spent)
        return spent

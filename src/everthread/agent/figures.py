"""What a turn takes: model calls, tokens and price so far, what its last request was, and whether it is at a limit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from everthread.config import Settings
from everthread.context.build import Context
from everthread.core.deltas import Done, Usage
from everthread.core.ended import usage_of
from everthread.core.events import ModelCall
from everthread.core.turns import State
from everthread.errors import LimitReached

OF_CONTEXT = ("cutoff", "sent", "past", "estimate", "budget", "degraded")  # what `Done` tells of the last request


class Figures:
    """What a turn has taken so far. `priced`: whether the price of all of it is known. `over`: the figures of the
    parent, where a child's turn runs below another child's: what is taken here counts there as well, so that a child's
    limits hold for it and all that it has begun."""

    def __init__(self, over: Figures | None = None) -> None:
        self.calls, self.price, self.priced, self.model = 0, 0.0, True, ""
        self.limits = Settings()
        self._over = over
        self._calls_of_all, self._price_of_all = 0, 0.0  # with what those below have taken
        self.sent: Context | None = None
        self._usage, self._finish = Usage(), ""

    def begin(self, model: str) -> None:
        self.calls += 1
        self.model = model
        for one in self._chain:
            one._calls_of_all += 1

    def count(self, record: ModelCall) -> None:
        self._usage, self._finish = self._usage + usage_of(record), record.finish
        self.priced = self.priced and record.price is not None
        self.price += record.price or 0.0
        for one in self._chain:
            one._price_of_all += record.price or 0.0

    @property
    def _chain(self) -> Iterator[Figures]:
        one: Figures | None = self
        while one is not None:
            yield one
            one = one._over

    def check(self) -> None:
        """Whether this turn and those above it may make another model call. Raises LimitReached."""
        for one in self._chain:
            limits = one.limits
            if one._calls_of_all >= limits.turn_calls:
                raise LimitReached("turn_calls", limits.turn_calls, "model calls")
            if limits.turn_dollars and one._price_of_all >= limits.turn_dollars:
                raise LimitReached("turn_dollars", limits.turn_dollars, "US dollars")

    def done(self, state: State, seq: int) -> Done:
        price = self.price if self.priced else None
        request: dict[str, Any] = {name: getattr(self.sent, name) for name in OF_CONTEXT} if self.sent else {}
        request |= {"usage": self._usage, "finish": self._finish}
        return Done(state=state, model=self.model, seq=seq, price=price, calls=self.calls, **request)

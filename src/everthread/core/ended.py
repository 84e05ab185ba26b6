"""How a turn ended, derived from the log, so that a listener need not have been there."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from everthread.core.deltas import Done, Usage
from everthread.core.events import UNANSWERED, ModelCall
from everthread.core.turns import State
from everthread.errors.turns import AT_ITS_LIMIT

# Why a turn ended before its time: somebody ended it, or nobody runs it any more.
CANCELLED, STOPPED = "cancelled", "stopped"
UNTOLD = "failed: why is not told, because something was redacted meanwhile"
LEFT_OPEN = "left open: its process ended, or slept, in the middle of it"


def is_own_reason(reason: str) -> bool:
    """Whether a turn's reason to end before its time is in words of ours, which repeat nothing that was said."""
    return reason in ("", CANCELLED, STOPPED, UNTOLD, LEFT_OPEN, UNANSWERED) or reason.startswith(AT_ITS_LIMIT)


def done_of(state: State, seq: int, calls: Sequence[ModelCall]) -> Done:
    """The end of a turn that made these model calls, oldest first, and whose newest event is `seq`."""
    if not calls:
        return Done(state=state, model="", seq=seq)
    last, told = calls[-1], [call for call in calls if not call.error]
    prices = [call.price for call in told]
    return Done(
        state=state,
        model=last.model,
        seq=seq,
        usage=reduce(Usage.__add__, map(usage_of, calls), Usage()),
        price=None if None in prices else sum(price for price in prices if price),
        calls=len(calls),
        cutoff=last.cutoff,
        sent=last.sent,
        past=last.past,
        estimate=last.estimate,
        budget=last.budget,
        degraded=last.degraded,
        finish=last.finish,
    )


def usage_of(call: ModelCall) -> Usage:
    return Usage(**{name: getattr(call, name) for name in Usage.__struct_fields__})

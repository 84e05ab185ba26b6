"""The newest heads that this process has written, so that the next append need not ask for one.

Only a guess: each engine has its own way to find out that somebody else has written since.
"""

from __future__ import annotations

from typing import Any, TypeVar

from everthread.errors import EverthreadError
from everthread.store.engine import Ask, Outcome, Row, Script

T = TypeVar("T")

MOST = 10_000  # conversations
APPENDS = {
    "insert_event", "insert_receipt", "insert_blob", "insert_blob_use", "insert_model_call", "insert_quote",
    "release_lease", "stir",
}  # fmt: skip


class Heads:
    def __init__(self) -> None:
        self._newest: dict[str, tuple[Row, bool]] = {}  # by conversation: the answer to "head", of the current?

    def forget(self, about: str) -> tuple[Row, bool] | None:
        """What was remembered, for whoever finds out that it still holds."""
        return self._newest.pop(about, None)

    def forget_all(self) -> None:
        self._newest.clear()

    def remember(self, about: str, outcome: Outcome[Any], before: tuple[Row, bool] | None = None) -> None:
        """Keep the head that an append left behind, or `before` where only the index of recall was written. Whatever
        else was written, forget it."""
        self.forget(about)
        if before and _only_indexes(outcome):
            self._newest[about] = before
        elif _only_appends(outcome):
            self._newest[about] = (_last_head(outcome), outcome.to_current)
            if len(self._newest) > MOST:
                del self._newest[next(iter(self._newest))]

    def answer(self, script: Script[Outcome[T]], about: str) -> Outcome[T] | None:
        """The outcome of a script that asks for nothing, or for nothing but a head that is remembered."""
        head, current = self._newest.get(about, ((0,), False))
        if not head[0]:
            return None
        try:
            if not _is_for(next(script), head[0], current):
                return None
            script.send([head])
        except StopIteration as end:
            outcome: Outcome[T] = end.value
            return outcome
        except EverthreadError:
            pass  # only somebody who has asked the database may refuse
        return None


def _only_indexes(outcome: Outcome[Any]) -> bool:
    return all("recall" in write.name for write in outcome.writes)


def _only_appends(outcome: Outcome[Any]) -> bool:
    return bool(outcome.writes) and {write.name for write in outcome.writes} <= APPENDS


def _is_for(ask: Ask, branch: int, current: bool) -> bool:
    """Whether a question is for the newest head of this branch, which may be the current one."""
    asked = ask.values.get("branch")
    return ask.name == "head" and (current if asked is None else asked == branch)


def _last_head(outcome: Outcome[Any]) -> Row:
    """With its branch, as the answer to "head" has it."""
    rows = next(write.rows for write in outcome.writes if write.name == "insert_event")
    _, _, branch, _, _, *head = rows[-1]
    return (branch, *head)

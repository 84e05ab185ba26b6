"""A conversation of a data export, ready to be restored: its strands as branches.

The first strand is main; the others are fork-2, fork-3 and so on, each with the marker of its fork before its own
events. A message without a time gets the time of the message before it, so that only known times decide where
sessions begin.
"""

from __future__ import annotations

import secrets
from typing import NamedTuple

from everthread.core.branches import Branch
from everthread.core.events import Fork
from everthread.core.ids import make_id
from everthread.core.times import microseconds, moment
from everthread.store.conversations import MAIN, Conversation, Owner
from everthread.store.log import now
from everthread.store.scripts.append import Draft
from everthread.store.scripts.restore import Whole
from everthread.transfer.strands import Exported, Strand


class _Grown(NamedTuple):
    """A branch, and where the events of its strand stand on it."""

    branch: Branch
    drafts: list[Draft]
    shared: int  # events of the line before the strand's own, markers not counted
    first: int  # seq of the strand's first own event

    def seq(self, count: int) -> int:
        """The seq of event number `count` of the line, which must be the strand's own; markers do not count."""
        return self.first + count - self.shared - 1 if count else 0

    def time(self, count: int) -> int:
        return self.drafts[self.seq(count) - self.branch.at - 1].time or 0


def whole_of(exported: Exported, owner: Owner, *, agent: str, name: str) -> Whole:
    began = _began(exported)
    grown: list[_Grown] = []
    for strand in exported.strands:
        grown.append(_main(strand, began) if strand.parent is None else _fork(strand, grown, began))
    conversation = Conversation(
        tenant=owner.tenant,
        id=make_id(began, secrets.randbits(80)),
        user=owner.user,
        agent=agent,
        name=name,
        current=grown[exported.current].branch.number,
        began=moment(began),
    )
    return Whole(conversation=conversation, branches=[(one.branch, one.drafts) for one in grown])


def _began(exported: Exported) -> int:
    """The time at which it began: as the export says, or else that of its earliest message."""
    times = [time for strand in exported.strands for time, _ in strand.events if time is not None]
    began = exported.began or min(times, default=None)
    return now() if began is None else microseconds(began)


def _main(strand: Strand, began: int) -> _Grown:
    branch = Branch(number=MAIN, name="main", parent=None, at=0, time=moment(began))
    return _Grown(branch, _drafts(strand, began), shared=0, first=1)


def _fork(strand: Strand, grown: list[_Grown], began: int) -> _Grown:
    parent = grown[strand.parent or 0]
    number, at = len(grown) + 1, parent.seq(strand.at)
    drafts = _drafts(strand, parent.time(strand.at) if strand.at else began)
    time = drafts[0].time or 0
    branch = Branch(number=number, name=f"fork-{number}", parent=parent.branch.number, at=at, time=moment(time))
    marker = Draft(event=Fork(branch=parent.branch.number, at=at), time=time)
    return _Grown(branch, [marker, *drafts], shared=strand.at, first=at + 2)


def _drafts(strand: Strand, before: int) -> list[Draft]:
    drafts = []
    for time, event in strand.events:
        before = before if time is None else microseconds(time)
        drafts.append(Draft(event=event, time=before))
    return drafts

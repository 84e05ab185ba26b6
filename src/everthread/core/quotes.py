"""Which events something repeats: noted when it is made, so that forgetting one finds every copy."""

from __future__ import annotations

import msgspec

from everthread.core.ids import is_id
from everthread.errors import BadValue

MOST = 2**31 - 1  # an integer in every database


class Quote(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An event of which something is repeated, by its place."""

    conversation: str
    branch: int
    seq: int

    def __post_init__(self) -> None:
        if not is_id(self.conversation) or not 0 < self.branch <= MOST or not 0 < self.seq <= MOST:
            raise BadValue("quotes", self, "the conversation, branch and seq of an event")

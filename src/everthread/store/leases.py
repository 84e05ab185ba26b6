"""Leases: who may do something alone, and until when.

A lease is taken by one statement that writes nothing while another has it, so of many who try, in whichever
processes, one wins; who it was is read afterwards. A holder that dies is waited for until its lease has run out, or
not at all by whoever knows that it is dead. Times are those of the processes' own clocks: a lease should be much
longer than the clocks of several machines may differ.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from everthread.errors import BadValue
from everthread.store.conversations import check_name
from everthread.store.engine import Ask, Outcome, Script, Tell

LONGEST_NAME = 400
FOREVER = 2**62  # microseconds: after every time there is


class Name(NamedTuple):
    """What is leased: a free text within a tenant."""

    tenant: str
    name: str

    @property
    def about(self) -> str:
        """Rings when it was taken or released: what those who wait for it listen to."""
        return f"lease/{self.tenant}/{self.name}"


class Term(NamedTuple):
    """Who has a lease, and until when."""

    holder: str
    until: int


def of_turns(conversation: str, branch: int | None = None) -> str:
    """The name of the lease of a branch's turns; without a branch, what all of a conversation's begin with."""
    return f"turn/{conversation}/{'' if branch is None else branch}"


def name_of(tenant: str, name: str) -> Name:
    return Name(tenant, check_name("name", name, most=LONGEST_NAME))


def check(holder: str, seconds: float) -> float:
    check_name("holder", holder, most=LONGEST_NAME)
    if not 0 < seconds < math.inf:
        raise BadValue("seconds", seconds, "more than 0")
    return seconds


def term(holder: str, now: int, seconds: float) -> Term:
    return Term(holder, min(FOREVER, now + math.ceil(seconds * 1_000_000)))


def take(name: Name, term: Term, *, now: int, over: str) -> Script[Outcome[None]]:
    yield from ()
    return Outcome(None, [Tell("take_lease", [{**name._asdict(), **term._asdict(), "now": now, "over": over}])])


def release(name: Name, holder: str) -> Script[Outcome[None]]:
    yield from ()
    return Outcome(None, [Tell("release_lease", [{**name._asdict(), "holder": holder}])])


def newest(name: Name) -> Script[Term | None]:
    """Who took it last and has not released it, whether or not it has run out."""
    rows = yield Ask("lease", name._asdict())
    return Term(*rows[0]) if rows else None


def erase(tenant: str, conversation: str) -> Tell:
    """The statement that removes the leases of a conversation's turns."""
    prefix = of_turns(conversation)
    return Tell("erase_leases", [{"tenant": tenant, "prefix": prefix, "end": after(prefix)}])


def after(prefix: str) -> str:
    """Sorts after every name that begins with the prefix, and before those that come later."""
    return prefix + "\U0010ffff"

"""Leases: who may do something alone, and until when.

A lease is taken by one statement that writes nothing while another has it, so of many who try, in whichever
processes, one wins; who it was is read afterwards. A holder that dies is waited for until its lease has run out, or
not at all by whoever knows that it is dead. Times are those of the processes' own clocks: a lease should be much
longer than the clocks of several machines may differ.

What is written under a lease carries it (`Lease`), and is refused in the same transaction once another has it: a
process that slept through its lease writes nothing more. With the lease of a turn stands what has come of its running
reply (`PartialReply`); the append of the reply empties it, in that same transaction.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from everthread.errors import BadValue
from everthread.store.conversations import check_name
from everthread.store.engine import Ask, Outcome, Script, Tell
from everthread.store.times import bounded

LONGEST_NAME = 400

T = TypeVar("T")


class LeaseName(NamedTuple):
    """What is leased: a free text within a tenant."""

    tenant: str
    name: str

    @property
    def about(self) -> str:
        """Rings when it was taken or released: what those who wait for it listen to."""
        return f"lease/{self.tenant}/{self.name}"


class Lease(NamedTuple):
    """A lease and who took it: under this something is written."""

    tenant: str
    name: str
    holder: str


class Held:
    """A lease that somebody holds: until when, by the log's clock, and whether another has taken it over. `open`:
    whether something may have been begun under it, by this holder or one before, that the log has no end of.
    `given_back`: whether the last thing that was written under it gave it back."""

    def __init__(self, lease: Lease) -> None:
        self.lease = lease
        self.until = 0
        self.lost = self.open = self.given_back = False

    def give_back(self) -> None:
        """It was given back: whatever is told from now on is no longer told by its holder."""
        self.given_back, self.open, self.until = True, False, 0


class PartialReply(NamedTuple):
    """What has come of a reply that followed event `at`, as text that only its runner understands."""

    holder: str
    until: int
    at: int
    text: str


class TurnLease(NamedTuple):
    """The lease of a branch's turns, and whose conversation that is."""

    tenant: str
    user: str
    conversation: str
    branch: int
    holder: str
    until: int


class Term(NamedTuple):
    """Who has a lease, and until when."""

    holder: str
    until: int


def of_turns(conversation: str, branch: int | None = None) -> str:
    """The name of the lease of a branch's turns; without a branch, what all of a conversation's begin with."""
    return f"turn/{conversation}/{'' if branch is None else branch}"


def name_of(tenant: str, name: str) -> LeaseName:
    return LeaseName(tenant, check_name("name", name, most=LONGEST_NAME))


def check(holder: str, seconds: float) -> float:
    check_name("holder", holder, most=LONGEST_NAME)
    if not 0 < seconds < math.inf:
        raise BadValue("seconds", seconds, "more than 0")
    return seconds


def term(holder: str, now: int, seconds: float) -> Term:
    return Term(holder, bounded(now + math.ceil(seconds * 1_000_000)))


def take(name: LeaseName, term: Term, *, now: int, over: str) -> Script[Outcome[str]]:
    """Take it, unless another has it: then nothing is written, which would wake everybody who waits for it."""
    found = yield from newest(name)
    if found and found.until > now and found.holder not in (term.holder, over):
        return Outcome(found.holder)
    return Outcome("", [Tell("take_lease", [{**name._asdict(), **term._asdict(), "now": now, "over": over}])])


def taken(lease: Lease, ask: Callable[[PartialReply], Script[T]]) -> Script[tuple[str, T | None] | None]:
    """Who has it, and what a script finds where that is the lease's holder; None where nobody has it any more."""
    kept = yield from partial(LeaseName(lease.tenant, lease.name))
    if kept is None:
        return None
    return kept.holder, (yield from ask(kept)) if kept.holder == lease.holder else None


def nothing_more(_: PartialReply) -> Script[None]:
    yield from ()


def renew(lease: Lease, until: int) -> Script[Outcome[None]]:
    yield from ()
    return Outcome(None, [Tell("renew_lease", [{**lease._asdict(), "until": until}])])


def release(name: LeaseName, holder: str, *, open: bool = False) -> Script[Outcome[None]]:
    """Give it back; with a partial reply that nobody could write down, or something left open, it only runs out."""
    yield from ()
    given = {**name._asdict(), "holder": holder, "open": int(open)}
    return Outcome(None, [Tell("leave_lease", [given]), Tell("release_lease", [given])])


def under(lease: Lease, at: int = 0) -> dict[str, Any]:
    """What goes before that which is written under a lease, up to event `at`."""
    return {**lease._asdict(), "at": at}


def hold(lease: Lease, at: int) -> Script[Outcome[None]]:
    """A reply begins that follows event `at`, with nothing to be written before it."""
    yield from ()
    return Outcome(None, under=under(lease, at))


def keep(lease: Lease, conversation: str, *, at: int, text: str, forgotten: int) -> Script[Outcome[None]]:
    """Keep what has come of a reply that follows event `at`."""
    yield from ()
    row = {**lease._asdict(), "conversation": conversation, "at": at, "partial": text, "forgotten": forgotten}
    return Outcome(None, [Tell("lock_lease", [lease._asdict()]), Tell("keep_partial", [row])])


def partial(name: LeaseName) -> Script[PartialReply | None]:
    """What has come of the running reply, and whose it is; None where nobody has the lease."""
    rows = yield Ask("partial", name._asdict())
    return PartialReply(*rows[0]) if rows else None


def give_back(lease: Lease) -> Tell:
    """The statement that gives a lease back, with what ends the work that it was taken for."""
    return Tell("release_lease", [lease._asdict()])


def newest(name: LeaseName) -> Script[Term | None]:
    """Who took it last and has not released it, whether or not it has run out."""
    rows = yield Ask("lease", name._asdict())
    return Term(*rows[0]) if rows else None


def of_conversation(tenant: str, conversation: str, *, now: int) -> Script[dict[int, str]]:
    """The branches of which somebody has the lease of turns, and who."""
    rows = yield Ask("leases_of", {**_turns(tenant, conversation), "now": now})
    return {int(name.rpartition("/")[2]): holder for name, holder in rows}


def of_all_turns() -> Script[list[TurnLease]]:
    """Of every tenant and user."""
    return [TurnLease(*row) for row in (yield Ask("leases_of_turns", {}))]


def named(tenant: str, prefix: str) -> Script[dict[str, Term]]:
    """Who has the leases whose names begin with a prefix, whether or not they have run out."""
    rows = yield Ask("leases_named", {"tenant": tenant, "prefix": prefix, "end": after(prefix)})
    return {name: Term(holder, until) for name, holder, until in rows}


def erase(tenant: str, conversation: str) -> Tell:
    """The statement that removes the leases of a conversation's turns."""
    return Tell("erase_leases", [_turns(tenant, conversation)])


def forget(tenant: str, conversation: str) -> Tell:
    """The statement that removes what has come of a conversation's running replies."""
    return Tell("forget_partials", [_turns(tenant, conversation)])


def _turns(tenant: str, conversation: str) -> dict[str, str]:
    prefix = of_turns(conversation)
    return {"tenant": tenant, "prefix": prefix, "end": after(prefix)}


def after(prefix: str) -> str:
    """Sorts after every name that begins with the prefix, and before those that come later."""
    return prefix + "\U0010ffff"

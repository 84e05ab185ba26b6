"""Which events quote which others: written with them, so that forgetting an event finds all that repeat it. They are
results of tools, and happenings that came of a tool call or tell of another branch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from everthread.core.events import TOMBSTONE, Event, ToolResult
from everthread.core.happenings import HAPPENINGS, Happening
from everthread.core.logged import Logged
from everthread.core.quotes import Quote
from everthread.errors import Outrun
from everthread.store.engine import Ask, Script, Tell

KINDS = frozenset(("tool_result", *HAPPENINGS))  # of which some may quote


class Spot(NamedTuple):
    """The place of an event within its tenant."""

    conversation: str
    branch: int
    seq: int


def quotes_of(event: Event) -> tuple[Quote, ...]:
    return event.quotes if isinstance(event, ToolResult | Happening) else ()


def note(where: Mapping[str, Any], events: Sequence[Logged]) -> list[Tell]:
    """The statements that write down what each of some new events quotes."""
    rows = [
        {
            "tenant": where["tenant"],
            "conversation": where["conversation"],
            "branch": event.branch,
            "seq": event.seq,
            "of_conversation": quote.conversation,
            "of_branch": quote.branch,
            "of_seq": quote.seq,
        }
        for event in events
        for quote in quotes_of(event.event)
    ]
    return [Tell("insert_quote", rows)]


def check(where: Mapping[str, Any], quotes: frozenset[Quote]) -> Script[None]:
    """Outrun where something that is quoted was forgotten between the look at it and now."""
    for conversation in sorted({quote.conversation for quote in quotes}):
        own = [quote for quote in quotes if quote.conversation == conversation]
        if (yield from _are_forgotten(where, conversation, own)):
            raise Outrun("Something that is quoted was redacted meanwhile")


def _are_forgotten(where: Mapping[str, Any], conversation: str, quotes: Sequence[Quote]) -> Script[bool]:
    """Whether any of these is gone; of what is not the same user's nothing is said. From now on until the quotes are
    written nobody redacts anything of this conversation."""
    asked = {"tenant": where["tenant"], "conversation": conversation}
    held = yield Ask("hold_quoted", {**asked, "own": where["conversation"]})
    if not held or held[0][0]:  # or it was erased
        return bool(held)
    for quote in quotes:
        spot = {**asked, "branch": quote.branch, "seq": quote.seq}
        if (yield Ask("is_redacted", {**spot, "tombstone": TOMBSTONE})):
            return True
    return False


def quoted_by(tenant: str, spot: Spot) -> Script[dict[Spot, str]]:
    """The events that quote another, with their kinds, in all of its user's conversations."""
    return {Spot(*row): kind for *row, kind in (yield Ask("quoted_by", {"tenant": tenant, **spot._asdict()}))}


def quoting(tenant: str, conversation: str) -> Script[list[Spot]]:
    """The events in the user's other conversations that quote anything of a conversation."""
    return [Spot(*row) for row in (yield Ask("quoting", {"tenant": tenant, "conversation": conversation}))]


def unknown(tenant: str, conversation: str, *, since: int) -> Script[list[Spot]]:
    """The same user's results since then of which nobody has written down what they quote: it may be anything."""
    asked = {"tenant": tenant, "conversation": conversation, "time": since}
    return [Spot(*row) for row in (yield Ask("quoting_unknown", asked))]

"""A conversation about a ship's journal, with tools, that any model can hold; and the account of what it cost.

It goes from model to model, a few turns each, on one branch, and ends early rather than cost more than it may. The same
function speaks with the real providers (`python -m tests.live`) and, in the tests, with servers on this machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from everthread import GivenSettings, Talk
from everthread.core.branches import ENDLESS
from everthread.core.deltas import Done
from everthread.core.events import ModelCall
from everthread.errors import EverthreadError

TURNS, STRETCH = 30, 5
ONE_CALL = 0.02  # US dollars that a model call may cost: that much is kept back, since a price is known only afterwards
SETTINGS: GivenSettings = {
    "budget": 8_000,
    "reply_tokens": 1_500,
    "retries": 3,
    "instructions": "You keep the journal of a ship, and answer from it, in one or two sentences. Use your tools for "
    "whatever stands in the journal or has to be reckoned, several at once where you can. " * 12,
}


# -- tools, and what is asked ----------------------------------------------------------------------------------


def read_journal(day: int) -> str:
    """Read what the journal says of a day. It is long.

    Args:
        day: the number of the day, from 1 on
    """
    return "\n".join(f"day {day}, line {line}: {(day * line) % 11} knots, {line % 7} birds" for line in range(1, 361))


def distance(knots: float, hours: float) -> float:
    """How many nautical miles are made at a speed, in a time.

    Args:
        knots: the speed
        hours: the time
    """
    return knots * hours


def crew_member(name: str) -> str:
    """What is known of somebody on board.

    Args:
        name: the first name
    """
    if name.lower() not in ("ana", "bo", "cid"):
        raise ValueError(f"there is nobody called {name} on board; there are Ana, Bo and Cid")
    return f"{name} has been on board for {len(name) * 3} years and is in charge of the {name.lower()[0]}-watch."


TOOLS: list[Any] = [read_journal, distance, crew_member]

ASKED = (
    "What does the journal say in line 3 of day {n}?",
    "How far do we come in {n} hours at 7 knots, and at 9?",
    "Who is Ana, and who is Bo?",
    "Remember that the answer of today is {n}. Just say that you have noted it.",
    "Who is Dora?",
    "Which answer did I last ask you to remember?",
)


# -- the account -------------------------------------------------------------------------------------------------


class Row(msgspec.Struct, kw_only=True):
    """Sums of a model's calls. `estimate` and `predicted`: what we reckoned with; `input` and `cache_read`: what the
    provider reports. Of a call that failed neither is counted."""

    model: str
    calls: int = 0
    failed: int = 0
    estimate: int = 0
    input: int = 0
    predicted: int = 0
    cache_read: int = 0
    output: int = 0
    price: float = 0.0


class Account(msgspec.Struct, kw_only=True):
    """What came of the conversation; `problems` in sentences, and none where all went well."""

    turns: int = 0
    spent: float = 0.0
    problems: list[str] = []
    rows: list[Row] = []


async def converse(
    talk: Talk, voices: Sequence[Mapping[str, Any]], *, dollars: float, turns: int = TURNS, stretch: int = STRETCH
) -> Account:
    """Hold the conversation. `voices`: what the branch is set to while one of them speaks."""
    account = Account()
    for number in range(turns):
        left = dollars - account.spent - ONE_CALL
        if left <= 0:
            account.problems.append(
                f"It was ended after {number} turns: more might have cost over {dollars:.2f} dollars."
            )
            break
        if number % stretch == 0:
            await talk.configure(**voices[number // stretch % len(voices)])
        await _turn(talk, ASKED[number % len(ASKED)].format(n=number + 1), left, account)
    account.rows = await _rows(talk)
    return account


async def _turn(talk: Talk, text: str, left: float, account: Account) -> None:
    account.turns += 1
    try:
        async for delta in talk.say(text, settings={"turn_dollars": left}):
            if isinstance(delta, Done):
                _count(delta, left, account)
    except EverthreadError as problem:
        account.problems.append(f"Turn {account.turns}: {problem}")


def _count(done: Done, left: float, account: Account) -> None:
    account.spent += done.price or 0.0
    if done.price is None:
        account.spent += left  # what is not known must be feared
        account.problems.append(f"Turn {account.turns}: no price is known of {done.model}.")
    if done.state != "idle":
        account.problems.append(f"Turn {account.turns} is {done.state}.")


async def _rows(talk: Talk) -> list[Row]:
    rows: dict[str, Row] = {}
    for event in await talk.range(1, ENDLESS):
        call = event.event
        if not isinstance(call, ModelCall):
            continue
        row = rows.setdefault(call.model, Row(model=call.model))
        row.calls += 1
        if call.error:
            row.failed += 1
            continue
        row.predicted += (await talk.rebuild(event.seq)).context.explain().cache_read
        row.price += call.price or 0.0
        for name in ("estimate", "input", "cache_read", "output"):
            setattr(row, name, getattr(row, name) + getattr(call, name))
    return list(rows.values())

"""Verdicts: somebody's yes or no to a tool call that waits, as the log keeps it.

A no is of its own branch. A yes is of all branches that share the tool call, because what a tool has done is done on
all of them: it is appended under a key that names the call, and a key is used once. A verdict has no content, so it
is never redacted; the arguments that somebody has changed stand in a command of their own right before it.
"""

from __future__ import annotations

from everthread.core.branches import ENDLESS
from everthread.core.events import Command, Event

APPROVE, REFUSE, CHANGE = "approve", "refuse", "change_arguments"
ABOUT = {"call", "seq", "waiting", "upto"}  # all that a verdict tells


def verdict_on(event: Event) -> int:
    """The seq of the tool call of which this is the verdict; 0 where it is none."""
    seq = event.arguments.get("seq") if isinstance(event, Command) and event.name in (APPROVE, REFUSE) else 0
    return seq if type(seq) is int and 0 < seq <= ENDLESS else 0  # an application may have commands of these names


def is_verdict(event: Event) -> bool:
    """Whether it is a verdict and nothing else: an application's command of that name may say more."""
    return bool(verdict_on(event)) and isinstance(event, Command) and event.arguments.keys() <= ABOUT


def approved(event: Event) -> int:
    """The seq of the tool call that this approves; 0 where it approves none."""
    return verdict_on(event) if isinstance(event, Command) and event.name == APPROVE else 0


def changed_arguments(event: Event, seq: int = 0) -> str:
    """The arguments with which somebody let a tool call run (that of event `seq`, if given); empty where it is no such
    command."""
    said = event.arguments if isinstance(event, Command) and event.name == CHANGE else {}
    text = said.get("arguments")
    return text if isinstance(text, str) and seq in (0, said.get("seq")) else ""


def approval_key(branch: int, seq: int) -> str:
    """The key under which a tool call is approved, by the branch that stores it. An application's keys have no line
    breaks, so none of them is this one."""
    return f"approved\n{branch}/{seq}"

"""What was asked for does not exist, or the log is no longer as the caller thinks."""

from __future__ import annotations

from typing import ClassVar

from everthread.errors.tree import Conflict, NotFound, short


class UnknownConversation(NotFound):
    def __init__(self, conversation: str, *, erased: str = "", agent: str = "") -> None:
        named = f"with the agent {short(agent)}" if agent else short(conversation)
        gone = f"; it was erased on {erased}" if erased else ""
        super().__init__(
            f"There is no conversation {named} for this user{gone}: list those there are with "
            "`et.conversations` or `everthread conversations`."
        )
        self.conversation, self.erased = conversation, erased


class UnknownBranch(NotFound):
    def __init__(self, branch: str | int, known: str) -> None:
        super().__init__(f"There is no branch {short(branch)} in this conversation; it has: {known}.")
        self.branch = branch


class UnknownSeq(NotFound):
    def __init__(self, seq: int, *, last: int) -> None:
        has = f"its events are numbered 1 to {last}" if last else "it has no events yet"
        super().__init__(f"There is no event {seq} on this branch: {has}.")
        self.seq, self.last = seq, last


class UnknownMark(NotFound):
    def __init__(self, mark: str) -> None:
        super().__init__(f"There is no mark {short(mark)} on this branch: set it with `mark` first, or give a seq.")
        self.mark = mark


class UnknownBlob(NotFound):
    def __init__(self, blob: str) -> None:
        super().__init__(f"This conversation keeps no image or file with the hash {short(blob)}.")
        self.blob = blob


class UnknownSchedule(NotFound):
    def __init__(self, schedule: str) -> None:
        super().__init__(
            f"There is no schedule {short(schedule)} in this conversation: list those there are with "
            "`talk.schedules` or `everthread schedules`."
        )
        self.schedule = schedule


class Moved(Conflict):
    def __init__(self, *, expected: int, found: int) -> None:
        super().__init__(
            f"A message was expected to be the last at seq {expected}, but seq {found} has been said since: "
            "read what came after it, then append again."
        )
        self.expected, self.found = expected, found


class Changed(Conflict):
    """A document has a newer version than its writer knew."""

    def __init__(self, name: str, *, expected: int, found: int) -> None:
        super().__init__(
            f"The document {short(name)} was expected to be at version {expected}, but is at version {found}: "
            "read it again, then write your change on top of it."
        )
        self.name, self.expected, self.found = name, expected, found


class Outrun(Conflict):
    """What a marker or a result was made from has changed: there is a newer one, or something was redacted."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}: make it anew from what is there now.")


class KeyReused(Conflict):
    def __init__(self, key: str) -> None:
        super().__init__(
            f"The idempotency key {short(key)} was used before with other content: use a new key for a new append."
        )
        self.key = key


class AlreadyExists(Conflict):
    """A name that is taken. An erased conversation keeps its own, so that nothing forgotten comes back unnoticed."""

    ADVICE: ClassVar = {
        "branch": "choose another name",
        "document": "nothing was written; forget it first if you want this one",
        "conversation with the id": "nothing was written; open it with `et.conversation(id=…)`, or choose another id",
        "conversation": "nothing was written; leave it out of the file, or import it into another store or tenant",
    }

    def __init__(self, what: str, name: str, *, erased: bool = False) -> None:
        there = f"The {what} {short(name)} was erased" if erased else f"There already is a {what} {short(name)}"
        super().__init__(f"{there}: {self.ADVICE[what]}.")
        self.name, self.erased = name, erased


class Outdated(Conflict):
    """What has been written out so far holds what must be forgotten."""

    def __init__(self) -> None:
        super().__init__("Something was redacted while it was exported: export it again.")

"""Every error that Everthread raises on purpose.

One tree: catch `EverthreadError` for all of them, or a branch of it for a kind. Each error is one sentence
that says what happened and what to do about it, and carries the ids it speaks of as attributes. Whatever is
raised, the log is as it was before the operation began.
"""

from __future__ import annotations

import re
import reprlib
from typing import ClassVar

GO_ON = "The message is kept: `talk.resume()` tries again without saying it twice."


class EverthreadError(Exception):
    """The root of the tree. `kept`: where it ended a turn that can be gone on with, the seq of that turn's message."""

    kept = 0

    @property
    def sentence(self) -> str:
        """What happened, without how a program goes on: a face says that in its own words."""
        return super().__str__()

    def __str__(self) -> str:
        return f"{self.sentence} {GO_ON}" if self.kept else self.sentence


# -- what the caller gave --------------------------------------------------------------------------------


class InputError(EverthreadError):
    """What was given cannot be used; nothing was changed."""


class BadValue(InputError):
    """A value that is not allowed."""

    def __init__(self, name: str, value: object, allowed: str) -> None:
        super().__init__(f"{name} is {_short(value)}, but must be {allowed}.")
        self.name = name


class NoModel(BadValue):
    """Neither the caller nor the settings name a model."""

    def __init__(self) -> None:
        super().__init__("model", "", "named as provider:name, such as anthropic:claude-sonnet-4-6")


class BadSetting(InputError):
    """A setting that does not exist, or a value that it may not have; `source` is where it was set."""

    def __init__(self, name: str, value: object, source: str, problem: str) -> None:
        shown = name if re.fullmatch(r"\w{1,40}", name) else _short(name)
        super().__init__(f"{shown} is {_short(value)} in {source}, but {problem}.")
        self.name, self.source = name, source


class BadSettingsFile(InputError):
    """A file of settings that is not there or cannot be understood."""

    def __init__(self, path: object, problem: str) -> None:
        super().__init__(
            f"The settings file {path} cannot be used ({problem}): correct it, or name another in EVERTHREAD_CONFIG."
        )
        self.path, self.problem = path, problem


class NoUser(InputError):
    """A conversation was asked for without saying whose."""

    def __init__(self) -> None:
        super().__init__("A conversation belongs to a user: name one, as in user='ana'.")


class EventTooLarge(InputError):
    def __init__(self, *, size: int, limit: int) -> None:
        super().__init__(
            f"An event of {size:,} bytes is larger than the limit of {limit:,} bytes: "
            "split it, attach it as a file part, or open the log with a larger `max_event_bytes`."
        )
        self.size, self.limit = size, limit


class BadFormat(InputError):
    """A file or message list that cannot be understood; nothing of it was imported."""

    def __init__(self, reason: str, *, where: str) -> None:
        super().__init__(f"{where}: {reason}. Nothing was imported.")
        self.reason, self.where = reason, where


class BeyondModel(EverthreadError):
    """What must be sent is more than the model takes; nothing was sent. `reply`: what is kept for the reply."""

    def __init__(self, model: str, *, needed: int, limit: int, reply: int = 0) -> None:
        todo = "shorten the newest message, the instructions or the tools, or take a model with a larger window"
        if not limit or needed <= limit + reply:
            todo = f"lower reply_tokens, which keeps {f'{reply:,} of them' if reply else 'the rest'} for the reply"
        super().__init__(
            f"The instructions, tools and newest turn need {needed:,} tokens, but {model} takes {limit:,} beside its "
            f"reply: {todo}."
        )
        self.model, self.needed, self.limit = model, needed, limit


# -- what was asked for does not exist, or is no longer as the caller thinks -------------------------------


class NotFound(EverthreadError):
    """Something named does not exist for this user."""


class UnknownConversation(NotFound):
    def __init__(self, conversation: str, *, erased: str = "") -> None:
        gone = f"; it was erased on {erased}" if erased else ""
        super().__init__(
            f"There is no conversation {_short(conversation)} for this user{gone}: list those there are with "
            "`et.conversations` or `everthread conversations`."
        )
        self.conversation = conversation


class UnknownBranch(NotFound):
    def __init__(self, branch: str | int, known: str) -> None:
        super().__init__(f"There is no branch {_short(branch)} in this conversation; it has: {known}.")
        self.branch = branch


class UnknownSeq(NotFound):
    def __init__(self, seq: int, *, last: int) -> None:
        has = f"its events are numbered 1 to {last}" if last else "it has no events yet"
        super().__init__(f"There is no event {seq} on this branch: {has}.")
        self.seq, self.last = seq, last


class UnknownMark(NotFound):
    def __init__(self, mark: str) -> None:
        super().__init__(f"There is no mark {_short(mark)} on this branch: set it with `mark` first, or give a seq.")
        self.mark = mark


class UnknownBlob(NotFound):
    def __init__(self, blob: str) -> None:
        super().__init__(f"This conversation keeps no image or file with the hash {_short(blob)}.")
        self.blob = blob


class Conflict(EverthreadError):
    """The log has moved on, or says otherwise; read it again and decide."""


class Moved(Conflict):
    def __init__(self, *, expected: int, found: int) -> None:
        super().__init__(
            f"A message was expected to be the last at seq {expected}, but seq {found} has been said since: "
            "read what came after it, then append again."
        )
        self.expected, self.found = expected, found


class Changed(Conflict):
    """A document has another version by now than its writer knew."""

    def __init__(self, name: str, *, expected: int, found: int) -> None:
        super().__init__(
            f"The document {_short(name)} was expected to be at version {expected}, but is at version {found}: "
            "read it again, then write your change on top of it."
        )
        self.name, self.expected, self.found = name, expected, found


class Outrun(Conflict):
    """What a marker or a result was made from is no longer so: somebody has written a newer one, or redacted
    something."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}: make it anew from what is there now.")


class KeyReused(Conflict):
    def __init__(self, key: str) -> None:
        super().__init__(
            f"The idempotency key {_short(key)} was used before with other content: use a new key for a new append."
        )
        self.key = key


class AlreadyExists(Conflict):
    """A name that is taken. That of an erased conversation is, too: what was forgotten does not come back unnoticed."""

    TODO: ClassVar = {
        "branch": "choose another name",
        "document": "nothing was written; forget it first if you want this one",
        "conversation": "nothing was written; leave it out of the file, or import it into another store or tenant",
    }

    def __init__(self, what: str, name: str, *, erased: bool = False) -> None:
        there = f"The {what} {_short(name)} was erased" if erased else f"There already is a {what} {_short(name)}"
        super().__init__(f"{there}: {self.TODO[what]}.")
        self.name, self.erased = name, erased


class Outdated(Conflict):
    """What has been written out so far holds what must be forgotten."""

    def __init__(self) -> None:
        super().__init__("Something was redacted while it was exported: export it again.")


# -- models and tools --------------------------------------------------------------------------------------


class ModelError(EverthreadError):
    """A model call failed. `again`: the same call may succeed later; `after`: in so many seconds, says the provider."""

    again = False

    def __init__(self, sentence: str, *, after: float | None = None) -> None:
        super().__init__(sentence)
        self.after = after


class NoKey(ModelError):
    def __init__(self, provider: str, variable: str) -> None:
        super().__init__(
            f"There is no key for {provider}: set {variable}, or `{provider}` in the [keys] table of the settings file."
        )


class WrongKey(ModelError):
    def __init__(self, provider: str, said: str) -> None:
        super().__init__(f"{provider} does not accept the key ({said}): check it, and what it is allowed to do.")


class NoCredit(ModelError):
    def __init__(self, provider: str, said: str) -> None:
        super().__init__(f"{provider} wants to be paid ({said}): add credit there, or use another model.")


class UnknownModel(ModelError):
    def __init__(self, provider: str, model: str, said: str) -> None:
        super().__init__(f"{provider} has no model {_short(model)} for you ({said}): check the name, or use another.")


class TooLong(ModelError):
    """The provider counted more than the model takes. `needed` and `limit` are its figures, 0 where it gave none."""

    def __init__(self, provider: str, said: str, *, needed: int = 0, limit: int = 0) -> None:
        super().__init__(f"{provider} found the request too long ({said}): lower the budget, or shorten the message.")
        self.needed, self.limit = needed, limit


class RequestRefused(ModelError):
    """The provider's rules forbid the request, or it declined to take it."""

    def __init__(self, provider: str, said: str) -> None:
        super().__init__(f"{provider} refused the request ({said}): `everthread context --request` shows it.")


class Overloaded(ModelError):
    """Too many requests, or the provider has a fault of its own."""

    again = True

    def __init__(self, provider: str, said: str, *, after: float | None = None) -> None:
        sentence = f"{provider} cannot reply now ({said}): try again later, or set a fallback model."
        super().__init__(sentence, after=after)


class Unreachable(ModelError):
    again = True

    def __init__(self, provider: str, why: str) -> None:
        super().__init__(f"{provider} cannot be reached ({why}): check the network and the address, then try again.")


class BrokenOff(ModelError):
    """The reply stopped in the middle, or was not what the provider's protocol says."""

    again = True

    def __init__(self, provider: str, why: str) -> None:
        super().__init__(f"The reply of {provider} broke off ({why}): what came of it is kept.")


class NoModelFile(ModelError):
    """The model in the process has no file to run, or one that cannot be run."""

    def __init__(self, model: str, why: str) -> None:
        super().__init__(f"The model {_short(model)} cannot run in this process: {why}.")


class LimitReached(EverthreadError):
    """A turn came to a limit of its own: model calls, time or price."""

    def __init__(self, setting: str, limit: float, unit: str) -> None:
        super().__init__(
            f"This turn came to its limit of {limit:,g} {unit} and was ended: say something to go on, or raise "
            f"{setting}."
        )
        self.setting = setting


class TurnBusy(Conflict):
    """Another turn of this branch is under way."""

    def __init__(self, conversation: str, holder: str) -> None:
        super().__init__(
            f"A turn of conversation {conversation} is under way ({holder}): wait for it, cancel it, or fork the "
            "branch."
        )


class TakenOver(Conflict):
    """What was to be done alone is another's by now, and nothing was written."""

    def __init__(self, name: str) -> None:
        kind, _, place = name.partition("/")
        conversation, _, branch = place.partition("/")
        super().__init__(
            f"The {kind} of conversation {conversation}, branch {branch}, is another process's by now, because this "
            "one was silent for longer than its lease, or it is gone: nothing of what was made since was written. Look "
            "at what the log says, and go on from there."
        )
        self.name = name


class TurnCancelled(EverthreadError):
    """The turn that was waited for was ended by somebody."""

    def __init__(self) -> None:
        super().__init__("The turn was cancelled: what had come of the reply is kept, and `talk.resume()` goes on.")


class NothingToResume(Conflict):
    """There is no turn that could go on."""

    def __init__(self, state: str) -> None:
        todo = "Approve or refuse what waits" if state == "waiting" else "Say something with `talk.say`"
        super().__init__(f"There is nothing to resume: the newest turn is {state}. {todo}.")


class NotWaiting(Conflict):
    """Nothing waits for what was said."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}: `talk.waiting()` lists the tool calls that wait for approval.")


class BadTool(InputError):
    """A tool that cannot be offered to a model."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"The tool {_short(name)} cannot be used: {problem.rstrip('.')}.")


class BadAgent(InputError):
    """An agent's file that cannot be understood."""

    def __init__(self, where: object, problem: str) -> None:
        super().__init__(f"The agent in {where} cannot be used ({problem}): correct it and try again.")


class UnknownAgent(NotFound):
    def __init__(self, agent: str, known: str) -> None:
        super().__init__(f"There is no agent {_short(agent)}; there are: {known or 'none'}.")
        self.agent = agent


# -- the store -------------------------------------------------------------------------------------------


class StoreError(EverthreadError):
    """The database cannot do what it should; what was acknowledged before is safe."""


class BadAddress(StoreError):
    def __init__(self, address: str) -> None:
        shown = re.sub(r"(://[^/:@]*:)[^@]*@", r"\1…@", address)  # never a password
        super().__init__(
            f"{_short(shown)} is not an address of a store: write sqlite:///talk.db (three slashes for a relative "
            "path, four for an absolute one) or postgresql://user@host/database."
        )


class MissingExtra(EverthreadError):
    """Packages that are installed only where they are wanted."""

    def __init__(self, extra: str) -> None:
        super().__init__(f"This needs more packages: pip install 'everthread[{extra}]'.")
        self.extra = extra


class NotADatabase(StoreError):
    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path} is not an Everthread database ({why}): choose another path; it was not touched.")
        self.path = path


class NewerSchema(StoreError):
    def __init__(self, store: str, *, version: int, name: str, known: int) -> None:
        super().__init__(
            f"{store} has schema {version} ({name!r}), written by a newer Everthread; this one knows up to "
            f"{known}: upgrade with `pip install -U everthread`."
        )
        self.version, self.known = version, known


class MigrationFailed(StoreError):
    def __init__(self, store: str, *, version: int, name: str, why: str) -> None:
        super().__init__(
            f"{store} could not be brought to schema {version} ({name!r}): {why}. It is as it was; open it with the "
            "Everthread that made it, and report this."
        )
        self.version = version


class ReadOnly(StoreError):
    def __init__(self, store: str) -> None:
        super().__init__(f"{store} cannot be written: check the permissions of the file and of its folder.")


class Full(StoreError):
    def __init__(self, store: str) -> None:
        super().__init__(f"There is no room left to write {store}: free some space and try again; nothing was lost.")


class Busy(StoreError):
    def __init__(self, store: str, *, seconds: float) -> None:
        super().__init__(
            f"Another program has kept {store} locked for {seconds:g} s: end it or wait for it, then try again."
        )


class NotYetGone(StoreError):
    """Forgotten in the log, but the old bytes are still in a file that somebody reads."""

    def __init__(self, store: str, *, seconds: float) -> None:
        super().__init__(
            f"It is forgotten, but for {seconds:g} s another program has been reading what {store} held before, so the "
            "old bytes are not overwritten yet: end that program, then do the same again."
        )


class Unavailable(StoreError):
    def __init__(self, store: str, why: str) -> None:
        super().__init__(
            f"{store} cannot be reached ({why}): check the address, and that what is behind it is there and runs."
        )


class Closed(StoreError):
    def __init__(self, store: str) -> None:
        super().__init__(f"{store} has been closed: open it again with `Everthread.open`.")


class Corrupt(StoreError):
    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"{what} is damaged ({why}): `everthread doctor` lists what is; the rest can be read.")


def _short(value: object) -> str:
    """A value as an error shows it: quoted, on one line, and not for pages."""
    try:
        return _shortening.repr(value)
    except (ValueError, RecursionError):  # a number of 5,000 digits, brackets without end
        return f"a {type(value).__name__} too large to show"


_shortening = reprlib.Repr()
_shortening.maxstring = _shortening.maxother = 200

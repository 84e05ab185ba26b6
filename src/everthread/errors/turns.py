"""Turns that cannot run or go on, and the agents and tools that they would run with."""

from __future__ import annotations

from everthread.errors.tree import Conflict, EverthreadError, InputError, NotFound, short

AT_ITS_LIMIT = "This turn came to its limit"


class LimitReached(EverthreadError):
    """A turn came to a limit of its own: model calls, time or price."""

    def __init__(self, setting: str, limit: float, unit: str) -> None:
        super().__init__(
            f"{AT_ITS_LIMIT} of {limit:,g} {unit} and was ended: say something to go on, or raise {setting}."
        )
        self.setting = setting


class BadOutput(EverthreadError):
    """A reply is not what `output` asks for. `text` is the reply, which the log has as well; `why`: what is wrong."""

    def __init__(self, why: str, text: str) -> None:
        super().__init__(
            f"The reply is not what `output` asks for ({why.rstrip('.')}): the log has it. Ask again, or for less."
        )
        self.why, self.text = why, text


class TurnBusy(Conflict):
    """Another turn of this branch is under way."""

    def __init__(self, conversation: str, holder: str) -> None:
        super().__init__(
            f"A turn of conversation {conversation} is under way ({holder}): wait for it, end it with "
            "`talk.stop()`, or fork the branch."
        )


class TakenOver(Conflict):
    """Another process has taken over what was to be done alone; nothing was written."""

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
    """The turn that was awaited has been cancelled."""

    def __init__(self) -> None:
        super().__init__("The turn was cancelled: what had come of the reply is kept, and `talk.resume()` goes on.")


class TurnInterrupted(EverthreadError):
    """The process that ran a turn has ended in the middle of it. `again`: the turn can be gone on with."""

    again = True

    def __init__(self) -> None:
        super().__init__(
            "The turn was interrupted, because the process that ran it has ended: what had come of the reply is kept."
        )


class NothingToResume(Conflict):
    """There is no turn that could go on."""

    def __init__(self, state: str) -> None:
        todo = "Approve or refuse what waits" if state == "waiting" else "Say something with `talk.say`"
        super().__init__(f"There is nothing to resume: the newest turn is {state}. {todo}.")


class NotWaiting(Conflict):
    """No tool call waits for this verdict."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}: `talk.waiting()` lists the tool calls that wait for approval.")


class AlreadyApproved(Conflict):
    """A tool call that was approved on another branch, which shares it: it runs once."""

    def __init__(self, seq: int, *, branch: str, at: int) -> None:
        super().__init__(
            f"The tool call of event {seq} was approved on the branch {branch!r}, in event {at}, and runs only once: "
            "refuse it here, and have the model call the tool again if it shall run again."
        )
        self.seq, self.branch, self.at = seq, branch, at


class TooManyChildren(Conflict):
    """As many children of a conversation run as may at once."""

    def __init__(self, most: int) -> None:
        super().__init__(
            f"{most} children of this conversation run, and no more may at once: wait for one to end, or stop one."
        )
        self.most = most


class TooDeep(Conflict):
    """A child may not have children of its own."""

    def __init__(self, deepest: int) -> None:
        super().__init__(f"Children may be nested {deepest} deep, and this is one of the deepest: do the task here.")
        self.deepest = deepest


class UnknownChild(NotFound):
    def __init__(self, branch: str | int) -> None:
        super().__init__(f"There is no child {short(branch)} of this conversation: `talk.children()` lists them.")
        self.branch = branch


class BadTool(InputError):
    """A tool that cannot be offered to a model."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"The tool {short(name)} cannot be used: {problem.rstrip('.')}.")


class BadAgent(InputError):
    """An agent's file that cannot be understood, or a folder of them that is not there."""

    def __init__(self, where: object, problem: str, *, what: str = "agent in") -> None:
        super().__init__(f"The {what} {where} cannot be used ({problem}): correct it and try again.")


class UnknownAgent(NotFound):
    def __init__(self, agent: str, known: str) -> None:
        super().__init__(f"There is no agent {short(agent)}; there are: {known or 'none'}.")
        self.agent = agent

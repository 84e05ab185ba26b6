"""What the caller gave cannot be used."""

from __future__ import annotations

import re

from everthread.errors.tree import EverthreadError, InputError, short


class BadValue(InputError):
    """A value that is not allowed."""

    def __init__(self, name: str, value: object, allowed: str) -> None:
        super().__init__(f"{name} is {short(value)}, but must be {allowed}.")
        self.name = name


class NoModel(BadValue):
    """Neither the caller nor the settings name a model."""

    def __init__(self) -> None:
        super().__init__("model", "", "named as provider:name, such as anthropic:claude-sonnet-4-6")


class BadSetting(InputError):
    """A setting that does not exist, or a value that it may not have; `source` is where it was set."""

    def __init__(self, name: str, value: object, source: str, problem: str) -> None:
        shown = name if re.fullmatch(r"\w{1,40}", name) else short(name)
        super().__init__(f"{shown} is {short(value)} in {source}, but {problem}.")
        self.name, self.source = name, source


class BadSettingsFile(InputError):
    """A file of settings that is not there or cannot be understood."""

    def __init__(self, path: object, problem: str) -> None:
        super().__init__(
            f"The settings file {path} cannot be used ({problem}): correct it, or name another in EVERTHREAD_CONFIG."
        )
        self.path, self.problem = path, problem


class NoUser(InputError):
    """A conversation was asked for without saying whose. `header`: where the caller of a service says it."""

    def __init__(self, header: str = "") -> None:
        acts = f"This API key is an application's, and nobody is named for whom it acts: name a user in {header}."
        super().__init__(acts if header else "A conversation belongs to a user: name one, as in user='ana'.")


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


class MissingExtra(EverthreadError):
    """Packages that are installed only where they are wanted. `otherwise`: what else there is to do."""

    def __init__(self, extra: str, *, otherwise: str = "") -> None:
        super().__init__(f"This needs more packages: pip install 'everthread[{extra}]'{otherwise}.")
        self.extra = extra

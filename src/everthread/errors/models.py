"""A model call failed."""

from __future__ import annotations

from everthread.errors.tree import EverthreadError, short


class ModelError(EverthreadError):
    """A model call failed. `again`: the same call may succeed later; `after`: in how many seconds, if known."""

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
        super().__init__(f"{provider} has no model {short(model)} for you ({said}): check the name, or use another.")


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
        super().__init__(f"The model {short(model)} cannot run in this process: {why}.")

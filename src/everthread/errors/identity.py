"""Who calls the service, and whether they may. No error has a secret in it, nor anything that one could be told by."""

from __future__ import annotations

import math

from everthread.errors.store import StoreError
from everthread.errors.tree import Conflict, EverthreadError, InputError, NotFound, short


class NotSignedIn(EverthreadError):
    """Nobody knows who calls."""

    def __init__(
        self,
        sentence: str = "Nobody is signed in here: sign in again, or send an API key (`Authorization: Bearer evk_…`).",
    ) -> None:
        super().__init__(sentence)


class WrongPassword(NotSignedIn):
    """The same for a user whom nobody knows: who guesses names learns nothing."""

    def __init__(self) -> None:
        super().__init__("User and password do not belong together: check both, or ask an administrator for a link.")


class LinkUsed(NotSignedIn):
    """A link that was used, whose time is over, or that there never was."""

    def __init__(self) -> None:
        super().__init__(
            "This link has been used, or its time is over: make another with `everthread link`, or ask whoever sent it."
        )


class KeyRefused(NotSignedIn):
    """An API key that was revoked, whose time is over, or that there never was."""

    def __init__(self, why: str) -> None:
        super().__init__(f"This API key {why}: make another with `everthread keys --make LABEL`.")
        self.why = why


class AccountDisabled(NotSignedIn):
    def __init__(self) -> None:
        super().__init__("This account is disabled: ask an administrator to enable it.")


class Forbidden(EverthreadError):
    """It is known who calls, and they may not."""

    def __init__(self, why: str, todo: str) -> None:
        super().__init__(f"{why}: {todo}.")


class TooManyTries(EverthreadError):
    """Somebody guesses. `seconds`: how long to wait before the next try."""

    def __init__(self, seconds: float) -> None:
        self.seconds = math.ceil(seconds)
        super().__init__(f"There were too many failed tries to sign in: wait {self.seconds} s, then try again.")


class BadPassword(InputError):
    """A password that cannot be set. It is not shown."""

    def __init__(self, why: str) -> None:
        super().__init__(f"This password cannot be used, because {why}: choose another.")


class UnknownAccount(NotFound):
    def __init__(self, user: str) -> None:
        super().__init__(f"There is no account {short(user)}: `everthread users` lists those there are.")
        self.user = user


class UnknownKey(NotFound):
    def __init__(self, id: str) -> None:
        super().__init__(f"There is no API key {short(id)}: `everthread keys` lists those there are.")
        self.id = id


class AccountExists(Conflict):
    def __init__(self, user: str) -> None:
        super().__init__(f"There is an account {short(user)} already: `everthread link` lets this user in.")
        self.user = user


class LastAdministrator(Conflict):
    def __init__(self, user: str) -> None:
        super().__init__(f"{short(user)} is the last administrator: make somebody else one first.")
        self.user = user


class NoVaultKey(StoreError):
    """There is no master key that opens what the vault holds. `key`: its id."""

    def __init__(self, why: str) -> None:
        super().__init__(f"The vault of the providers' keys cannot be opened ({why}).")
        self.why = why


class BadSeal(StoreError):
    """A provider's key in the vault is not what was put there."""

    def __init__(self, provider: str) -> None:
        super().__init__(
            f"The key for {short(provider)} in the vault was altered, or moved there from elsewhere: put it in anew."
        )
        self.provider = provider

"""What the service refuses before any verb is asked, and what its client meets on the way there."""

from __future__ import annotations

from everthread.errors.tree import EverthreadError, InputError, NotFound, short


class BadRequest(InputError):
    """A request that cannot be understood."""

    def __init__(self, why: str) -> None:
        super().__init__(f"This request cannot be understood: {why}.")


class TooLarge(InputError):
    """A body that is larger than the service takes."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"The body of this request is larger than {limit:,} bytes: send less at once.")
        self.limit = limit


class TooSlow(EverthreadError):
    """A body that did not come in time."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"The body of this request did not come within {seconds:g} seconds: send it again.")
        self.seconds = seconds


class TooMany(EverthreadError):
    """More than a user or key may ask for. `seconds`: when to try again."""

    def __init__(self, what: str, *, limit: float, seconds: float) -> None:
        super().__init__(f"Too many {what}: {limit:g} are allowed. Try again in {max(1, round(seconds))} seconds.")
        self.what, self.limit, self.seconds = what, limit, seconds


class GoingAway(EverthreadError):
    """A process of the service that is about to end. `seconds`: when to try again."""

    def __init__(self) -> None:
        super().__init__("This process of the service is about to end: try again in a second, another answers then.")
        self.seconds = 1.0


class CannotStart(EverthreadError):
    """A service none of whose processes could start."""

    def __init__(self, status: int | None) -> None:
        super().__init__(f"The service cannot start (status {status}): its process said why before it ended.")
        self.status = status


class OneProcessOnly(InputError):
    """Several processes over a store that is for one."""

    def __init__(self, workers: int) -> None:
        super().__init__(
            f"A SQLite store is served by one process, not by {workers}: others would hear of a reply only once a "
            "second, while it is kept. Use --workers 1, or a store in PostgreSQL."
        )
        self.workers = workers


class NoSuchRoute(NotFound):
    """An address at which the service has nothing."""

    def __init__(self, path: str) -> None:
        super().__init__(f"There is nothing at {short(path)}: /openapi.json lists what there is.")


class NoSuchMethod(EverthreadError):
    """An address that is asked in another way."""

    def __init__(self, method: str, allowed: str) -> None:
        super().__init__(f"{short(method)} is not answered here: use {allowed}.")
        self.allowed = allowed


class ServiceUnreachable(EverthreadError):
    """The service does not answer, or not as an Everthread does."""

    def __init__(self, address: str, why: str) -> None:
        super().__init__(f"The service at {address} cannot be reached ({why}): see whether it runs there.")
        self.address = address


class NotRemote(InputError):
    """What only the process can do that has the store."""

    def __init__(self, what: str, todo: str) -> None:
        super().__init__(f"{what} cannot be had over HTTP: {todo}.")

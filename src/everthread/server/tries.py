"""How often somebody has failed to sign in, and how long the next try has to wait.

A few failures are free; from then on the wait doubles, up to a quarter of an hour, and an hour without one forgives
them. Counted are a user from one address, an address, and a user from wherever: the last with much more patience and
for half a minute at most, or anybody could lock anybody out. A try counts from its beginning, so that many at once are
no way around it.

It is kept in this process: several processes of a service let through as many times that, and a restart forgets it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from everthread.errors import TooManyTries

SECOND = 1_000_000  # microseconds
FREE = {"user and address": 5, "address": 20, "user": 50}
LONGEST = {"user and address": 900, "address": 900, "user": 30}  # seconds
FORGIVEN = 3_600 * SECOND
LONGEST_NAME = 200  # characters; no user has a longer one
MOST = 50_000  # that are kept in mind; then those that failed longest ago are forgotten

Key = tuple[str, ...]


class Failed(NamedTuple):
    times: int
    last: int


class Tries:
    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._failed: dict[Key, Failed] = {}

    def begin(self, tenant: str, user: str, address: str) -> None:
        """A try begins, which counts as a failure until `succeeded`. TooManyTries: it may not."""
        now, keys = self._clock(), _keys(tenant, user, address)
        if (wait := max(self._wait(key, now) for key in keys)) > 0:
            raise TooManyTries(wait / SECOND)
        for key in keys:
            times = self._times(key, now)
            self._failed.pop(key, None)  # to the end of the queue
            self._failed[key] = Failed(times + 1, now)
        while len(self._failed) > MOST:
            del self._failed[next(iter(self._failed))]

    def succeeded(self, tenant: str, user: str, address: str) -> None:
        """The try was none of the failures. The address may still be that of somebody who guesses others' passwords."""
        for key in _keys(tenant, user, address):
            if key[0] == "address" and key in self._failed:
                failed = self._failed[key]
                self._failed[key] = Failed(max(0, failed.times - 1), failed.last)
            else:
                self._failed.pop(key, None)

    def _wait(self, key: Key, now: int) -> int:
        over = self._times(key, now) - FREE[key[0]]
        if over < 0:
            return 0
        return self._failed[key].last + min(LONGEST[key[0]], 1 << min(over, 30)) * SECOND - now

    def _times(self, key: Key, now: int) -> int:
        found = self._failed.get(key)
        return found.times if found and now - found.last < FORGIVEN else 0


def _keys(tenant: str, user: str, address: str) -> list[Key]:
    tenant, user, address = tenant[:LONGEST_NAME], user[:LONGEST_NAME], address[:LONGEST_NAME]
    return [("user and address", tenant, user, address), ("address", address), ("user", tenant, user)]

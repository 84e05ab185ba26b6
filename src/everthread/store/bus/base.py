"""The bus between the processes that share a store: short messages, sent at once and heard a moment later.

It carries two things: bells, which say that something was written about a topic, and messages, such as the pieces of a
reply that is under way. The log is the truth and needs none of them: whoever hears nothing looks for itself.

This is the contract. `postgres` fulfils it with NOTIFY and `redis` with Redis' PUBLISH; what the two share is
`gather`. A SQLite file has `NoBus`, because its processes see in the file that another one has written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

INTERVAL = 0.03  # seconds for which messages are gathered
LARGEST = 6_000  # characters of a topic and a message together, written as ASCII JSON

OnMessage = Callable[[str, str], None]
Lost = Callable[[], None]


class Bus(Protocol):
    """Carries short messages between the processes that share a store.

    A hint and never the truth: a message may be lost with its connection, and then `lost` says so. None comes twice.
    All methods belong to the event loop's thread.
    """

    def send(self, topic: str, message: str = "") -> None:
        """Tell the other processes; returns at once.

        What is sent within INTERVAL goes out together, in the order in which it was sent; a topic without a message
        (a bell) is told once an interval. Too long a message: BadValue. Nothing else is raised.
        """

    def hear(self, heard: OnMessage, lost: Lost) -> Callable[[], None]:
        """From now on call `heard(topic, message)` for what other processes send, never for what this bus sent itself;
        until what is returned here is called.

        `lost()` is called whenever something may have been missed: when the connection was made, the first time as
        well, and when another process could not send what it had gathered.
        """

    async def watch(self) -> None:
        """Begin to listen, if we do not yet.

        Returns when the connection listens, or after a first failure; it is then tried again in the background.
        """

    async def close(self) -> None:
        """Send what is gathered, and let go."""


class NoBus:
    """The bus of a store whose processes need none: nobody hears anything."""

    def send(self, topic: str, message: str = "") -> None:
        pass

    def hear(self, heard: OnMessage, lost: Lost) -> Callable[[], None]:
        return lambda: None

    async def watch(self) -> None:
        pass

    async def close(self) -> None:
        pass

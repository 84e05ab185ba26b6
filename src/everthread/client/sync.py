"""The client without `await`: what `everthread.sync` is to the library.

from everthread.client.sync import Everthread

with Everthread.open("https://talk.example.com", key="evk_…") as et:
    talk = et.conversation(user="ana", agent="helper")
    for delta in talk.say("What may I put into the cake?"):
        print(delta, end="", flush=True)
"""

from __future__ import annotations

from everthread import sync
from everthread.client.app import PATIENCE
from everthread.client.app import Everthread as Asynchronous
from everthread.core.accounts import Caller
from everthread.sync import Agents, Child, Reply, Stream, Talk
from everthread.sync.mirrored import without_await
from everthread.sync.thread import LoopThread

__all__ = ["Agents", "Child", "Everthread", "Reply", "Stream", "Talk"]


class Everthread(sync.Everthread):
    """A service of conversations. `user` and `tenant` are those of the API key; an application's key acts for any
    `user` that it may."""

    @staticmethod
    def open(  # type: ignore[override]
        address: str, *, key: str | None = None, user: str = "", patience: float = PATIENCE
    ) -> Everthread:
        opening, thread = Asynchronous.open(address, key=key, user=user, patience=patience), LoopThread()
        try:
            return Everthread(thread.run(opening.__aenter__), thread)  # type: ignore[call-arg]
        except BaseException:
            thread.close()
            raise

    open.__doc__ = without_await(Asynchronous.open.__doc__)

    @property
    def caller(self) -> Caller:
        """As whom the service knows us, and what we may do there."""
        found: Caller = self._mirrored.caller  # type: ignore[attr-defined]
        return found

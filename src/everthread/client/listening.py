"""Listening to a branch of a conversation, over as many connections as it takes: without gap, and nothing twice."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping

from everthread import wire
from everthread.client.connection import Asked, Connection, Lost, back_off
from everthread.core.told import Told
from everthread.errors import EverthreadError, GoingAway, ServiceUnreachable
from everthread.problems import error_of

PATIENCE = 60.0  # seconds for which a service that is gone is asked again


class Listening:
    """`asked`: the request that listens; each connection goes on from the place of what was heard last."""

    def __init__(self, connection: Connection, asked: Asked, after: str) -> None:
        self._connection, self._asked, self._place = connection, asked, after
        self._failures = 0

    async def told(self) -> AsyncIterator[Told]:
        while True:
            try:
                async with self._connection.events(self._request()) as events:
                    async for event in events:
                        self._failures = 0
                        match event.name:
                            case "snapshot":
                                self._stay(json.loads(event.data))
                            case "told":
                                self._place = event.id
                                yield wire.loads(Told, event.data)
                            case "problem":
                                raise error_of(json.loads(event.data))
                            case "reconnect":
                                break
            except (Lost, ServiceUnreachable, GoingAway) as lost:
                self._check_patience(lost)
            self._failures += 1
            await asyncio.sleep(back_off(self._failures))

    def _request(self) -> Asked:
        return self._asked._replace(headers={"last-event-id": self._place})

    def _stay(self, snapshot: Mapping[str, object]) -> None:
        """Stay on the branch that was current when the listening began."""
        conversation = snapshot["conversation"]
        branch = snapshot["branch"]
        if branch is None and isinstance(conversation, dict):
            branch = conversation["current"]
        self._asked = self._asked._replace(query={"branch": str(branch)})

    def _check_patience(self, lost: Exception) -> None:
        if sum(back_off(attempt) for attempt in range(1, self._failures + 1)) > PATIENCE:
            raise lost if isinstance(lost, EverthreadError) else self._connection.unreachable(lost) from None

"""A WebSocket: one connection for a face that shows one conversation at a time.

It is told `opened` with a snapshot, then everything that `listen` tells, each with its place. It may ask for any verb
of the table on the conversation that is open, and opens another one in the same way:

    → {"id": 1, "verb": "open", "arguments": {"conversation": "01J…", "after": 0}}
    ← {"kind": "opened", "conversation": {…}, "branch": null, "seq": 12, "canvas": {…}}
    ← {"kind": "told", "place": "13", "item": {…}}
    → {"id": 2, "verb": "say", "arguments": {"pieces": ["Good morning!"]}}
    ← {"kind": "answer", "id": 2, "value": {…}}              or {"kind": "problem", "id": 2, "problem": {…}}
    ← {"kind": "reconnect"}                                   the service is about to end: come back

A socket that does not read what it is sent is let go: it comes back, and goes on from its place.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from contextlib import aclosing, suppress
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

from everthread import wire
from everthread.core.accounts import Caller
from everthread.core.values import inner_form, plain
from everthread.errors import BadRequest, EverthreadError, NoSuchRoute
from everthread.problems import problem_of
from everthread.routes import ROUTES, Route
from everthread.server.calls import begun, called, snapshot_of, talk_of
from everthread.server.door import must
from everthread.server.reading import arguments_in
from everthread.server.service import Service
from everthread.talk import Talk

VERBS: dict[str, Route] = {route.verb.__name__: route for route in ROUTES if route.of == "talk"}
LEAVING, REFUSED, TOO_SLOW = 1012, 4003, 4008  # codes with which a socket is closed
SEND_SECONDS = 30.0  # for a socket to take what it is sent


async def converse(service: Service, socket: WebSocket) -> None:
    """Serve a socket until it is closed, from either side."""
    try:
        caller = await service.enter(socket, "read")
    except EverthreadError as problem:
        await socket.accept()
        await socket.close(REFUSED, problem.sentence[:120])
        return
    with service.within(caller), service.meter.connection(caller):
        await socket.accept()
        await _Line(service, socket, caller).serve()


class _Line:
    """A socket with its caller, and the conversation that it shows."""

    def __init__(self, service: Service, socket: WebSocket, caller: Caller) -> None:
        self._service, self._socket, self._caller = service, socket, caller
        self._talk: Talk | None = None
        self._telling: asyncio.Task[None] | None = None
        self._asked: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        self._service.to_tell.add(self._leave)
        try:
            await self._hear()
        finally:
            self._service.to_tell.discard(self._leave)
            tasks = {*self._asked, *([self._telling] if self._telling else [])}
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)

    def _leave(self) -> None:
        self._begin(self._told_to_reconnect())

    async def _told_to_reconnect(self) -> None:
        await self._send({"kind": "reconnect"})
        with suppress(WebSocketDisconnect, RuntimeError):  # it has gone meanwhile
            await self._socket.close(LEAVING)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._asked.add(task)
        task.add_done_callback(self._asked.discard)

    async def _hear(self) -> None:
        path, query = self._socket.path_params, self._socket.query_params
        if path.get("conversation"):
            where = {"conversation": path["conversation"], "branch": query.get("branch", "")}
            await self._answer({"verb": "open", "arguments": {**where, "after": query.get("after", "0")}})
        while True:
            try:
                text = await self._socket.receive_text()
            except (WebSocketDisconnect, KeyError, RuntimeError):
                return
            self._service.meter.request(self._caller)
            self._begin(self._answer(_message(text)))

    async def _answer(self, message: dict[str, Any]) -> None:
        told = {"id": message["id"]} if "id" in message else {}
        try:
            if message.get("verb") == "open":
                await self._open(**_to_open(message.get("arguments") or {}))
            else:
                await self._send({"kind": "answer", **told, "value": await self._called(message)})
        except Exception as problem:  # noqa: BLE001 -- told to the caller
            self._service.note(problem)
            await self._send({"kind": "problem", **told, "problem": problem_of(problem)})

    async def _open(self, conversation: str, branch: str, after: str) -> None:
        talk = await talk_of(self._service, self._caller, conversation, branch)
        snapshot = await snapshot_of(talk)
        if self._telling is not None:
            self._telling.cancel()
            await asyncio.wait({self._telling})
        self._talk = talk
        await self._send({"kind": "opened", **snapshot})
        self._telling = asyncio.create_task(self._tell(talk, after))

    async def _tell(self, talk: Talk, after: str) -> None:
        try:
            async with aclosing(talk.told(after=after)) as told:  # type: ignore[type-var]
                async for one in told:
                    await self._send({"kind": "told", **plain(one)})
                    del one  # it may be large, and nothing more may come for days
        except Exception as problem:  # noqa: BLE001 -- told to the caller
            self._service.note(problem)
            await self._send({"kind": "problem", "problem": problem_of(problem)})

    async def _called(self, message: dict[str, Any]) -> Any:
        route = VERBS.get(str(message.get("verb")))
        if route is None:
            raise NoSuchRoute(str(message.get("verb")))
        if self._talk is None:
            raise BadRequest("no conversation is open on this socket")
        must(self._caller, route.scope)
        given = arguments_in(route, message.get("arguments") or {})
        if route.runs:
            return await (await begun(self._service, route, self._caller, self._talk, given)).accepted()
        body = await called(self._service, route, self._caller, self._talk, given)
        return json.loads(body) if body else None

    async def _send(self, message: dict[str, Any]) -> None:
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self._socket.send_text(wire.dumps(inner_form(message)).decode())
        except TimeoutError:
            await self._socket.close(TOO_SLOW)
        except (WebSocketDisconnect, RuntimeError):
            pass  # it has gone meanwhile


def _message(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"verb": "a message that is no JSON object"}


def _to_open(given: dict[str, Any]) -> dict[str, str]:
    conversation, branch, after = (given.get(name) for name in ("conversation", "branch", "after"))
    if not isinstance(conversation, str):
        raise BadRequest("to open a conversation, name it")
    return {"conversation": conversation, "branch": str(branch or ""), "after": str(after or 0)}

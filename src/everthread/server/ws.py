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
from everthread.errors import BadRequest, BadValue, EverthreadError, TooMany
from everthread.problems import problem_of, status_of
from everthread.routes import LEAVING, ROUTES, Route
from everthread.server.calls import begun, called, snapshot_of, taken, talk_of
from everthread.server.reading import arguments_in, loads
from everthread.server.service import Service
from everthread.talk import Talk

VERBS: dict[str, Route] = {route.verb.__name__: route for route in ROUTES if route.of == "talk"}
LATER, REFUSED, TOO_SLOW = 1013, 4003, 4008  # codes with which a socket is closed, beside LEAVING
A_MESSAGE = 'a message is a JSON object in text, such as {"id": 1, "verb": "say", "arguments": {"pieces": ["Hello!"]}}'
AT_ONCE = 32  # messages of a socket that are answered side by side
SEND_SECONDS = 30.0  # for a socket to take what it is sent


async def converse(service: Service, socket: WebSocket) -> None:
    """Serve a socket until it is closed, from either side."""
    try:
        caller = await service.enter(socket, "read")
        with service.within(caller), service.meter.connection(caller):
            await socket.accept()
            await _OpenSocket(service, socket, caller).serve()
    except EverthreadError as problem:
        await socket.accept()
        await socket.close(LATER if isinstance(problem, TooMany) else REFUSED, _reason(problem))


class _OpenSocket:
    """A socket with its caller, and the conversation that it shows."""

    def __init__(self, service: Service, socket: WebSocket, caller: Caller) -> None:
        self._service, self._socket, self._caller = service, socket, caller
        self._talk: Talk | None = None
        self._telling: asyncio.Task[None] | None = None
        self._asked: set[asyncio.Task[None]] = set()
        self._stay = service.stay(socket)

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
        await self._close(LEAVING)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._asked.add(task)
        task.add_done_callback(self._asked.discard)

    async def _hear(self) -> None:
        path, query = self._socket.path_params, self._socket.query_params
        if path.get("conversation"):
            where = {"conversation": path["conversation"], "branch": query.get("branch", "")}
            await self._answer({"verb": "open", "arguments": {**where, "after": query.get("after", "0")}})
        while (message := await self._next()) is not None:
            if message.get("verb") == "open":  # what comes after it is meant for the conversation that it opens
                await self._answer(message)
                continue
            self._begin(self._answer(message))
            if len(self._asked) >= AT_ONCE:  # who asks faster than it hears has to wait
                await asyncio.wait(self._asked, return_when=asyncio.FIRST_COMPLETED)

    async def _next(self) -> dict[str, Any] | None:
        """The next message; None when the socket has gone."""
        try:
            received = await self._socket.receive()
        except RuntimeError:
            return None
        return _message(received.get("text")) if received["type"] == "websocket.receive" else None

    async def _answer(self, message: dict[str, Any]) -> None:
        told = {"id": message["id"]} if "id" in message else {}
        try:
            if message.get("verb") == "open":
                await self._service.enter(self._socket, "read")
                await self._open(**_to_open(_arguments(message)))
            else:
                await self._send({"kind": "answer", **told, "value": await self._called(message)})
        except Exception as problem:  # noqa: BLE001 -- told to the caller
            await self._refuse(problem, told)

    async def _refuse(self, problem: Exception, told: dict[str, Any]) -> None:
        """Tell what went wrong. Who is no longer let in is not heard any more, either."""
        self._service.note(problem)
        await self._send({"kind": "problem", **told, "problem": problem_of(problem)})
        if status_of(problem) == 401:
            await self._close(REFUSED, _reason(problem))

    async def _close(self, code: int, reason: str = "") -> None:
        with suppress(WebSocketDisconnect, RuntimeError):  # it has gone meanwhile
            await self._socket.close(code, reason)

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
            async with aclosing(talk._told_together(after=after)) as told:
                async for some in told:
                    await self._stay.check()
                    for one in some:
                        await self._send({"kind": "told", **plain(one)})
                        await asyncio.sleep(0)  # to notice that it has gone: else all of a history is sent to nobody
                    del some, one  # they may be large, and nothing more may come for days
        except Exception as problem:  # noqa: BLE001 -- told to the caller
            await self._refuse(problem, {})

    async def _called(self, message: dict[str, Any]) -> Any:
        verb = message.get("verb")
        route = VERBS.get(verb) if isinstance(verb, str) else None
        await self._service.enter(self._socket, route.scope if route else "read")
        if isinstance(verb, BadRequest):
            raise verb
        if route is None:
            raise BadValue("verb", verb, f"'open', or a verb of a conversation: {', '.join(map(repr, VERBS))}")
        if self._talk is None:
            raise BadRequest("no conversation is open on this socket")
        given = arguments_in(route, _arguments(message))
        if route.runs:
            return await taken(route, await begun(self._service, route, self._caller, self._talk, given))
        body = await called(self._service, route, self._caller, self._talk, given)
        return json.loads(body) if body else None

    async def _send(self, message: dict[str, Any]) -> None:
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self._socket.send_text(wire.dumps(inner_form(message)).decode())
        except TimeoutError:
            await self._close(TOO_SLOW)
        except (WebSocketDisconnect, RuntimeError):
            pass  # it has gone meanwhile


def _message(text: str | None) -> dict[str, Any]:
    """What was sent. In place of a verb stands what is wrong, where it is no message; one of bytes is none either."""
    try:
        found = loads(text) if text else None
    except (ValueError, RecursionError) as problem:
        return {"verb": BadRequest(f"{A_MESSAGE} ({problem})")}
    return found if isinstance(found, dict) else {"verb": BadRequest(A_MESSAGE)}


def _arguments(message: dict[str, Any]) -> dict[str, Any]:
    given = message.get("arguments")
    if given is not None and not isinstance(given, dict):
        raise BadRequest("the arguments of a verb are a JSON object")
    return given or {}


def _reason(problem: Exception) -> str:
    """Why a socket is closed, in the 123 bytes that there are for it."""
    said = problem.sentence if isinstance(problem, EverthreadError) else ""
    return said.encode("utf-8", "replace")[:120].decode("utf-8", "ignore")


def _to_open(given: dict[str, Any]) -> dict[str, str]:
    conversation, branch, after = (given.get(name) for name in ("conversation", "branch", "after"))
    if not isinstance(conversation, str):
        raise BadRequest("to open a conversation, name it")
    return {"conversation": conversation, "branch": str(branch or ""), "after": str(after or 0)}

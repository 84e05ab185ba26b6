"""Answering a request: who calls, what about, the verb, and what it gave as JSON.

Everything that a caller reaches is bound to its tenant and user here, in one place: a store's verb is given both, a
conversation is found as that user's, and what is somebody else's is not found.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import ExitStack, aclosing, suppress
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from everthread import wire
from everthread.agent.child import Child
from everthread.agent.reply import Reply
from everthread.app import Everthread
from everthread.core.accounts import Caller
from everthread.core.deltas import Delta, Notice
from everthread.core.ids import is_id
from everthread.core.logged import Logged, as_json
from everthread.core.told import Told
from everthread.errors import NoUser
from everthread.problems import body_of
from everthread.routes import FOR_USER, WARNING, Opened, Route
from everthread.server.in_time import in_time
from everthread.server.reading import JSON, Arguments, arguments_of, query_of
from everthread.server.service import Service, Stay
from everthread.server.sse import EventStream, Sent, wants_events
from everthread.store.conversations import owner_of
from everthread.talk import Talk
from everthread.talk.reading import page_at_once

PAGES = (Talk.before, Talk.after)
LIMIT = 50  # events of a page, where the caller names no number


async def answer(service: Service, route: Route, request: Request) -> Response:
    """Answer a request to one of the routes of the table."""
    caller = await service.enter(request, route.scope)
    with service.within(caller):
        query = query_of(request)
        if route.verb in PAGES:
            return await _page(service, route, caller, request, query)
        target = await target_of(service, route, caller, request.path_params, query)
        given = await arguments_of(route, request, query, most=service.limits.body)
        if route.of == "identity" and "address" in route.asks:  # from where somebody guesses
            given.named["address"] = request.client.host if request.client else ""
        if route.runs:
            return await _turn(service, route, caller, request, target, given)
        body = await called(service, route, caller, target, given)
        return Written(body) if body else Response(status_code=204)


async def _page(service: Service, route: Route, caller: Caller, request: Request, query: Mapping[str, str]) -> Response:
    """A page of events. One that takes too long is made smaller, and a header says so."""
    given = (await arguments_of(route, request, query, most=0)).named
    limit, warning = given.get("limit", LIMIT), b""
    while limit > 1:
        try:
            body = await in_time(_events(service, route, caller, request, query, given), service.page_seconds)
            return Written(body, warning)
        except TimeoutError:
            given["limit"] = limit = max(1, limit // 8)
            warning = f"This page was made smaller ({limit}), because it took too long".encode()
    return Written(await _events(service, route, caller, request, query, given), warning)


async def _events(
    service: Service, route: Route, caller: Caller, request: Request, query: Mapping[str, str], given: dict[str, Any]
) -> bytes:
    """A page of events: by one question that asks whose the conversation is as well, where that is enough; else the
    conversation is found first."""
    id = request.path_params["conversation"]
    if "branch" not in query and is_id(id):
        owner = owner_of(caller.tenant, caller.user)
        rows = await page_at_once(service.et.log, owner, id, forward=route.verb is Talk.after, **given)
        if rows is not None:
            with suppress(ValueError):  # of what takes longer to write
                return as_json(rows)
    talk = await target_of(service, route, caller, request.path_params, query)
    return wire.dumps(await route.verb(talk, **given))


class Written(Response):
    """JSON that is written already, for what is asked most: without what Starlette's own looks at."""

    def __init__(self, body: bytes, warning: bytes = b"") -> None:
        self.status_code, self.body, self.background = 200, body, None
        self.raw_headers = [(b"content-length", b"%d" % len(body)), (b"content-type", b"application/json")]
        if warning:
            self.raw_headers.append((WARNING.lower().encode(), warning))


async def called(service: Service, route: Route, caller: Caller, target: Any, given: Arguments) -> bytes:
    """Call a verb that is no turn's: what it gave, as JSON; nothing where it gives nothing."""
    if route.of not in ("identity", "vault"):  # which take no settings; an `address` there is the caller's
        service.allow(given.several, given.named)
    if route.verb is Talk.delegate:  # a turn, too
        service.meter.check_child(given.named)
    if route.verb is Everthread.erase_user:  # the account goes with the conversations
        user_of(caller)
        return wire.dumps(await service.door.identity.forget_me(caller, service.et))
    value = await route.verb(target, *given.several, **given.named, **_whose(service, route, caller))
    if value is None and route.gives in (None, type(None)):
        return b""
    if isinstance(value, Talk):
        value = opened(value)
    elif isinstance(value, Child):
        value = await value.look()
    return wire.dumps(value)


def opened(talk: Talk) -> Opened:
    return Opened(talk.conversation, talk._branch)


def _whose(service: Service, route: Route, caller: Caller) -> dict[str, Any]:
    """What a verb asks for that comes by no request: who calls, and the store."""
    if route.of in ("identity", "vault"):
        known: dict[str, Any] = {"by": caller, "et": service.et}
    else:
        known = {"tenant": caller.tenant} | ({"user": user_of(caller)} if "user" in route.asks else {})
    return {name: value for name, value in known.items() if name in route.asks}


def user_of(caller: Caller) -> str:
    """As whom somebody calls. NoUser: an application that names nobody."""
    if not caller.user:
        raise NoUser(FOR_USER)
    return caller.user


async def target_of(
    service: Service, route: Route, caller: Caller, path: Mapping[str, str], query: Mapping[str, str]
) -> Any:
    """What a verb is called on."""
    match route.of:
        case "store":
            return service.et
        case "agents":
            return service.et.agents
        case "identity":
            return service.door.identity
        case "vault":
            return service.vault
        case "talk":
            talk = await talk_of(service, caller, path["conversation"], query.get("branch", ""))
            return talk._just_found() if route.method == "GET" else talk
        case "child":
            talk = await talk_of(service, caller, path["conversation"])
            return await talk.child(_branch(path["branch"]))


async def talk_of(service: Service, caller: Caller, id: str, branch: str = "") -> Talk:
    """The caller's conversation with this id, on a branch by name or number; on the current one where none is named."""
    talk = await service.et.conversation(user=user_of(caller), tenant=caller.tenant, id=id, begin=False)
    return await talk.on(_branch(branch)) if branch else talk


def _branch(named: str) -> str | int:
    return int(named) if named.isascii() and named.isdigit() and len(named) < 10 else named


# -- turns, and listening ----------------------------------------------------------------------------------------


async def _turn(
    service: Service, route: Route, caller: Caller, request: Request, target: Any, given: Arguments
) -> Response:
    """A turn, which runs by itself from now on: its deltas as server-sent events, where the caller wants them; else the
    message, once it is on disk."""
    if wants_events(request):
        with ExitStack() as held:
            held.enter_context(service.meter.connection(caller))
            reply = await begun(service, route, caller, target, given)
            return EventStream(_deltas(service.stay(request), reply), service.leaving, held.pop_all())
    reply = await begun(service, route, caller, target, given)
    return Response(wire.dumps(await taken(route, reply)), status_code=202, media_type=JSON)


async def begun(service: Service, route: Route, caller: Caller, target: Any, given: Arguments) -> Reply:
    """A turn that has begun, and goes on when its caller is gone."""
    service.allow(given.several, given.named)
    async with service.meter.turn(caller) as count:
        reply: Reply = route.verb(target, *given.several, **given.named, detached=True)
        count(reply)
    return reply


async def taken(route: Route, reply: Reply) -> Logged | None:
    """The message of a turn, as soon as it is in the log; None for a turn that has none, once it has begun."""
    if route.verb is Talk.say:
        return await reply.accepted()
    async with aclosing(_heard(reply)) as heard:
        async for item in heard:
            if isinstance(item, Logged):
                return item
            if not isinstance(item, Notice):
                break
    return None


async def _deltas(stay: Stay, reply: Reply) -> AsyncGenerator[bytes, None]:
    """The message of a turn, its deltas, and last of all what went wrong, if anything did. A turn that still waits for
    its place when its caller goes is not begun any more."""
    begun = False
    try:
        async with aclosing(_heard(reply)) as heard:
            async for item in heard:
                begun = begun or not isinstance(item, Notice)
                await stay.check()
                if isinstance(item, Logged):
                    yield Sent("accepted", wire.dumps(item), str(item.seq)).written()
                else:
                    yield Sent("delta", wire.dumps(item)).written()
    except Exception as problem:  # noqa: BLE001 -- told to the caller; it was logged where the turn ran
        yield Sent("problem", body_of(problem)).written()
    finally:
        if not begun:
            await reply.cancel()


async def _heard(reply: Reply) -> AsyncGenerator[Logged | Delta, None]:
    """The message of a turn, if it has one, as soon as it is in the log, and its deltas, in the order of their
    coming."""
    accepted, coming = asyncio.create_task(reply.accepted()), asyncio.ensure_future(anext(reply, None))
    try:
        while not accepted.done():
            await asyncio.wait({accepted, coming}, return_when=asyncio.FIRST_COMPLETED)
            if not accepted.done() and (delta := coming.result()) is not None:
                yield delta
                coming = asyncio.ensure_future(anext(reply, None))
        if accepted.exception() is None:  # else it is the turn's, and told with it
            yield accepted.result()
        while (delta := await coming) is not None:
            yield delta
            coming = asyncio.ensure_future(anext(reply, None))
    finally:
        for task in (accepted, coming):
            task.cancel()
        await asyncio.wait({accepted, coming})


async def listen(service: Service, request: Request) -> Response:
    """Listen to a branch by server-sent events: first a snapshot, then what is told, each with its place."""
    caller = await service.enter(request, "read")
    with service.within(caller):
        where = request.path_params["conversation"], request.query_params.get("branch", "")
        talk = await talk_of(service, caller, *where)
        after = request.headers.get("last-event-id") or request.query_params.get("after", "0")
        told = talk._told_together(after=after)  # refuses what is no place
        with ExitStack() as held:
            held.enter_context(service.meter.connection(caller))
            return EventStream(_told(service, service.stay(request), talk, told), service.leaving, held.pop_all())


async def _told(
    service: Service, stay: Stay, talk: Talk, heard: AsyncGenerator[list[Told], None]
) -> AsyncGenerator[bytes, None]:
    """What is told, as events: all that is there at a moment is sent at once."""
    try:
        yield Sent("snapshot", wire.dumps(await snapshot_of(talk))).written()
        async with aclosing(heard) as told:
            async for some in told:
                await stay.check()
                yield b"".join([Sent("told", wire.dumps(one), one.place).written() for one in some])
                del some  # it may be large, and nothing more may come for days
    except Exception as problem:  # noqa: BLE001 -- told to the caller
        service.note(problem)
        yield Sent("problem", body_of(problem)).written()


async def snapshot_of(talk: Talk) -> dict[str, Any]:
    """What a face draws at once when it comes, comes back or goes to another conversation: the conversation, and the
    canvas as it is after event `seq`: later changes come as events."""
    now = await talk.another(talk.id)
    there = await now.on(talk._branch) if talk._branch is not None else now
    newest = await there.before(limit=1)
    seq = newest[-1].seq if newest else 0
    canvas = await there.canvas(at=seq + 1)
    return {"conversation": now.conversation, "branch": talk._branch, "seq": seq, "canvas": canvas}

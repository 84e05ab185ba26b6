"""Coming in and going out with a browser: one-time links, passwords, and the cookie of a sign-in.

The cookie cannot be read by scripts (`HttpOnly`), is not sent by other sites (`SameSite=Strict`), and over https only
there (`Secure`, `__Host-`). What the page must send along with whatever changes something is told once, when it comes
in, and whenever it asks who is signed in.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from everthread.app import TENANT
from everthread.core.values import plain
from everthread.errors import BadRequest, Forbidden
from everthread.server.door import COOKIE, SECURE_COOKIE, is_ours, sign_in_of
from everthread.server.identity import SignedIn
from everthread.server.reading import json_body
from everthread.server.service import Service
from everthread.server.tokens import SIGN_IN

MOST = 10_000  # bytes of a body here
WAYS = 'its body must be {"link": …} or {"user": …, "password": …}'


async def sign_in(service: Service, request: Request) -> Response:
    """Sign in by a link or a password: the cookie is set, and the page is told who it is."""
    service.door.check_host(request)
    if not is_ours(request):
        raise Forbidden("This request comes from a page of another site", "use this service's own page")
    body = await json_body(request, MOST)
    made = await _signed_in(service, body, _address(request))
    answer = JSONResponse({"caller": plain(made.caller), "csrf": str(made.csrf)})
    _set_cookie(answer, request, made)
    return answer


async def _signed_in(service: Service, body: dict[str, Any], address: str) -> SignedIn:
    identity = service.door.identity
    match body:
        case {"link": str() as token}:
            return await (identity.entered(token) if token.startswith(SIGN_IN) else identity.use_link(token))
        case {"user": str() as user, "password": str() as password}:
            tenant = body.get("tenant", TENANT)
            return await identity.sign_in(str(tenant), user, password, address=address)
    raise BadRequest(WAYS)


async def who(service: Service, request: Request) -> Response:
    """Who is signed in, and what its page must send along."""
    caller = await service.enter(request, "read")
    token = sign_in_of(request)
    csrf = str(service.door.identity.csrf(token)) if caller.via == "sign_in" and token else ""
    return JSONResponse({"caller": plain(caller), "csrf": csrf})


async def sign_out(service: Service, request: Request) -> Response:
    """End this sign-in."""
    caller = await service.enter(request, "read")
    await service.door.identity.sign_out(caller)
    answer = Response(status_code=204)
    for name in (COOKIE, SECURE_COOKIE):
        answer.delete_cookie(name, secure=name == SECURE_COOKIE, httponly=True, samesite="strict")
    return answer


def _set_cookie(answer: Response, request: Request, made: SignedIn) -> None:
    safe = request.url.scheme == "https"
    seconds = int((made.until - datetime.now(UTC)).total_seconds())
    name = SECURE_COOKIE if safe else COOKIE
    answer.set_cookie(name, str(made.token), max_age=seconds, path="/", secure=safe, httponly=True, samesite="strict")


def _address(request: Request) -> str:
    return request.client.host if request.client else ""

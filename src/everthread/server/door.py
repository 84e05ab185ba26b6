"""Who is at the door: the caller of a request, by an API key or by the cookie of a sign-in, and whether it may come in.

A key stands in the header `Authorization: Bearer evk_…`, never in an address; so may what an administrator has entered
with. A browser has a cookie that no script can
read and no other site can use: what changes something also needs the token that the page was told (`X-CSRF-Token`), and
a WebSocket, to which no page can add a header, must come from this service's own pages (`Origin`).
"""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.requests import HTTPConnection
from starlette.websockets import WebSocket

from everthread.core.accounts import Caller, Scope
from everthread.errors import Forbidden, NotSignedIn
from everthread.routes import FOR_USER
from everthread.server.identity import Identity
from everthread.server.tokens import SIGN_IN

COOKIE = "everthread"
SECURE_COOKIE = "__Host-everthread"  # over https: bound to the host by the browser
CSRF = "x-csrf-token"
SAFE = ("GET", "HEAD", "OPTIONS")
_USER = FOR_USER.lower().encode()


class Door:
    def __init__(self, identity: Identity, *, hosts: frozenset[str]) -> None:
        """`hosts`: by which names the service may be called; a page elsewhere cannot reach it under a name of its
        own."""
        self.identity, self._hosts = identity, hosts

    async def enter(self, request: HTTPConnection, scope: Scope) -> Caller:
        """Who calls. NotSignedIn, or Forbidden where this is more than it may."""
        self.check_host(request)
        if key := _bearer(request):
            caller = await self._of_bearer(key, request)
        elif token := sign_in_of(request):
            caller = await self.identity.caller_of_sign_in(token)
            self._check_page(request, token)
        else:
            raise NotSignedIn
        must(caller, scope)
        return caller

    async def _of_bearer(self, token: str, request: HTTPConnection) -> Caller:
        """Whose API key it is, or who has entered as whom. Other sign-ins are for browsers, which hide them."""
        if not token.startswith(SIGN_IN):
            return await self.identity.caller_of_key(token, user=_named_in(request))
        caller = await self.identity.caller_of_sign_in(token)
        if not caller.entered_by:
            raise NotSignedIn
        return caller

    def check_host(self, request: HTTPConnection) -> None:
        """Whoever resolves a name of its own to this machine (DNS rebinding) is not let in."""
        if not self._hosts:
            return
        given = [value for name, value in request.scope["headers"] if name == b"host"]
        host = _host(given[0].decode("latin-1") if given else "")
        if host not in self._hosts or len(given) > 1:
            raise Forbidden(f"This service is not called {host[:80]!r}", "name it with `everthread serve --name`")

    def _check_page(self, request: HTTPConnection, token: str) -> None:
        """A cookie comes with whatever a browser sends, so what it changes must be asked for by our own page."""
        if not is_ours(request):
            raise Forbidden("This request comes from a page of another site", "use this service's own page")
        if isinstance(request, WebSocket):
            if "origin" not in request.headers:
                raise Forbidden("A WebSocket with a cookie must say where it comes from", "use an API key")
        elif request.scope["method"] not in SAFE and not self.identity.csrf_fits(token, request.headers.get(CSRF, "")):
            raise Forbidden("This request does not say that it comes from our page", f"send the header {CSRF}")


def must(caller: Caller, scope: Scope) -> None:
    """Forbidden: the caller may not do what needs this scope."""
    if not caller.may(scope):
        raise Forbidden(f"This needs the scope {scope}", "use a key or an account that has it")


def is_ours(request: HTTPConnection) -> bool:
    """Whether a request comes from one of our own pages, or from no page at all."""
    if "origin" not in request.headers:
        return request.headers.get("sec-fetch-site", "none") in ("same-origin", "none")
    try:
        origin = urlsplit(request.headers["origin"])
    except ValueError:
        return False
    # Who speaks https with us has pages of https alone; that we are spoken to by http may be a proxy's doing.
    fits = origin.scheme == "https" or (origin.scheme == "http" and request.url.scheme not in ("https", "wss"))
    return fits and bool(origin.netloc) and origin.netloc.lower() == request.headers.get("host", "").lower()


def _host(given: str) -> str:
    """By which name the service was called, without the port."""
    given = given.lower()
    if given.startswith("["):
        return given[1:].partition("]")[0]
    return given.partition(":")[0].removesuffix(".")


def sign_in_of(request: HTTPConnection) -> str:
    """The token of the sign-in that the browser was given."""
    return request.cookies.get(SECURE_COOKIE) or request.cookies.get(COOKIE, "")


def _named_in(request: HTTPConnection) -> str:
    """The user whom an application names: a header's bytes, which are UTF-8 here."""
    raw = _header(request, _USER)
    try:
        return raw.decode()
    except UnicodeError:
        return raw.decode("latin-1")


def _bearer(request: HTTPConnection) -> str:
    kind, _, key = _header(request, b"authorization").decode("latin-1").partition(" ")
    return key.strip() if kind.lower() == "bearer" else ""


def _header(request: HTTPConnection, wanted: bytes) -> bytes:
    """A header as it came: what is asked of every request is looked for without reading all of them."""
    for name, value in request.scope["headers"]:
        if name == wanted:
            return bytes(value)
    return b""

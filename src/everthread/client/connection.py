"""The way to a service: requests and streams over HTTP, and what goes wrong on it.

What can be asked again without harm is: reading (GET), and whatever the service has refused for now (429 and 503 with
`Retry-After`). Everything else is sent once. What the service tells as problem details is raised as the library's own
error; what comes from elsewhere, or does not come, as ServiceUnreachable. The key stands in a header, and in no error.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from everthread.client.events import ServerEvent, events_in, lines_in
from everthread.core.loopback import LOOPBACK
from everthread.errors import BadValue, Closed, EverthreadError, MissingExtra, ServiceUnreachable
from everthread.problems import TYPE, error_of
from everthread.routes import EVENTS, FOR_USER, PORT, PREFIX

if TYPE_CHECKING:
    import httpx2

JSON = "application/json"
BYTES = "application/octet-stream"
TRIES = 4  # of a request that may be repeated
BACK_OFF = 0.2  # seconds before the second try; twice as many before each further one
LONGEST = 30.0  # seconds that a request which was refused for now waits for another try
CONNECT = 10.0  # seconds
SILENCE = 60.0  # seconds without a sign of life, after which a stream is lost: the service gives one every 15
IDLE = 4.0  # seconds that a connection is kept without being used: the service closes it after 5
_NONE: Mapping[str, str] = {}


class Asked(NamedTuple):
    """A request; `path` is below /api. `user`: for whom, where the key is an application's."""

    method: str
    path: str
    query: Mapping[str, str] = _NONE
    body: Mapping[str, Any] | None = None
    user: str = ""
    headers: Mapping[str, str] = _NONE


class Answer(NamedTuple):
    body: bytes
    headers: Mapping[str, str] = _NONE

    @property
    def form(self) -> Any:
        """What its JSON says; None where there is nothing."""
        return json.loads(self.body) if self.body else None


class Lost(Exception):
    """A connection that failed. `silent`: nothing came in time, over one that there is."""

    def __init__(self, why: str, *, silent: bool = False) -> None:
        super().__init__(why)
        self.silent = silent


class Connection:
    def __init__(self, address: str, key: str, *, patience: float) -> None:
        """`patience`: seconds that the service has for an answer."""
        self.address, self._patience = address_of(address), patience
        self._http = _client(key)

    async def ask(self, asked: Asked, *, waits: bool = False) -> Answer:
        """The answer to a request, asked again where that does no harm. `waits`: it may take as long as it likes, as
        long as the service is there."""
        attempt = 1
        while True:
            try:
                response = await self._sent(asked, SILENCE if waits else self._patience)
            except Lost as lost:
                if waits and lost.silent:
                    continue
                if asked.method != "GET" or lost.silent or attempt == TRIES:
                    raise self.unreachable(lost) from None
                wait = back_off(attempt)
            else:
                if attempt == TRIES or (told := _wait(response)) is None:
                    return self._taken(response)
                wait = told
            await asyncio.sleep(wait)
            attempt += 1

    async def _sent(self, asked: Asked, seconds: float) -> httpx2.Response:
        request = self._request(asked, seconds)
        with _telling_loss():
            return await self._http.send(request)

    def _taken(self, response: httpx2.Response) -> Answer:
        if response.status_code >= 300:
            raise self._problem(response)
        return Answer(response.content, response.headers)

    async def lines(self, asked: Asked) -> AsyncIterator[bytes]:
        """An answer line by line, as it comes; it must come to its end. It is asked for again before its first line
        alone."""
        try:
            async with self._answering(asked, self._patience) as response:
                async for line in lines_in(_pieces(response)):
                    yield line
        except Lost as lost:
            raise self.unreachable(lost) from None

    async def send(self, asked: Asked, pieces: Callable[[], AsyncIterator[bytes]]) -> Answer:
        """The answer to a request whose body is sent bit by bit; anew where it was refused for now."""
        attempt = 1
        while True:
            request = self._request(asked, self._patience, {"content-type": BYTES}, content=pieces())
            try:
                with _telling_loss():
                    response = await self._http.send(request)
            except Lost as lost:
                raise self.unreachable(lost) from None
            if attempt == TRIES or (wait := _wait(response)) is None:
                return self._taken(response)
            await asyncio.sleep(wait)
            attempt += 1

    @asynccontextmanager
    async def events(self, asked: Asked) -> AsyncIterator[AsyncIterator[ServerEvent]]:
        """A stream of server-sent events, until either side ends it. Lost: the connection failed."""
        async with self._answering(asked, SILENCE, {"accept": EVENTS}) as response:
            yield events_in(_pieces(response))

    @asynccontextmanager
    async def _answering(
        self, asked: Asked, seconds: float, headers: Mapping[str, str] = _NONE
    ) -> AsyncIterator[httpx2.Response]:
        """An answer that is still to be read. Lost; or what the service refuses."""
        response = await self._streamed(asked, seconds, headers)
        try:
            if response.status_code >= 300:
                with _telling_loss():
                    await response.aread()
                raise self._problem(response)
            yield response
        finally:
            await response.aclose()

    async def _streamed(self, asked: Asked, seconds: float, headers: Mapping[str, str]) -> httpx2.Response:
        """An answer that comes bit by bit, asked for again while it is refused for now."""
        attempt = 1
        while True:
            request = self._request(asked, seconds, headers)
            with _telling_loss():
                response = await self._http.send(request, stream=True)
            if attempt == TRIES or (wait := _wait(response)) is None:
                return response
            await response.aclose()
            await asyncio.sleep(wait)
            attempt += 1

    def _request(
        self,
        asked: Asked,
        seconds: float,
        more: Mapping[str, str] = _NONE,
        content: AsyncIterator[bytes] | None = None,
    ) -> httpx2.Request:
        import httpx2

        if self._http.is_closed:
            raise Closed("The connection to the service")
        headers: dict[str, str | bytes] = {**asked.headers, **more}
        if asked.user:
            headers[FOR_USER] = asked.user.encode("utf-8", "surrogatepass")
        if asked.body is not None:
            headers["content-type"] = JSON
        return self._http.build_request(
            asked.method,
            f"{self.address}{PREFIX}{asked.path}{_query(asked.query)}",
            content=content if asked.body is None else json.dumps(asked.body).encode(),  # which spells lone surrogates
            headers=headers,  # type: ignore[arg-type]
            timeout=httpx2.Timeout(seconds, connect=CONNECT),
        )

    def _problem(self, response: httpx2.Response) -> EverthreadError:
        """What the service refuses; or that it is no service which answers."""
        if response.headers.get("content-type", "").split(";")[0] == TYPE:
            return error_of(response.json())
        return ServiceUnreachable(self.address, f"the answer there, {response.status_code}, is not Everthread's")

    def unreachable(self, why: object) -> ServiceUnreachable:
        return ServiceUnreachable(self.address, str(why))

    async def close(self) -> None:
        await self._http.aclose()


def _query(given: Mapping[str, str]) -> str:
    return f"?{urlencode(given, errors='surrogatepass')}" if given else ""


def back_off(attempt: int) -> float:
    """Seconds to wait after so many tries."""
    return float(min(BACK_OFF * 2.0 ** (attempt - 1), LONGEST))


def _wait(response: httpx2.Response) -> float | None:
    """Seconds after which a request that was refused may be sent again; None where it was not, or not so soon."""
    if response.status_code not in (429, 503):
        return None
    try:
        wait = float(response.headers["retry-after"])
    except (KeyError, ValueError):
        return None
    return wait if 0 <= wait <= LONGEST else None


async def _pieces(response: httpx2.Response) -> AsyncIterator[bytes]:
    with _telling_loss():
        async for piece in response.aiter_bytes():
            yield piece


@contextmanager
def _telling_loss() -> Iterator[None]:
    """Whatever fails on the way is told as Lost."""
    import httpx2

    try:
        yield
    except httpx2.ReadTimeout:
        raise Lost("no answer came in time", silent=True) from None
    except httpx2.HTTPError as problem:
        raise Lost(str(problem) or type(problem).__name__) from None


def _client(key: str) -> httpx2.AsyncClient:
    try:
        import httpx2
    except ImportError:
        raise MissingExtra("client") from None

    if key and not (key.isascii() and key.isprintable()):
        raise BadValue("key", "…", "an API key of the service, evk_…")
    headers = {"authorization": f"Bearer {key}"} if key else {}
    # As many connections as a program has turns and listeners: each of those keeps one for itself.
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=IDLE)
    return httpx2.AsyncClient(headers=headers, limits=limits, follow_redirects=False)


def address_of(given: object) -> str:
    """The address of a service, without the slash at its end."""
    parts = urlsplit(given) if isinstance(given, str) else None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadValue(
            "address", given, f"that of a service, such as https://talk.example.com or http://{LOOPBACK[0]}:{PORT}"
        )
    if parts.username or parts.password or parts.query or parts.fragment:
        raise BadValue("address", f"{parts.scheme}://{parts.hostname}/…", "without names, passwords or queries in it")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"

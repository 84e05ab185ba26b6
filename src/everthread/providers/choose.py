"""Which model replies when none is named, and with which key a provider is reached.

A provider for which there is a key comes first, one that was given or a tenant's own before one of the environment;
then a server on this machine that lists a model, and at last the small model in the process, so that there always is
one. Keys come from the settings' [keys] table or from the
environment. A key is for its provider's own address: a conversation's settings may name any address, so what is sent
there is only a key that was meant for it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import urlsplit

import msgspec

from everthread.core.locks import IN_THE_WHEEL
from everthread.core.loopback import LOOPBACK
from everthread.core.values import Value
from everthread.providers.client import Access
from everthread.providers.registry import provider, providers

SERVERS = (  # on this machine, by the ports that they have unless told otherwise
    "http://127.0.0.1:11434/v1",  # Ollama
    "http://127.0.0.1:8080/v1",  # llama.cpp
    "http://127.0.0.1:8000/v1",  # vLLM
    "http://127.0.0.1:1234/v1",  # LM Studio
)
TINY = (
    "This is SmolLM2, a tiny model of 135 million parameters that runs in this process: it chats, no more. "
    "For a better one set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, start Ollama, or name a GGUF file: "
    "--model local:/path/model.gguf."
)

PATIENCE = 0.3  # seconds to wait for a server on this machine, which answers in a few milliseconds
_MOST = 1_000_000  # bytes of a list of models that are read
_NO_TALKER = re.compile(r"embed|rerank|minilm|bge-|whisper", re.I)  # models of other kinds in the same lists


class Chosen(msgspec.Struct, Value, frozen=True, kw_only=True):
    """A model, the address of its server where it has one of its own, and why it was chosen."""

    model: str
    address: str = ""
    why: str


async def default_model(environ: Mapping[str, str], *, probe: bool = True) -> Chosen:
    """The model that replies when none is named. `probe`: ask whether a server on this machine answers.

    EVERTHREAD_SERVERS lists the addresses to ask, with commas between them, in place of the usual ones; empty for none.
    """
    servers = _servers(environ) if probe else ()
    if named := environ.get("EVERTHREAD_ADDRESS", "").strip():
        servers = (named.rstrip("/"), *servers)
    last = Chosen(model=IN_THE_WHEEL, why="No key is set, and no server on this machine answers.")
    return _with_a_key(environ) or await _that_answers(servers) or last


def _with_a_key(environ: Mapping[str, str]) -> Chosen | None:
    for known in providers():
        name = next((name for name in known.keys if environ.get(name, "").strip()), "")
        if name and known.default_model:
            return Chosen(model=known.default_model, why=f"{name} is set.")
    return None


def with_a_key_of_its_own(keys: Mapping[str, str]) -> Chosen | None:
    """The default model of the first provider for which there is a key among these; None where there is none."""
    for known in providers():
        if known.default_model and keys.get(known.name, "").strip():
            return Chosen(model=known.default_model, why=f"There is a key for {known.name}.")
    return None


async def _that_answers(servers: tuple[str, ...]) -> Chosen | None:
    listed = await asyncio.gather(*map(_first_model, servers))
    for address, found in zip(servers, listed, strict=True):
        if found:
            return Chosen(model=f"openai:{found}", address=address, why=f"No key is set, and {address} answers.")
    return None


def notice(model: str) -> str:
    """What is said about a model before its first reply: that it is tiny, where it is; nothing about others."""
    return TINY if model == IN_THE_WHEEL else ""


# -- keys --------------------------------------------------------------------------------------------------


def provider_key(name: str, environ: Mapping[str, str], keys: Mapping[str, str]) -> str:
    """The key for a provider's own address: of the keys given, else the environment's; empty where there is none."""
    known = provider(name)
    if given := keys.get(name) or keys.get(known.payee):
        return given
    return next(filter(None, (environ.get(variable, "").strip() for variable in known.keys)), "")


def access_of(
    model: str,
    address: str,
    environ: Mapping[str, str],
    keys: Mapping[str, str],
    seconds: float = 600.0,
    threads: int = 1,
    window: int = 0,
) -> Access:
    """How a model is reached. An address from the settings gets the key that was meant for it, never the provider's. A
    base address in the environment gets the key in the environment: whoever set one set the other."""
    name, foreign = model.partition(":")[0], bool(address)
    if name != "local":  # elsewhere they make no difference, and would only make more clients
        threads, window = 1, 0
    if foreign:
        key = _key_for(address, environ, keys)
    else:
        key = provider_key(name, environ, keys)
        address = environ.get(provider(name).base_address, "").strip()
    return Access(
        provider=name,
        key=key.strip(),
        address=address,
        foreign=foreign,
        seconds=seconds,
        threads=threads,
        window=window,
    )


def _key_for(address: str, environ: Mapping[str, str], keys: Mapping[str, str]) -> str:
    """The key for an address: by scheme, host and port; by host and port alone where nobody can listen in; or
    EVERTHREAD_KEY, for the address that EVERTHREAD_ADDRESS names."""
    host, scheme = host_of(address), urlsplit(address).scheme
    here = urlsplit(address).hostname in LOOPBACK
    private = keys.get(host) if scheme == "https" or here else None
    given = environ.get("EVERTHREAD_KEY", "") if environ.get("EVERTHREAD_ADDRESS", "") == address else ""
    return keys.get(f"{scheme}://{host}") or private or given


def host_of(address: str) -> str:
    """The host and port of an address, as keys for it are named: `localhost:8080`, `openrouter.ai`."""
    return urlsplit(address).netloc.rpartition("@")[2].lower()


# -- servers on this machine -------------------------------------------------------------------------------


def _servers(environ: Mapping[str, str]) -> tuple[str, ...]:
    if "EVERTHREAD_SERVERS" not in environ:
        return SERVERS
    named = (one.strip().rstrip("/") for one in environ["EVERTHREAD_SERVERS"].split(","))
    return tuple(one for one in named if one)


async def _first_model(address: str) -> str:
    """The first model of a server's list that can talk; empty where no server of this kind answers."""
    with suppress(OSError, ValueError, TimeoutError, msgspec.MsgspecError, EOFError):
        async with asyncio.timeout(PATIENCE):
            listed = msgspec.json.decode(await _get(f"{address}/models"), type=_Listed)
        return next((one.id for one in listed.data if _can_talk(one.id)), "")
    return ""


def _can_talk(name: str) -> bool:
    return bool(name) and name.isprintable() and name == name.strip() and not _NO_TALKER.search(name)


class _Named(msgspec.Struct):
    id: str


class _Listed(msgspec.Struct):
    data: list[_Named]


async def _get(url: str) -> bytes:
    """The body of a plain answer. Version 1.0 is asked for, so that the server neither cuts it into chunks nor keeps
    the connection. An HTTP library takes longer to import than all servers to answer: docs/decisions/0032."""
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        raise ValueError("only plain HTTP is asked")
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port or 80)
    try:
        writer.write(f"GET {parts.path} HTTP/1.0\r\nHost: {parts.netloc}\r\nAccept: application/json\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        if head.split(b" ", 2)[1:2] != [b"200"]:
            raise ValueError("it has no list of models")
        return await _body(reader, head)
    finally:
        writer.close()


async def _body(reader: asyncio.StreamReader, head: bytes) -> bytes:
    lines = [line.partition(b":") for line in head.lower().split(b"\r\n")]
    lengths = [int(value) for name, _, value in lines if name == b"content-length"]
    if lengths:
        return await reader.readexactly(min(lengths[0], _MOST))
    body = b""
    while len(body) < _MOST and (more := await reader.read(65_536)):
        body += more
    return body

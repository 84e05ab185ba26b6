"""Which model replies when none is named, and which key goes where."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, suppress

import pytest

from everthread.core.locks import IN_THE_WHEEL
from everthread.providers.choose import TINY, access_of, default_model, host_of, notice, provider_key

Serve = Callable[[bytes | None], Awaitable[str]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Starts a server on loopback that answers who asks for its models with this, or not at all; its address."""
    held = asyncio.Event()
    talks: list[asyncio.Task[None]] = []

    async def talk(answer: bytes | None, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.readuntil(b"\r\n\r\n")
        if answer is None:
            await held.wait()
        elif asked.startswith(b"GET /v1/models HTTP/1.0\r\n"):
            writer.write(answer)
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()

    async with AsyncExitStack() as stack:

        async def start(answer: bytes | None) -> str:
            def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                talks.append(asyncio.create_task(talk(answer, reader, writer)))

            server = await stack.enter_async_context(await asyncio.start_server(begin, "127.0.0.1", 0))
            host, port = server.sockets[0].getsockname()
            return f"http://{host}:{port}/v1"

        yield start
        held.set()
        await asyncio.gather(*talks)


def listing(*names: str, length: bool = True) -> bytes:
    body = ('{"object": "list", "data": [' + ", ".join(f'{{"id": "{name}"}}' for name in names) + "]}").encode()
    return b"HTTP/1.1 200 OK\r\n" + (b"Content-Length: %d\r\n" % len(body) if length else b"") + b"\r\n" + body


@pytest.mark.parametrize(
    ("environ", "model"),
    [
        ({"ANTHROPIC_API_KEY": "a", "OPENAI_API_KEY": "b", "GEMINI_API_KEY": "c"}, "anthropic:claude-sonnet-4-6"),
        ({"OPENAI_API_KEY": "b", "GEMINI_API_KEY": "c"}, "openai:gpt-5"),
        ({"GEMINI_API_KEY": "c"}, "google:gemini-2.5-flash"),
        ({"GOOGLE_API_KEY": "c"}, "google:gemini-2.5-flash"),
        ({"OPENAI_API_KEY": "  ", "EVERTHREAD_SERVERS": ""}, IN_THE_WHEEL),
    ],
)
async def test_the_first_key_decides_the_model(environ: dict[str, str], model: str) -> None:
    """A blank key is none."""
    chosen = await default_model(environ)
    assert (chosen.model, chosen.address) == (model, "")


async def test_without_a_key_a_server_on_this_machine_replies(serve: Serve) -> None:
    """With its first model that can talk, and at its address."""
    address = await serve(listing("nomic-embed-text:latest", "qwen3:8b", "llama3"))
    chosen = await default_model({"EVERTHREAD_SERVERS": address})
    assert (chosen.model, chosen.address) == ("openai:qwen3:8b", address)
    assert address in chosen.why


async def test_the_order_of_the_servers_decides_not_their_speed(serve: Serve) -> None:
    addresses = [await serve(listing()), await serve(listing("second", length=False)), await serve(listing("third"))]
    chosen = await default_model({"EVERTHREAD_SERVERS": ", ".join(addresses) + "/"})
    assert (chosen.model, chosen.address) == ("openai:second", addresses[1])


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.0 404 Not Found\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n\r\n<html>",
        b"HTTP/1.0 200 OK\r\n\r\n{}",
        b"HTTP/1.0 200 OK\r\nContent-Length: 99\r\n\r\n{",
        b"HTTP/1.0 200 OK\r\nContent-Length: many\r\n\r\n{}",
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"",
        listing(),
        listing("text-embedding-3"),
    ],
)
async def test_a_server_of_another_kind_is_passed_over(serve: Serve, answer: bytes) -> None:
    assert (await default_model({"EVERTHREAD_SERVERS": await serve(answer)})).model == IN_THE_WHEEL


async def test_a_server_that_says_nothing_is_not_waited_for(serve: Serve) -> None:
    """It takes the connection and never answers; the others cannot even be reached."""
    servers = [await serve(None), "http://127.0.0.1:1/v1", "https://127.0.0.1:1/v1", "nonsense"]
    assert (await default_model({"EVERTHREAD_SERVERS": ",".join(servers)})).model == IN_THE_WHEEL


async def test_nothing_is_asked_where_nobody_wants_it(serve: Serve) -> None:
    address = await serve(listing("qwen3"))
    assert (await default_model({"EVERTHREAD_SERVERS": address}, probe=False)).model == IN_THE_WHEEL


def test_the_tiny_model_is_called_tiny() -> None:
    """And the sentence says how to have a better one."""
    assert notice(IN_THE_WHEEL) == TINY
    assert all(word in TINY for word in ("tiny", "ANTHROPIC_API_KEY", "Ollama", "local:/path/model.gguf"))
    assert notice("local:/models/qwen.gguf") == notice("openai:gpt-5") == ""


ENVIRON = {
    "ANTHROPIC_API_KEY": "env-a",
    "OPENAI_API_KEY": "env-o",
    "GOOGLE_API_KEY": "env-g",
    "EVERTHREAD_KEY": "env-e",
}


@pytest.mark.parametrize(
    ("provider", "keys", "key"),
    [
        ("anthropic", {}, "env-a"),
        ("openai", {}, "env-o"),
        ("openai-responses", {}, "env-o"),
        ("google", {}, "env-g"),
        ("local", {}, ""),
        ("openai", {"openai": "given"}, "given"),
        ("openai-responses", {"openai": "given"}, "given"),
        ("openai-responses", {"openai": "given", "openai-responses": "own"}, "own"),
    ],
)
def test_a_key_that_was_given_comes_before_the_environments(provider: str, keys: dict[str, str], key: str) -> None:
    assert provider_key(provider, ENVIRON, keys) == key


def test_a_providers_key_is_not_sent_to_an_address_from_the_settings() -> None:
    """Only a key that was meant for that address: by its host and port, or the environment's for its own address."""
    keys = {"openai": "given", "openrouter.ai": "router", "127.0.0.1:8080": "mine", "http://lan:8000": "lan"}
    environ = ENVIRON | {"EVERTHREAD_ADDRESS": "http://127.0.0.1:8081/v1"}
    for address, key in [
        ("https://openrouter.ai/api/v1", "router"),
        ("http://openrouter.ai/api/v1", ""),  # anybody could listen
        ("http://lan:8000/v1", "lan"),
        ("http://127.0.0.1:8080/v1", "mine"),
        ("http://127.0.0.1:8081/v1", "env-e"),
        ("http://127.0.0.1:8082/v1", ""),
        ("https://evil.example/openrouter.ai", ""),
        ("https://openrouter.ai@evil.example/", ""),
    ]:
        access = access_of("openai:gpt-5", address, environ, keys)
        assert (access.key, access.address, access.foreign) == (key, address, True)
    assert access_of("openai:x", "https://evil.example", {"OPENAI_API_KEY": "env-o"}, {}).key == ""


def test_a_base_address_in_the_environment_is_sent_the_environments_key() -> None:
    """Who set one set the other."""
    environ = ENVIRON | {"OPENAI_BASE_URL": "https://gateway.example/v1"}
    for model in ("openai:gpt-5", "openai-responses:gpt-5"):
        access = access_of(model, "", environ, {})
        assert (access.key, access.address) == ("env-o", "https://gateway.example/v1")
    assert access_of("anthropic:claude-sonnet-4-6", "", environ, {}).address == ""


def test_access_carries_the_rest_and_hides_the_key() -> None:
    access = access_of("local:smollm2", "", {}, {}, seconds=5, threads=2, window=2048)
    assert (access.provider, access.seconds, access.threads, access.window) == ("local", 5, 2, 2048)
    assert "env-o" not in repr(access_of("openai:gpt-5", "", ENVIRON, {}))


def test_a_host_is_named_without_user_and_in_small_letters() -> None:
    assert host_of("https://me:pass@Example.ORG:8443/v1") == "example.org:8443"

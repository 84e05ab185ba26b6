"""Processes of the service for tests: real ones, which can be told to end and be killed.

python -m tests.server.processes OPTIONS WORKERS        OPTIONS as JSON; prints the port once it listens
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import msgspec

from benchmarks.loopback.http import Answer, Asked
from benchmarks.loopback.openai import OpenAIServer
from everthread.app import Everthread
from everthread.core.accounts import operator
from everthread.core.settings import GivenSettings
from everthread.errors import EverthreadError
from everthread.routes import FOR_USER
from everthread.server.identity import Identity
from everthread.server.limits import Allowance
from everthread.server.serve import Options, end_quietly, listening_socket, run
from tests.waiting import PATIENCE, until

ROOT = Path(__file__).resolve().parents[2]
MODEL = "openai:gpt-4o"
UNLIMITED = Allowance(requests=0, connections=0, turns=0)
QUIET: GivenSettings = {"model": MODEL, "memory": False}


class Gated(OpenAIServer):
    """A provider whose replies begin at once and do not end before they are let go."""

    def __init__(self, said: str) -> None:
        super().__init__()
        self.script._otherwise = lambda _: [said]
        self.begun, self.let_go = asyncio.Event(), asyncio.Event()

    async def _reply(self, asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        answer = self._respond(asked)
        if isinstance(answer.body, bytes):
            return await super()._reply(asked, reader, writer)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        half = len(answer.body) // 2
        await self._send(writer, answer, 0, half)
        self.begun.set()
        left = asyncio.create_task(reader.read(1))
        going = asyncio.create_task(self.let_go.wait())
        await asyncio.wait({left, going}, return_when=asyncio.FIRST_COMPLETED)
        going.cancel()
        if not self.let_go.is_set():
            raise ConnectionResetError("the client has gone")
        left.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await left
        await self._send(writer, answer, half, len(answer.body))
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True

    async def _send(self, writer: asyncio.StreamWriter, answer: Answer, first: int, last: int) -> None:
        for chunk in answer.body[first:last]:
            assert isinstance(chunk, bytes)
            writer.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        await writer.drain()


class Running:
    """A process of the service that runs. `err`: what it has written to stderr, once it has ended."""

    def __init__(self, process: asyncio.subprocess.Process, errors: Path) -> None:
        self.process, self.port, self.errors = process, 0, errors
        self.err, self.over = "", False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def tell(self, number: int) -> None:
        self.process.send_signal(number)

    async def ended(self) -> int:
        """Its status, once it has ended by itself."""
        async with asyncio.timeout(PATIENCE):
            await self.process.communicate()
        self.err, self.over = self.errors.read_text(), True
        assert self.process.returncode is not None
        return self.process.returncode


def options(address: str, **more: Any) -> Options:
    settings = {**QUIET, **more.pop("settings", {})}
    return Options(**{"store": address, "port": 0, "allowance": UNLIMITED, "settings": settings, **more})


@asynccontextmanager
async def process(given: Options, *, workers: int = 1, wait: bool = True, **environ: str) -> AsyncIterator[Running]:
    """A process of the service, which is killed at the end if it still runs."""
    said = msgspec.json.encode(given).decode()
    command = [sys.executable, "-m", "tests.server.processes", said, str(workers)]
    file = Path(tempfile.mkstemp(suffix=".toml")[1])  # the key of the provider's stand-in
    host = urlsplit(given.settings.get("address") or "//-").netloc
    file.write_text(f'[keys]\n"{host}" = "test-key"\n')
    around = {**os.environ, "EVERTHREAD_CONFIG": str(file), **environ}
    errors = Path(tempfile.mkstemp(suffix=".log")[1])  # and no pipe, which would fill up while nobody reads
    with errors.open("wb") as log:
        begun = await asyncio.create_subprocess_exec(
            *command, cwd=ROOT, env=around, stdout=asyncio.subprocess.PIPE, stderr=log
        )
    running = Running(begun, errors)
    try:
        assert begun.stdout
        line = await asyncio.wait_for(begun.stdout.readline(), PATIENCE)
        if line:
            running.port = int(line)
            if wait:
                await _until_ready(running)
        yield running
    finally:
        if begun.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                begun.kill()
        if not running.over:
            await running.ended()  # and those that it started, which write to the same pipes
        file.unlink()
        errors.unlink()


async def _until_ready(running: Running) -> None:
    try:
        await until(lambda: _answers(running))
    except TimeoutError:
        raise AssertionError(f"It does not answer: {running.errors.read_text()[-4_000:]}") from None


async def _answers(running: Running) -> bool:
    if running.process.returncode is not None:
        raise AssertionError(f"It ended with {running.process.returncode}: {running.errors.read_text()[-2_000:]}")
    async with httpx2.AsyncClient() as client:
        try:
            return (await client.get(f"{running.url}/ready", timeout=5)).status_code == 200
        except httpx2.HTTPError:
            return False


async def key_for(address: str) -> str:
    """An application's key, which acts for any user."""
    async with Everthread.open(address) as et:
        made = await Identity(et.log).make_key(
            operator("default"), label="tests", application="tests", scopes=["read", "write", "forget", "admin"]
        )
    return str(made.secret)


def here(app: Any, key: str, user: str = "ana") -> httpx2.AsyncClient:
    """A client of an application in this process."""
    made = client_of("http://127.0.0.1", key, user)
    made._transport = httpx2.ASGITransport(app, client=("127.0.0.1", 1))
    return made


def client_of(url: str, key: str, user: str = "ana") -> httpx2.AsyncClient:
    headers = {"authorization": f"Bearer {key}", FOR_USER: user}
    return httpx2.AsyncClient(base_url=url, headers=headers, timeout=PATIENCE)


async def begun(client: httpx2.AsyncClient) -> str:
    """A new conversation's id."""
    answer = await client.post("/api/conversations", json={})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["conversation"]["id"])


def main(given: str, workers: str) -> int:
    end_quietly()
    made = msgspec.json.decode(given, type=Options)
    at = listening_socket(made)
    print(at.getsockname()[1], flush=True)  # noqa: T201
    try:
        run(made, at, int(workers))
    except EverthreadError as problem:
        print(problem.sentence, file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(main(*sys.argv[1:]))

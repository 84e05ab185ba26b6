"""The Redis that tests run on: it starts, starts again, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import redis

from tests.redis_server import RedisServer

ROOT = Path(__file__).parents[2]
PROGRAM = """
import sys, time
from tests.redis_server import RedisServer
server = RedisServer()
server.start()
print(server.pid, server._folder, flush=True)
time.sleep(600)
"""


def soon(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 60.0
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


def runs(pid: int) -> bool:
    try:
        # A zombie is gone; in a container there may be nobody to collect it.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_server_starts_again_where_it_was() -> None:
    with RedisServer() as server, redis.Redis.from_url(server.url) as client:
        assert client.ping()
        address, before = server.url, server.pid
        server.start()
        assert server.pid == before
        server.kill()
        server.start()
        assert (server.url, client.ping()) == (address, True)
        assert server.pid != before
    assert not runs(before)


def test_a_server_ends_with_a_process_that_is_killed() -> None:
    child = subprocess.Popen([sys.executable, "-c", PROGRAM], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    with child.stdout:
        pid, folder = child.stdout.readline().split()
        assert runs(int(pid))
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    assert soon(lambda: not runs(int(pid)) and not Path(folder).exists())

"""The tests' MCP server as a process of its own, over HTTP."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]


@contextmanager
def http(port: int) -> Iterator[subprocess.Popen[bytes]]:
    """The same server over HTTP, once it answers."""
    command = [sys.executable, "-m", "tests.tools.mcp_server", str(port)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            while process.poll() is None and not _answers(port):
                time.sleep(0.05)
            yield process
        finally:
            process.kill()


def _answers(port: int) -> bool:
    with closing(socket.socket()) as trying:
        trying.settimeout(0.2)
        return trying.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])

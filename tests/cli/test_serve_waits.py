"""`everthread serve` says for which store it waits, and for how long."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

COMMAND = [sys.executable, "-c", "from everthread.cli import main; main()", "serve", "--port", "0"]


def test_a_server_that_cannot_be_reached_is_named_at_once(tmp_path: Path) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{nobody.getsockname()[1]}/talk"
        serving = subprocess.Popen(
            [*COMMAND, "--store", f"postgresql://me:walnut@{address}"], stderr=subprocess.PIPE, text=True, cwd=tmp_path
        )
        try:
            assert serving.stderr is not None
            said = serving.stderr.readline()  # which comes while it still waits
            assert f"postgresql://{address} is not ready yet: waiting for it, up to 30 seconds" in said
            assert "walnut" not in said
            assert serving.poll() is None
        finally:
            serving.kill()
            serving.communicate()

"""The how-to of the service is run: every command of its section "Talk to it", by bash, with curl."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from pathlib import Path

from everthread.app import TENANT
from everthread.testing import scripted
from tests.docs.test_examples import blocks
from tests.server.serving import serving
from tests.waiting import PATIENCE

HERE = "http://127.0.0.1:8321"
# What is refused ends the program; a stream that lasts is listened to until the turn is over.
PRELUDE = """
set -eu
curl() {
    if [[ "$*" != *listen* ]]; then command curl -fsS "$@"; echo; return; fi
    coproc STREAM { exec curl -fsS "$@"; }
    local pid=$STREAM_PID
    while read -r line <&"${STREAM[0]}"; do
        echo "$line"
        if [[ "$line" == *'"kind":"done"'* ]]; then break; fi
    done
    kill "$pid"
}
"""


async def test_the_commands_of_the_page_do_what_it_says(fresh_address: str, tmp_path: Path) -> None:
    assert shutil.which("curl"), "there is no curl: apt install curl"
    by_key, by_sign_in = [block for block in blocks("docs/howto/service.md", "sh") if "curl" in block]
    async with asyncio.timeout(PATIENCE), serving(fresh_address, TENANT) as served:
        scripted.script("served", "Hello to you.", "Whatever you like, but walnuts.")
        await served.service.door.identity.first("me", tenant=TENANT)
        program = PRELUDE + f"{by_key}\n{by_sign_in}".replace(HERE, served.address)
        environ = {**os.environ, "EVERTHREAD_STORE": fresh_address, "HOME": str(tmp_path), "EVERTHREAD_MEMORY": "false"}
        environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        bash = await asyncio.create_subprocess_exec(
            *("bash", "-c", program),
            cwd=tmp_path,
            env=environ,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = (part.decode() for part in await bash.communicate())
    assert bash.returncode == 0, err
    assert '"text":"Hello!"' in out
    assert '"has_password":true' in out
    events = [line.removeprefix("event: ") for line in out.splitlines() if line.startswith("event: ")]
    assert events.count("snapshot") == 2
    assert events[events.index("accepted") :][:2] == ["accepted", "delta"]
    assert "Whatever you like, but walnuts." in out.rpartition("event: snapshot")[2]

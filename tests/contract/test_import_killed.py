"""An import whose process is killed again and again, at any moment: the next one finishes it, nothing twice."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.transfer import write
from everthread import Everthread
from tests.waiting import PATIENCE

IMPORT = [sys.executable, "-c", "from everthread.cli import main; main()", "import"]


@pytest.mark.prove
@pytest.mark.parametrize("shape", ["lines", "a list"])
async def test_killed_at_random_it_is_whole_in_the_end(fresh_address: str, tmp_path: Path, shape: str) -> None:
    path, chance = tmp_path / ("many.jsonl" if shape == "lines" else "list.json"), random.Random(7)
    if shape == "lines":
        write(path, 40_000)
    else:
        path.write_text(json.dumps([{"role": "user", "content": f"message {n}"} for n in range(20_000)]))
    command = [*IMPORT, str(path), "--store", fresh_address, "--user", "ana"]
    environment = {**os.environ, "EVERTHREAD_MEMORY": "false"}
    for _ in range(12):
        with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as child:
            try:
                child.wait(chance.uniform(1, 5))
            except subprocess.TimeoutExpired:
                child.kill()
    done = subprocess.run(command, env=environment, check=False, capture_output=True, timeout=10 * PATIENCE)
    assert done.returncode == 0, done.stderr
    async with Everthread.open(fresh_address, settings={"memory": False}) as et:
        assert (await et.totals(user="ana")).events == (40_000 if shape == "lines" else 20_000)
        for tenant, conversation in await et.log.everything():
            assert (await et.log.check(tenant, conversation))[1] == []

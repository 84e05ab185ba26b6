"""A real browser without a screen, told what to do over its own protocol (Chrome DevTools)."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from tests.waiting import PATIENCE, until

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage")


class Page:
    """One page of it."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket, self._count = socket, 0

    async def goto(self, url: str) -> None:
        await self._ask("Page.navigate", url=url)
        await self.until(f"location.href.startsWith({url!r}) && document.readyState == 'complete'")

    async def run(self, script: str) -> Any:
        """What a script comes to in the page, awaited."""
        asked = {"expression": script, "awaitPromise": True, "returnByValue": True}
        told = await self._ask("Runtime.evaluate", **asked)
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    async def until(self, condition: str) -> None:
        async def met() -> bool:
            return bool(await self.run(condition))

        await until(met)

    async def _ask(self, method: str, **params: Any) -> dict[str, Any]:
        self._count += 1
        await self._socket.send(json.dumps({"id": self._count, "method": method, "params": params}))
        async with asyncio.timeout(PATIENCE):
            while (told := json.loads(await self._socket.recv())).get("id") != self._count:
                pass
        found: dict[str, Any] = told["result"]
        return found


@asynccontextmanager
async def browsing(folder: Path) -> AsyncIterator[Page]:
    """A browser with a profile of its own, until the end of the block."""
    program = next(filter(None, map(shutil.which, NAMES)), None)
    assert program, "there is no browser: apt install chromium"
    port = folder / "DevToolsActivePort"
    flags = (*FLAGS, f"--user-data-dir={folder}", "--remote-debugging-port=0", "about:blank")
    process = subprocess.Popen([program, *flags], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        await until(lambda: port.exists() and port.read_text().count("\n") >= 1)
        where = f"127.0.0.1:{port.read_text().splitlines()[0]}"
        async with connect(await _page_at(where), max_size=None) as socket:
            yield Page(socket)
    finally:
        process.kill()
        process.wait()


async def _page_at(where: str) -> str:
    import httpx2

    async with httpx2.AsyncClient() as http:
        pages = (await http.get(f"http://{where}/json/list")).json()
    return str(next(page["webSocketDebuggerUrl"] for page in pages if page["type"] == "page"))

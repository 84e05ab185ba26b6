"""What all turns of an open store share: the log, the making of contexts, the providers' clients, what was learnt.

A client is made when its provider is first called and kept, because a connection that is open answers sooner. What is
learnt from reported usage (how many of its own tokens a model makes of ours) is written down beside the conversation:
no turn waits for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

import msgspec

from everthread.agents import Agents, Versioned, servers
from everthread.config import Source
from everthread.context.building import Context, Contexts
from everthread.context.planning import Asked
from everthread.core import calibration
from everthread.core.deltas import Usage
from everthread.engine.leasing import Queues
from everthread.errors import EverthreadError
from everthread.providers.calling import Access, Client
from everthread.providers.choosing import Chosen, access_of, default_model
from everthread.providers.models import Model
from everthread.providers.prices import price_of, prices_known
from everthread.store.log import Log
from everthread.tools import Toolbox

_log = logging.getLogger("everthread.engine")


class Desk:
    def __init__(
        self,
        log: Log,
        contexts: Contexts,
        *,
        toolbox: Toolbox | None = None,
        environ: Mapping[str, str] = MappingProxyType({}),
        keys: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self.log, self.contexts = log, contexts
        self._toolbox = toolbox or Toolbox()
        self._toolboxes: dict[str, Toolbox] = {}
        self.agents, self.queues = Agents(log), Queues()
        self._environ, self._keys = environ, keys
        self._agents: dict[tuple[str, str], Versioned | None] = {}
        self._clients: dict[Access, Client] = {}
        self._chosen: Chosen | None = None
        self._beside: set[asyncio.Task[None]] = set()
        self._steps: dict[str, dict[int, int]] | None = None

    async def agent(self, tenant: str, name: str, *, afresh: bool = False) -> Versioned | None:
        """The newest version of an agent; read once, and again when a turn begins."""
        if afresh or (tenant, name) not in self._agents:
            self._agents[tenant, name] = await self.agents.get(tenant, name)
        return self._agents[tenant, name]

    def toolbox_of(self, found: Versioned | None) -> Toolbox:
        """The tools of an agent: those that it names, and its own MCP servers'. All there are, where there is none."""
        if found is None:
            return self._toolbox
        known, named = found.agent.hash, self._toolbox.only(found.agent.tools)
        if not found.agent.mcp:
            return named
        if known not in self._toolboxes:
            self._toolboxes[known] = Toolbox([named, *servers(found.agent)])
        return self._toolboxes[known]

    # -- models ------------------------------------------------------------------------------------------------

    async def client(self, context: Context) -> Client:
        """The client for a context's model."""
        settings = context.settings
        access = access_of(
            context.model,
            settings.address,
            self._environ,
            self._keys(),
            seconds=settings.call_seconds,
            threads=settings.threads,
            window=settings.model_window,
        )
        if access not in self._clients:
            module = f"everthread.providers.{access.provider.replace('-', '_')}_client"
            connect = await asyncio.to_thread(_imported, module)
            self._clients.setdefault(access, connect(access))
        return self._clients[access]

    async def default_model(self) -> Chosen:
        """Which model replies where none is named, and why."""
        if self._chosen is None:
            self._chosen = await default_model(self._environ)
        return self._chosen

    async def with_default_model(self, asked: Asked) -> Asked:
        chosen = await self.default_model()
        found = Source("the default model", {"model": chosen.model, "address": chosen.address or None})
        return msgspec.structs.replace(asked, sources=(found, *asked.sources))

    def price(self, about: Model, usage: Usage) -> float | None:
        return price_of(about.provider, about.name, usage)

    # -- what is learnt ----------------------------------------------------------------------------------------

    async def recollect(self) -> None:
        """Read what was learnt earlier, once."""
        if self._steps is None:
            self._steps = await self.log.calibrations()
            for model in self._steps:
                self._refactor(model)

    async def learn(self, context: Context, reported: int) -> None:
        """Compare the provider's count of a request with ours, where ours is not exact."""
        about, tools = context.about, context.inputs["tools"]
        if not about.calibrate or not reported or (about.provider == "local" and tools):
            return  # the model in the process is not told of every tool
        canonical, hidden = max(1, context.canonical), about.hidden if tools else 0
        step = calibration.step_of(max(1, reported - hidden), canonical)
        await self.recollect()
        assert self._steps is not None
        counts = self._steps.setdefault(context.model, {})
        counts[step] = counts.get(step, 0) + 1
        self._refactor(context.model)
        await self.log.calibrate(context.model, step)

    def learn_window(self, model: str, limit: int) -> None:
        """The most tokens that a model takes, where its provider told it; until this process ends."""
        if limit:
            windows = self.contexts.learnt.windows
            windows[model] = min(limit, windows.get(model, limit))

    def _refactor(self, model: str) -> None:
        assert self._steps is not None
        factor = calibration.factor(self._steps[model])
        if factor is not None:
            self.contexts.learnt.factors[model] = factor

    # -- beside the conversation -------------------------------------------------------------------------------

    def beside(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something that no turn waits for; what goes wrong with it is logged."""
        task = asyncio.create_task(_quietly(work))
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    async def close(self) -> None:
        """Finish what is under way beside the conversations and let go of the connections."""
        if self._beside:
            await asyncio.wait(self._beside, timeout=5)
        clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            await client.close()
        for toolbox in (self._toolbox, *self._toolboxes.values()):
            await toolbox.close()


def _imported(module: str) -> Callable[[Access], Client]:
    """A provider's way to connect. Off the event loop: an SDK takes a second to import, prices a fifth of one."""
    prices_known()
    connect: Callable[[Access], Client] = import_module(module).connect
    return connect


async def _quietly(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except EverthreadError as problem:
        _log.warning("Something beside the conversation failed: %s", problem)

"""What the model sees: the context of now, of an earlier moment, of a recorded model call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Unpack

from everthread import arguments
from everthread.agent.call import counted
from everthread.agent.prepare import GivenThen, Rebuilt, prepared, rebuilt
from everthread.arguments import ForContext
from everthread.config import Resolved
from everthread.context.build import Context
from everthread.context.explain import StepLine
from everthread.core.settings import GivenSettings
from everthread.core.strategies import Strategy
from everthread.talk.bound import Bound


class Seeing(Bound):
    async def context(
        self,
        *,
        model: str | None = None,
        budget: int | None = None,
        strategy: str | Strategy | None = None,
        instructions: str | Mapping[str, str] | None = None,
        tools: Iterable[Any] | None = None,
        lookups: bool = False,
        tool_choice: str | None = None,
        output: Any = None,
        at: int | None = None,
        settings: GivenSettings | None = None,
    ) -> Context:
        """What the model would be told now, as a request for its provider; or before event `at`.

        `strategy`: budget, messages, session, importance, or a function of your own. `instructions`: a text, or
        texts for persona, user, memory and skills; without a persona, the agent's or the configured one. `tools`: as
        for `say`, or only told of: name, description and JSON Schema of the arguments, or as OpenAI or Anthropic take
        them; they are sent in the order of their names. `lookups`: with memory's own tools, which `say` always offers;
        who calls the model answers them with `look_up`. `tool_choice`, `output`: as for `say`; `context.parse` reads
        the value from a reply. `settings`: any others, for this context alone. Where no model is named, it is the one
        that `say` would choose.
        """
        asked = arguments.asked(
            settings, model=model, budget=budget, strategy=strategy, at=at, output=output, tool_choice=tool_choice
        )
        told, way = arguments.check_instructions(instructions), await self._log.way(self.conversation, self._branch)
        whose: Any = {"lookups": lookups, "child": await self._said()}
        async with prepared(self._runtime, self.conversation, asked, told, tools, **whose) as ready:
            context, _ = await self._runtime.build(way, ready.asked)
            context.agent = ready.agent
            self.notes_seen = context.notes  # by whoever calls the model with it
            return context

    async def steps(
        self,
        *,
        model: str | None = None,
        budget: int | None = None,
        instructions: str | Mapping[str, str] | None = None,
        tools: Iterable[Any] | None = None,
        lookups: bool = False,
        at: int | None = None,
        settings: GivenSettings | None = None,
        limit: int = 20,
    ) -> list[StepLine]:
        """The newest steps of the cutoff under these settings, oldest first: when it moved, what left the window."""
        asked = arguments.asked(settings, model=model, budget=budget, at=at)
        told, limit = arguments.check_instructions(instructions), arguments.count("limit", limit)
        way = await self._log.way(self.conversation, self._branch)
        whose: Any = {"lookups": lookups, "child": await self._said()}
        async with prepared(self._runtime, self.conversation, asked, told, tools, **whose) as ready:
            steps = partial(self._runtime.contexts.steps, self._log, way, limit=limit)
            return (await self._runtime.with_a_model(ready.asked, steps, tenant=way.tenant))[0]

    async def settings(self) -> Resolved:
        """The settings in force on this branch, and where each was set: default, file, environment, agent, conversation
        or branch. The budget is the one that a context has: where the model takes less than is set, or has one of its
        own, the model is its source."""
        mine = await self._log.conversations.find(self.conversation.owner, self.id)
        return await self._runtime.in_force(await self._runtime.resolved_of(mine, await self.line()), mine.tenant)

    async def count(self, *, extra_headers: Mapping[str, str] | None = None, **asked: Unpack[ForContext]) -> int | None:
        """The provider's own count of a context, where it has an endpoint for that. Takes what `context` takes, and
        `extra_headers` as `say` does: `context` sends nothing, so it needs none."""
        headers = arguments.check_headers(extra_headers)
        return await counted(self._runtime, await self.context(**asked), headers)

    async def rebuild(
        self,
        seq: int,
        *,
        strategy: Strategy | None = None,
        instructions: str | Mapping[str, str] | None = None,
        tools: Iterable[Any] | None = None,
        tool_choice: str | None = None,
        output: Any = None,
        settings: GivenSettings | None = None,
    ) -> Rebuilt:
        """The request of the model call that event `seq` records, built again, and what is no longer the same.

        What was given for that call alone the log knows by its hash only: give it again. `strategy`: the function that
        chose its window, where that was your own. The others: as for `context`. A choice of tool counts where the call
        had one, which in a turn is the first.
        """
        seq, own = arguments.seq("seq", seq), arguments.own_strategy(strategy)
        asked = arguments.asked(settings, model=None, strategy=own, output=output, tool_choice=tool_choice)
        told = arguments.check_instructions(instructions)
        given = GivenThen(asked, told, None if tools is None else list(tools))
        return await rebuilt(self._runtime, self.conversation, await self.line(), seq, given)

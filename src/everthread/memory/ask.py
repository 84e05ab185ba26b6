"""One question to the model that memory uses, and its record.

`providers.summariser` says which model that is, unless the application summarises by a function of its own.
"""

from __future__ import annotations

import asyncio
import inspect
import time

import msgspec

from everthread.agent.call import Calling, Sent
from everthread.agent.runtime import Runtime, Summarise
from everthread.config import Settings
from everthread.core.events import MEMORY, Assistant, ModelCall, text_of
from everthread.core.parts import Text
from everthread.core.request import MessageItem, Request, clean
from everthread.core.strategies import OWN, function_name
from everthread.errors import BadValue, BrokenOff
from everthread.providers.base import Media
from everthread.providers.models import Model
from everthread.providers.models import model as known
from everthread.providers.registry import provider


class Told(msgspec.Struct, frozen=True):
    """What the model wrote, and the record of the model call."""

    text: str
    record: ModelCall


async def ask(
    runtime: Runtime, settings: Settings, model: str, *, tenant: str, instructions: str, text: str, at: int
) -> Told:
    """The model's answer. Raises ModelError, or whatever the application's own function raises."""
    if runtime.summarise:
        return await _own(runtime.summarise, ModelCall(model=model, at=at, agent=MEMORY), instructions, text)
    about = known(model)
    calling = Calling(
        runtime,
        Sent(
            tenant=tenant,
            model=model,
            about=about,
            settings=msgspec.structs.replace(settings, address=_address(settings, about)),
            request=_request(settings, about, instructions=instructions, text=text, at=at),
            record=lambda: ModelCall(model=model, at=at, agent=MEMORY),
        ),
    )
    replied = await calling.reply()
    if replied.finish == "refused":
        raise BrokenOff(about.provider, "it refused to summarise")
    said = "\n".join(text_of(event) for event in replied.events if isinstance(event, Assistant))
    return Told(said, calling.record)


def own_model(runtime: Runtime) -> str:
    """The name by which the application's own function is recorded like a model; empty where there is none."""
    return f"{OWN}:{function_name(runtime.summarise)}" if runtime.summarise else ""


async def _own(summarise: Summarise, record: ModelCall, instructions: str, text: str) -> Told:
    """What the application's own function makes of it. One that is not async runs in a thread."""
    began = time.monotonic()
    made = await asyncio.to_thread(summarise, instructions, text)
    told = await made if inspect.isawaitable(made) else made
    if not isinstance(told, str):
        raise BadValue("what `summarise` returned", told, "text")
    return Told(told, msgspec.structs.replace(record, ms=round((time.monotonic() - began) * 1000)))


def _address(settings: Settings, about: Model) -> str:
    """The address in the settings is for the model that replies, and for memory's model if both have one provider."""
    return settings.address if about.provider == settings.model.partition(":")[0] else ""


def _request(settings: Settings, about: Model, *, instructions: str, text: str, at: int) -> dict[str, object]:
    asked = provider(about.provider)
    request = Request(
        model=about.name,
        instructions=(instructions,),
        items=(MessageItem(role="user", parts=(Text(text=clean(text)),), seq=at),),
        reply_tokens=settings.summary_reply_tokens,
        temperature=settings.summary_temperature,
        # Summarising needs little reasoning, and reasoning counts towards the limit of the reply.
        effort="minimal" if about.reasons and not asked.reasons_when_asked else "",
        cache=False,
    )
    return asked.request_form().render(request, about, Media({})).body

"""One question to the model that memory uses, and its record.

Which model that is, `providers.summariser` says.
"""

from __future__ import annotations

import time

import msgspec

from everthread.agent.runtime import Runtime
from everthread.config import Settings
from everthread.core.events import MEMORY, Assistant, ModelCall, text_of
from everthread.core.parts import Text
from everthread.core.request import Request, Said, clean
from everthread.errors import BrokenOff
from everthread.providers.base import Media
from everthread.providers.client import Replied
from everthread.providers.models import model as known
from everthread.providers.registry import provider

AGENT = MEMORY  # in the records of its model calls


class Told(msgspec.Struct, frozen=True):
    """What the model wrote, and the record of the model call."""

    text: str
    record: ModelCall


async def ask(runtime: Runtime, settings: Settings, model: str, *, instructions: str, text: str, at: int) -> Told:
    """The model's answer. Raises ModelError."""
    about = known(model)
    asked = provider(about.provider)
    request = Request(
        model=about.name,
        instructions=(instructions,),
        items=(Said(role="user", parts=(Text(text=clean(text)),), seq=at),),
        reply_tokens=settings.summary_reply_tokens,
        temperature=settings.summary_temperature,
        # Summing up takes no long thought, and the reply's limit is for both.
        effort="minimal" if about.reasons and not asked.reasons_when_asked else "",
        cache=False,
    )
    body = asked.request_form().render(request, about, Media({})).body
    address = settings.address if about.provider == settings.model.partition(":")[0] else ""
    client = await runtime.reach(model, msgspec.structs.replace(settings, address=address))
    began, replied = time.monotonic(), None
    async with client.reply(body) as pieces:
        async for piece in pieces:
            if isinstance(piece, Replied):
                replied = piece
    if replied is None:
        raise BrokenOff(about.provider, "it ended without an end")
    if replied.finish == "refused":
        raise BrokenOff(about.provider, "it refused to summarise")
    said = "\n".join(text_of(event) for event in replied.events if isinstance(event, Assistant))
    usage = replied.usage
    record = ModelCall(
        model=model,
        at=at,
        agent=AGENT,
        **msgspec.structs.asdict(usage),
        price=runtime.price(about, usage),
        ms=round((time.monotonic() - began) * 1000),
        finish=replied.finish,
    )
    return Told(said, record)

"""What the log has counted, and what a picture or file takes beyond that.

The size of an image is stored as nobody in particular would charge it. What a model's provider does charge, and the few
words that stand in for what cannot be sent, are known when a request is packed.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil

import msgspec

from everthread.core.estimates import Measure
from everthread.core.events import Assistant, System, ToolResult, User, encode, media_of
from everthread.core.logged import Logged
from everthread.core.parts import File, Image, Text
from everthread.core.tokens import CALL_WRAPPING, WRAPPING, image_tokens, is_text, sizes
from everthread.providers.models import Model


def known_sizes(events: Iterable[Logged]) -> dict[str, int]:
    """The canonical sizes of texts that are all of their message, by the texts."""
    known = {}
    for logged in events:
        event = logged.event
        if isinstance(event, User | Assistant | ToolResult) and not event.meta and len(event.parts) == 1:
            (part,) = event.parts
            if isinstance(part, Text) and not part.meta:
                known[part.text] = logged.tokens - (CALL_WRAPPING if isinstance(event, ToolResult) else WRAPPING)
    return known


def shown_of(logged: Logged) -> Logged | None:
    """What is no text of instructions whose text stands elsewhere; None where there is nothing else."""
    shown = tuple(media_of(logged.event))
    if not shown:
        return None
    event = System(parts=shown)
    full, settled = sizes(event)
    return msgspec.structs.replace(logged, tokens=full, settled=settled, body=encode(event))


def charge(part: Image | File, model: Model, measure: Measure) -> int:
    """The size of a picture or file beyond what the log has counted for it; less than nothing where it is not sent."""
    from everthread.providers.base import describe  # with the provider that is asked for, not before

    ours = sizes(User(parts=(part,)), measure.counter)[0] - WRAPPING
    is_shown = not model.blind and (part.blob or part.url.startswith("http"))
    if not is_shown and not (isinstance(part, File) and is_text(part.media_type)):
        return measure.text(describe(part)) - ours
    if isinstance(part, File) or not (model.image_tile or model.image_crop):
        return 0
    charged = image_tokens(part.width, part.height, model.image_base, model.image_tile, model.image_crop)
    return max(0, ceil(charged / (1.0 if measure.counter else measure.factor)) - ours)

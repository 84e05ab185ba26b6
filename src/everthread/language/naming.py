"""The name of a conversation, from its first message."""

from __future__ import annotations

import re

LONGEST = 50  # characters
LOOKED_AT = 10_000  # of the message
_END = re.compile(r"(?<=[.!?])\s|(?<=[。！？])")


def name_from(text: str) -> str:
    """The first sentence of a text, cut after a word where it is long; empty where there are no words."""
    said = "".join(filter(str.isprintable, " ".join(text.lstrip()[:LOOKED_AT].split())))
    first = _END.split(said, maxsplit=1)[0].strip(" .,;:!?。！？")
    return first if len(first) <= LONGEST else f"{first[:LONGEST].rpartition(' ')[0] or first[:LONGEST]}…"

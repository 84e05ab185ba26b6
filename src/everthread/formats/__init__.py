"""Conversations as others write them: message lists to events and back, and the data exports of ChatGPT and Claude.

Readers are tolerant of what real traces hold (null content, repeated or missing ids, arguments that are no
JSON) and exact about what they do not understand: `BadFormat` names the place and what was found there, and
nothing is guessed. Writers are faithful: they give back what was read, but for the normalisations that each
module's first paragraph lists. They do not repair a history; making a request that a provider accepts is the
work of whoever builds requests. Nothing here does I/O.
"""

from __future__ import annotations

from everthread.formats.anthropic import from_anthropic, to_anthropic
from everthread.formats.chatgpt import from_chatgpt
from everthread.formats.claude import from_claude
from everthread.formats.detect import detect
from everthread.formats.openai import from_openai, to_openai
from everthread.formats.strands import Exported, Strand

__all__ = [
    "Exported",
    "Strand",
    "detect",
    "from_anthropic",
    "from_chatgpt",
    "from_claude",
    "from_openai",
    "to_anthropic",
    "to_openai",
]

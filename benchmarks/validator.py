"""Would the provider accept this request? A second opinion, from the providers' rules alone.

Everthread's promise is that a request is always valid, whatever the history looks like. Who builds requests
cannot be asked whether they are, so this is written apart from it: from what the providers document and from
the errors that they are known to give, without a look at how Everthread renders. It is as strict as they are,
and where servers of one form differ, as strict as the strictest.

    refusals("anthropic:claude-sonnet-4-6", request)     # [] or a sentence for each thing that is wrong
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.rules.anthropic import anthropic
from benchmarks.rules.google import google
from benchmarks.rules.openai import openai
from benchmarks.rules.responses import openai_responses
from benchmarks.rules.shared import Json, unsayable

__all__ = ["FORMS", "anthropic", "google", "holds_user_text", "openai", "openai_responses", "refusals"]

FORMS: dict[str, Callable[[Json], list[str]]] = {
    "anthropic": anthropic,
    "openai": openai,
    "openai-responses": openai_responses,
    "google": google,
}
# What no provider can be sent, and what may stand in its place.
_UNSAYABLE = re.compile("[\x00\ud800-\udfff\ufffd]+")


def refusals(model: str, request: Json) -> list[str]:
    """What the provider of `provider:name` would refuse; empty where it would accept the request."""
    provider, _, name = model.partition(":")
    if unsaid := unsayable(request):
        return unsaid
    named = request.get("model")
    wrong = [] if named == name else [f"model is {named!r}, but {name!r} was asked for"]
    return wrong + FORMS[provider](request)


def holds_user_text(request: Json, text: str) -> bool:
    """Whether a request, of any form, has this text of the user's in it, whole.

    Characters that cannot be sent (NUL, lone surrogates) may be missing or replaced, and white space around
    the text and around those may be gone.
    """
    said = "\n".join(_user_texts(request))
    at = 0
    for piece in _UNSAYABLE.split(text):
        at = said.find(piece.strip(), at)
        if at < 0:
            return False
        at += len(piece.strip())
    return True


def _user_texts(request: Json) -> Iterator[str]:
    if isinstance(request.get("input"), str):
        yield request["input"]
        return
    for message in request.get("messages") or request.get("input") or request.get("contents") or ():
        if message.get("role") == "user":
            yield from _texts(message.get("content", message.get("parts")))


def _texts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    for part in content if isinstance(content, list) else ():
        if isinstance(part.get("text"), str):
            yield part["text"]

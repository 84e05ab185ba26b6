"""What a model call was built from, as hashes: enough to build its request again, or to say what is no longer the same.

The log and the branch's settings have a history, so the window of any moment can be had again. What has none (the
agent, the tools, the settings of files and of the conversation) is known by its hash only: if it has changed since,
the request cannot be built again byte for byte, and this says which of them it was.
"""

from __future__ import annotations

from everthread.config import Source, without_secrets
from everthread.context.build import Context
from everthread.core.events import ModelCall
from everthread.core.hashing import hash_of, request_hash

STRATEGY = "strategy: a function of the application's own chose the window; give it again to have the same turns"


def record(context: Context, *, agent: str = "") -> ModelCall:
    """The record of a model call that is about to be made with this context."""
    return ModelCall(
        model=context.model,
        at=context.at,
        cutoff=context.cutoff,
        memory=context.memory,
        address=without_secrets(context.settings.address),
        factor=context.factor,
        window=context.window,
        sent=context.sent,
        past=context.past,
        budget=context.budget,
        degraded=context.degraded,
        agent=agent,
        inputs={name: hash_of(value) for name, value in context.inputs.items()},
        request=request_hash(context.request),
        estimate=context.estimate,
    )


def as_recorded(seq: int, call: ModelCall) -> Source:
    """The model of the model call that event `seq` records, for another that goes on from it."""
    return Source(f"model call {seq}", {"model": call.model or None}, whose="log")


def differences(call: ModelCall, context: Context, *, agent: str = "") -> list[str]:
    """What is not as it was when the model call was made; nothing where the request is the same byte for byte."""
    now = record(context, agent=agent)
    if now.request == call.request:
        return []
    found = [
        STRATEGY if name == "strategy" else f"{name}: changed since, or given for that call alone: then give it again"
        for name, hash in call.inputs.items()
        if now.inputs.get(name) != hash
    ]
    for name in ("agent", "cutoff", "memory", "factor", "window"):
        was, is_now = getattr(call, name), getattr(now, name)
        if was != is_now:
            found.append(f"{name}: was {was!r}, is {is_now!r}")
    if context.redacted:
        found.append("messages: some were redacted since, or before")
    return found or [
        "nothing that is recorded, but the bytes: another version of Everthread made them, or another store"
    ]

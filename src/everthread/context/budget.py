"""The budget of a context: the one that was set, else the one that suits the model, and never more than it takes.

`in_force` tells it with the settings, so that whoever asks for these hears of the budget that a context has.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from everthread.config import DEFAULT, Resolved, Settings
from everthread.providers.models import Model, model


def place_of(settings: Settings) -> str:
    """The model at its address: what is learnt of one is not true of another."""
    return f"{settings.model}@{settings.address}" if settings.address else settings.model


def window_of(settings: Settings, about: Model, windows: Mapping[str, int], *, told: int = 0) -> int:
    """The most tokens that a model takes: as it is set, as its provider has `told` for this call, or as far as it is
    known. `windows`: what providers have told while the store is open, by place."""
    return settings.model_window or told or min(about.window, windows.get(place_of(settings), about.window))


def budget_of(resolved: Resolved, about: Model, limit: int) -> int:
    usual = about.budget if resolved.source_of["budget"] == DEFAULT else 0
    return min(usual or resolved.settings.budget or limit, limit)


def in_force(resolved: Resolved, windows: Mapping[str, int]) -> Resolved:
    """Settings that name a model, with the budget that it leaves of the one that is set."""
    settings = resolved.settings
    about = model(settings.model)
    limit = max(0, window_of(settings, about, windows) - settings.reply_tokens)
    budget = budget_of(resolved, about, limit)
    if budget == settings.budget:
        return resolved
    source_of = {**resolved.source_of, "budget": f"the model {settings.model}"}
    return Resolved(msgspec.structs.replace(settings, budget=budget), source_of)

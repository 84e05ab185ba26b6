"""The model that memory uses: the setting `summary_model`, or a small one of the agent's provider.

There is none for the model in the process, which cannot summarise, nor for scripted ones: then memory is extractive.
"""

from __future__ import annotations

from everthread.config import Settings
from everthread.providers.models import model as known
from everthread.providers.registry import provider


def summariser(settings: Settings) -> str:
    """The model that summarises; empty where there is none, and memory is extractive."""
    if settings.summary_model:
        return settings.summary_model
    if not settings.model:
        return ""
    replying = provider(settings.model.partition(":")[0])
    if replying.many_servers and settings.address:
        return settings.model  # somebody's own server, whose other models are unknown
    if not known(settings.model).known:
        return ""  # probably a model of somebody's own server, from where nothing should be sent elsewhere
    return replying.small_model

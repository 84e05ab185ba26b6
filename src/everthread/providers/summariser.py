"""The model that memory uses: the setting `summary_model`, or a small one of the agent's provider.

There is none for the model in the process, which cannot summarise, nor for scripted ones: then memory is extractive.
"""

from __future__ import annotations

from everthread.config import Settings
from everthread.providers.models import model as known

# Small models that summarise well, by the provider of the agent's.
SMALL = {
    "anthropic": "anthropic:claude-haiku-4-5",
    "openai": "openai:gpt-5-mini",
    "openai-responses": "openai-responses:gpt-5-mini",
    "google": "google:gemini-2.5-flash",
}


def summariser(settings: Settings) -> str:
    """The model that summarises; empty where there is none, and memory is extractive."""
    if settings.summary_model:
        return settings.summary_model
    provider = settings.model.partition(":")[0]
    if provider in ("openai", "openai-responses") and settings.address:
        return settings.model  # a server of one's own: who knows which others it has
    if settings.model and not known(settings.model).known:
        return ""  # it may have been a server of one's own, where what is said should stay
    return SMALL.get(provider, "")

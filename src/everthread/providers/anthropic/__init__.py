"""Anthropic: its requests, its client, and its message lists."""

from everthread.core.request import Ways
from everthread.providers.registry import Provider

ABOUT = Provider(
    name="anthropic",
    keys=("ANTHROPIC_API_KEY",),
    base_address="ANTHROPIC_BASE_URL",
    default_model="anthropic:claude-sonnet-4-6",
    small_model="anthropic:claude-haiku-4-5",
    ways=Ways(as_user=True),
    reasons_when_asked=True,
)

"""OpenAI's Responses API: its requests and its client."""

from everthread.core.request import Ways
from everthread.providers.registry import Provider

ABOUT = Provider(
    name="openai-responses",
    account="openai",
    keys=("OPENAI_API_KEY",),
    base_address="OPENAI_BASE_URL",
    small_model="openai-responses:gpt-5-mini",
    ways=Ways(),
    many_servers=True,
)

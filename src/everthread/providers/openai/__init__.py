"""OpenAI, and every server that speaks its API: requests, client, and message lists."""

from everthread.providers.registry import Provider

ABOUT = Provider(
    name="openai",
    keys=("OPENAI_API_KEY",),
    base_address="OPENAI_BASE_URL",
    default_model="openai:gpt-5",
    small_model="openai:gpt-5-mini",
    many_servers=True,
)

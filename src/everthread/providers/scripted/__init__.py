"""A model that says what it was told to say."""

from everthread.providers.registry import Provider

ABOUT = Provider(
    name="scripted",
    form="openai",
    free=True,
)

"""The model in the process: its client, its files and what it is told."""

from everthread.core.request import Ways
from everthread.providers.registry import Provider

ABOUT = Provider(
    name="local",
    form="openai",
    ways=Ways(as_user=True, beside=True),
    free=True,
    leaves_out_tools=True,
)

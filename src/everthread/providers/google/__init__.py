"""Google's Gemini: its requests and its client."""

from everthread.core.request import Ways
from everthread.providers.registry import Provider

ABOUT = Provider(
    name="google",
    keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    base_address="GOOGLE_GEMINI_BASE_URL",
    default_model="google:gemini-2.5-flash",
    small_model="google:gemini-2.5-flash",
    ways=Ways(as_user=True, beside=True, spelt=True),
)

"""What models charge, by genai-prices, which is imported when a price is first asked for.

A price is None where the package is not installed or does not know the model; it is 0 for models that run here.
"""

from __future__ import annotations

from typing import Any

from everthread.core.deltas import Usage
from everthread.providers.registry import provider as known


def prices_known() -> bool:
    """Whether prices can be given at all. Asking this does the slow import."""
    try:
        import genai_prices
    except ModuleNotFoundError:
        return False
    return bool(genai_prices)


def price_of(provider: str, name: str, usage: Usage, *, ttl: str = "5m") -> float | None:
    """US dollars for a model call. `ttl`: how long the cache keeps what was written to it."""
    found = _price(provider, name, usage, ttl)
    return found if found is None or isinstance(found, float) else float(found.total_price)


def input_price(provider: str, name: str, *, tokens: int, read: int, write: int, ttl: str = "5m") -> float | None:
    """US dollars for the input of a request alone."""
    found = _price(provider, name, Usage(input=tokens, cache_read=read, cache_write=write), ttl)
    return found if found is None or isinstance(found, float) else float(found.input_price)


def _price(provider: str, name: str, usage: Usage, ttl: str) -> Any:
    if known(provider).free:
        return 0.0
    try:
        from genai_prices import Usage as Tokens
        from genai_prices import calc_price
    except ModuleNotFoundError:
        return None
    try:
        tokens = Tokens(
            input_tokens=usage.input,
            output_tokens=usage.output,
            cache_read_tokens=usage.cache_read,
            cache_write_tokens=usage.cache_write,
            cache_write_1h_tokens=usage.cache_write if ttl == "1h" else 0,
        )
        return calc_price(tokens, model_ref=name, provider_id=known(provider).payee)
    except (LookupError, ValueError):  # not known; or figures that cannot be, such as more read than there was
        return None

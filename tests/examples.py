"""How many examples a property is tried with: so many with every change, and far more by `make prove`."""

from __future__ import annotations

from hypothesis import settings

MORE = 20

settings.register_profile("sampled", deadline=None)  # no test says how soon
settings.register_profile("prove", deadline=None, max_examples=100 * MORE)


def examples(count: int) -> int:
    """So many, or `MORE` times as many under the profile that proves."""
    return count * MORE if settings.get_current_profile_name() == "prove" else count

"""Settings as callers give them: their types are those of the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args, get_type_hints

from everthread.config import JSON, KNOWN, TEXTS, Setting
from everthread.core.rules import OneOf
from everthread.core.settings import GivenSettings


def test_every_setting_can_be_given_with_the_type_that_the_table_has() -> None:
    assert get_type_hints(GivenSettings) == {name: given_as(setting) for name, setting in KNOWN.items()}


def given_as(setting: Setting) -> Any:
    if setting.rule in JSON:  # or as what the JSON spells
        return (str | Sequence[str] | None) if setting.rule is TEXTS else (str | Mapping[str, Any] | None)
    kind = Literal[setting.rule.choices] if isinstance(setting.rule, OneOf) else setting.kind
    assert not isinstance(setting.rule, OneOf) or get_args(kind) == setting.rule.choices
    return kind | None

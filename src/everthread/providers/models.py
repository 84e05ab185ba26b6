"""What is known of models: how large a request may be, how text is counted, what the prompt cache costs.

The facts are data, in models.toml, where each is explained and easily corrected; this module finds those of a model by
its name, as in "anthropic:claude-sonnet-4-6". Nothing is read before the first question. A model that is not listed
can be used all the same: it gets careful defaults, and a warning that says how to state its own.
"""

from __future__ import annotations

import logging
import re
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from importlib.resources import files
from typing import Annotated, Any, Literal

import msgspec

from everthread.config import PROVIDERS
from everthread.core.tokens import Encoding
from everthread.core.values import Value
from everthread.errors import BadValue, NoModelFile
from everthread.providers.registry import provider as known_provider
from everthread.registered import is_added, named

_log = logging.getLogger("everthread.models")
_DATE = r"\d{4}-?\d\d-?\d\d"
_Tokens = Annotated[int, msgspec.Meta(ge=0)]
_Some = Annotated[int, msgspec.Meta(gt=0)]
_Multiple = Annotated[float, msgspec.Meta(gt=0)]


class _ModelFacts(msgspec.Struct, Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What models.toml may say of a model; the meanings are told there."""

    window: _Some = 128_000
    budget: _Tokens = 0
    encoding: Encoding | Literal[""] = ""
    factor: _Multiple = 1.0
    calibrate: bool = False
    cache_least: _Tokens = 0
    cache_read: _Multiple = 1.0
    cache_write: _Multiple = 1.0
    cache_write_1h: _Multiple = 1.0
    blind: bool = False
    hears: bool = False
    reasons: bool = False
    bound: bool = False
    adaptive: bool = False
    image_base: _Tokens = 0
    image_tile: _Tokens = 0
    image_crop: _Tokens = 0
    hidden: _Tokens = 0
    looks_up: bool = True
    takes_schema: bool = True
    guessed: bool = False


class Limits(msgspec.Struct, Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a provider refuses beside too many tokens, 0 for no limit; the meanings are told in models.toml."""

    messages: _Tokens = 0
    tools: _Tokens = 0
    tool_calls: _Tokens = 0
    description: _Tokens = 0
    properties: str = ""
    media: _Tokens = 0
    media_bytes: _Tokens = 0
    image_bytes: _Tokens = 0
    image_side: _Tokens = 0
    many_images: _Tokens = 0
    many_image_side: _Tokens = 0


class Model(_ModelFacts, frozen=True, kw_only=True):
    """A model and what is known of it; where nothing is, `known` is false and the rest are defaults."""

    provider: str
    name: str
    known: bool
    limits: Limits = Limits()

    def made(self, name: str) -> bool:
        """Whether a reply that bears this name is this model's: providers report the dated version of a name that is
        none, and `latest` by what it is."""
        reported, own = name.removeprefix(f"{self.provider}:"), self.name
        return reported == own or bool(re.fullmatch(rf"{re.escape(own.removesuffix('-latest'))}-{_DATE}", reported))


class _Entry(_ModelFacts, frozen=True, kw_only=True):
    match: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]

    def fits(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self.match)

    def facts(self) -> dict[str, Any]:
        return {field: getattr(self, field) for field in _ModelFacts.__struct_fields__}


class _Provider(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A provider's table: its models, or the name of the provider whose models they are."""

    same_as: str = ""
    limits: Limits = Limits()
    all: dict[str, Any] = {}
    models: tuple[dict[str, Any], ...] = ()

    def entries(self) -> tuple[_Entry, ...]:
        return tuple(msgspec.convert(self.all | model, _Entry) for model in self.models)


@lru_cache(maxsize=1024)
def model(spec: str) -> Model:
    """What is known of a model, named as provider:name."""
    provider, colon, name = spec.partition(":")
    if not (colon and name) or not (provider in PROVIDERS or is_added(provider)):
        raise BadValue("model", spec, f"provider:name, where the provider is {named(PROVIDERS)}")
    bare = name.rpartition("/")[2]
    for entry in _entries(provider):
        if entry.fits(bare):
            facts = entry.facts()
            if provider == "local":
                facts["window"] = _window_of_file(name, facts["window"])
            return Model(provider=provider, name=name, known=True, limits=_limits(provider), **facts)
    hears = "audio" in bare.lower()
    return Model(provider=provider, name=name, known=False, calibrate=True, hears=hears, limits=_limits(provider))


@lru_cache(maxsize=1024)
def warn(spec: str) -> None:
    """Warn once that nothing is known of a model, and say which settings to state."""
    _log.warning(
        "Nothing is known of the model %r: four bytes are taken for a token and %s tokens for its window. "
        "State what is true of it in the settings: `factor`, its tokens for one of our estimate, and `model_window`.",
        spec,
        f"{Model(provider='', name='', known=False).window:,}",
    )


def _window_of_file(name: str, window: int) -> int:
    """The window, or less where the model in the file was trained for less. Whether the file is missing is reported
    when the model is called."""
    from everthread.providers.local.files import find  # only where the model runs in the process

    try:
        return find(name).window(window)
    except NoModelFile:
        return window


def _limits(provider: str) -> Limits:
    """Limits are the provider's and hold for all of its models."""
    table = _table(provider)
    return _limits(table.same_as) if table.same_as else table.limits


@cache
def _entries(provider: str) -> tuple[_Entry, ...]:
    table = _table(provider)
    return _entries(table.same_as) if table.same_as else table.entries()


def _table(provider: str) -> _Provider:
    """Empty where nothing is known of its models: they can be used all the same."""
    if provider in PROVIDERS:
        return _tables().get(provider, _Provider())
    about = known_provider(provider)
    try:
        found = msgspec.convert({"models": about.models, "limits": about.limits}, _Provider)
        found.entries()
    except msgspec.ValidationError as problem:
        allowed = f"told of as models.toml does ({problem})"
        raise BadValue(f"what the provider {provider} says of its models", about.models, allowed) from None
    return found


@cache
def _tables() -> dict[str, _Provider]:
    text = (files(__package__) / "models.toml").read_text("utf-8")
    import tomllib

    return msgspec.convert(tomllib.loads(text), dict[str, _Provider])

"""The providers by their names. Code outside their folders asks here for whatever differs between them.

A provider is a folder. Its `__init__.py` says what is known of it, as `ABOUT`; its request form and its client are
files beside that, imported when they are first needed, so that no SDK is imported before its provider is called. The
names are those that settings accept, `config.PROVIDERS`: a new provider is a folder, and its name there. A dash in a
name is a folder within a folder: `openai-responses` is `openai/responses/`.

A provider that is not ours is one module or object, with `ABOUT`, `connect` and, unless `ABOUT` names the provider
whose form it takes, `render` and `check`. It is made known by `register`, or as an entry point of its package.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

import msgspec

from everthread.config import PROVIDERS
from everthread.core.request import Ways
from everthread.errors import BadValue
from everthread.registered import added, registered
from everthread.registered import register as _register

if TYPE_CHECKING:
    from everthread.providers.base import RequestForm
    from everthread.providers.client import Access, Client


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a provider before it is called."""

    name: str
    keys: tuple[str, ...] = ()  # the environment variables that may hold its key: the first that is set counts
    base_address: str = ""  # the environment variable that names another address than its own
    account: str = ""  # the provider whose keys and prices it shares; its own where empty
    default_model: str = ""  # replies where no model is named and a key is set
    small_model: str = ""  # summarises for memory
    form: str = ""  # the provider whose request form it takes; its own where empty
    ways: Ways = Ways(beside=True)
    many_servers: bool = False  # people run servers that speak its API, with models unknown to us
    free: bool = False  # runs in this process
    leaves_out_tools: bool = False  # it does not show the model every tool of a request
    reasons_when_asked: bool = False  # its models reason only where an effort is asked for; others' reason anyway
    models: tuple[dict[str, Any], ...] = ()  # of a provider that is not ours: what models.toml would say of each
    limits: dict[str, Any] = {}  # likewise

    @property
    def payee(self) -> str:
        """The provider that gives the keys and asks the price."""
        return self.account or self.name

    def request_form(self) -> RequestForm:
        """Its file `request.py`, or the one of the provider whose form it takes."""
        return cast("RequestForm", _file(self.form or self.name, "request"))

    def client(self) -> Callable[[Access], Client]:
        """What makes a client, from its file `client.py`, which imports its SDK. Raises MissingExtra."""
        connect: Callable[[Access], Client] = _file(self.name, "client").connect
        return connect


@cache
def provider(name: str) -> Provider:
    """What is known of a provider, by its name: one of `config.PROVIDERS`, or one that was added."""
    found: Provider = _file(name).ABOUT
    return found


def providers() -> tuple[Provider, ...]:
    """All of them, in the order of their names in the settings: of several whose key is set, the first replies."""
    return tuple(map(provider, (*PROVIDERS, *registered)))


def register(given: Any) -> None:
    """Add a provider to Everthread's own: a module or object with `ABOUT`, which is a `Provider`; `connect`, which
    makes a client (`providers.client`); and `render` and `check` (`providers.base.RequestForm`), unless `ABOUT` names
    the provider whose request form it takes. With `dialect` beside these, it takes the schema of a reply."""
    about: Provider = _checked(given).ABOUT
    if about.name in PROVIDERS:
        raise BadValue("the name of a provider", about.name, "none of Everthread's own")
    _register(about.name, given)


def _checked(given: Any) -> Any:
    """The provider that is to be added, if it has all that one needs."""
    about = getattr(given, "ABOUT", None)
    if not isinstance(about, Provider):
        raise BadValue("a provider", given, "a module or object with ABOUT, which is a Provider")
    missing = [name for name in _needed(about) if not callable(getattr(given, name, None))]
    if missing:
        raise BadValue(f"the provider {about.name}", given, f"something with {' and '.join(missing)} as functions")
    return given


def _needed(about: Provider) -> tuple[str, ...]:
    return ("connect",) if about.form else ("connect", "render", "check")


def _file(name: str, *file: str) -> Any:
    if name not in PROVIDERS:
        return _checked(added(name))
    return import_module(".".join((__package__, *name.split("-"), *file)))

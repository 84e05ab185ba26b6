"""Settings: what each means, what it may be, and where it was set.

There is one table, `Settings`. A field has a type, a default, a meaning and what is allowed; checks, errors and the
reference page are made from these. Settings come from sources, and the most specific wins: the default, the file, the
environment, what the store was opened with, the conversation, the branch, the call. `resolve` takes them in that
order and says for each setting where it came from. A value that is not allowed is refused wherever it stands, even
where a more specific source would win. Only values that the log already holds are passed over, and reported instead:
no conversation may come to an end because of one. Where callers are not the operators, as in a service, some settings
are the operators' alone (`core.locks`): given by a caller they are refused, and in what the log holds passed over.
Nothing is read but one file and the environment that the caller hands in.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, NamedTuple, get_args
from urllib.parse import urlsplit

import msgspec

from everthread.core import events
from everthread.core.locks import Lock, refusal
from everthread.core.rules import Allowed as Allowed
from everthread.core.rules import Between as Between
from everthread.core.rules import OneOf as OneOf
from everthread.core.rules import is_list, is_object, is_place
from everthread.core.values import Value, form_of
from everthread.errors import BadSetting, BadSettingsFile
from everthread.registered import is_added, named

PREFIX = "EVERTHREAD_"
DEFAULT = "the default"
PROVIDERS = ("anthropic", "openai", "openai-responses", "google", "local", "scripted")


# -- what may be allowed ---------------------------------------------------------------------------------


def _is_model(text: str) -> bool:
    provider, _, name = text.partition(":")
    is_known = provider in PROVIDERS or is_added(provider)
    return not text or (is_known and bool(name) and name.isprintable() and name == name.strip())


def _is_address(text: str) -> bool:
    if not re.fullmatch("[!-~]*", text):  # printable ASCII without spaces
        return False
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


# The fields of a request that Everthread writes itself, by every provider's names for them.
OURS = ("model messages input contents system instructions systemInstruction tools stream stream_options max_tokens"
        " max_completion_tokens max_output_tokens")  # fmt: skip


def _is_extra(text: str) -> bool:
    return is_object(text) and not (text and msgspec.json.decode(text).keys() & OURS.split())


EITHER = Allowed("true or false", lambda _: True)
TEXT = Allowed("text in valid Unicode", lambda text: not re.search("[\ud800-\udfff]", text))
MODEL = Allowed(lambda: f"provider:name, where the provider is {named(PROVIDERS)}; or empty", _is_model)
SCHEMA = Allowed("a JSON object, as text or a mapping, or empty", is_object)
TEXTS = Allowed("a list of texts that are not empty, as JSON or a list, or empty", is_list)
FIELDS = Allowed(
    f"a JSON object, as text or a mapping, without what Everthread writes itself ({', '.join(OURS.split())}), or empty",
    _is_extra,
)
JSON = (SCHEMA, TEXTS, FIELDS)  # may be given as a list or mapping, in place of its JSON
PLACE = Allowed("the path of a folder, or s3://bucket/folder, or empty", lambda text: not text or is_place(text))
ADDRESS = Allowed("http:// or https:// and a host, in ASCII, or empty", lambda text: not text or _is_address(text))


# -- the table -------------------------------------------------------------------------------------------


class Settings(msgspec.Struct, Value, frozen=True, kw_only=True):
    """Every setting. Made by `resolve`, which checks; the constructor does not."""

    model: Annotated[str, "the model that replies", MODEL] = ""
    budget: Annotated[int, "the most tokens of a request; 0 lifts it to the model's own window", Between(0)] = 100_000
    strategy: Annotated[str, "which turns are sent", OneOf(("budget", "messages", "session", "importance"))] = "budget"
    step: Annotated[
        float, "how far the cutoff moves at once, as a share of the room; 0 slides it turn by turn", Between(0, 1)
    ] = 0.5
    messages: Annotated[
        int,
        "how many user and assistant messages the strategy `messages` sends, in whole turns with their tool calls",
        Between(1),
    ] = 15
    active_messages: Annotated[
        int, "how many of the newest messages the strategy `importance` sends whatever their score", Between(1)
    ] = 20
    pins: Annotated[float, "the share of the room that pins may take", Between(0, 0.5)] = 0.25
    instructions: Annotated[str, "the persona: who the agent is and how it should reply", TEXT] = ""
    reply_tokens: Annotated[int, "the reply's limit, reasoning included, and the room kept for it", Between(1)] = 4096
    temperature: Annotated[
        float | None, "how freely the model chooses its words; unset, as it does by itself", Between(0, 2)
    ] = None
    top_p: Annotated[
        float | None,
        "the share of the likeliest words that the model chooses from; unset, as it does by itself",
        Between(0, 1),
    ] = None
    seed: Annotated[
        int | None, "what makes replies repeatable: with one seed the same reply, if the provider can", Between(0)
    ] = None
    stop: Annotated[str, "texts at which the reply ends", TEXTS] = ""
    effort: Annotated[
        str, "how much the model reasons before it replies", OneOf(("", "minimal", "low", "medium", "high"))
    ] = ""
    output: Annotated[str, "the JSON Schema that the reply must follow", SCHEMA] = ""
    extra_body: Annotated[
        str, "more fields for the provider's request, sent as they are; not for the fallback", FIELDS
    ] = ""
    fallback: Annotated[str, "the model that replies when the first cannot be reached; empty for none", MODEL] = ""
    address: Annotated[
        str, "the server that speaks the API of the model's provider; empty for the provider's own", ADDRESS
    ] = ""
    call_seconds: Annotated[float, "how long a model may be silent in a model call", Between(0.01, 86_400)] = 300.0
    tool_seconds: Annotated[float, "how long a tool may run", Between(0.01, 86_400)] = 120.0
    retries: Annotated[int, "how often a failed model call is made again", Between(0, 20)] = 4
    turn_calls: Annotated[int, "the most model calls of a turn", Between(1, 10_000)] = 50
    turn_seconds: Annotated[float, "the longest time of a turn, without the wait for approval", Between(1)] = 1800.0
    turn_dollars: Annotated[float, "the most US dollars that a turn may cost; 0 for no limit", Between(0)] = 0.0
    threads: Annotated[int, "on how many threads the model in the process runs", Between(1, 256)] = 1
    model_window: Annotated[int, "the most tokens that the model takes; 0 is what is known of it", Between(0)] = 0
    factor: Annotated[
        float, "the model's tokens for each of our own; 0 is what is known of it", Between(0.5, 4, zero=True)
    ] = 0.0
    margin: Annotated[float, "what is added to an estimate that is not exact, until calibrated", Between(0, 1)] = 0.1
    brief_tokens: Annotated[int, "the room kept for the brief", Between(0)] = 500
    facts_tokens: Annotated[int, "the room kept for the facts", Between(0)] = 400
    recap_tokens: Annotated[int, "the room kept for the recap", Between(0)] = 200
    summary_tokens: Annotated[int, "the most tokens of a range's summary", Between(1)] = 1000
    summarise_after: Annotated[int, "how many messages go by before a range is summarised", Between(1)] = 50
    summary_model: Annotated[
        str, "the model for brief, recap and summaries; else a small one of the agent's provider", MODEL
    ] = ""
    summary_reply_tokens: Annotated[int, "that model's limit for one of them, reasoning included", Between(1)] = 2000
    summary_temperature: Annotated[
        float | None, "how freely it chooses its words; unset, as it does by itself", Between(0, 2)
    ] = None
    memory: Annotated[
        bool, "whether briefs, recaps and summaries are made, and the model may look things up", EITHER
    ] = True
    worker: Annotated[
        str,
        "who makes them, and says what is scheduled: `here`, a process that replies; `apart`, an `everthread work`",
        OneOf(("here", "apart")),
    ] = "here"
    memory_calls: Annotated[int, "the most model calls that memory makes in an hour for a user", Between(0)] = 240
    memory_dollars: Annotated[
        float, "the most US dollars that memory spends in an hour for a user; 0 for no limit", Between(0)
    ] = 1.0
    memory_seconds: Annotated[
        float, "how long a program waits at its end for what memory has begun", Between(0, 3_600)
    ] = 5.0
    session_gap: Annotated[float, "the pause that ends a session, in minutes", Between(1, 525_600)] = 30.0
    cache: Annotated[bool, "whether the provider's prompt cache is used", EITHER] = True
    cache_ttl: Annotated[str, "how long that cache should last", OneOf(("5m", "1h"))] = "5m"
    clock: Annotated[str, "how finely the model is told the time", OneOf(("off", "day", "hour", "minute"))] = "hour"
    canvas: Annotated[str, "where the canvas is told", OneOf(("message", "instructions", "off"))] = "message"
    canvas_tokens: Annotated[int, "the most tokens that are told of the canvas at once", Between(50)] = 1_000
    mirror: Annotated[str, "the folder that mirrors the store as JSON Lines; empty for none", TEXT] = ""
    retention: Annotated[
        float, "after how many days without anything new a conversation is erased; 0 for never", Between(0, 36_500)
    ] = 0.0
    archive: Annotated[bool, "whether conversations that have long been idle are archived", EITHER] = False
    archive_after: Annotated[float, "after how many idle days that is", Between(0.01, 36_500)] = 30.0
    archive_place: Annotated[
        str, "where archives are: a folder, or s3://bucket/folder; empty for the folder beside a SQLite file", PLACE
    ] = ""
    archive_encryption: Annotated[bool, "whether archives are encrypted that are written from now on", EITHER] = False

    def _form(self) -> dict[str, Any]:
        """Without a name and password in the address: a form goes to places that the settings file does not."""
        return form_of(self) | {"address": without_secrets(self.address)}


def without_secrets(address: str) -> str:
    """An address as it may be written down: without the name and password that some have in them."""
    parts = urlsplit(address)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl() if "@" in parts.netloc else address


class Setting(NamedTuple):
    """A row of the table: a field of `Settings`, taken apart."""

    name: str
    kind: type
    default: str | int | float | bool | None
    meaning: str
    rule: Between | OneOf | Allowed

    @property
    def allowed(self) -> str:
        return self.rule.words(self.kind)

    def accepts(self, value: object) -> bool:
        """Whether the value is of the right type, and allowed. A whole number is a number; true is neither."""
        wanted = (int, float) if self.kind is float else self.kind
        right = isinstance(value, wanted) and isinstance(value, bool) == (self.kind is bool)
        return right and self.rule.allows(value)


def _setting(field: msgspec.structs.FieldInfo) -> Setting:
    hint, meaning, rule = get_args(field.type)
    (kind,) = (one for one in get_args(hint) or (hint,) if one is not NoneType)
    return Setting(field.name, kind, field.default, meaning, rule)


KNOWN: dict[str, Setting] = {field.name: _setting(field) for field in msgspec.structs.fields(Settings)}


# -- sources, and what comes of them ---------------------------------------------------------------------


class Source(NamedTuple):
    """Values and where they stand, named as a sentence would: "this branch's settings". None is "not set here"."""

    name: str
    values: Mapping[str, object]
    prefix: str = ""  # of the variables, where each setting is one of its own
    passed_over: tuple[str, ...] = ()  # what is wrong with values that stand there and are not used
    whose: Literal["operators", "log", "caller"] = "operators"  # who says so
    locks: bool = False  # whether callers are not the operators: then some settings are the operators' alone

    def where(self, setting: str) -> str:
        return f"{self.name} ({self.prefix}{setting.upper()})" if self.prefix else self.name


class Resolved(msgspec.Struct, Value, frozen=True):
    """The settings in force, and where each was set."""

    settings: Settings
    source_of: dict[str, str]


def resolve(*sources: Source) -> Resolved:
    """The settings in force, from the least specific source to the most specific; defaults need not be given."""
    values: dict[str, Any] = {}
    source_of = dict.fromkeys(KNOWN, DEFAULT)
    own = [source.values for source in sources if source.whose == "operators"]
    lock = Lock(own) if any(source.locks for source in sources) else None
    for source in sources:
        for name, value in source.values.items():
            if (value is None and name in KNOWN) or (lock and _is_kept_out(lock, source, name, value)):
                continue
            values[name] = check(name, value, source.where(name))
            source_of[name] = source.where(name)
    return Resolved(Settings(**values), source_of)


def _is_kept_out(lock: Lock, source: Source, name: str, value: object) -> bool:
    """Whether this is for operators alone to set, and stands in the log; Forbidden where a caller gives it."""
    if source.whose == "operators" or not lock.keeps(name, value):
        return False
    if source.whose == "caller" and value != "":  # which a turn itself gives that goes on with its fallback
        raise refusal(name)
    return source.whose == "log"


def given_source(values: Mapping[str, object]) -> Source:
    """Settings that a caller gives for one call."""
    return Source("the settings given", values, whose="caller")


def check(name: str, value: object, where: str) -> Any:
    """The value as it is used, or an error that says what is allowed."""
    setting = _known(name, value, where)
    value = _spelt(value) if setting.rule in JSON else value
    if not setting.accepts(value):
        raise BadSetting(name, value, where, f"must be {setting.allowed}")
    return float(value) if setting.kind is float and isinstance(value, int) else value


def _spelt(value: object) -> object:
    """A list or a mapping as JSON; anything else as it is."""
    if not isinstance(value, list | tuple | Mapping):
        return value
    try:
        return msgspec.json.encode(value).decode() if value else ""
    except (TypeError, ValueError, RecursionError):  # refused by `check`, as what it is
        return value


def parse(name: str, text: str, where: str) -> Any:
    """As `check`, for a value that was written as text, in a variable or a command."""
    setting = _known(name, text, where)
    try:
        value = _READ[setting.kind](text)
    except (ValueError, KeyError):
        raise BadSetting(name, text, where, f"must be {setting.allowed}") from None
    return check(name, value, where)


_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_READ: dict[type, Callable[[str], object]] = {
    str: str,
    int: int,
    float: float,
    bool: lambda text: _TRUTH[text.strip().lower()],
}


def _known(name: str, value: object, where: str) -> Setting:
    if name in KNOWN:
        return KNOWN[name]
    import difflib  # only where something is wrong

    near = difflib.get_close_matches(str(name).lower().replace("-", "_"), KNOWN, n=1)
    hint = f"the nearest is {near[0]}" if near else f"there are: {', '.join(KNOWN)}"
    raise BadSetting(str(name), value, where, f"there is no such setting; {hint}")


# -- the sources that this package knows -----------------------------------------------------------------


def general_sources(environ: Mapping[str, str]) -> tuple[Source, ...]:
    """What holds for every conversation: the file, then the environment."""
    file = find_file(environ)
    return (*([from_file(file)] if file else []), from_environment(environ))


def from_environment(environ: Mapping[str, str]) -> Source:
    """The variable of each setting, `EVERTHREAD_BUDGET` and so on; other variables are left alone."""
    source = Source("the environment", {}, PREFIX)
    found = {name: environ[PREFIX + name.upper()] for name in KNOWN if PREFIX + name.upper() in environ}
    return source._replace(values={name: parse(name, text, source.where(name)) for name, text in found.items()})


def from_conversation(settings: Mapping[str, object]) -> Source:
    """A conversation's settings. Applications keep settings of their own there, which are passed over."""
    known = {name: value for name, value in settings.items() if name in KNOWN}
    return Source("this conversation's settings", known, whose="log")


def from_branch(changes: Iterable[events.SettingsChanged]) -> Source:
    """The newest value of each setting in the branch's `settings` events, given oldest first; None takes it back.

    The log keeps what it was given, by another version perhaps: what cannot be used is passed over.
    """
    source, last, wrong = Source("this branch's settings", {}, whose="log"), dict[str, object](), dict[str, str]()
    for change in changes:
        for name, value in change.values.items():
            problem = _problem(name, value, source.name)
            wrong |= {name: problem} if problem else {}
            if not problem:
                last[name] = value
                wrong.pop(name, None)
    values = {name: value for name, value in last.items() if value is not None}
    return source._replace(values=values, passed_over=tuple(wrong.values()))


def usable(source: Source) -> Source:
    """A source that was read from a store, without the values that cannot be used."""
    wrong = {name: problem for name, value in source.values.items() if (problem := _problem(name, value, source.name))}
    values = {name: value for name, value in source.values.items() if name not in wrong}
    return source._replace(values=values, passed_over=tuple(wrong.values()))


def _problem(name: str, value: object, where: str) -> str:
    if value is None:
        return ""
    try:
        check(name, value, where)
    except BadSetting as problem:
        return str(problem)
    return ""


def find_file(environ: Mapping[str, str]) -> Path | None:
    """The file that `EVERTHREAD_CONFIG` names, which must exist, or the user's own if there is one."""
    if named := environ.get(f"{PREFIX}CONFIG"):
        if not os.path.exists(named):
            raise BadSettingsFile(named, "there is no such file")
        return Path(named)
    own = _own_file(environ)
    return own if own and os.path.exists(own) else None


def _own_file(environ: Mapping[str, str]) -> Path | None:
    """Where a user's own file would be; None where the environment names no home."""
    home, folder = environ.get("HOME"), environ.get("XDG_CONFIG_HOME")
    if not folder and not home:
        return None
    return Path(folder or f"{home}/.config", "everthread", "config.toml")


def from_file(path: Path) -> Source:
    """A TOML file: its `[settings]` table, or all of it where there is none; keys have a table of their own."""
    document = read_toml(path)
    document.pop("keys", None)
    table = document.get("settings", document)
    if not isinstance(table, dict):
        raise BadSettingsFile(path, "settings is not a table")
    outside = [name for name in document if name != "settings"] if table is not document else []
    if outside:
        raise BadSettingsFile(path, f"{outside[0]} stands outside its [settings] table")
    return Source(f"the file {path}", table)


def keys_of(environ: Mapping[str, str]) -> dict[str, str]:
    """The `[keys]` table of the file: by provider, or by host and port for servers of one's own. Never shown."""
    file = find_file(environ)
    table = read_toml(file).get("keys", {}) if file else {}
    if not isinstance(table, dict) or not all(isinstance(key, str) for key in table.values()):
        raise BadSettingsFile(file, "keys is not a table of texts")
    return table


def read_toml(path: Path) -> dict[str, Any]:
    import tomllib

    data = _bytes_of(path)
    lines = data.rstrip().count(b"\n") + 1
    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as problem:
        line = data.count(b"\n", 0, problem.start) + 1
        raise BadSettingsFile(path, f"line {line}: this is not UTF-8") from None
    except RecursionError:
        raise BadSettingsFile(path, "its values are nested too deeply") from None
    except ValueError as problem:
        what, _, where = str(problem).removesuffix(")").partition(" (at ")
        where = where.replace("end of document", f"line {lines}, the end")
        raise BadSettingsFile(path, f"{where}: {what}" if where else what) from None


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (OSError, ValueError) as problem:
        raise BadSettingsFile(path, getattr(problem, "strerror", None) or str(problem)) from None

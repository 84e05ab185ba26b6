"""Agents: personas with a name, in TOML files or made by a program, and every version of them that ever was.

An agent is a frozen value. `load` reads a folder of them, `Agents` keeps them in the store: a change is a new
version, and an old one can still be read, so that a past request can be built again. Two agents that say the same have
the same `hash`. What an agent says of settings stands between the environment and the conversation.

    NAME.toml, or NAME/agent.toml with its files beside it:

        description = "Answers questions about orders"
        model = "anthropic:claude-sonnet-4-6"
        instructions = "You are …"          # or instructions_file = "persona.md"
        tools = ["find_order"]              # by name; ["*"] for all, none where it is not said
        skills = ["skills/*.md"]

        [settings]
        budget = 20_000

        [mcp.files]
        command = ["mcp-files", "--read-only"]
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from everthread.config import Source, check, read_toml
from everthread.core.locks import check_open, refusal
from everthread.core.times import EPOCH, moment
from everthread.core.values import Value, form_of
from everthread.errors import BadAgent, BadSetting, BadSettingsFile, BadTool, BadValue, UnknownAgent
from everthread.store.beside.documents import Document
from everthread.store.conversations import Owner, check_name
from everthread.store.log import Log
from everthread.store.reach import within
from everthread.tools.mcp_servers import McpServer

TENANT = "default"
_PREFIX = "agent/"
_MOST = 1000  # agents of a tenant
HIDDEN = "…"  # in place of what an MCP server is given in secret


class Server(msgspec.Struct, Value, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """An MCP server of an agent's own; see `McpServer`."""

    command: tuple[str, ...] = ()
    url: str = ""
    env: dict[str, str] = {}
    cwd: str = ""
    headers: dict[str, str] = {}
    approval: bool | tuple[str, ...] = False

    def _form(self) -> dict[str, Any]:
        """Without what the server is given in secret: an agent's form goes to places that its file does not."""
        return form_of(self) | {name: dict.fromkeys(getattr(self, name), HIDDEN) for name in ("env", "headers")}


class Agent(msgspec.Struct, Value, frozen=True, kw_only=True, omit_defaults=True):
    """A persona. `model` is empty for the configured one. `tools` are names, `("*",)` all there are. `skills` are
    texts by the names of their files; `mcp` are servers by their names."""

    name: str
    description: str = ""
    model: str = ""
    instructions: str = ""
    tools: tuple[str, ...] = ()
    settings: dict[str, str | int | float | bool] = {}
    skills: dict[str, str] = {}
    mcp: dict[str, Server] = {}

    @property
    def hash(self) -> str:
        """Of all that it says: two agents with the same are the same."""
        return hashlib.sha256(encode(self).encode()).hexdigest()


class Versioned(msgspec.Struct, Value, frozen=True):
    """A version of an agent as the store has it; `time` is when it was written."""

    agent: Agent
    version: int
    time: datetime = EPOCH


def encode(agent: Agent) -> str:
    """The agent as JSON: always the same bytes for the same agent."""
    return msgspec.json.encode(agent, order="deterministic").decode()


def decode(text: str) -> Agent:
    try:
        return msgspec.json.decode(text, type=Agent)
    except msgspec.MsgspecError as problem:
        raise BadAgent("the store", str(problem)) from None


# -- what comes of an agent --------------------------------------------------------------------------------


def sections(agent: Agent) -> dict[str, str]:
    """Its instructions by section, as `talk.context(instructions=…)` takes them; empty ones are not there."""
    skills = "\n\n".join(f"## {name}\n\n{text.strip()}" for name, text in sorted(agent.skills.items()))
    return {name: text for name, text in (("persona", agent.instructions), ("skills", skills)) if text.strip()}


def source(agent: Agent) -> Source:
    """Its settings, among them its model, where it names one."""
    return Source(f"the agent {agent.name}", {**agent.settings, **({"model": agent.model} if agent.model else {})})


def servers(agent: Agent) -> list[McpServer]:
    """Its MCP servers, not yet opened. Raises BadTool."""
    return [
        McpServer(
            server.command,
            url=server.url,
            name=name,
            env=server.env,
            cwd=server.cwd or None,
            headers=server.headers,
            approval=server.approval,
        )
        for name, server in sorted(agent.mcp.items())
    ]


def checked(agent: Agent, where: object) -> Agent:
    """The agent, if all that it says can be used; else BadAgent, naming `where` it stands."""
    try:
        agent = msgspec.convert(msgspec.to_builtins(agent), Agent)
        check_name("name", agent.name)
        kept = {name: check(name, value, f"the agent {agent.name}") for name, value in agent.settings.items()}
        check("model", agent.model, f"the agent {agent.name}")
        _check_secrets(agent)
        servers(agent)
        encode(agent)
    except (BadValue, BadSetting, BadTool) as problem:
        raise BadAgent(where, str(problem).removesuffix(".")) from None
    except (msgspec.ValidationError, TypeError, UnicodeEncodeError) as problem:
        raise BadAgent(where, str(problem)) from None
    for name in ("model", "instructions"):
        if name in kept:
            raise BadAgent(where, f"{name} stands among the settings, but belongs beside them")
    return msgspec.structs.replace(agent, settings=kept)


def _check_secrets(agent: Agent) -> None:
    """An agent that came back from its JSON form has lost them: it would put nothing in their place."""
    if any(HIDDEN in (*server.env.values(), *server.headers.values()) for server in agent.mcp.values()):
        raise BadValue(
            "a secret of its MCP servers", HIDDEN, "the secret itself, which the agent's JSON form leaves out"
        )


# -- a folder of them --------------------------------------------------------------------------------------

_TEXT = ("text", lambda value: isinstance(value, str))
_TEXTS = ("a list of texts", lambda value: isinstance(value, list) and all(isinstance(one, str) for one in value))
_TABLE = ("a table", lambda value: isinstance(value, dict))
_KEYS: dict[str, Any] = {
    "description": _TEXT,
    "model": _TEXT,
    "instructions": _TEXT,
    "instructions_file": _TEXT,
    "tools": _TEXTS,
    "skills": _TEXTS,
    "settings": _TABLE,
    "mcp": _TABLE,
}


def load(folder: Path) -> dict[str, Agent]:
    """The agents of a folder, by name. Raises BadAgent, naming the file and what is wrong."""
    if not folder.is_dir():
        raise BadAgent(folder.absolute(), "there is no such folder", what="folder of agents")
    found: dict[str, Agent] = {}
    for name, file in sorted(_files(folder)):
        if name in found:
            raise BadAgent(file, f"there is {name}.toml as well; keep one of them")
        found[name] = _read(name, file)
    return found


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    for entry in folder.iterdir():
        if entry.name.startswith("."):
            continue
        if entry.is_dir() and (entry / "agent.toml").is_file():
            yield entry.name, entry / "agent.toml"
        elif entry.suffix == ".toml":
            yield entry.stem, entry


def _read(name: str, file: Path) -> Agent:
    try:
        said = read_toml(file)
    except BadSettingsFile as problem:
        raise BadAgent(file, problem.problem) from None
    for key, value in said.items():
        if key not in _KEYS:
            raise BadAgent(file, f"there is no key {key!r}; there are: {', '.join(_KEYS)}")
        words, allows = _KEYS[key]
        if not allows(value):
            raise BadAgent(file, f"{key} must be {words}")
    if "instructions" in said and "instructions_file" in said:
        raise BadAgent(file, "it has instructions and an instructions_file; keep one of them")
    if "instructions_file" in said:
        said["instructions"] = _text(_inside(file, said.pop("instructions_file")), file)
    said["skills"] = dict(_skills(file, said.get("skills", [])))
    said["mcp"] = {server: _server(file, server, about) for server, about in said.get("mcp", {}).items()}
    return checked(Agent(name=name, **said | {"tools": tuple(said.get("tools", ()))}), file)


def _server(file: Path, name: str, said: Any) -> Server:
    try:
        return msgspec.convert(said, Server)
    except msgspec.ValidationError as problem:
        raise BadAgent(file, f"mcp.{name}: {problem}; it may have {', '.join(Server.__struct_fields__)}") from None


def _skills(file: Path, patterns: list[str]) -> Iterator[tuple[str, str]]:
    for pattern in patterns:
        _inside(file, pattern)
        matches = sorted(match for match in file.parent.glob(pattern) if match.is_file())
        if not matches:
            raise BadAgent(file, f"no file matches {pattern!r} among its skills")
        for match in matches:
            relative = match.relative_to(file.parent).as_posix()
            yield relative, _text(_inside(file, relative), file)


def _inside(file: Path, relative: str) -> Path:
    """A path below the file's folder, whatever links there are."""
    pure = PurePosixPath(relative)
    path = file.parent / relative
    beyond = pure.is_absolute() or Path(relative).is_absolute() or ".." in pure.parts or not pure.parts
    if beyond or not path.resolve().is_relative_to(file.parent.resolve()):
        raise BadAgent(file, f"{relative!r} does not lie inside its folder")
    return path


def _text(path: Path, file: Path) -> str:
    try:
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError:
        raise BadAgent(file, f"{path.name} is not UTF-8") from None
    except OSError as problem:
        raise BadAgent(file, f"{path.name}: {problem.strerror or problem}") from None


# -- the store ---------------------------------------------------------------------------------------------


Found = list[Versioned]


class Agents:
    """The agents of every tenant, with their versions, in a store."""

    def __init__(
        self, log: Log, *, changed: Callable[[], None] = lambda: None, locks: Callable[[], bool] = lambda: False
    ) -> None:
        """`locks`: whether whoever saves an agent is no operator."""
        self._log, self._changed, self._locks = log, changed, locks
        self._everywhere: dict[str, Agent] = {}  # of the operators, for all tenants
        self._brought: set[str] = set()

    async def get(self, tenant: str, name: str, version: int | None = None) -> Versioned | None:
        """An agent's newest version, or one by number; None where there is none."""
        owner, key = kept_as(tenant, name)
        await self.bring(tenant)
        found = await self._log.documents.get(owner, key, version=version)
        return versioned(found) if found else None

    async def must_be(self, tenant: str, name: str) -> Versioned:
        """The same; raises UnknownAgent where there is none."""
        found = await self.get(tenant, name)
        if found is None:
            known = ", ".join(one.agent.name for one in await self.list(tenant))
            raise UnknownAgent(name, known)
        return found

    async def list(self, tenant: str) -> Found:
        """The newest version of each, by name."""
        await self.bring(tenant)
        found = await self._log.documents.all(_owner(tenant), prefix=_PREFIX, limit=_MOST)
        return [versioned(document) for document in found]

    async def history(self, tenant: str, name: str) -> Found:
        """The versions of an agent, newest first."""
        await self.bring(tenant)
        return [versioned(one) for one in await self._log.documents.versions(_owner(tenant), _key(name))]

    async def save(self, tenant: str, agent: Agent) -> Versioned:
        """Write an agent's next version; one that says what the newest says already is not written again. Where callers
        are not the operators: Forbidden, if it has MCP servers, or settings that are for operators alone."""
        agent = checked(agent, "what was given")
        if self._locks():
            _check_open(agent)
        return await self._save(tenant, agent)

    async def _save(self, tenant: str, agent: Agent) -> Versioned:
        saved = versioned(await self._log.documents.put(_owner(tenant), _key(agent.name), encode(agent)))
        self._changed()
        return saved

    async def spread(self, folder: Path) -> None:
        """Have every tenant know the agents of a folder, one that is made later as well: each gets them when it is
        first met. Nothing is written where any of them is wrong."""
        self._everywhere, self._brought = await asyncio.to_thread(load, Path(folder)), set()
        await self.bring(TENANT)

    async def bring(self, tenant: str) -> None:
        """Write what changed in that folder since, for a tenant that this process has not met yet."""
        if not self._everywhere or tenant in self._brought:
            return
        with within(tenant):
            for agent in self._everywhere.values():
                await self._save(tenant, agent)
        self._brought.add(tenant)

    async def sync(self, folder: Path, *, tenant: str = TENANT) -> Found:
        """Write what changed in a folder since; what changed. Nothing is written where any of them is wrong."""
        changed = []
        for name, agent in (await asyncio.to_thread(load, Path(folder))).items():
            before = await self.get(tenant, name)
            after = await self._save(tenant, agent)
            if before is None or before.version != after.version:
                changed.append(after)
        return changed


def _check_open(agent: Agent) -> None:
    """An MCP server is a program that is started, or an address that is called."""
    if agent.mcp:
        raise refusal("mcp")
    check_open({**agent.settings, "model": agent.model})


def kept_as(tenant: str, name: str) -> tuple[Owner, str]:
    """Whose document an agent is, and what it is called."""
    return _owner(tenant), _key(name)


def _owner(tenant: str) -> Owner:
    """The tenant, as an owner: agents belong to no user."""
    return Owner(check_name("tenant", tenant), "")


def _key(name: str) -> str:
    return f"{_PREFIX}{check_name('agent', name)}"


def versioned(document: Document) -> Versioned:
    return Versioned(decode(document.body), document.version, moment(document.time))

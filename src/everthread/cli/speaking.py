"""With whom one speaks, and how: what `ask` and `chat` share.

The options that name an agent, a conversation, a model and settings; the conversation that they lead to; and what its
model would be told, with the default model where none is named.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import click

from everthread.app import AGENT, Everthread
from everthread.cli.shared import Where, find, how_to_write, pairs_of, tell
from everthread.config import check
from everthread.core.locks import LOCAL
from everthread.errors import BadValue, NotFound, UnknownAgent
from everthread.providers.choose import notice
from everthread.talk import Talk

FOLDER = click.option(
    "--agents", "folder", metavar="FOLDER", help="A folder of agents' TOML files; EVERTHREAD_AGENTS names one as well."
)


class Partner(NamedTuple):
    """With whom and how, as the options say."""

    agent: str | None
    folder: str | None
    conversation: str | None
    new: bool
    model: str | None
    pairs: tuple[str, ...]

    def asked(self) -> dict[str, Any]:
        """What `talk.say` and `talk.context` take: the model and the settings, checked before anything is said."""
        model = check("model", self.model, "--model") if self.model else None
        return {"model": model, "settings": pairs_of(self.pairs)}


def speaking(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that say with whom and how."""
    options = [
        click.option("--agent", metavar="NAME", help="Which agent to speak with."),
        FOLDER,
        click.option("--conversation", metavar="ID", help="Which conversation; the newest with the agent by default."),
        click.option("--new", is_flag=True, help="Begin another conversation."),
        click.option(
            "--model", metavar="PROVIDER:NAME", help="Such as anthropic:claude-sonnet-4-6 or local:/path/model.gguf."
        ),
        click.option("--set", "pairs", multiple=True, metavar="NAME=VALUE", help="Any setting; may be repeated."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def partner_of(given: dict[str, Any]) -> Partner:
    """Takes the partner's options out of all that a command was given."""
    partner = Partner(**{name: given.pop(name) for name in Partner._fields})
    if partner.new and partner.conversation:
        raise click.UsageError("--new begins another conversation; --conversation names one.")
    return partner


async def talk_of(et: Everthread, where: Where, partner: Partner) -> Talk:
    """The conversation that was named, another, or the newest with the agent."""
    if partner.conversation:
        return await _named(et, where, partner.conversation, partner.agent)
    agent = partner.agent or AGENT
    owner: dict[str, Any] = {"user": where.user, "tenant": where.tenant, "agent": agent}
    if agent != AGENT and not await et.conversations(**owner, limit=1):  # whom one talks with already is no slip
        await _must_be(et, where, agent)
    return await (et.begin(**owner) if partner.new else et.conversation(**owner))


async def _must_be(et: Everthread, where: Where, agent: str) -> None:
    try:
        await et.agents.must_be(where.tenant, agent)
    except UnknownAgent as problem:
        raise NoAgent(problem, how_to_write(where, agent)) from None


class NoAgent(NotFound):
    def __init__(self, problem: UnknownAgent, todo: str) -> None:
        super().__init__(f"{problem.sentence.rstrip('.')}. To have another, {todo}.")


async def _named(et: Everthread, where: Where, conversation: str, agent: str | None) -> Talk:
    talk = await find(et, where, conversation)
    if agent and talk.conversation.agent != agent:
        raise BadValue("--agent", agent, f"{talk.conversation.agent!r}, with whom this conversation is")
    return talk


def warn(model: str) -> None:
    """Say so where the small model in the process replies: it is no measure of other models."""
    if tiny := notice(model):
        tell(tiny, colour="yellow")


def loading(model: str) -> str:
    """What is shown while a model is loaded that must be loaded first."""
    return f"loading {model.removeprefix(LOCAL)}" if model.startswith(LOCAL) else ""

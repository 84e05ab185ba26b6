"""`everthread ask`: one message and its reply, streamed; at home in a pipe."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from everthread.app import AGENT, Everthread
from everthread.cli.shared import Scope, find, pairs_of, run, say_json, scope_of, scoped
from everthread.cli.telling import Teller, price_line
from everthread.core.parts import Part, file, image
from everthread.errors import BadValue, NoModel
from everthread.providers.choosing import notice
from everthread.talk import Talk

PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".webp")


@click.command("ask")
@click.argument("message", nargs=-1)
@scoped
@click.option("--agent", help="Which agent to speak with.")
@click.option("--agents", metavar="FOLDER", envvar="EVERTHREAD_AGENTS", help="A folder of agents' TOML files.")
@click.option("--conversation", metavar="ID", help="Which conversation; the newest with the agent by default.")
@click.option("--new", is_flag=True, help="Begin another conversation.")
@click.option("--model", metavar="PROVIDER:NAME", help="Such as anthropic:claude-sonnet-4-6 or local:/path/model.gguf.")
@click.option("--attach", "paths", multiple=True, metavar="FILE", help="A picture or file to show; may be repeated.")
@click.option(
    "--set", "pairs", multiple=True, metavar="NAME=VALUE", help="Any setting, for this turn; may be repeated."
)
@click.option("--reasoning", is_flag=True, help="Show what the model thinks, where its provider does.")
@click.option("--usage", "with_usage", is_flag=True, help="Say afterwards what it took.")
def ask_command(
    message: tuple[str, ...],
    agent: str | None,
    agents: str | None,
    conversation: str | None,
    new: bool,
    model: str | None,
    paths: tuple[str, ...],
    pairs: tuple[str, ...],
    reasoning: bool,
    with_usage: bool,
    **scope: Any,
) -> None:
    """Say MESSAGE to an agent and stream its reply. What comes through a pipe is added to the message, or is the
    message where none is given: `git diff | everthread ask "Any mistakes in this?"`"""
    where = scope_of(**scope)
    text = _message(message)
    if new and conversation:
        raise click.UsageError("--new begins another conversation; --conversation names one.")

    async def work(et: Everthread) -> None:
        talk = await talk_of(et, where, conversation, agent, new=new)
        teller = Teller(silent=where.json, reasoning=reasoning)
        await warn(et, talk, model)
        shown = [_attached(path) for path in paths]
        await teller.listen(talk.say(text, *shown, model=model, settings=pairs_of(pairs)))
        assert teller.done
        if where.json:
            say_json(_as_json(talk, teller))
        elif with_usage:
            click.secho(price_line(teller.done), dim=True, err=True)
        if teller.failed:
            sys.exit(1)

    run(where, work, makes_store=True, agents=agents)


async def warn(et: Everthread, talk: Talk, model: str | None) -> None:
    """Where the model in the process replies, say so: nobody should judge others by it."""
    try:
        named = (await talk.context(model=model)).model
    except NoModel:
        named = (await et.default_model()).model
    if tiny := notice(named):
        click.secho(tiny, fg="yellow", err=True)


async def talk_of(et: Everthread, where: Scope, conversation: str | None, agent: str | None, *, new: bool) -> Talk:
    """The conversation that was named, another, or the newest with the agent."""
    if conversation:
        return await find(et, where, conversation)
    owner: dict[str, Any] = {"user": where.user, "tenant": where.tenant, "agent": agent or AGENT}
    if agent and agent != AGENT:
        await et.agents.must_be(where.tenant, agent)
    return await (et.begin(**owner) if new else et.conversation(**owner))


def _message(words: tuple[str, ...]) -> str:
    said = " ".join(words)
    piped = "" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.read()
    text = "\n\n".join(piece for piece in (said, piped.strip("\n")) if piece.strip())
    if not text:
        raise click.UsageError('There is nothing to say: everthread ask "…", or pipe something in.')
    return text


def _attached(path: str) -> Part:
    try:
        data = Path(path).read_bytes()
    except OSError as problem:
        raise BadValue("--attach", path, f"a file that can be read ({problem.strerror})") from None
    name = Path(path).name
    if name.lower().endswith(PICTURES):
        return image(data)
    kind = "application/pdf" if name.lower().endswith(".pdf") else "text/plain"
    return file(data, name=name, media_type=kind)


def _as_json(talk: Talk, teller: Teller) -> dict[str, Any]:
    done = teller.done
    assert done
    said = {"conversation": talk.id, "text": teller.text, **msgspec.to_builtins(done)}
    if teller.failed:
        said["error"] = {"type": teller.failed.name, "message": teller.failed.error}
    return said

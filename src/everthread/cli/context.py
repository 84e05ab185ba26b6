"""`everthread context`: what a model would be told next, as a picture, as figures, or as the request itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from everthread.app import Everthread
from everthread.cli.picture import Picture
from everthread.cli.shared import agents_folder, anywhere, find, on_branch, pairs_of, run, say_json, where_of
from everthread.context.build import Context
from everthread.context.explain import StepLine
from everthread.core.strategies import STRATEGIES
from everthread.core.values import plain
from everthread.errors import BadValue, BeyondModel


@click.command("context")
@click.argument("conversation", required=False)
@anywhere
@click.option("--branch", help="A branch by name or number; the current one by default.")
@click.option(
    "--model", metavar="PROVIDER:NAME", help="Such as anthropic:claude-sonnet-4-6; else the one that would reply."
)
@click.option("--budget", type=click.IntRange(min=0), help="Tokens of the request at most; 0 is the model's own limit.")
@click.option("--strategy", type=click.Choice(list(STRATEGIES)), help="Which turns.")
@click.option("--at", type=click.IntRange(min=1), metavar="SEQ", help="As it was before this event.")
@click.option("--instructions", metavar="FILE", type=click.Path(exists=True, dir_okay=False), help="A text file.")
@click.option("--tools", metavar="FILE", type=click.Path(exists=True, dir_okay=False), help="A JSON list of tools.")
@click.option("--set", "pairs", multiple=True, metavar="NAME=VALUE", help="Any other setting; may be repeated.")
@click.option("--request", is_flag=True, help="Write the provider's request alone, as JSON: what its SDK takes.")
@click.option("--explain", is_flag=True, help="Also every turn, the steps so far, and the settings with their sources.")
def context_command(
    conversation: str | None,
    branch: str | None,
    model: str | None,
    budget: int | None,
    strategy: str | None,
    at: int | None,
    instructions: str | None,
    tools: str | None,
    pairs: tuple[str, ...],
    request: bool,
    explain: bool,
    **rest: Any,
) -> None:
    """Show what a model would be told next in a CONVERSATION (its id, or the beginning or end of it; the last active by
    default): how full the request is, which turns are in it, and where the window begins. With --json: these figures
    and the request."""
    where = where_of(**rest)
    if request and explain:
        raise click.UsageError("--request writes the request alone; --explain goes with the picture or with --json.")

    async def work(et: Everthread) -> None:
        talk = await on_branch(await find(et, where, conversation), branch)
        asked: dict[str, Any] = {"budget": budget, "at": at, "settings": pairs_of(pairs)}
        asked |= {"instructions": _instructions(instructions), "tools": _tools(tools)}
        asked["lookups"] = tools is None  # as `say` offers them
        context = await talk.context(model=model, strategy=strategy, **asked)
        steps = await talk.steps(model=context.model, **asked) if explain and context.strategy == "budget" else []
        if request:
            say_json(context.request)
        elif where.json:
            say_json(as_json(context, steps, explain=explain))
        else:
            Picture(context.explain(), steps).draw(talk, everything=explain)

    run(where, work, agents=agents_folder())


def _instructions(path: str | None) -> str | None:
    if path is None:
        return None
    try:
        return Path(path).read_text("utf-8")
    except UnicodeDecodeError as problem:
        raise BadValue("--instructions", path, f"a text file in UTF-8 ({problem})") from None


def _tools(path: str | None) -> Any:
    if path is None:
        return None
    try:
        found = json.loads(Path(path).read_text("utf-8"))
    except ValueError as problem:
        raise BadValue("--tools", path, f"a file with a JSON list of tools ({problem})") from None
    if not isinstance(found, list):
        raise BadValue("--tools", path, "a file with a JSON list of tools")
    return found


def as_json(context: Context, steps: list[StepLine], *, explain: bool) -> dict[str, Any]:
    beyond, request = "", None
    try:
        request = context.request
    except BeyondModel as problem:
        beyond = str(problem)
    names = ("model", "strategy", "budget", "estimate", "over_budget", "cutoff", "sent", "past", "degraded", "repaired")
    said = {name: getattr(context, name) for name in names}
    if beyond:
        said["error"] = beyond
    if explain:
        said["explain"] = plain(context.explain())
        said["steps"] = plain(steps)
    return {**said, "request": request}

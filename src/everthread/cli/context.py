"""`everthread context`: what a model would be told next, as the request itself or as a picture."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from everthread.app import Everthread, Talk
from everthread.cli.shared import console, counted, find, printable, run, say_json, scope_of, scoped
from everthread.config import KNOWN, parse
from everthread.context.building import Context
from everthread.context.explain import Explanation, StepLine, TurnLine
from everthread.errors import BadValue, BeyondModel

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

COLOURS = ("magenta", "blue", "cyan", "yellow", "bright_blue", "bright_magenta", "bright_cyan")
WINDOW, FREE = "green", "bright_black"
HEAD, TAIL = 8, 14  # turns of the window that are listed; those between are told in one line


@click.command("context")
@click.argument("conversation", required=False)
@scoped
@click.option("--branch", help="A branch by name or number; the current one by default.")
@click.option("--model", metavar="PROVIDER:NAME", help="Such as anthropic:claude-sonnet-4-6; else from the settings.")
@click.option("--budget", type=click.IntRange(min=0), help="Tokens of the request at most; 0 is the model's own limit.")
@click.option("--strategy", type=click.Choice(["budget", "messages", "session", "importance"]), help="Which turns.")
@click.option("--at", type=click.IntRange(min=1), metavar="SEQ", help="As it was before this event.")
@click.option("--instructions", metavar="FILE", type=click.Path(exists=True, dir_okay=False), help="A text file.")
@click.option("--tools", metavar="FILE", type=click.Path(exists=True, dir_okay=False), help="A JSON list of tools.")
@click.option("--set", "pairs", multiple=True, metavar="NAME=VALUE", help="Any other setting; may be repeated.")
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
    explain: bool,
    **scope: Any,
) -> None:
    """Show what a model would be told next in a CONVERSATION (its id, or the beginning or end of it; the newest by
    default): how full the request is, which turns are in it, and where the window begins."""
    where = scope_of(**scope)
    told = Path(instructions).read_text("utf-8") if instructions else None

    async def work(et: Everthread) -> None:
        talk = await find(et, where, conversation)
        if branch is not None:
            talk = await talk.on(int(branch) if branch.isdigit() else branch)
        asked: dict[str, Any] = {"model": model, "budget": budget, "at": at, "settings": dict(map(_pair, pairs))}
        asked |= {"instructions": told, "tools": _tools(tools) if tools else ()}
        context = await talk.context(strategy=strategy, **asked)
        steps = await talk.steps(**asked) if explain and context.strategy == "budget" else []
        if where.json:
            say_json(as_json(context, steps, explain=explain))
        else:
            Picture(context.explain(), steps).draw(talk, everything=explain)

    run(where, work)


def _pair(given: str) -> tuple[str, Any]:
    name, equals, value = given.partition("=")
    if not equals:
        raise BadValue("--set", given, "NAME=VALUE, such as --set clock=off")
    return name, parse(name, value, "--set") if name in KNOWN else value


def _tools(path: str) -> Any:
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
        said["explain"] = msgspec.to_builtins(context.explain())
        said["steps"] = msgspec.to_builtins(steps)
    return {**said, "request": request}


class Picture:
    """A context on a terminal: a bar of its sections against the budget, and the turns with the rule between what is
    past and what is sent."""

    def __init__(self, about: Explanation, steps: list[StepLine]) -> None:
        self._about = about
        self._steps = steps
        self._out: Console = console()

    def draw(self, talk: Talk, *, everything: bool) -> None:
        about, out = self._about, self._out
        estimated = "counted exactly" if about.exact else f"estimated, {about.factor:.2f} a token of ours"
        out.print(f"[bold]{about.model}[/] · strategy {about.strategy} · {estimated}", soft_wrap=True)
        out.print(f"{talk.conversation.name or talk.id}", style="dim", markup=False, soft_wrap=True)
        out.print()
        self._bar()
        out.print()
        self._turns(everything)
        out.print()
        self._cost()
        for word, notes in (("Given up", about.degraded), ("Repaired", about.repaired)):
            for note in notes:
                out.print(f"{word}: {note}", style="yellow", markup=False, soft_wrap=True)
        if everything:
            self._list_steps()
            self._list_settings()

    # -- the bar -------------------------------------------------------------------------------------------

    def _bar(self) -> None:
        from rich.text import Text

        about = self._about
        parts = [*zip(about.sections.items(), (*COLOURS, *COLOURS), strict=False)]
        shares = [(name, tokens, colour) for (name, tokens), colour in parts]
        shares.append(("turns", sum(turn.tokens for turn in about.turns if turn.sent), WINDOW))
        if about.estimate < about.budget:
            shares.append(("free", about.budget - about.estimate, FREE))
        whole = max(about.budget, about.estimate, 1)
        width = min(100, max(20, self._out.width - 2))
        bar, legend, drawn, done = Text(), Text(), 0, 0
        for name, tokens, colour in shares:
            done += tokens
            cells = round(done / whole * width) - drawn
            bar.append(("░" if name == "free" else "█") * cells, style=colour)
            drawn += cells
            legend.append("░ " if name == "free" else "█ ", style=colour)
            legend.append(f"{name} {tokens:,}   ")
        self._out.print(bar, no_wrap=True, crop=False)
        self._out.print(legend)
        said = f"{about.estimate:,} of {about.budget:,} tokens"
        if about.over_budget:
            said += f": over the budget; {about.over_budget:,} would be needed"
        if about.estimate > about.limit:
            said += f", and {about.model} takes {about.limit:,}: nothing can be sent"
        self._out.print(said, style="bold red" if about.over_budget else "bold", markup=False)

    # -- the turns -----------------------------------------------------------------------------------------

    def _turns(self, everything: bool) -> None:
        ruled = False
        for line in self._lines(everything):
            if isinstance(line, int):
                self._out.print(f"{'':>12}… {counted(line, 'turn')} more …", style="dim")
                continue
            if line.sent and not ruled and line.first >= self._about.cutoff:
                self._out.rule(f"the window begins here, at event {line.first}", style=WINDOW)
                ruled = True
            self._out.print(self._turn(line), no_wrap=True, overflow="ellipsis")
        if not self._about.turns:
            self._out.print("Nothing was said yet, or nothing since the last clear.", style="dim")

    def _lines(self, everything: bool) -> Iterator[TurnLine | int]:
        """The turns to list; a number stands for so many that are not."""
        turns = self._about.turns
        if everything or len(turns) <= HEAD + TAIL + 1:
            yield from turns
            return
        yield from turns[:HEAD]
        yield len(turns) - HEAD - TAIL
        yield from turns[-TAIL:]

    def _turn(self, line: TurnLine) -> Text:
        from rich.text import Text

        number = f"{line.number}" if line.number == line.number_last else f"{line.number}–{line.number_last}"
        told = Text(f"{number:>10}  ", style="" if line.sent else "dim")
        told.append(f"{counted(line.messages, 'message'):>16} {line.tokens:>10,}  ", style="dim")
        told.append(line.why, style="dim" if not line.sent else "cyan" if line.first < self._about.cutoff else "")
        told.append(f"  {printable(line.text)}" if line.text else "", style="dim")
        return told

    # -- the rest ------------------------------------------------------------------------------------------

    def _cost(self) -> None:
        about = self._about
        read = f"{about.cache_read:,} tokens should come from the provider's cache"
        if about.price is None or about.price_uncached is None:
            self._out.print(f"Cost: {read}. (Prices: pip install 'everthread\\[prices]'.)", soft_wrap=True)
        else:
            price = f"${about.price:.4f} for the input, ${about.price_uncached:.4f} without a cache"
            self._out.print(f"Cost: {read}; {price}.", soft_wrap=True)

    def _list_steps(self) -> None:
        if self._steps:
            self._out.print("\n[bold]Steps of the cutoff[/], newest last")
        for step in self._steps:
            left = f"turns {step.left_first}–{step.left_last} left, {counted(step.tokens, 'token')}"
            self._out.print(f"  in turn {step.turn:<7} to event {step.cutoff:<8} {left}", highlight=False)

    def _list_settings(self) -> None:
        self._out.print("\n[bold]Settings[/] that are not the default")
        changed = {n: s for n, s in self._about.source_of.items() if s != "the default"}
        for name, source in changed.items():
            value = json.dumps(self._about.settings[name], ensure_ascii=False)
            self._out.print(f"  {name} = {value}   ({source})", markup=False, soft_wrap=True)
        if not changed:
            self._out.print("  none", style="dim")

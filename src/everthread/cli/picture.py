"""A context on a terminal: a bar of its sections against the budget, and the turns with the rule between what is past
and what is sent. As wide as the terminal, and no wider than is easily read."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from typing import TYPE_CHECKING

from everthread.cli.shared import console, counted, printable
from everthread.context import account
from everthread.context.explain import Explanation, StepLine, TurnLine
from everthread.talk import Talk

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

COLOURS = ("magenta", "blue", "cyan", "yellow", "bright_blue", "bright_magenta", "bright_cyan")
WINDOW, FREE = "green", "bright_black"
WIDEST = 120


class Picture:
    def __init__(self, about: Explanation, steps: list[StepLine]) -> None:
        self._about = about
        self._steps = steps
        self._out: Console = console()
        self._out.width = min(self._out.width, WIDEST)

    def draw(self, talk: Talk, *, everything: bool) -> None:
        about = self._about
        self._say(account.headline(about), style="bold")
        self._say(printable(talk.conversation.name) or talk.id, style="dim")
        self._out.print()
        self._bar()
        self._out.print()
        self._turns(everything)
        self._out.print()
        self._say(account.cost(about))
        for note in account.notes(about):
            self._say(note, style="yellow")
        if everything:
            self._list_steps()
            self._list_settings()

    def _say(self, text: str, *, style: str = "") -> None:
        """A sentence: wrapped on a terminal, in one line for a program."""
        self._out.print(text, style=style, markup=False, soft_wrap=not self._out.is_terminal)

    # -- the bar -------------------------------------------------------------------------------------------

    def _bar(self) -> None:
        from rich.text import Text

        about = self._about
        full, free = ("█", "░") if self._out.encoding.startswith("utf") else ("#", ".")
        whole = max(about.budget, about.estimate, 1)
        bar, entries, drawn, done = Text(), [], 0, 0
        for name, tokens, colour in self._shares():
            done += tokens
            cells = round(done / whole * self._out.width) - drawn
            mark = free if name == "free" else full
            bar.append(mark * cells, style=colour)
            entries.append(Text.assemble((mark, colour), f" {name} {tokens:,}"))
            drawn += cells
        self._out.print(bar, no_wrap=True, crop=False)
        self._legend(entries)
        self._fullness()

    def _shares(self) -> Iterator[tuple[str, int, str]]:
        """What has a share of the budget, with its tokens and its colour."""
        own = {"turns": WINDOW, "free": FREE}
        for (name, tokens), colour in zip(account.shares(self._about), cycle(COLOURS), strict=False):
            yield name, tokens, own.get(name, colour)

    def _legend(self, entries: list[Text]) -> None:
        """The entries on lines, broken only between them: rich would break inside them, even at a no-break space."""
        from rich.text import Text

        lines = [[entries[0]]]
        for entry in entries[1:]:
            if sum(one.cell_len + 3 for one in lines[-1]) + entry.cell_len > self._out.width:
                lines.append([])
            lines[-1].append(entry)
        for line in lines:
            self._out.print(Text("   ").join(line), no_wrap=True)

    def _fullness(self) -> None:
        self._say(account.fullness(self._about), style="bold red" if self._about.over_budget else "bold")

    # -- the turns -----------------------------------------------------------------------------------------

    def _turns(self, everything: bool) -> None:
        turns = self._about.turns
        if not turns:
            self._out.print(account.NOTHING, style="dim")
            return
        wide, lines = account.widths(turns), list(account.listed(turns, everything=everything))
        begin = account.begins(lines, self._about.cutoff)
        for line in lines:
            if isinstance(line, int):
                self._out.print(f"{'':>{wide.number}}  {account.left_out(line)}", style="dim")
                continue
            if line is begin:
                self._out.rule(account.rule(line), style=WINDOW)
            self._out.print(self._turn(line, wide), no_wrap=True, overflow="ellipsis")

    def _turn(self, line: TurnLine, wide: account.Widths) -> Text:
        """A turn on one line: its number, its size, why it is sent where that needs saying, and how it begins."""
        from rich.text import Text

        number, size = account.size(line, wide)
        told = Text(f"{number}  ", style="" if line.sent else "dim")
        told.append(f"{size}  ", style="dim")
        if why := account.reason(line):
            told.append(f"{why}{'  ' if line.text else ''}", style="cyan" if line.sent else "dim")
        told.append(printable(line.text), style="dim")
        return told

    # -- the rest ------------------------------------------------------------------------------------------

    def _list_steps(self) -> None:
        if not self._steps:
            return
        self._out.print("\n[bold]Steps of the cutoff[/], newest last")
        newest = self._steps[-1]
        in_turn, to_event = len(str(newest.turn)), len(str(newest.cutoff))
        for step in self._steps:
            turns = "turn" if step.left_first == step.left_last else "turns"
            left = f"{turns} {account.numbers(step.left_first, step.left_last)} left, {counted(step.tokens, 'token')}"
            self._say(f"  in turn {step.turn:<{in_turn}} to event {step.cutoff:<{to_event}}: {left}")

    def _list_settings(self) -> None:
        self._out.print("\n[bold]Settings[/] that are not the default")
        changed = account.changed(self._about)
        for one in changed:
            self._say(printable(f"  {one}"))
        if not changed:
            self._out.print("  none", style="dim")

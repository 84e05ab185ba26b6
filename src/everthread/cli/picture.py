"""A context on a terminal: a bar of its sections against the budget, and the turns with the rule between what is past
and what is sent. As wide as the terminal, and no wider than is easily read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from everthread.cli.shared import console, counted, printable
from everthread.config import DEFAULT
from everthread.context.explain import Explanation, StepLine, TurnLine
from everthread.talk import Talk

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

COLOURS = ("magenta", "blue", "cyan", "yellow", "bright_blue", "bright_magenta", "bright_cyan")
WINDOW, FREE = "green", "bright_black"
WIDEST = 120
USUAL = "in the window"  # not said of every turn
HEAD, TAIL = 8, 14  # turns of the window that are listed; those between are told in one line


class Picture:
    def __init__(self, about: Explanation, steps: list[StepLine]) -> None:
        self._about = about
        self._steps = steps
        self._out: Console = console()
        self._out.width = min(self._out.width, WIDEST)

    def draw(self, talk: Talk, *, everything: bool) -> None:
        about = self._about
        estimated = "counted exactly" if about.exact else f"estimated with a factor of {about.factor:.2f}"
        self._say(f"{about.model} · strategy {about.strategy} · {estimated}", style="bold")
        self._say(printable(talk.conversation.name) or talk.id, style="dim")
        self._out.print()
        self._bar()
        self._out.print()
        self._turns(everything)
        self._out.print()
        self._cost()
        for word, notes in (("Given up", about.degraded), ("Repaired", about.repaired)):
            for note in notes:
                self._say(f"{word}: {note}", style="yellow")
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
        about = self._about
        for (name, tokens), colour in zip(about.sections.items(), (*COLOURS, *COLOURS), strict=False):
            yield name, tokens, colour
        yield "turns", sum(turn.tokens for turn in about.turns if turn.sent), WINDOW
        if about.estimate < about.budget:
            yield "free", about.budget - about.estimate, FREE

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
        about = self._about
        said = f"{about.estimate:,} of {about.budget:,} tokens"
        if about.over_budget:
            said += f": over the budget; {about.over_budget:,} would be needed"
        if about.estimate > about.limit:
            said += f", and {about.model} takes {about.limit:,}: nothing can be sent"
        self._say(said, style="bold red" if about.over_budget else "bold")

    # -- the turns -----------------------------------------------------------------------------------------

    def _turns(self, everything: bool) -> None:
        turns = self._about.turns
        if not turns:
            self._out.print("Nothing was said yet, or nothing since the last clear.", style="dim")
        columns = [[_number(t.number, t.number_last), counted(t.messages, "message"), f"{t.tokens:,}"] for t in turns]
        widths = [max(map(len, column)) for column in zip(*columns, strict=True)]
        lines = list(self._lines(everything))
        begin = next((line for line in lines if self._is_in_window(line)), None)
        for line in lines:
            if isinstance(line, int):
                self._out.print(f"{'':>{widths[0]}}  … {counted(line, 'turn')} more …", style="dim")
                continue
            if line is begin:
                self._out.rule(f"the window begins here, at event {line.first}", style=WINDOW)
            self._out.print(self._turn(line, widths), no_wrap=True, overflow="ellipsis")

    def _is_in_window(self, line: TurnLine | int) -> bool:
        return isinstance(line, TurnLine) and line.sent and line.first >= self._about.cutoff

    def _lines(self, everything: bool) -> Iterator[TurnLine | int]:
        """The turns to list; a number stands for that many turns that are not listed."""
        turns = self._about.turns
        if everything or len(turns) <= HEAD + TAIL + 1:
            yield from turns
            return
        yield from turns[:HEAD]
        yield len(turns) - HEAD - TAIL
        yield from turns[-TAIL:]

    def _turn(self, line: TurnLine, widths: list[int]) -> Text:
        """A turn on one line: its number, its size, why it is sent where that needs saying, and how it begins."""
        from rich.text import Text

        number, messages, tokens = widths
        told = Text(f"{_number(line.number, line.number_last):>{number}}  ", style="" if line.sent else "dim")
        told.append(f"{counted(line.messages, 'message'):>{messages}}  {line.tokens:>{tokens},}  ", style="dim")
        if line.why != USUAL:
            told.append(f"{line.why}{'  ' if line.text else ''}", style="cyan" if line.sent else "dim")
        told.append(printable(line.text), style="dim")
        return told

    # -- the rest ------------------------------------------------------------------------------------------

    def _cost(self) -> None:
        about = self._about
        read = f"{about.cache_read:,} tokens should come from the provider's cache"
        if about.price is None or about.price_uncached is None:
            self._say(f"Cost: {read}. (Prices: pip install 'everthread[prices]'.)")
        else:
            price = f"${about.price:.4f} for the input, ${about.price_uncached:.4f} without a cache"
            self._say(f"Cost: {read}; {price}.")

    def _list_steps(self) -> None:
        if not self._steps:
            return
        self._out.print("\n[bold]Steps of the cutoff[/], newest last")
        newest = self._steps[-1]
        in_turn, to_event = len(str(newest.turn)), len(str(newest.cutoff))
        for step in self._steps:
            turns = "turn" if step.left_first == step.left_last else "turns"
            left = f"{turns} {_number(step.left_first, step.left_last)} left, {counted(step.tokens, 'token')}"
            self._say(f"  in turn {step.turn:<{in_turn}} to event {step.cutoff:<{to_event}}: {left}")

    def _list_settings(self) -> None:
        self._out.print("\n[bold]Settings[/] that are not the default")
        changed = {n: s for n, s in self._about.source_of.items() if s != DEFAULT}
        for name, source in changed.items():
            value = json.dumps(self._about.settings[name], ensure_ascii=False)
            self._say(printable(f"  {name} = {value}   ({source})"))
        if not changed:
            self._out.print("  none", style="dim")


def _number(first: int, last: int) -> str:
    return f"{first}" if first == last else f"{first}–{last}"

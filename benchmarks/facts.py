"""`everthread bench facts`: which exact facts are left when a conversation has gone on.

Long conversations are made up, with 200 facts planted in them that no guess would give: numbers, paths, ids, commands
and preferences, said by the user, by the assistant or by a tool, two a turn. Then the talk goes on about other things,
with names and numbers of its own. After 10, 50 and 200 further turns it is counted how many are still there to the
letter, in the facts that are kept beside the brief, and in facts and brief together. The brief is the extractive one,
which needs no model. All stated preferences must be there.

`conversation` and `Planted` serve other measurements, too: each fact comes with a question that shares a word with it.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from everthread.core.events import Event, User, assistant, encode, tool_call, tool_result, user
from everthread.core.extract import summary
from everthread.core.facts import NOTHING, fold, ranked, rendered
from everthread.core.logged import Logged
from everthread.core.tokens import count, sizes

AFTER = (10, 50, 200)
KINDS = {"number": 45, "path": 45, "id": 45, "command": 45, "preference": 20}
FACTS_TOKENS, BRIEF_TOKENS = 400, 500
SEEDS = 3


class Planted(NamedTuple):
    """`exact` is what must be found; `said` is the sentence that has it; `question` asks for it."""

    kind: str
    exact: str
    said: str
    question: str


class Result(NamedTuple):
    after: int
    tokens: int  # for the facts
    kind: str
    planted: int
    in_facts: float  # shares
    in_both: float
    bar: float | None = None

    @property
    def missed(self) -> bool:
        return self.bar is not None and self.in_both < self.bar


def main() -> None:
    options = _options()
    budgets = sorted({options.tokens, *([] if options.only else (800, 1_600))})
    results = [result for after in AFTER for tokens in budgets for result in measure(after, tokens, options.seeds)]
    took = _time_a_message()
    if options.json:
        said = [{**result._asdict(), "missed": result.missed} for result in results]
        print(json.dumps({"results": said, "milliseconds_a_message": took}, indent=2))
        return
    print("| turns later | tokens for facts | kind | planted | in the facts | in facts and brief | bar |")
    print("| ---: | ---: | --- | ---: | ---: | ---: | ---: |")
    for r in results:
        bar = f"{r.bar:.0%}{' **missed**' if r.missed else ''}" if r.bar is not None else ""
        print(f"| {r.after} | {r.tokens:,} | {r.kind} | {r.planted} | {r.in_facts:.1%} | {r.in_both:.1%} | {bar} |")
    missed, bars = sum(r.missed for r in results), sum(r.bar is not None for r in results)
    print(f"\n{missed} of {bars} bars missed. Facts take {took:.2f} ms a message.")


def measure(after: int, tokens: int = FACTS_TOKENS, seeds: int = SEEDS, brief: int = BRIEF_TOKENS) -> list[Result]:
    """The share of each kind that is left so many turns later, over several conversations."""
    found: dict[str, list[tuple[bool, bool]]] = {}
    for seed in range(seeds):
        events, planted = conversation(seed, after)
        logged = numbered(events)
        facts = rendered(ranked(fold(NOTHING, logged), tokens, count))
        both = f"{facts}\n{summary(logged, brief, beside=facts)}"
        for fact in planted:
            found.setdefault(fact.kind, []).append((fact.exact in facts, fact.exact in both))
    found["all"] = [pair for pairs in found.values() for pair in pairs]
    return [
        Result(
            after,
            tokens,
            kind,
            len(pairs) // seeds,
            sum(pair[0] for pair in pairs) / len(pairs),
            sum(pair[1] for pair in pairs) / len(pairs),
            1.0 if kind == "preference" else None,
        )
        for kind, pairs in found.items()
    ]


def conversation(seed: int, after: int) -> tuple[list[Event], list[Planted]]:
    """A conversation in which facts are planted, two a turn, and so many turns about other things after them."""
    chance = random.Random(seed)
    planted = list(_planted(chance))
    chance.shuffle(planted)
    events: list[Event] = []
    for first, second in zip(planted[::2], planted[1::2], strict=True):
        events += _turn(chance, first, second)
    for _ in range(after):
        events += _small_talk(chance)
    return events, planted


def numbered(events: Iterable[Event]) -> list[Logged]:
    """Events as a log would give them: one branch, a turn for each user message."""
    logged: list[Logged] = []
    turn = 0
    for seq, event in enumerate(events, 1):
        turn += isinstance(event, User)
        tokens, settled = sizes(event)
        place = (1, seq, f"{seq:026d}", event.kind, seq * 60_000_000, turn, 1)
        logged.append(Logged(*place, tokens, settled, encode(event)))
    return logged


# -- what is planted -----------------------------------------------------------------------------------------


def _words(text: str) -> list[str]:
    return text.split()


_THINGS = _words(
    "boiler turbine ledger greenhouse orchard ferry kiln archive sensor pump warehouse printer harbour studio "
    "bakery clinic library garage vineyard foundry depot tannery beacon cellar dairy quarry sawmill chapel stadium "
    "museum reactor pipeline scheduler gateway parser exporter mailer indexer balancer renderer crawler importer "
    "tokenizer proxy planner ranker compiler linker"
)
_MEASURES = ("temperature of", "pressure in", "price for", "weight of", "capacity of", "rent for", "output of")
_UNITS = ("kg", "EUR", "ms", "kWh", "litres", "MB", "km")
_FOLDERS = ("srv", "opt", "var/lib", "home/ana", "etc", "data")
_WISHES = (
    "I prefer {} in {}.",
    "Always put {} before {}.",
    "Never mention {} with {}.",
    "Please don't mix {} and {}.",
    "From now on, compare {} with {}.",
    "I'm allergic to {} and {}.",
    "Remember that I sold {} for {}.",
    "My favourite {} is {}.",
    "I always take {} with {}.",
    "I can't stand {} or {}.",
)
_GOODS = _words(
    "saffron walnuts linen amber cork velvet cumin copper basil marble ginger oak pewter mustard silk clay fennel "
    "ivory cedar pepper wool chalk mint brass thyme felt quartz anise straw cobalt dill suede garnet nutmeg hemp "
    "jade sorrel canvas onyx lavender"
)


def _planted(chance: random.Random) -> Iterator[Planted]:
    for number in range(KINDS["number"]):
        thing, unit = _THINGS[number % len(_THINGS)], chance.choice(_UNITS)
        value = f"{chance.randint(1_000, 99_999) / chance.choice((1, 10, 100)):,} {unit}"
        what = f"{chance.choice(_MEASURES)} the {thing}"
        yield Planted("number", value, f"The {what} came to {value}.", f"What was the {what}?")
    for number in range(KINDS["path"]):
        thing = _THINGS[-1 - number % len(_THINGS)]
        path = f"/{chance.choice(_FOLDERS)}/{thing}/{_word(chance)}.{chance.choice(('toml', 'yaml', 'log', 'csv'))}"
        yield Planted(
            "path", path, f"The {thing} reads its settings from {path} at start.", f"Where is the {thing} set?"
        )
    for number in range(KINDS["id"]):
        thing = _THINGS[(number * 7) % len(_THINGS)]
        id = f"{_word(chance)[:3].upper()}-{chance.randint(10_000, 99_999)}"
        yield Planted("id", id, f"The ticket for the {thing} is {id}.", f"Which ticket is the {thing}?")
    for number in range(KINDS["command"]):
        thing = _THINGS[(number * 11) % len(_THINGS)]
        command = (
            f"{chance.choice(('make', 'docker', 'git', 'npm'))} {_word(chance)} --{thing}={chance.randint(10, 999)}"
        )
        yield Planted("command", command, f"To restart the {thing}, run `{command}`.", f"How do I restart the {thing}?")
    goods = chance.sample(_GOODS, len(_GOODS))
    for number in range(KINDS["preference"]):
        wish = _WISHES[number % len(_WISHES)].format(goods[2 * number], goods[2 * number + 1])
        yield Planted("preference", wish.rstrip("."), wish, f"What did I say about {goods[2 * number]}?")


def _word(chance: random.Random) -> str:
    return "".join(chance.choice("bdfgklmnprstvz") + chance.choice("aeiou") for _ in range(3))


def _turn(chance: random.Random, first: Planted, second: Planted) -> Iterator[Event]:
    """A turn that says both: preferences are the user's, the rest is anybody's."""
    mine = [fact for fact in (first, second) if fact.kind == "preference" or chance.random() < 0.5]
    theirs = [fact for fact in (first, second) if fact not in mine]
    yield user(" ".join(["Let us go on.", *(fact.said for fact in mine), chance.choice(_QUESTIONS)]))
    told = [fact for fact in theirs if chance.random() < 0.3]
    for fact in told:
        call = f"call_{_word(chance)}"
        yield tool_call("look_up", {"about": fact.question}, id=call)
        yield tool_result(fact.said, id=call, name="look_up")
    rest = [fact.said for fact in theirs if fact not in told]
    yield assistant(" ".join([chance.choice(_ANSWERS), *rest]))


_QUESTIONS = ("Can you check that?", "What do you think?", "Is that right?", "Shall we?")
_ANSWERS = ("Noted.", "That is done.", "I have looked into it.", "Good.")
_TOPICS = ("the weather in", "the concert in", "the train to", "lunch in", "the market in", "a walk through")
_TOWNS = ("Bergen", "Porto", "Ghent", "Turin", "Leeds", "Graz", "Brno", "Cork")


def _small_talk(chance: random.Random) -> Iterator[Event]:
    town, hour = chance.choice(_TOWNS), chance.randint(7, 22)
    yield user(
        f"And {chance.choice(_TOPICS)} {town}? We were there at {hour} o'clock with {chance.randint(2, 9)} others."
    )
    yield assistant(f"In {town} it was {chance.randint(3, 31)} °C and rather busy. People stayed until {hour + 1}:30.")


# -- time ----------------------------------------------------------------------------------------------------


def _time_a_message() -> float:
    logged = numbered(conversation(0, 200)[0])
    decoded = [one.event for one in logged]  # before it is timed
    began = time.perf_counter()
    fold(NOTHING, logged)
    return (time.perf_counter() - began) / len(decoded) * 1e3


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="everthread bench facts", description=__doc__)
    parser.add_argument("--tokens", type=int, default=FACTS_TOKENS, help="for the facts")
    parser.add_argument("--only", action="store_true", help="no other budgets beside it")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="how many conversations")
    parser.add_argument("--json", action="store_true", help="write JSON for programs")
    return parser.parse_args()


if __name__ == "__main__":
    main()

"""Made-up conversations with facts planted in them that no guess would give: what `everthread bench memory` asks for.

Numbers, paths, ids, commands and preferences, 200 of them, said by the user, by the assistant or by a tool, two a turn.
Then the talk goes on about other things, with names and numbers of its own. Each fact comes with a question that shares
a word with it. Preferences are worded in many ways, and now and then in another language than English.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from benchmarks.wishes import WISHES
from everthread.core.events import Event, User, assistant, encode, tool_call, tool_result, user
from everthread.core.logged import Logged
from everthread.core.tokens import sizes

AFTER = (10, 50, 200)
KINDS = {"number": 45, "path": 45, "id": 45, "command": 45, "preference": 20}


class Planted(NamedTuple):
    """`exact` is what must be found; `said` is the sentence that has it; `question` asks for it."""

    kind: str
    exact: str
    said: str
    question: str


def conversation(seed: int, after: int, wishes: Sequence[Planted] = ()) -> tuple[list[Event], list[Planted]]:
    """A conversation in which facts are planted, two a turn, and so many turns about other things after them.

    `wishes`: preferences that are planted in place of the usual ones."""
    chance = random.Random(seed)
    planted = list(_exact(chance))
    planted += wishes or preferences(seed)[: KINDS["preference"]]
    chance.shuffle(planted)
    events: list[Event] = []
    for place in range(0, len(planted), 2):
        events += _turn(chance, planted[place : place + 2])
    for _ in range(after):
        events += _small_talk(chance)
    return events, planted


def preferences(seed: int) -> list[Planted]:
    """One in every wording there is, in the seed's own order; no two of them are about the same thing."""
    chance = random.Random(f"preferences {seed}")
    wordings = chance.sample(WISHES, len(WISHES))
    goods = chance.sample(_GOODS, len(_GOODS))
    pairs = [(first, second) for place, first in enumerate(goods) for second in goods[place + 1 :]]
    wishes = []
    for wording, (first, second) in zip(wordings, chance.sample(pairs, len(wordings)), strict=True):
        wish = wording.format(first, second)
        wishes.append(Planted("preference", wish.rstrip(".。"), wish, f"What did I say about {first} and {second}?"))
    return wishes


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
_GOODS = _words(
    "saffron walnuts linen amber cork velvet cumin copper basil marble ginger oak pewter mustard silk clay fennel "
    "ivory cedar pepper wool chalk mint brass thyme felt quartz anise straw cobalt dill suede garnet nutmeg hemp "
    "jade sorrel canvas onyx lavender"
)


def _exact(chance: random.Random) -> Iterator[Planted]:
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


def _word(chance: random.Random) -> str:
    return "".join(chance.choice("bdfgklmnprstvz") + chance.choice("aeiou") for _ in range(3))


def _turn(chance: random.Random, facts: Sequence[Planted]) -> Iterator[Event]:
    """A turn that says them all: preferences are the user's, the rest is anybody's."""
    mine = [fact for fact in facts if fact.kind == "preference" or chance.random() < 0.5]
    theirs = [fact for fact in facts if fact not in mine]
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

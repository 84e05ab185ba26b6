"""`everthread bench cache`: what a conversation costs under the providers' prompt caches, as ratios in one run.

Conversations are joined into long ones and appended to a real store, one model call at a time, with times. Before
each model call Everthread is asked for the request that it would send: with the whole history, with a window
that slides every turn, and with the stepped cutoff. Each goes to a simulated cache of its own
(`benchmarks.caching`), which says how much of it is read and what it costs. The simulated provider counts
tokens as we do, so the factor that calibration would find for it is 1. Where no folder of recorded
conversations is given, they are made up in the shape of recorded ones.

A canvas of six elements that changes every third turn is told beside the messages, or in the instructions, and compared
with the same conversation where it is not told.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from benchmarks.caching import Cache, Spent, cache_of
from everthread import Everthread
from everthread.core.branches import Target
from everthread.core.happenings import canvas_changed
from everthread.core.times import microseconds
from everthread.store.scripts.append import Draft
from everthread.transfer import from_openai

CLAUDE, GPT, GEMINI = "anthropic:claude-sonnet-4-6", "openai:gpt-5", "google:gemini-2.5-flash"
BUDGETS = (8_000, 16_000, 32_000)
ENDLESS = 100_000_000  # a budget that nothing exceeds
BEGAN = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
MOST_PRICE, LEAST_READ = 0.30, 0.95  # the bars: without pauses, from 16k on
MOST_FOR_CANVAS = 1.10  # the bar, where it is told beside messages

Message = dict[str, Any]
Pauses = Callable[[Random], float]


# -- what is measured ----------------------------------------------------------------------------------------


class Policy(NamedTuple):
    """One way of asking for requests."""

    window: str  # full | sliding | stepped
    budget: int
    model: str = CLAUDE
    lifetime: str = "5m"
    factor: float = 0.0  # the model's tokens for one of the simulator's; 0 is what Everthread knows
    canvas: str = "off"  # where it is told

    @property
    def settings(self) -> Any:
        settings: dict[str, Any] = {"factor": self.factor, "canvas": self.canvas}
        if self.model == CLAUDE:
            settings["cache_ttl"] = self.lifetime
        if self.window == "full":
            settings["model_window"] = ENDLESS
        if self.window == "sliding":
            settings["step"] = 0
        return settings


class Scenario(NamedTuple):
    name: str
    turns: int
    policies: list[Policy]
    pauses: Pauses
    tool_heavy: bool = False
    bars: bool = False
    canvas: bool = False


class Result(NamedTuple):
    scenario: str
    policy: Policy
    model_calls: int
    price: float
    read: float  # share of the input
    used: float  # average share of the budget
    predicted: float | None  # share of the input that explain() said would be read
    off: float | None  # average distance of that share from the simulated one
    over_budget: int  # requests
    against_sliding: float | None = None
    against_full: float | None = None
    against_none: float | None = None  # a canvas that is told, against the same that is not
    bar: str = ""
    missed: bool = False


def scenarios(options: argparse.Namespace) -> list[Scenario]:
    windows, factor = ("sliding", "stepped"), options.factor
    both = [Policy(window, budget, factor=factor) for budget in options.budgets for window in windows]
    others = [Policy(window, 16_000, model) for model in (GPT, GEMINI) for window in windows]
    hour = [policy._replace(lifetime="1h") for policy in both]
    full = [] if options.quick else [Policy("full", ENDLESS)]
    places = ("off", "message", "instructions")
    drawn = [Policy("stepped", budget, factor=factor, canvas=place) for budget in options.budgets for place in places]
    every = [
        Scenario("no long pauses", options.turns, [*full, *both, *others], _short_pauses, bars=True),
        Scenario("tool-heavy turns", options.turns // 3, both, _short_pauses, tool_heavy=True),
        Scenario("21 % of pauses over five minutes", options.turns, [*both, *hour], _mixed_pauses),
        Scenario("a canvas that changes every third turn", options.turns, drawn, _short_pauses, bars=True, canvas=True),
    ]
    return [scenario for letter, scenario in zip("abcd", every, strict=True) if letter in options.scenarios]


def _short_pauses(random: Random) -> float:
    return random.uniform(5, 200)


def _mixed_pauses(random: Random) -> float:
    """Long ones are over five minutes and under an hour."""
    return random.uniform(360, 3_000) if random.random() < 0.21 else _short_pauses(random)


# -- measuring -----------------------------------------------------------------------------------------------


class Tally:
    """One policy over all sessions of a scenario."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.cache: Cache = cache_of(policy.model)
        self.spent: list[Spent] = []
        self.used: list[float] = []
        self.predicted: list[tuple[int, int]] = []  # tokens that explain() says are read, of how many
        self.over_budget = 0

    def add(self, seconds: float, context: Any) -> None:
        self.spent.append(self.cache.ask(seconds, context.request))
        self.used.append(context.estimate / self.policy.budget)
        self.over_budget += context.over_budget > 0
        read = getattr(context.explain(), "cache_read", None)
        if read is not None:
            self.predicted.append((read, context.estimate))

    def result(self, scenario: str) -> Result:
        predicted = off = None
        if self.predicted:
            predicted = sum(read for read, _ in self.predicted) / sum(of for _, of in self.predicted)
            pairs = zip(self.predicted, self.spent, strict=True)
            off = sum(abs(read / of - spent.read / spent.total) for (read, of), spent in pairs) / len(self.spent)
        return Result(
            scenario,
            self.policy,
            model_calls=len(self.spent),
            price=sum(spent.price for spent in self.spent),
            read=sum(spent.read for spent in self.spent) / sum(spent.total for spent in self.spent),
            used=sum(self.used) / len(self.used),
            predicted=predicted,
            off=off,
            over_budget=self.over_budget,
        )


async def measure(scenario: Scenario, source: Source, *, sessions: int, folder: Path) -> list[Result]:
    tallies = [Tally(policy) for policy in scenario.policies]
    for number in range(sessions):
        print(f"  {scenario.name}: session {number + 1} of {sessions} …", file=sys.stderr, flush=True)
        random = Random(f"{scenario.name} {number}")
        store = f"sqlite:///{folder}/{scenario.name}-{number}.db"
        # Without memory, of which a sliding window would be told anew with every turn.
        async with Everthread.open(store, settings={"memory": False}) as et:
            talk = await et.begin(user="ana", agent="bench")
            target = Target(talk.conversation.tenant, talk.id)
            for tally in tallies:
                tally.cache = cache_of(tally.policy.model)
            turns = 0
            for drafts, seconds in model_calls(source.messages(scenario, random), scenario.pauses, random):
                place = next((n for n, draft in enumerate(drafts) if draft.event.kind == "user"), None)
                if place is not None and scenario.canvas:
                    turns += 1
                    drafts[place:place] = drawn(turns, random, drafts[place].time)
                await et.log.append(target, drafts)
                for tally in tallies:
                    context = await talk.context(
                        model=tally.policy.model,
                        budget=tally.policy.budget,
                        instructions=source.instructions,
                        tools=source.tools,
                        settings=tally.policy.settings,
                    )
                    tally.add(seconds, context)
    return compared([tally.result(scenario.name) for tally in tallies], bars=scenario.bars)


def drawn(turn: int, random: Random, time: int | None) -> list[Draft]:
    """What is done on the canvas before a turn: it is drawn before the first, and then changed at every third."""
    changes: list[dict[str, Any]] = []
    if turn == 1:
        changes = [{"do": "put", "element": element} for element in _ELEMENTS]
    elif turn % 6 == 3:
        changes = [{"do": "tick", "id": "open", "item": str(random.randint(1, 6)), "done": random.random() < 0.6}]
    elif turn % 6 == 0:
        id, text = f"note-{random.randint(1, 3)}", _sentence(random, 10, 30)
        changes = [{"do": "put", "element": {"type": "card", "id": id, "title": "Note", "text": text}}]
    if not changes:
        return []
    return [Draft(event=canvas_changed("", changes=changes), time=time)]


def compared(results: list[Result], *, bars: bool) -> list[Result]:
    """The same, each with its price against sliding at the same budget and against the full history."""
    full = next((result.price for result in results if result.policy.window == "full"), None)
    prices = {result.policy: result.price for result in results}
    compared = []
    for result in results:
        sliding = prices.get(result.policy._replace(window="sliding"))
        none = prices.get(result.policy._replace(canvas="off")) if result.policy.canvas != "off" else None
        result = result._replace(
            against_sliding=result.price / sliding if sliding else None,
            against_full=result.price / full if full and result.policy.model == CLAUDE else None,
            against_none=result.price / none if none else None,
        )
        compared.append(_held_to_bar(result) if bars else result)
    return compared


def _held_to_bar(result: Result) -> Result:
    policy, price = result.policy, result.against_sliding
    if policy.canvas == "message" and result.against_none is not None:
        return result._replace(bar=f"≤ {MOST_FOR_CANVAS:.2f}", missed=result.against_none > MOST_FOR_CANVAS)
    if policy.window != "stepped" or policy.model != CLAUDE or policy.budget < 16_000 or price is None:
        return result
    bar = f"≤ {MOST_PRICE:.2f}, ≥ {LEAST_READ:.0%} read"
    return result._replace(bar=bar, missed=price > MOST_PRICE or result.read < LEAST_READ)


# -- conversations -------------------------------------------------------------------------------------------


def model_calls(messages: Iterator[Message], pauses: Pauses, random: Random) -> Iterator[tuple[list[Draft], float]]:
    """A conversation as model calls: what was said since the last one, and when it is made."""
    seconds, since = 0.0, list[tuple[Message, float]]()
    for message in messages:
        if message["role"] == "assistant":
            yield _drafts(since), seconds
            since = []
            seconds += random.uniform(2, 8)
        elif message["role"] == "user" and (not since or since[-1][0]["role"] != "user"):
            seconds += pauses(random)
        else:
            seconds += random.uniform(0.2, 2)  # a tool, or the user again with no answer awaited
        since.append((message, seconds))


def _drafts(since: list[tuple[Message, float]]) -> list[Draft]:
    began, drafts = microseconds(BEGAN), []
    for message, seconds in since:
        drafts += [Draft(event=event, time=began + int(seconds * 1e6)) for event in from_openai([message])]
    return drafts


class Source:
    """Conversations in OpenAI's form, recorded or made up, to be joined into long ones."""

    def __init__(self, conversations: list[list[Message]], kind: str) -> None:
        self.kind = kind
        told = [m["content"] for messages in conversations for m in messages if m["role"] == "system"]
        self.instructions: str = told[0]
        self.conversations = [[m for m in messages if m["role"] != "system"] for messages in conversations]
        self.tools = _tools(self.conversations)

    def messages(self, scenario: Scenario, random: Random) -> Iterator[Message]:
        """Conversations one after the other, in another order each time, until there are as many turns."""
        pool = [_one_turn(each) for each in self.conversations] if scenario.tool_heavy else self.conversations
        turns = 0
        while turns < scenario.turns:
            for messages in random.sample(pool, len(pool)):
                yield from messages
                turns += sum(message["role"] == "user" for message in messages)
                if turns >= scenario.turns:
                    return


def _one_turn(messages: list[Message]) -> list[Message]:
    """A whole conversation as one turn with many model calls: all that was asked, every tool call, the last answer."""
    asked = "\n\n".join(message["content"] for message in messages if message["role"] == "user")
    steps = [message for message in messages if message["role"] == "tool" or message.get("tool_calls")]
    answers = [m for m in messages if m["role"] == "assistant" and not m.get("tool_calls")]
    return [{"role": "user", "content": asked}, *steps, *answers[-1:]]


def _tools(conversations: list[list[Message]], most: int = 8) -> list[dict[str, Any]]:
    """The tools that are called most, with a schema of the arguments that they were given."""
    called: Counter[str] = Counter()
    schemas: dict[str, dict[str, Any]] = {}
    calls = (call for messages in conversations for m in messages for call in m.get("tool_calls") or [])
    for function in (call["function"] for call in calls):
        called[function["name"]] += 1
        schema = schemas.setdefault(function["name"], {})
        for name, value in json.loads(function["arguments"]).items():
            kind = _KINDS.get(type(value), "string")
            schema.setdefault(name, {"type": kind, "description": f"The {name} that this is about."})
    return [
        {
            "name": name,
            "description": f"The tool to {name}, for when the user asks for it or an answer needs it.",
            "schema": {"type": "object", "properties": schemas[name], "required": list(schemas[name])},
        }
        for name, _ in sorted(called.most_common(most))
    ]


_KINDS = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}


def recorded(folder: Path) -> Source:
    """Every conversation with an agent that the folder holds, one a line."""
    lines = [line for file in sorted(folder.glob("*.jsonl")) for line in file.read_text("utf-8").splitlines()]
    if not lines:
        raise SystemExit(f"There are no conversations (*.jsonl) in {folder}.")
    return Source([json.loads(line)["messages"] for line in lines], "recorded")


_ELEMENTS: list[dict[str, Any]] = [
    {"type": "chart", "id": "costs", "title": "What it costs", "chart": "bar", "unit": "EUR",
     "labels": ["flights", "rooms", "meals", "rest"], "series": [{"name": "planned", "values": [420, 610, 300, 150]}]},
    {"type": "list", "id": "open", "title": "Still open", "boxes": True, "items": [
        {"text": text} for text in ("confirm the dates", "ask for a quiet room", "pay the deposit", "send the names",
                                    "check the allergies", "book the transfer")]},
    {"type": "table", "id": "plan", "title": "The plan", "columns": ["day", "what", "where"], "rows": [
        ["Monday", "arrival", "north gate"], ["Tuesday", "tour", "old town"], ["Wednesday", "rest", "garden"]]},
    *({"type": "card", "id": f"note-{number}", "title": "Note", "text": "Nothing yet."} for number in (1, 2, 3)),
]  # fmt: skip

# -- made up -------------------------------------------------------------------------------------------------

_TOPICS = ("booking", "table", "guest", "invoice", "voucher", "menu", "allergy", "deposit", "refund", "delivery")
_TOOLS = [f"{verb}_{topic}" for verb in ("find", "change") for topic in _TOPICS[:4]]
_FILLING = re.findall(
    r"\w+",
    "please look whether the earlier one can still be moved because our plans have changed again and we would "
    "like to know what it costs before we decide anything about the other guests or the room upstairs",
)


def made_up() -> Source:
    """Sixty conversations with a restaurant's agent, in size and shape like recorded ones."""
    random = Random(1)
    return Source([[_policy(), *_conversation(random)] for _ in range(60)], "made-up")


def _policy() -> Message:
    rules = (
        f"{number}. When a guest asks about a {topic}, look it up before you answer, repeat what you understood, "
        f"and change nothing about the {topic} until the guest has agreed to it in so many words. "
        f"If the {topic} cannot be found, say so and offer to take a note for the manager. Never speak of another "
        f"guest's {topic}, and never promise what only the manager can promise."
        for number, topic in enumerate(_TOPICS, 1)
    )
    return {"role": "system", "content": "You are the agent of a restaurant with four rooms.\n\n" + "\n".join(rules)}


def _conversation(random: Random) -> Iterator[Message]:
    """Most turns are short, a few are long; the last word is the user's."""
    for _ in range(random.randint(3, 11)):
        yield {"role": "user", "content": _sentence(random, 8, 35)}
        for _ in range(random.choice((0, 0, 0, 0, 0, 1, 1, 1, 2, 5))):
            yield from _lookup(random)
        yield {"role": "assistant", "content": _sentence(random, 25, random.choice((50, 70, 200)))}
    yield {"role": "user", "content": "Thank you."}


def _lookup(random: Random) -> Iterator[Message]:
    name, number = random.choice(_TOOLS), random.randint(1_000, 9_999)
    arguments = json.dumps({"number": str(number), "reason": _sentence(random, 3, 20)})
    call = {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": arguments}}
    yield {"role": "assistant", "content": None, "tool_calls": [call]}
    many = random.choice((0, 0, 0, 8, 9, 10, 11, 12, 13, 30))
    rows = [{"id": random.randint(1, 99_999), "note": _sentence(random, 4, 16)} for _ in range(many)]
    yield {"role": "tool", "tool_call_id": call["id"], "name": name, "content": json.dumps(rows)}


def _sentence(random: Random, least: int, most: int) -> str:
    return " ".join(random.choice(_FILLING) for _ in range(random.randint(least, most))).capitalize() + "."


# -- the command ---------------------------------------------------------------------------------------------


def main() -> None:
    options = _options()
    source = recorded(options.data) if options.data else made_up()
    results: list[Result] = []
    with tempfile.TemporaryDirectory() as folder:
        for scenario in scenarios(options):
            results += asyncio.run(measure(scenario, source, sessions=options.sessions, folder=Path(folder)))
    report(results, source, options)


_HEADS = (
    "conversation|model|cache|budget|window|canvas|against sliding|against full|against no canvas|read|budget used"
    "|predicted read|bar"
)


def report(results: list[Result], source: Source, options: argparse.Namespace) -> None:
    if options.json:
        rows = [{**r._asdict(), "policy": r.policy._asdict(), "conversations": source.kind} for r in results]
        print(json.dumps(rows, indent=2))
        return
    print(f"{source.kind.capitalize()} conversations in {options.sessions} sessions of {options.turns} turns.\n")
    print(f"| {_HEADS.replace('|', ' | ')} |")
    print("| --- | --- | --- | ---: | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |")
    for result in results:
        print(f"| {' | '.join(_cells(result))} |")
    print(f"\n{sum(r.missed for r in results)} of {sum(bool(r.bar) for r in results)} bars missed.")
    if over := sum(r.over_budget for r in results):
        print(f"{over} of {sum(r.model_calls for r in results)} requests were over budget.")


def _ratios(result: Result) -> tuple[float | None, ...]:
    return result.against_sliding, result.against_full, result.against_none


def _cells(result: Result) -> list[str]:
    policy, is_full = result.policy, result.policy.window == "full"
    return [
        *(result.scenario, policy.model, policy.lifetime if policy.model == CLAUDE else "automatic"),
        *("none" if is_full else f"{policy.budget:,}", policy.window, "" if policy.canvas == "off" else policy.canvas),
        *("" if ratio is None else f"{ratio:.3f}" for ratio in _ratios(result)),
        *(f"{result.read:.1%}", "" if is_full else f"{result.used:.2f}"),
        "" if result.predicted is None else f"{result.predicted:.1%}, off by {result.off:.1%}",
        result.bar + (" **missed**" if result.missed else ""),
    ]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="everthread bench cache", description=f"{__doc__} It takes about six minutes; with --quick half a minute."
    )
    given = os.environ.get("EVERTHREAD_DATA")
    about = "folder of recorded conversations (by default EVERTHREAD_DATA); else they are made up"
    parser.add_argument("--data", type=Path, default=given and Path(given), help=about)
    parser.add_argument("--turns", type=int, default=200, help="of a session; tool-heavy ones have a third of them")
    parser.add_argument("--sessions", type=int, default=4)
    about = "a: no long pauses, b: tool-heavy turns, c: long pauses, d: a canvas"
    parser.add_argument("--scenarios", default="abcd", help=about)
    parser.add_argument(
        "--factor",
        type=float,
        default=1.0,
        help="Claude's tokens for one of ours; 0 is what Everthread assumes before it is calibrated",
    )
    parser.add_argument("--quick", action="store_true", help="one session, 16k only, no full history")
    parser.add_argument("--json", action="store_true", help="write JSON for programs")
    options = parser.parse_args()
    options.budgets = BUDGETS
    if options.quick:
        options.sessions, options.budgets = 1, (16_000,)
    return options


if __name__ == "__main__":
    main()

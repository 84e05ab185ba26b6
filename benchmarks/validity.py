"""`everthread bench validity`: requests from bad histories, each put before a second opinion.

Histories as bad as real ones (`benchmarks.histories`) are written piece by piece into a store, and after each
piece contexts are asked for: by every provider's form, every strategy, budgets from far too small to none at
all, with pins, on forks, after rewinds, clears and redactions, and as of an earlier event; with few tools and many,
long descriptions, and schemas for the reply. Of each request it is asked whether the provider would accept it
(`benchmarks.validator`), whether it keeps the budget or says that it does not, by a count of its own
(`benchmarks.counting`), whether it has the user's newest message whole, whether reasoning is the model's own and
unaltered (`benchmarks.seals`), and of some whether they come out the same again, at once and later. Any failure ends
in exit code 1; `--only` with a name from the list of examples repeats one history alone.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Any, NamedTuple

from benchmarks.counting import true_tokens
from benchmarks.histories import bad_history, real_histories
from benchmarks.seals import broken
from benchmarks.teller import MODELS
from benchmarks.validator import FORMS, holds_user_text, refusals
from everthread import Everthread, Talk
from everthread.core.branches import ENDLESS
from everthread.core.events import MESSAGES, Assistant, Clear, User
from everthread.core.logged import Logged
from everthread.core.parts import Text
from everthread.errors import BadValue, BeyondModel
from everthread.store.scripts.append import Draft

STRATEGIES = ("budget", "messages", "session", "importance")
FAILURES = (
    "refused",
    "over budget in silence",
    "counted too low",
    "newest message missing",
    "reasoning not its own",
    "not the same again",
    "errors",
)
OTHERS = ("over budget", "beyond the model", "repaired", "degraded")
EXAMPLES = 10
BAD_TO_REAL = 3  # bad histories for each real one, while there are real ones
LEAST_BUDGET, MOST_BUDGET = 50, 300_000
PAGE = 400  # events that are looked through for the user's newest message

_TOOLS = [
    {
        "name": name,
        "description": "Looks something up.",
        "schema": {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]},
    }
    for name in ("find_order", "search", "open")
]
_LONG = {  # what few tools have, and some do
    "name": "n" * 64,
    "description": "Looks something up, at length. " * 60,
    "schema": {
        "type": "object",
        "title": "a title " * 20,
        "description": "what it takes " * 20,
        "properties": {
            "path": {
                "type": "string",
                "pattern": "[a-z7]+/" * 30,
                "default": "a default " * 30,
                "examples": ["é" * 90],
            },
            "rows": {"type": "array", "items": {"type": "object", "description": "one row " * 20, "properties": {}}},
            "one": {"$ref": "#/$defs/One", "description": "a reference " * 20},
            "kind": {"enum": ["a", {"not": "text " * 30}], "description": "a kind"},
        },
        "$defs": {"One": {"type": "object", "properties": {"x": {"const": "constant " * 30}}}},
    },
}
_MANY = [{**_TOOLS[0], "name": f"tool_{number}"} for number in range(600)]
_SETTINGS: tuple[dict[str, Any], ...] = (
    *({"step": 0}, {"clock": "off"}, {"step": 0, "clock": "off"}, {"cache": False}, {"cache_ttl": "1h"}),
    {
        "output": '{"type": "object", "properties": {"answer": {"type": "string", "description": "'
        + "x y " * 300
        + '"}}}'
    },
)
_INSTRUCTIONS: tuple[Any, ...] = (
    "You are a clerk at a ticket counter. " * 5,
    {"persona": "You are kind.", "user": "Ana, from Lisbon.", "memory": "", "skills": "Tickets."},
    "",
)


class Asked(NamedTuple):
    """A context that was asked for, and where."""

    history: str
    seq: int
    arguments: dict[str, Any]

    @property
    def model(self) -> str:
        return str(self.arguments["model"])

    @property
    def provider(self) -> str:
        return self.model.partition(":")[0]

    def __str__(self) -> str:
        given = {name: value for name, value in self.arguments.items() if name not in ("tools", "instructions")}
        more = [name for name in ("tools", "instructions") if self.arguments.get(name)]
        told = ", ".join([*(f"{name} {value}" for name, value in given.items()), *(f"with {name}" for name in more)])
        return f"{self.history} after event {self.seq}: {told}"


class Tally:
    """What came of the requests, by provider, with the first few failures in words."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self.reasons: Counter[str] = Counter()
        self.examples: list[str] = []  # one of a reason
        self.began = time.perf_counter()

    @property
    def requests(self) -> int:
        return self.sum("requests")

    def sum(self, what: str) -> int:
        return sum(self.counts[provider, what] for provider in FORMS)

    def count(self, asked: Asked, what: str) -> None:
        self.counts[asked.provider, what] += 1
        if what == "requests" and self.requests % 1_000 == 0:
            failed = sum(map(self.sum, FAILURES))
            seconds = time.perf_counter() - self.began
            print(f"  {self.requests:,} requests, {failed:,} failures, {seconds:.0f} s …", file=sys.stderr, flush=True)

    def fail(self, asked: Asked, what: str, *sentences: str) -> None:
        self.count(asked, what)
        reason = f"{asked.provider}, {what}: {re.sub(r'[0-9]+', 'N', sentences[0]):.100}"
        self.reasons[reason] += 1
        if self.reasons[reason] == 1 and len(self.examples) < EXAMPLES:
            self.examples.append(f"{what}: {asked}\n    " + "\n    ".join(sentences[:5]))


class Asking:
    """One history on its way into the store, and what is asked of it on the way."""

    def __init__(self, et: Everthread, tally: Tally, name: str, seed: int) -> None:
        self.et, self.tally, self.name = et, tally, name
        self.random = Random(f"{seed} {name}")
        self.models: list[str] = []  # that replied so far
        self.earlier: tuple[Talk, Asked, str] | None = None

    async def run(self, drafts: list[Draft]) -> None:
        talk = await self.et.begin(user="ana", agent="bench")
        for piece in self._pieces(drafts):
            line = await talk.line()
            self.models += [event.model for event in _assistants(piece) if event.model in MODELS]
            await self.et.log.append(line.target, piece)
            if self.random.random() < 0.2:
                talk = await self._changed(talk)
            for _ in range(self.random.randint(3, 7)):
                await self._ask(talk)
        await self._again_later()

    def _pieces(self, drafts: list[Draft]) -> Iterator[list[Draft]]:
        """Cut anywhere, as a conversation is when somebody asks."""
        many = min(len(drafts), self.random.randint(1, 8))
        cuts = sorted(self.random.sample(range(1, len(drafts)), many - 1)) if many > 1 else []
        for first, last in itertools.pairwise([0, *cuts, len(drafts)]):
            yield drafts[first:last]

    async def _changed(self, talk: Talk) -> Talk:
        """What else happens to conversations."""
        events = [event for event in await talk.before(limit=PAGE) if event.kind in MESSAGES]
        if not events:
            return talk
        seq = self.random.choice(events).seq
        self.earlier = None  # what was asked before is no longer what would be asked
        match self.random.choice(("fork", "rewind", "pin", "pin", "clear", "redact")):
            case "fork":
                return await talk.fork(at=seq)
            case "rewind":
                return await talk.rewind(to=seq)
            case "pin":
                with suppress(BadValue):  # what lies before a clear cannot be pinned
                    await talk.pin(seq)
            case "clear":
                await talk.clear()
            case "redact":
                await talk.redact(seq)
        return talk

    # -- one request -----------------------------------------------------------------------------------------

    async def _ask(self, talk: Talk) -> None:
        head = await self.et.log.head(await talk.line())
        arguments = self._arguments(head.seq)
        asked = Asked(self.name, head.seq, arguments)
        said = await self._built(talk, asked)
        if said is None or "at" in arguments:
            return
        if self.random.random() < 0.05 and await self._built(talk, asked) != said:
            self.tally.fail(asked, "not the same again", "at once")
        if self.earlier is None:
            self.earlier = (talk, asked, said)

    def _arguments(self, seq: int) -> dict[str, Any]:
        random = self.random
        octaves = random.uniform(0, 1)
        budget = int(LEAST_BUDGET * (MOST_BUDGET / LEAST_BUDGET) ** octaves)
        arguments: dict[str, Any] = {
            # Half of the time the conversation goes on with the model that it had: only then is reasoning sent.
            "model": self.models[-1] if self.models and random.random() < 0.5 else random.choice(MODELS),
            "budget": 0 if random.random() < 0.15 else budget,
            "strategy": random.choice(STRATEGIES),
        }
        if random.random() < 0.5:
            arguments["tools"] = self._tools()
        if random.random() < 0.5:
            arguments["instructions"] = random.choice(_INSTRUCTIONS)
        if seq and random.random() < 0.15:
            arguments["at"] = random.randint(1, seq + 1)
        if random.random() < 0.2:
            arguments["settings"] = random.choice(_SETTINGS)
        arguments["lookups"] = random.random() < 0.5
        return arguments

    def _tools(self) -> list[dict[str, Any]]:
        few = _TOOLS[: self.random.randint(0, 3)]
        if self.random.random() < 0.1:
            few = _MANY[: self.random.choice((127, 128, 129, 200, 600))]
        return [*few, _LONG] if self.random.random() < 0.15 else few

    async def _built(self, talk: Talk, asked: Asked) -> str | None:
        """The request as text, once it was looked at from all sides; None where there is none."""
        self.tally.count(asked, "requests")
        try:
            context = await talk.context(**asked.arguments)
            for what, came in (("repaired", context.repaired), ("degraded", context.degraded)):
                if came:
                    self.tally.count(asked, what)
            if context.over_budget:
                self.tally.count(asked, "over budget")
            try:
                request = context.request
            except BeyondModel:
                self.tally.count(asked, "beyond the model")
                if not context.over_budget:
                    self.tally.fail(asked, "over budget in silence", "beyond the model, and over_budget is 0")
                return None
            self._judge(asked, context, request)
            await self._look_for_newest(talk, asked, request)
            return json.dumps(request, sort_keys=False)
        except Exception as problem:  # noqa: BLE001 - whatever it is, it is counted and shown, and the next one asked
            self.tally.fail(asked, "errors", f"{type(problem).__name__}: {problem!s:.300}")
            return None

    def _judge(self, asked: Asked, context: Any, request: dict[str, Any]) -> None:
        if sentences := refusals(asked.model, request):
            self.tally.fail(asked, "refused", *sentences)
        elif sentences := broken(asked.model, request):
            self.tally.fail(asked, "reasoning not its own", *sentences)
        told = true_tokens(asked.model, request, times=context.factor or 1.0)
        figures = f"an estimate of {context.estimate:,} for {told:,} tokens, budget {context.budget:,}"
        if max(told, context.estimate) > context.budget and not context.over_budget:
            self.tally.fail(asked, "over budget in silence", figures)
        elif told > context.estimate:
            self.tally.fail(asked, "counted too low", figures)

    async def _look_for_newest(self, talk: Talk, asked: Asked, request: dict[str, Any]) -> None:
        newest = _newest_user(await talk.before(asked.arguments.get("at", ENDLESS), limit=PAGE))
        if newest is None:
            return
        texts = [part.text for part in newest.parts if isinstance(part, Text)]
        missing = [text for text in texts if not holds_user_text(request, text)]
        if missing:
            self.tally.fail(asked, "newest message missing", f"{missing[0]!r:.200}")

    async def _again_later(self) -> None:
        """What was asked on the way is asked again as of that event."""
        if self.earlier is None:
            return
        talk, asked, said = self.earlier
        head = await self.et.log.head(await talk.line())
        if head.seq == asked.seq:
            return
        as_of = asked._replace(arguments={**asked.arguments, "at": asked.seq + 1})
        if await self._built(talk, as_of) != said:
            self.tally.fail(as_of, "not the same again", "as of the event before which it was asked")


def _assistants(drafts: list[Draft]) -> list[Assistant]:
    return [draft.event for draft in drafts if isinstance(draft.event, Assistant)]


def _newest_user(events: list[Logged]) -> User | None:
    """The user's message that began the newest turn, if one did and nothing was cleared since."""
    for event in reversed(events):
        if isinstance(event.event, Clear):
            return None
        if event.kind in MESSAGES:
            turn = [other for other in events if other.turn == event.turn and other.kind in MESSAGES]
            cleared = any(isinstance(other.event, Clear) for other in events if other.seq > turn[0].seq)
            return turn[0].event if isinstance(turn[0].event, User) and not cleared else None
    return None


# -- all of them -------------------------------------------------------------------------------------------


def _histories(options: argparse.Namespace) -> Iterator[tuple[str, list[Draft]]]:
    bad = ((f"bad-{number}", bad_history(Random(f"{options.seed} {number}"))) for number in itertools.count())
    real = real_histories(options.data)
    if options.only:
        if options.only.startswith("bad-"):
            number = int(options.only.removeprefix("bad-"))
            yield options.only, bad_history(Random(f"{options.seed} {number}"))
        yield from (history for history in real if history[0] == options.only)
        return
    for history in real:
        yield history
        yield from itertools.islice(bad, BAD_TO_REAL)
    yield from bad


async def _run(options: argparse.Namespace, folder: str) -> Tally:
    tally = Tally()
    async with Everthread.open(f"sqlite:///{folder}/validity.db", settings={"memory": False}) as et:
        for name, drafts in _histories(options):
            await Asking(et, tally, name, options.seed).run(drafts)
            if tally.requests >= options.requests:
                break
    return tally


def _report(tally: Tally, options: argparse.Namespace) -> None:
    columns = ("requests", *FAILURES, *OTHERS)
    if options.json:
        counts = {provider: {what: tally.counts[provider, what] for what in columns} for provider in FORMS}
        report = {"seed": options.seed, "counts": counts, "reasons": tally.reasons, "examples": tally.examples}
        print(json.dumps(report, indent=2))
        return
    print(f"| provider | {' | '.join(columns)} |")
    print(f"| --- | {' | '.join('---:' for _ in columns)} |")
    for provider in FORMS:
        print(f"| {provider} | {' | '.join(f'{tally.counts[provider, what]:,}' for what in columns)} |")
    print(f"| all | {' | '.join(f'{tally.sum(what):,}' for what in columns)} |")
    for reason, times in tally.reasons.most_common(EXAMPLES):
        print(f"\n{times:,} × {_printable(reason)}", end="")
    for example in tally.examples:
        print(f"\n\n{_printable(example)}", end="")
    failed = sum(map(tally.sum, FAILURES))
    seconds = time.perf_counter() - tally.began
    print(f"\n\n{failed:,} failures in {tally.requests:,} requests, seed {options.seed}, {seconds:.0f} s.")


def _printable(text: str) -> str:
    """Lone surrogates cannot be printed."""
    return text.encode("utf-8", "backslashreplace").decode()


def main() -> None:
    options = _options()
    with tempfile.TemporaryDirectory() as folder:
        tally = asyncio.run(_run(options, folder))
    _report(tally, options)
    if any(map(tally.sum, FAILURES)) or not tally.requests:
        raise SystemExit(1)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="everthread bench validity", description=__doc__)
    parser.add_argument("--requests", type=int, default=20_000, help="how many at least")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data", default=os.environ.get("EVERTHREAD_DATA"), help="folder of recorded conversations")
    parser.add_argument("--only", default="", help="one history alone, by its name")
    parser.add_argument("--json", action="store_true", help="write JSON for programs")
    return parser.parse_args()


if __name__ == "__main__":
    main()

"""`everthread bench recall`: whether recall finds what answers a question, and how long it takes.

With `--data`, dialogues with questions (in the form of LoCoMo: sessions of turns, and questions that name the turns
that answer them): the share of those turns among the first 5, 10 and 20 hits, the mean of 1/rank of the first of them,
and how many questions found nothing at all. Each dialogue is a conversation; a turn is a message that begins with its
speaker's name, as in a transcript, and says what a picture shows where the data does. Adversarial questions (category
5) have no answer and are not asked.

With `--scale`, so many made-up messages of one user, and ten times as many in the store: the time of a query, beside
that of the engine's own full-text search over the same texts with the same limit. Filling takes its time: a store that
is named by `--store` stays, and the next run finds it filled.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import statistics
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.bars import Result, report, say, store
from benchmarks.recall_scale import Scale
from everthread import Everthread, Talk, assistant, user
from everthread.core.branches import Target
from everthread.core.times import microseconds
from everthread.store.conversations import Owner
from everthread.store.scripts.append import Draft

AT = (5, 10, 20)
BARS = {"sqlite": 0.72, "postgres": 0.68}
MINUTE = 60_000_000
ADVERSARIAL = 5
OWNER = Owner("default", "ana")


class Question(NamedTuple):
    text: str
    evidence: frozenset[str]
    category: int


class Dialogue(NamedTuple):
    name: str
    turns: list[tuple[str, Draft]]
    questions: list[Question]


def main() -> None:
    options = _options()
    results: list[Result] = []
    dialogues = read(json.loads(Path(options.data).read_text("utf-8"))) if options.data else []
    if options.store:
        engine = "sqlite" if options.store.startswith("sqlite") else "postgres"
        results += asyncio.run(_scaled(engine, options.store, options.scale))
    for engine in _engines(options):
        with (
            tempfile.TemporaryDirectory(dir=options.folder) as folder,
            store(engine, folder, private=bool(options.folder)) as address,
        ):
            if dialogues:
                results += asyncio.run(_found(engine, address, dialogues))
            if options.scale:
                results += asyncio.run(_scaled(engine, address, options.scale))
    report(results, other="the engine's own", as_json=options.json)


def _engines(options: argparse.Namespace) -> tuple[str, ...]:
    """Those of which a store is made for the time being."""
    if options.store:
        return ()
    return ("sqlite", "postgres") if options.engine == "both" else (options.engine,)


# -- what is found -------------------------------------------------------------------------------------------


def read(data: list[dict[str, Any]]) -> list[Dialogue]:
    return [Dialogue(str(one["sample_id"]), list(_turns(one["conversation"])), _questions(one)) for one in data]


def _turns(conversation: dict[str, Any]) -> Iterator[tuple[str, Draft]]:
    numbers = sorted(int(found[1]) for name in conversation if (found := re.fullmatch(r"session_(\d+)", name)))
    for number in numbers:
        begins = _moment(conversation[f"session_{number}_date_time"])
        for place, turn in enumerate(conversation[f"session_{number}"]):
            shown = f" [shows {turn['blip_caption']}]" if turn.get("blip_caption") else ""
            say = user if turn["speaker"] == conversation["speaker_a"] else assistant
            said = say(f"{turn['speaker']}: {turn['text']}{shown}")
            yield turn["dia_id"], Draft(event=said, time=begins + place * MINUTE)


def _moment(text: str) -> int:
    """Of a time such as "1:56 pm on 8 May, 2023"."""
    return microseconds(datetime.strptime(text, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC))


def _questions(dialogue: dict[str, Any]) -> list[Question]:
    there = {name for name, _ in _turns(dialogue["conversation"])}
    found = []
    for asked in dialogue["qa"]:
        named = re.findall(r"D\d+:\d+", " ".join(asked["evidence"]))
        evidence = frozenset(named) & there
        if evidence and asked["category"] != ADVERSARIAL:
            found.append(Question(asked["question"], evidence, asked["category"]))
    return found


class Answers(NamedTuple):
    """Of one question: which share of its evidence was among the first 5, 10 and 20, 1/rank of the first of it, whether
    anything was found, and the time."""

    shares: tuple[float, ...]
    reciprocal: float
    anything: bool
    milliseconds: float


async def _found(engine: str, address: str, dialogues: list[Dialogue]) -> list[Result]:
    answers: list[Answers] = []
    async with Everthread.open(address) as et:
        for dialogue in dialogues:
            say(engine, f"{dialogue.name}: {len(dialogue.turns)} turns, {len(dialogue.questions)} questions")
            talk = await et.begin(user=OWNER.user, agent=dialogue.name)
            events = [draft for _, draft in dialogue.turns]
            logged = await et.log.append(Target(OWNER.tenant, talk.id), events)
            names = {event.seq: name for event, (name, _) in zip(logged, dialogue.turns, strict=True)}
            await et.log.recall.index(OWNER, talk.id)
            answers += [await _ask(et, talk, question, names) for question in dialogue.questions]
    return list(_figures(engine, answers))


async def _ask(et: Everthread, talk: Talk, question: Question, names: dict[int, str]) -> Answers:
    line = await talk.line()
    began = time.perf_counter()
    found = await et.log.recall.search(OWNER, question.text, line=line, limit=max(AT))
    spent = (time.perf_counter() - began) * 1000
    hits = [names[hit.seq] for hit in found]
    shares = tuple(len(question.evidence & {*hits[:most]}) / len(question.evidence) for most in AT)
    reciprocal = next((1 / rank for rank, name in enumerate(hits, 1) if name in question.evidence), 0.0)
    return Answers(shares, reciprocal, bool(hits), spent)


def _figures(engine: str, answers: list[Answers]) -> Iterator[Result]:
    for place, most in enumerate(AT):
        share = statistics.fmean(answer.shares[place] for answer in answers)
        bar = BARS[engine] if most == 10 else None
        yield Result(engine, f"evidence R@{most}, {len(answers)} questions", share, bar=bar, least=True)
    yield Result(engine, "MRR", statistics.fmean(answer.reciprocal for answer in answers))
    yield Result(engine, "questions with no hit", sum(not answer.anything for answer in answers), bar=0)
    yield Result(engine, "a query, median", statistics.median(answer.milliseconds for answer in answers), "ms")


# -- how long it takes ---------------------------------------------------------------------------------------


async def _scaled(engine: str, address: str, messages: int) -> list[Result]:
    scale = Scale(engine, address, messages, say=lambda what: say(engine, what))
    ceiling = 50 if engine == "sqlite" else 100
    full = messages >= 1_000_000
    return [
        Result(engine, what, ours, "ms", ceiling if full else None, other=other, note=note)
        async for what, ours, other, note in scale.run()
    ]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="everthread bench recall", description=__doc__)
    parser.add_argument("--data", help="a file of dialogues with questions")
    parser.add_argument("--engine", choices=["sqlite", "postgres", "both"], default="both")
    parser.add_argument("--scale", type=int, default=0, help="messages of one user; the bars are for 1,000,000")
    parser.add_argument("--store", help="the address of an empty store for --scale that stays, or of one from before")
    parser.add_argument("--folder", help="where the databases go for the time being")
    parser.add_argument("--json", action="store_true", help="write JSON for programs")
    options = parser.parse_args()
    if not options.data and not options.scale:
        parser.error("say what to measure: --data FILE, --scale N, or both")
    if options.store and (options.data or not options.scale):
        parser.error("--store is for --scale alone")
    return options


if __name__ == "__main__":
    main()

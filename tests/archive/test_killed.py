"""Killed at every step of archiving and of restoring: the conversation is whole in one place or the other, and whoever
comes next finds it and finishes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import pytest

from everthread import Everthread
from everthread.archive.places import Place, place_of
from everthread.store.engine import Engine, Outcome, Script
from everthread.store.log import Log
from everthread.store.open import open_log
from tests.archive.places import eventful, every_row, live, made
from tests.contract.support import Clock

T = TypeVar("T")
STEPS = 12  # more than there are


class Killed(BaseException):
    """What kills a process is no error that it could handle."""


class Life:
    """A process that dies at its nth step, before it has taken effect or after; and does nothing more from then on."""

    def __init__(self) -> None:
        self.steps, self.dies_at, self.after, self.dead = 0, -1, False, False

    async def step(self, work: Callable[[], Any]) -> Any:
        if self.dead:
            raise Killed
        dies = self.steps == self.dies_at
        self.steps += 1
        if dies and not self.after:
            self.dead = True
            raise Killed
        result = await work()
        if dies:
            self.dead = True
            raise Killed
        return result


class MortalEngine:
    def __init__(self, inner: Engine, life: Life) -> None:
        self.inner, self.life, self.bells, self.bus = inner, life, inner.bells, inner.bus

    async def read(self, script: Callable[[], Script[T]], *, large: bool = False) -> T:
        if self.life.dead:
            raise Killed
        return await self.inner.read(script, large=large)

    async def write(self, script: Callable[[], Script[Outcome[T]]], *, about: str, **how: bool) -> T:
        result: T = await self.life.step(lambda: self.inner.write(script, about=about, **how))
        return result

    async def watch(self) -> None:
        await self.inner.watch()

    async def scrub(self, *, patient: bool = True) -> None:
        await self.inner.scrub(patient=patient)

    async def problems(self) -> list[str]:
        return await self.inner.problems()

    async def close(self) -> None:
        await self.inner.close()


class MortalPlace:
    def __init__(self, inner: Place, life: Life) -> None:
        self.inner, self.life, self.shown = inner, life, inner.shown

    async def put(self, archive: str, data: bytes) -> bool:
        return bool(await self.life.step(lambda: self.inner.put(archive, data)))

    async def get(self, archive: str) -> bytes:
        return bytes(await self.life.step(lambda: self.inner.get(archive)))

    async def delete(self, archive: str) -> None:
        await self.life.step(lambda: self.inner.delete(archive))

    async def names(self) -> list[str]:
        return await self.inner.names()


class Scene:
    """A store, of which a process with a life can be made again and again."""

    def __init__(self, inner: Log, place: str, clock: Clock) -> None:
        self.log, self.place, self.clock = inner, place, clock
        self.safe = made(inner, place)

    def mortal(self) -> tuple[Everthread, Life]:
        life = Life()
        et = made(Log(MortalEngine(self.log._engine, life), clock=self.clock), self.place)
        et._archiver._places[self.place] = MortalPlace(place_of(self.place), life)
        return et, life


@pytest.fixture
async def scene(fresh_address: str, place: str) -> Any:
    clock = Clock()
    scene = Scene(await open_log(fresh_address, clock=clock), place, clock)
    yield scene
    await scene.safe.close()


async def test_archiving_that_is_killed_at_any_step_leaves_the_conversation_whole(
    scene: Scene, fresh_address: str
) -> None:
    talk = await eventful(scene.safe, "ana")
    before = live(await every_row(fresh_address, talk.id))
    died = 0
    for after in (False, True):
        for step in range(STEPS):
            et, life = scene.mortal()
            life.dies_at, life.after = step, after
            try:
                await et.archive(user="ana", id=talk.id)
            except Killed:
                died += 1
            await _found_whole(scene, fresh_address, talk.id, before)
    assert 8 <= died < 2 * STEPS  # every step there is, and then none


async def test_restoring_that_is_killed_at_any_step_leaves_the_conversation_whole(
    scene: Scene, fresh_address: str
) -> None:
    talk = await eventful(scene.safe, "ana")
    before = live(await every_row(fresh_address, talk.id))
    died = 0
    for after in (False, True):
        for step in range(STEPS // 2):
            await scene.safe.archive(user="ana", id=talk.id)
            et, life = scene.mortal()
            life.dies_at, life.after = step, after
            try:
                await et.restore(user="ana", id=talk.id)
            except Killed:
                died += 1
            await _found_whole(scene, fresh_address, talk.id, before)
    assert 6 <= died < STEPS


async def _found_whole(scene: Scene, address: str, conversation: str, before: dict[str, list[Any]]) -> None:
    """The next run finishes what was left: nothing is lost, nothing is twice, and no file belongs to nothing."""
    scene.clock.now += 3_600_000_000  # the lease of the dead runs out
    safe = scene.safe
    held = await safe.log.archives.of("default", conversation)
    rows = live(await every_row(address, conversation))
    assert bool(held) == (not rows["events"])
    assert held or rows == before
    await safe._archiver.finish()
    assert await safe.log.archives.unfinished() == []
    assert await safe.verify_archives() == []
    if held:
        await safe.restore(user="ana", id=conversation)
    assert live(await every_row(address, conversation)) == before
    assert await safe._archiver._place(scene.place).names() == []


async def test_an_erasure_that_is_killed_at_any_step_is_finished_by_the_next_run(
    scene: Scene, fresh_address: str
) -> None:
    for after in (False, True):
        for step in range(6):
            talk = await eventful(scene.safe, "ana")
            await scene.safe.archive(user="ana", id=talk.id)
            et, life = scene.mortal()
            life.dies_at, life.after = step, after
            with suppress(Killed):
                await (await et.conversation(user="ana", id=talk.id)).erase()
            await (await _still(scene, talk.id))()
            await scene.safe.log.forgetting.finish()
            assert await scene.safe._archiver._place(scene.place).names() == []
            assert await scene.safe.log.archives.unfinished() == []
            assert {table for table, kept in (await every_row(fresh_address, talk.id)).items() if kept} == {
                "conversations"
            }


async def _still(scene: Scene, conversation: str) -> Callable[[], Any]:
    """Whoever asked for it asks again, unless it was done."""
    from everthread.errors import UnknownConversation

    async def nothing() -> None: ...

    try:
        return (await scene.safe.conversation(user="ana", id=conversation)).erase
    except UnknownConversation:
        return nothing

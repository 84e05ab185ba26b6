"""Whoever finishes what another has begun to forget forgets that, and nothing else."""

from __future__ import annotations

import pytest

from everthread import Everthread, Talk, user
from everthread.errors import UnknownConversation
from everthread.store.engine import Outcome, Script
from everthread.store.scripts.forget import EVENT, HalfForgotten, begun
from everthread.store.verbs.forgetting import Forgetting


class Killed(BaseException):
    pass


async def killed(*_: object, **__: object) -> None:
    raise Killed


async def test_what_a_user_begins_after_asking_to_be_erased_stays(
    address: str, someone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Everthread.open(address) as et:
        before = await et.begin(user=someone)
        await before.append(user("My PIN is ZX-4711."))
        with monkeypatch.context() as patched:
            patched.setattr(Forgetting, "finish", killed)
            with pytest.raises(Killed):
                await et.erase_user(user=someone)
        after = await et.begin(user=someone)
        await after.append(user("I am back."))
        assert [one.text for one in await before.after()] == ["My PIN is ZX-4711."]
    async with Everthread.open(address) as et:
        with pytest.raises(UnknownConversation):
            await et.conversation(user=someone, id=before.id)
        again = await et.conversation(user=someone, id=after.id)
        assert [one.text for one in await again.after()] == ["I am back."]
        assert await et.log.forgetting.unfinished() == []


async def test_what_cannot_be_finished_keeps_nobody_from_forgetting(fresh_address: str, someone: str) -> None:
    """In a database of its own: whoever opens it later tries to finish that, and says that it cannot be done."""
    async with Everthread.open(fresh_address) as et:
        await cannot_be_finished(et, await et.begin(user=someone), someone)


async def cannot_be_finished(et: Everthread, talk: Talk, someone: str) -> None:
    other = await et.begin(user=someone)
    await other.append(user("Hello."), user("My PIN is ZX-4711."))
    side = await other.fork(at=1)
    number = (await side.line()).branch.number

    def planted() -> Script[Outcome[None]]:
        yield from ()
        marker = HalfForgotten("default", other.id, number, 2, user="", what=EVENT, time=1)  # it has no content
        return Outcome(None, [begun(marker)])

    await et.log._engine.write(planted, about="forgetting")
    await talk.append(user("My name is Ana."))
    await talk.redact(1)
    assert [one.seq for one in await et.log.forgetting.unfinished()] == [2]

"""A worker whose lease another has taken publishes nothing more, neither a brief nor a record nor a name."""

from __future__ import annotations

import pytest

from everthread import Everthread, Talk, assistant, user
from everthread.core.branches import ENDLESS
from everthread.memory.ask import Told, ask
from tests.memory.conftest import Speak


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch, et: Everthread, talk: Talk) -> list[Told]:
    """While memory's model writes, another process takes the lease over, as it may from one that sleeps. What the model
    wrote."""
    written: list[Told] = []

    async def slowly(*given: object, **more: object) -> Told:
        told = await ask(*given, **more)  # type: ignore[arg-type]
        name = f"memory/{talk.id}/1"
        term = await et.log.leases.term("default", name)
        assert term is not None
        await et.log.leases.take("default", name, holder="somebody else", seconds=600, over=term.holder)
        written.append(told)
        return told

    monkeypatch.setattr("everthread.memory.branch.ask", slowly)
    return written


async def test_a_worker_whose_lease_was_taken_publishes_nothing(
    talk: Talk, remember: Speak, taken: list[Told], et: Everthread
) -> None:
    await talk.append(user("I fly to Rome."), assistant("Noted."))
    remember(*["The user flies to Rome."] * 5)
    before = await talk.range(1, ENDLESS)
    await et.memory.once(talk.conversation, 1)
    assert await talk.range(1, ENDLESS) == before
    assert len(taken) == 1  # and asks no model again for what is another's to do
    assert (await et.conversation(user=talk.conversation.user, id=talk.id)).conversation.name == ""


async def test_what_the_user_corrects_needs_no_lease(talk: Talk, et: Everthread) -> None:
    await talk.append(user("I fly to Rome."), assistant("Noted."))
    await et.log.leases.take("default", f"memory/{talk.id}/1", holder="somebody else", seconds=600)
    await talk.correct("The user flies to Paris.")
    assert (await talk.remembered()).brief == "The user flies to Paris."

"""Mine is mine: nothing of a conversation can be seen or changed by another user or tenant."""

from __future__ import annotations

from contextlib import suppress

import pytest

from everthread import Everthread, Talk, assistant, file, user
from everthread.core.branches import Branch
from everthread.core.times import EPOCH
from everthread.errors import UnknownBlob, UnknownConversation
from everthread.store.conversations import Conversation, Owner
from everthread.store.scripts.restore import Whole
from tests.failures.aftermath import sound, texts
from tests.failures.test_damage import Vandal

Somebody = tuple[str, str]


@pytest.fixture
async def mine(et: Everthread, someone: str) -> Talk:
    talk = await et.begin(user=f"{someone}.ana", agent="helper", name="walnuts", tenant="acme", settings={"a": 1})
    await talk.append(user("secret", file(b"walnuts")), assistant("noted"), key="k")
    await talk.fork(name="side")
    return talk


@pytest.fixture(
    params=["another user", "another tenant", "another case", "with a space", "the names exchanged", "a prefix"]
)
def other(request: pytest.FixtureRequest, someone: str) -> Somebody:
    """Tenant and user who are not the owner, though they may look like it."""
    owner = f"{someone}.ana"
    return {
        "another user": ("acme", f"{someone}.eve"),
        "another tenant": ("rival", owner),
        "another case": ("ACME", owner.upper()),
        "with a space": ("acme", f"{owner} "),
        "the names exchanged": (owner, "acme"),
        "a prefix": ("acme", owner[:-1]),
    }[request.param]


async def test_another_cannot_find_open_list_or_count_it(et: Everthread, mine: Talk, other: Somebody) -> None:
    tenant, somebody = other
    with pytest.raises(UnknownConversation):
        await et.conversation(user=somebody, tenant=tenant, id=mine.id)
    listed = await et.conversations(user=somebody, tenant=tenant, limit=1_000)
    assert mine.id not in [conversation.id for conversation in listed]
    totals = await et.totals(user=somebody, tenant=tenant)
    assert (totals.conversations, totals.events, totals.tokens) == (0, 0, 0)
    assert await et.log.conversations.newest(Owner(tenant, somebody), "helper") is None


async def test_another_gets_a_conversation_of_their_own(et: Everthread, mine: Talk, other: Somebody) -> None:
    tenant, somebody = other
    theirs = await et.conversation(user=somebody, tenant=tenant, agent="helper")
    assert theirs.id != mine.id
    await theirs.append(user("hello"), key="k")  # the same key, another conversation
    assert await texts(theirs) == ["hello"]
    with pytest.raises(UnknownBlob):
        await theirs.blob((await et.log.blobs(await mine.line()))[0])
    assert len(await theirs.branches()) == 1
    assert (await theirs.totals()).messages == 1
    assert await sound(et, mine) == ["secret", "noted"]


async def test_erasing_another_users_conversations_leaves_mine(et: Everthread, mine: Talk, other: Somebody) -> None:
    tenant, somebody = other
    await (await et.begin(user=somebody, tenant=tenant)).append(user("hello"))
    assert await et.erase_user(user=somebody, tenant=tenant) == 1
    assert await et.erase_user(user=somebody, tenant=tenant) == 0
    assert await sound(et, mine) == ["secret", "noted"]


async def test_the_error_does_not_tell_whether_a_conversation_of_another_exists(
    et: Everthread, mine: Talk, other: Somebody
) -> None:
    tenant, somebody = other
    sentences = set()
    for id in (mine.id, "01M7F8X1NFWF5G5Z7TBXHQ6334"):
        with pytest.raises(UnknownConversation) as refused:
            await et.conversation(user=somebody, tenant=tenant, id=id)
        sentences.add(str(refused.value).replace(id, "…"))
    await mine.erase()
    with pytest.raises(UnknownConversation) as refused:
        await et.conversation(user=somebody, tenant=tenant, id=mine.id)
    sentences.add(str(refused.value).replace(mine.id, "…"))
    assert len(sentences) == 1


async def test_the_same_id_in_two_tenants_is_two_conversations(et: Everthread, someone: str) -> None:
    main = Branch(number=1, name="main", parent=None, at=0, time=EPOCH)
    talks = []
    for tenant in (f"{someone}.acme", f"{someone}.rival"):
        same = Conversation(tenant=tenant, id="01M7F8X1NFWF5G5Z7TBXHQ6334", user=someone, agent="helper")
        await et.log.restore([Whole(conversation=same, branches=[(main, [])])])
        talks.append(Talk(et.log, same))
        await talks[-1].append(user(f"at {tenant}", file(b"walnuts")), key="k")
    assert [await sound(et, talk) for talk in talks] == [[f"at {someone}.acme"], [f"at {someone}.rival"]]
    await talks[0].erase()
    assert await texts(talks[1]) == [f"at {someone}.rival", "afterwards"]
    assert len(await et.log.blobs(await talks[1].line())) == 1


async def test_a_conversation_held_by_a_stale_hand_does_not_name_an_erased_user_again(
    et: Everthread, address: str, mine: Talk, someone: str
) -> None:
    """Forgotten means gone: the tombstone of an erased user's conversation does not say whose it was."""
    assert await et.erase_user(user=f"{someone}.ana", tenant="acme") == 1
    with suppress(UnknownConversation):
        await mine.erase()
    whose = 'SELECT "user" FROM conversations WHERE conversation = $1'
    assert await Vandal(address).values(whose, mine.id) == [""]

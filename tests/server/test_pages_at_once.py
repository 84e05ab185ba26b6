"""A page is asked for with one question where that is enough, and is the page that the verbs give."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest

from everthread import Everthread, Talk, assistant, user, wire
from everthread.store.verbs.conversations import Conversations
from tests.server.serving import Person, Served

BEFORE = ["", "limit=1", "limit=4", "limit=1000", "seq=5", "seq=5&limit=2", "seq=1", "seq=9999", "messages=true"]
AFTER = ["", "limit=1", "seq=3", "seq=3&limit=2", "seq=9999", "seq=0&limit=1000", "messages=true&limit=3"]
ASKED = [*(("before", query) for query in BEFORE), *(("after", query) for query in AFTER)]


@pytest.fixture
def ana(served: Served) -> Person:
    return served.people["ana"]


@pytest.fixture
async def talks(served: Served, ana: Person) -> dict[str, Talk]:
    """A plain conversation, one that was rewound, one that was rewound and has gone on for long, and one whose text is
    beyond what UTF-8 says."""
    et: Everthread = served.service.et

    async def begun(*texts: str) -> Talk:
        talk = await et.begin(user=ana.user, tenant=ana.tenant)
        for text in texts:
            await talk.append(user(text), assistant(f"{text}!"))
        return talk

    plain, rewound, gone_on = await begun(*"abcdef"), await begun(*"abcdef"), await begun(*"abcdef")
    await plain.mark("here")
    for one in (rewound, gone_on):
        await one.rewind(to=5)
    await gone_on.append(*(user(str(number)) for number in range(60)))
    return {"plain": plain, "rewound": rewound, "gone on": gone_on, "odd": await begun("\ud800", '"', "\x00")}


@pytest.mark.parametrize(("verb", "query"), ASKED)
async def test_a_page_is_what_the_verb_gives(
    served: Served, ana: Person, talks: dict[str, Talk], verb: str, query: str, subtests: pytest.Subtests
) -> None:
    pairs = [pair.split("=") for pair in query.split("&") if pair]
    given: dict[str, Any] = {name: value == "true" if name == "messages" else int(value) for name, value in pairs}
    for name, talk in talks.items():
        with subtests.test(name):
            answer = await served.http.get(f"/api/conversations/{talk.id}/{verb}?{query}", headers=ana.bearer)
            assert answer.content == wire.dumps(await getattr(talk, verb)(**given))


async def test_one_question_is_enough_for_the_newest_page(served: Served, ana: Person, talks: dict[str, Talk]) -> None:
    async def find(*_: object, **__: object) -> None:
        raise AssertionError("the conversation was looked for")

    with patch.object(Conversations, "find", find):
        for name, size in {"plain": 13, "gone on": 50}.items():
            answer = await served.http.get(f"/api/conversations/{talks[name].id}/before", headers=ana.bearer)
            assert len(answer.json()) == size


@pytest.mark.parametrize("verb", ["before", "after"])
async def test_nobody_is_given_a_page_of_another_s(
    served: Served, talks: dict[str, Talk], verb: str, subtests: pytest.Subtests
) -> None:
    for person in served.people.values():
        if (person.tenant, person.user) != (served.people["ana"].tenant, "ana"):
            with subtests.test(f"{person.user} of {person.tenant}"):
                path = f"/api/conversations/{talks['plain'].id}/{verb}"
                assert (await served.http.get(path, headers=person.bearer)).status_code == 404


async def test_what_was_erased_has_no_pages(served: Served, ana: Person, talks: dict[str, Talk]) -> None:
    talk = talks["plain"]
    await talk.erase()
    answer = await served.http.get(f"/api/conversations/{talk.id}/before", headers=ana.bearer)
    assert answer.status_code == 404
    assert "erased" in answer.json()["detail"]


async def test_a_redacted_message_is_redacted_in_its_page(served: Served, ana: Person, talks: dict[str, Talk]) -> None:
    talk = talks["plain"]
    await talk.redact(1)
    page = (await served.http.get(f"/api/conversations/{talk.id}/after?limit=1", headers=ana.bearer)).json()
    assert page[0]["event"]["kind"] == "redacted"


@pytest.mark.parametrize("query", ["limit=0", "limit=x", "unknown=1", "limit=1&limit=0"])
async def test_what_is_no_page_is_refused(served: Served, ana: Person, talks: dict[str, Talk], query: str) -> None:
    answer = await served.http.get(f"/api/conversations/{talks['plain'].id}/before?{query}", headers=ana.bearer)
    assert answer.status_code == 422

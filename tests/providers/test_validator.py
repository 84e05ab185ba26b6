"""The second opinion on requests: it accepts what providers accept, and refuses, for the right reason, the rest."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.validator import holds_user_text, refusals
from tests.providers import anthropic_cases, google_cases, openai_cases

Json = dict[str, Any]

CLAUDE, GPT, RESPONSES, GEMINI = (
    "anthropic:claude-sonnet-4-6",
    "openai:gpt-4o",
    "openai-responses:gpt-5",
    "google:gemini-2.5-pro",
)
ACCEPTED: dict[str, dict[str, Json]] = {
    CLAUDE: anthropic_cases.ACCEPTED_BY_CLAUDE,
    GPT: openai_cases.ACCEPTED_BY_CHAT,
    RESPONSES: openai_cases.ACCEPTED_BY_RESPONSES,
    GEMINI: google_cases.ACCEPTED_BY_GEMINI,
}
REFUSED: dict[str, dict[str, tuple[str, Json]]] = {
    CLAUDE: anthropic_cases.REFUSED_BY_CLAUDE,
    GPT: openai_cases.REFUSED_BY_CHAT,
    RESPONSES: openai_cases.REFUSED_BY_RESPONSES,
    GEMINI: google_cases.REFUSED_BY_GEMINI,
}


@pytest.mark.parametrize(
    ("model", "request_"),
    [pytest.param(m, request, id=f"{m}: {name}") for m, table in ACCEPTED.items() for name, request in table.items()],
)
def test_a_good_request_is_accepted(model: str, request_: Json) -> None:
    assert refusals(_as_named(model, request_), request_) == []


@pytest.mark.parametrize(
    ("model", "word", "request_"),
    [pytest.param(m, *case, id=f"{m}: {name}") for m, table in REFUSED.items() for name, case in table.items()],
)
def test_a_bad_request_is_refused_for_what_is_bad(model: str, word: str, request_: Json) -> None:
    """And for nothing that has not to do with it: three sentences at most."""
    named = model if word == "asked for" else _as_named(model, request_)
    sentences = refusals(named, request_)
    assert any(word in sentence for sentence in sentences), sentences
    assert len(sentences) <= 3, sentences


ODD: list[Any] = [
    *(None, 3, "x", [], {}),
    [None, 3, "x", [], {}],
    [{"role": "user", "content": [3]}],
    {"parts": [3]},
]


@pytest.mark.parametrize("odd", ODD)
def test_whatever_it_is_given_it_answers(odd: object) -> None:
    """Anything where lists of objects belong is refused, never an error."""
    for model in ACCEPTED:
        for name in ("messages", "input", "contents", "tools", "system", "config"):
            assert isinstance(refusals(model, {"model": model.partition(":")[2], name: odd}), list)


@pytest.mark.parametrize(
    "request_",
    [
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "One.\nTwo."}, {"type": "image"}]}]},
        {"messages": [{"role": "user", "content": "One.\nTwo."}]},
        {"input": [{"role": "user", "content": [{"type": "input_text", "text": "One.\nTwo."}]}]},
        {"input": "One.\nTwo."},
        {"contents": [{"role": "user", "parts": [{"text": "One.\nTwo."}]}]},
    ],
)
def test_the_users_text_is_looked_for_whole(request_: Json) -> None:
    assert holds_user_text(request_, "One.\nTwo.")
    assert holds_user_text(request_, "  One.\n\ud800Two.\x00 ")
    assert not holds_user_text(request_, "One.\nTwo. Three.")
    assert not holds_user_text(request_, "Two.\ud800One.")


def test_the_users_text_is_not_found_in_what_the_assistant_said() -> None:
    request = {"messages": [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "One."}]}
    assert not holds_user_text(request, "One.")


def _as_named(model: str, request: Json) -> str:
    """The model as the request has it, where the case is about a certain one."""
    return f"{model.partition(':')[0]}:{request['model']}"

"""What a provider's answer means: by its status, and by what it says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from everthread.errors import (
    ModelError,
    NoCredit,
    Overloaded,
    RequestRefused,
    TooLong,
    UnknownModel,
    Unreachable,
    WrongKey,
)
from everthread.providers.faults import SAID, fault, hidden, reason, retry_after, shortened

LENGTHS = [  # who says it, with which status, and the tokens it names: those of the request, and the most
    ("Anthropic", 400, "prompt is too long: 205,310 tokens > 200,000 maximum", 205_310, 200_000),
    ("Anthropic, bytes", 413, "Request exceeds the maximum allowed number of bytes.", 0, 0),
    (
        "Anthropic, with the reply",
        400,
        "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length",
        210_000,
        200_000,
    ),
    (
        "OpenAI",
        400,
        "This model's maximum context length is 128000 tokens. However, your messages resulted in 130425 tokens.",
        130_425,
        128_000,
    ),
    (
        "OpenAI, the input alone",
        400,
        "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 280043 tokens.",
        280_043,
        272_000,
    ),
    ("OpenAI Responses", 400, "Your input exceeds the context window of this model. Please adjust your input.", 0, 0),
    ("OpenAI, by its code", 400, "context_length_exceeded", 0, 0),
    (
        "OpenAI, as a rate",
        429,
        "Request too large for gpt-4o in organization org-1 on tokens per min (TPM): Limit 30000, Requested 41025.",
        41_025,
        30_000,
    ),
    ("Google", 400, "The input token count exceeds the maximum number of tokens allowed (1048576).", 0, 1_048_576),
    (
        "Google, with both",
        400,
        "The input token count (1048600) exceeds the maximum number of tokens allowed (1048576).",
        1_048_600,
        1_048_576,
    ),
    (
        "Mistral",
        400,
        "Prompt contains 65673 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
        65_673,
        32_768,
    ),
    (
        "vLLM",
        400,
        "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4000 in the prompt).",
        5_000,
        4_096,
    ),
    ("vLLM, the limit alone", 400, "too large: this model's maximum context length is 4096 tokens", 0, 4_096),
    (
        "llama.cpp",
        400,
        "request (9000 tokens) exceeds the available context size (8192 tokens), try more",
        9_000,
        8_192,
    ),
    ("llama.cpp, older", 500, "the request exceeds the available context size. try increasing it", 0, 0),
    ("Bedrock", 400, "Input is too long for requested model.", 0, 0),
]


@pytest.mark.parametrize(
    ("status", "said", "needed", "limit"), [row[1:] for row in LENGTHS], ids=[r[0] for r in LENGTHS]
)
def test_a_request_that_was_too_long_is_known_by_what_each_provider_says(
    status: int, said: str, needed: int, limit: int
) -> None:
    error = fault("someone", "model-1", status, said)
    assert isinstance(error, TooLong)
    assert (error.needed, error.limit) == (needed, limit)
    assert not error.again


@pytest.mark.parametrize(
    ("status", "said", "expected"),
    [
        (400, "messages.3: tool_use without tool_result", RequestRefused),
        (400, "max_tokens: must be at most 8192", RequestRefused),
        (422, "unprocessable", RequestRefused),
        (401, "invalid x-api-key", WrongKey),
        (403, "your key may not do this", WrongKey),
        (400, "API key not valid. Please pass a valid API key.", WrongKey),
        (400, "API key expired. Please renew it.", WrongKey),
        (402, "pay first", NoCredit),
        (400, "Your credit balance is too low to access the Anthropic API.", NoCredit),
        (429, "You exceeded your current quota, please check your plan and billing details.", NoCredit),
        (404, "model: claude-9", UnknownModel),
        (400, "gpt-9 is not a valid model ID", UnknownModel),
        (408, "time is up", Overloaded),
        (409, "conflict", Overloaded),
        (429, "Rate limit reached on tokens per min (TPM): Limit 30000, Used 25000, Requested 6000.", Overloaded),
        (429, "Too many tokens, please wait before trying again.", Overloaded),
        (429, "You exceeded your current quota and billing plan. Please retry in 34.07s.", Overloaded),
        (500, "internal", Overloaded),
        (503, "The model is overloaded.", Overloaded),
        (529, "Overloaded", Overloaded),
        (418, "I am a teapot", RequestRefused),
    ],
)
def test_every_other_answer_is_known_by_its_status_and_a_few_words(
    status: int, said: str, expected: type[ModelError]
) -> None:
    error = fault("someone", "model-1", status, said)
    assert type(error) is expected
    assert error.again == (expected is Overloaded)
    assert shortened(said) in str(error)


def test_an_answer_without_a_word_is_told_by_its_status() -> None:
    assert "status 500" in str(fault("someone", "model-1", 500, " "))


def test_an_unknown_model_is_told_with_its_name() -> None:
    assert "model-1" in str(fault("someone", "model-1", 404, "no such thing"))


# -- how long to wait --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "said", "seconds"),
    [
        ({"Retry-After": "7"}, "", 7),
        ({"retry-after": " 0.5 "}, "", 0.5),
        ({"retry-after-ms": "1500", "retry-after": "2"}, "", 1.5),
        ({"retry-after-ms": "soon", "retry-after": "2"}, "", 2),
        ({"retry-after": "-3"}, "", 0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, "", 0),
        ({"retry-after": "2"}, "Please try again in 20s.", 2),
        ({}, "Please try again in 1.5s.", 1.5),
        ({}, "Please try again in 250ms.", 0.25),
        ({}, "Please retry in 34.07s.", 34.07),
        ({}, "slow down", None),
        ({"retry-after": "soon"}, "", None),
        ({"retry-after": "inf"}, "", None),
        ({"retry-after": "nan"}, "", None),
        ({"retry-after": ""}, "", None),
    ],
)
def test_the_wait_that_is_asked_for_is_read_in_every_form(
    headers: dict[str, str], said: str, seconds: float | None
) -> None:
    assert retry_after(headers, said) == seconds


def test_a_wait_until_a_date_is_counted_from_now() -> None:
    until = format_datetime(datetime.now(UTC) + timedelta(hours=2), usegmt=True)
    found = retry_after({"retry-after": until})
    assert found is not None
    assert 3_600 < found <= 7_200


# -- what is repeated --------------------------------------------------------------------------------------


def test_what_was_said_is_repeated_on_one_line_and_not_for_pages() -> None:
    assert shortened("  one\n two\t three ") == "one two three"
    assert len(shortened("x" * 1_000_000)) == SAID
    assert len(str(fault("someone", "model-1", 400, "no " * 1_000_000))) < 2 * SAID


def test_a_key_is_taken_out_of_what_was_said() -> None:
    assert hidden("the key sk-1234 is wrong", "sk-1234") == "the key … is wrong"
    assert hidden("no key", "") == "no key"


def test_why_a_connection_failed_is_told_by_the_deepest_cause_and_without_the_key() -> None:
    class ReadTimeout(Exception):
        pass

    outer = RuntimeError("Connection error.")
    outer.__cause__ = ReadTimeout()
    assert reason(outer) == "read timeout"
    assert reason(OSError("no route to sk-1234"), "sk-1234") == "no route to …"
    assert "oserror" in str(Unreachable("someone", reason(OSError())))

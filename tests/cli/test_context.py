"""`everthread context`: the picture for people, the request for programs."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from everthread import Everthread, assistant, tool_call, tool_result, user
from everthread.cli import main

Run = Callable[..., Result]
CLAUDE = ("--model", "anthropic:claude-sonnet-4-6")


@pytest.fixture
def run(address: str, someone: str, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command on the store of this test."""
    monkeypatch.setenv("EVERTHREAD_STORE", address)
    monkeypatch.setenv("EVERTHREAD_USER", someone)
    monkeypatch.setenv("COLUMNS", "100")

    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(main, ("context", *arguments), catch_exceptions=False)

    return invoke


@pytest.fixture
def long(address: str, someone: str) -> str:
    """A conversation of sixty turns; its id."""

    async def fill() -> str:
        async with Everthread.open(address) as et:
            talk = await et.begin(user=someone, agent="helper", name="Cakes")
            for n in range(60):
                await talk.append(
                    user(f"Cake {n}? " + "I would like one with lemon. " * 5),
                    tool_call("find", {"n": n}, id=f"c{n}"),
                    tool_result("flour and sugar " * 20, id=f"c{n}"),
                    assistant("You take flour. " * 10),
                )
            await talk.append(user("And\x1b[2J now?"))
            return talk.id

    return asyncio.run(fill())


def _json(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def test_the_picture_shows_the_bar_the_rule_and_the_turns(run: Run, long: str) -> None:
    shown = run(long, *CLAUDE, "--budget", "4000").output
    assert "strategy budget" in shown
    assert "█" in shown
    assert "░ free" in shown
    assert shown.count("the window begins here, at event") == 1
    past, window = shown.split("the window begins here")
    assert "before the cutoff" in past
    assert "the newest turn" in window
    assert "should come from the provider's cache" in shown


def test_what_was_said_cannot_steer_the_terminal(run: Run, long: str) -> None:
    shown = run(long, *CLAUDE, "--budget", "4000").output
    assert "And·[2J now?" in shown
    assert "\x1b[2J" not in shown


def test_explain_adds_every_turn_the_steps_and_the_settings(run: Run, long: str) -> None:
    shown = run(long, *CLAUDE, "--budget", "4000", "--explain", "--set", "clock=off").output
    assert "Steps of the cutoff" in shown
    assert "to event" in shown
    assert 'clock = "off"' in shown
    assert "more …" not in shown


def test_a_long_window_is_told_in_its_first_and_last_turns(run: Run, long: str) -> None:
    shown = run(long, *CLAUDE).output
    assert "turns more …" in shown
    assert "Cake 0?" in shown


def test_json_is_the_request_and_its_figures(run: Run, long: str) -> None:
    said = _json(run(long, *CLAUDE, "--budget", "4000", "--json"))
    assert said["request"]["model"] == "claude-sonnet-4-6"
    assert said["request"]["messages"][0]["role"] == "user"
    assert 0 < said["estimate"] <= said["budget"] == 4_000
    assert said["cutoff"] > 1
    assert "explain" not in said


def test_json_with_explain_adds_up(run: Run, long: str) -> None:
    said = _json(run(long, *CLAUDE, "--budget", "4000", "--explain", "--json"))
    turns = [turn["tokens"] for turn in said["explain"]["turns"] if turn["sent"]]
    assert sum(said["explain"]["sections"].values()) + sum(turns) == said["estimate"]
    assert said["steps"][-1]["cutoff"] == said["cutoff"]


def test_it_shows_what_was_so_before_an_event(run: Run, long: str) -> None:
    said = _json(run(long, "--model", "openai:gpt-5", "--at", "3", "--json"))
    assert said["sent"] == 2
    refused = run(long, "--model", "openai:gpt-5", "--at", "9999")
    assert refused.exit_code == 1
    assert "There is no event 9999" in refused.output


@pytest.mark.parametrize("strategy", ["budget", "messages", "session", "importance"])
def test_every_strategy_can_be_asked_for(run: Run, long: str, strategy: str) -> None:
    said = _json(run(long, "--model", "google:gemini-2.5-pro", "--strategy", strategy, "--budget", "3000", "--json"))
    assert said["strategy"] == strategy
    assert said["estimate"] <= 3_000


def test_instructions_and_tools_come_from_files(run: Run, long: str, tmp_path: Path) -> None:
    (tmp_path / "persona.txt").write_text("Be kind.")
    (tmp_path / "tools.json").write_text('[{"name": "find", "schema": {"type": "object"}}]')
    given = ("--instructions", f"{tmp_path}/persona.txt", "--tools", f"{tmp_path}/tools.json")
    said = _json(run(long, "--model", "openai:gpt-5", *given, "--json"))
    assert said["request"]["messages"][0] == {"role": "system", "content": "Be kind."}
    assert said["request"]["tools"][0]["function"]["name"] == "find"


def test_the_request_alone_can_be_piped(run: Run, long: str) -> None:
    given = (long, *CLAUDE, "--budget", "4000")
    assert _json(run(*given, "--request")) == _json(run(*given, "--json"))["request"]
    assert run(*given, "--request", "--explain").exit_code == 2


def test_a_request_that_no_model_takes_is_an_error(run: Run, long: str) -> None:
    refused = run(long, "--model", "openai:gpt-5", "--set", "model_window=4100", "--request")
    assert refused.exit_code == 1
    assert refused.stdout == ""
    assert "takes 4 beside its reply" in refused.stderr


def test_instructions_that_are_no_text_are_a_sentence(run: Run, long: str, tmp_path: Path) -> None:
    (tmp_path / "persona.txt").write_bytes(b"Be \xff kind.")
    refused = run(long, *CLAUDE, "--instructions", f"{tmp_path}/persona.txt")
    assert refused.exit_code == 1
    assert "a text file in UTF-8" in refused.stderr


@pytest.mark.parametrize("columns", [40, 60, 80, 100, 150])
def test_on_a_terminal_nothing_is_wider_than_it(
    run: Run, long: str, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    shown = re.sub("\x1b.*?m", "", run(long, *CLAUDE, "--budget", "4000", "--explain").output).splitlines()
    width = min(columns, 120)
    [bar] = [line for line in shown if set(line) <= {"█", "░"} and line]
    [rule] = [line for line in shown if "begins here" in line]
    assert (len(bar), len(rule)) == (width, width)
    assert max(map(len, shown)) == width
    assert not any(line.rstrip().endswith("█") for line in shown if line != bar)  # a swatch stays with its label


def test_a_pipe_gets_each_sentence_in_one_line(run: Run, long: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    shown = run(long, *CLAUDE, "--budget", "4000").output
    assert any(line.startswith("Cost: ") and line.endswith(".") for line in shown.splitlines())


def test_only_what_is_out_of_the_ordinary_has_a_reason(run: Run, long: str) -> None:
    shown = run(long, *CLAUDE, "--budget", "4000").output
    assert "in the window" not in shown
    assert "the newest turn  And" in shown


def test_without_a_model_it_is_the_one_that_would_reply(run: Run, long: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _json(run(long, "--json"))["model"] == "local:smollm2"
    monkeypatch.setenv("EVERTHREAD_MODEL", "openai:gpt-5")
    assert _json(run(long, "--json"))["model"] == "openai:gpt-5"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--set", "clock"), "NAME=VALUE"),
        (("--set", "clok=off"), "the nearest is clock"),
        (("--set", "clock=noon"), "off, day, hour or minute"),
        (("--model", "gpt-5"), "provider:name"),
    ],
)
def test_a_mistake_is_told_with_what_is_allowed(run: Run, long: str, given: tuple[str, ...], said: str) -> None:
    refused = run(long, "--model", "openai:gpt-5", *given)
    assert refused.exit_code == 1
    assert said in refused.output


def test_beyond_the_model_nothing_is_sent_and_the_picture_says_so(run: Run, long: str) -> None:
    given = (long, "--model", "openai:gpt-5", "--set", "model_window=4100", "--set", "reply_tokens=4096")
    assert "nothing can be sent" in run(*given).output
    said = _json(run(*given, "--json"))
    assert said["request"] is None
    assert "takes 4 beside its reply" in said["error"]


def test_an_empty_conversation_has_an_empty_window(run: Run, address: str, someone: str) -> None:
    async def begin() -> None:
        async with Everthread.open(address) as et:
            await et.begin(user=someone)

    asyncio.run(begin())
    assert "Nothing was said yet" in run(*CLAUDE).output

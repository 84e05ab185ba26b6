"""`everthread ask`: the reply on standard output and nothing else there; everything else is a sentence beside it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from everthread import Everthread
from everthread.cli.wrapping import Wrapping
from everthread.errors import Overloaded
from everthread.testing.scripted import broken, call, script, thought
from tests.cli.conftest import Do
from tests.cli.terminal import CTRL_C, Terminal
from tests.waiting import PATIENCE

ECHO = ("--model", "scripted:echo")
QUIET = ("--set", "clock=off")


def _events(do: Do) -> list[dict[str, Any]]:
    """What the log holds of the newest conversation."""
    events: list[dict[str, Any]] = json.loads(do("show", "--json").stdout)
    return events


def _kinds(do: Do) -> list[str]:
    return [event["event"]["kind"] for event in _events(do)]


def _sentence(result: Result, code: int = 1) -> str:
    """The one sentence of a command that failed."""
    assert result.exit_code == code
    assert "Traceback" not in result.output
    assert result.stdout == ""
    return result.stderr


def test_the_reply_is_all_there_is_on_standard_output(do: Do) -> None:
    said = do("ask", "Hello", "you", *ECHO, *QUIET)
    assert (said.exit_code, said.stdout, said.stderr) == (0, "You said: “Hello you”\n", "")
    assert _kinds(do) == ["user", "assistant", "model_call"]


def test_what_is_piped_in_is_the_message_or_comes_after_it(do: Do) -> None:
    assert do("ask", *ECHO, *QUIET, input="a text\n").stdout == "You said: “a text”\n"
    assert do("ask", "Any mistakes?", *ECHO, *QUIET, input="a text\n").stdout == "You said: “Any mistakes?\n\na text”\n"


def test_into_a_pipe_goes_the_reply_to_the_letter(do: Do) -> None:
    """Tabs and control characters too: who pipes it into a file wants that file."""
    model = script("letters", "all:\n\tcc -o x\x1b[2J\r\n")
    assert do("ask", "A Makefile", "--model", model).stdout_bytes == b"all:\n\tcc -o x\x1b[2J\r\n"


def test_as_json_it_gives_the_reply_with_what_it_took(do: Do) -> None:
    said = json.loads(do("ask", "Hello", "--json", *ECHO, *QUIET).stdout)
    assert (said["text"], said["state"], said["calls"]) == ("You said: “Hello”", "idle", 1)
    assert said["usage"]["output"] > 0
    assert json.loads(do("conversations", "--json").stdout)[0]["id"] == said["conversation"]


def test_texts_around_a_tool_call_do_not_run_into_each_other(do: Do) -> None:
    model = script("looker", ["Let me look.", call("clock")], "It is noon.", ["Let me look.", call("clock")], "Noon.")
    said = do("ask", "Time?", "--model", model)
    assert said.stdout == "Let me look.\nIt is noon.\n"
    assert "→ clock({})" in said.stderr
    assert "✗ " in said.stderr
    assert json.loads(do("ask", "Time?", "--model", model, "--json").stdout)["text"] == "Let me look.\nNoon."


def test_thoughts_are_shown_where_they_are_asked_for_and_never_in_the_pipe(do: Do) -> None:
    model = script("thinker", [thought("Hm, hm."), "Noon."], [thought("Hm, hm."), "Noon."])
    with_them = do("ask", "Time?", "--model", model, "--reasoning")
    assert (with_them.stdout, with_them.stderr) == ("Noon.\n", "Hm, hm.\n")
    assert do("ask", "Time?", "--model", model).stderr == ""


def test_what_it_took_is_said_where_it_is_asked_for(do: Do) -> None:
    said = do("ask", "Hello", "--usage", *ECHO, *QUIET)
    assert said.stderr.startswith("scripted:echo · ")
    assert "tokens in, 6 out · free" in said.stderr


def test_a_reply_that_breaks_off_keeps_what_came_and_exits_with_1(do: Do) -> None:
    model = script("breaker", ["one two three", broken(after_words=2)])
    said = do("ask", "Count", "--model", model, "--set", "retries=0")
    assert (said.exit_code, said.stdout) == (1, "one two\n")
    assert "broke off" in said.stderr
    assert _events(do)[1]["event"]["parts"] == [{"type": "text", "text": "one two"}]


def test_a_failure_as_json_has_its_sentence_and_exits_with_1(do: Do) -> None:
    model = script("silent", [broken()])
    said = do("ask", "Hello", "--json", "--model", model, "--set", "retries=0")
    assert said.exit_code == 1
    assert json.loads(said.stdout)["error"]["type"] == "BrokenOff"


def test_conversations_go_on_unless_another_is_begun_or_named(do: Do) -> None:
    first = json.loads(do("ask", "One", "--json", *ECHO).stdout)["conversation"]
    assert json.loads(do("ask", "Two", "--json", *ECHO).stdout)["conversation"] == first
    assert json.loads(do("ask", "Three", "--json", "--new", *ECHO).stdout)["conversation"] != first
    assert json.loads(do("ask", "Four", "--json", "--conversation", first, *ECHO).stdout)["conversation"] == first
    assert do("ask", "Five", "--new", "--conversation", first, *ECHO).exit_code == 2


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (("--model", "foo:bar"), "model is 'foo:bar' in --model, but must be provider:name"),
        (("--model", "local:/nowhere.gguf"), "there is no file /nowhere.gguf"),
        ((*ECHO, "--set", "clock"), "NAME=VALUE"),
        ((*ECHO, "--set", "clok=off"), "the nearest is clock"),
        ((*ECHO, "--conversation", "nothing-like-it"), "There is no conversation 'nothing-like-it'"),
        ((*ECHO, "--agent", "nobody"), "There is no agent 'nobody'"),
        ((*ECHO, "--agents", "/nowhere"), "there is no such folder"),
        ((*ECHO, "--attach", "/nowhere.png"), "a file that can be read (No such file or directory)"),
        ((*ECHO, "--store", "mysql://x"), "is not an address of a store"),
        ((*ECHO, "--store", "sqlite:////proc/no/where.db"), "/proc/no/where.db cannot be reached"),
    ],
)
def test_what_cannot_be_is_one_sentence_and_exit_code_1(do: Do, given: tuple[str, ...], sentence: str) -> None:
    do("ask", "Before", *ECHO)
    said = _sentence(do("ask", "Hello", *given))
    assert sentence in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("given", [("--model", "foo:bar"), ("--set", "clok=off"), ("--attach", "/nowhere.png")])
def test_what_cannot_be_is_found_before_anything_is_said(do: Do, given: tuple[str, ...]) -> None:
    do("ask", "Before", *ECHO)
    do("ask", "Hello", *given)
    assert _kinds(do) == ["user", "assistant", "model_call"]


def test_a_provider_that_cannot_be_reached_is_a_sentence_and_the_message_is_kept(
    do: Do, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "wrong")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    said = _sentence(do("ask", "Hello", "--set", "retries=0"))
    assert "anthropic cannot be reached" in said
    assert _kinds(do)[:3] == ["user", "model_call", "agent_killed"]


def test_asked_again_with_its_key_it_is_said_once(do: Do) -> None:
    script("sleepy", Overloaded("scripted", "busy", after=3_600), "Good morning.")
    given = ("ask", "Wake up.", "--key", "alarm", "--model", "scripted:sleepy")
    failed = do(*given)
    assert failed.exit_code == 1
    assert "then /retry" in failed.stderr
    assert "talk.resume" not in failed.stderr
    assert do(*given).stdout == "Good morning.\n"
    assert do(*given).stdout == "Good morning.\n"
    assert [kind for kind in _kinds(do) if kind in ("user", "assistant")] == ["user", "assistant"]


def test_nothing_to_say_is_an_error_of_usage(do: Do) -> None:
    assert "There is nothing to say" in _sentence(do("ask", *ECHO), 2)
    assert "There is nothing to say" in _sentence(do("ask", "  ", *ECHO, input="\n\n"), 2)


def test_what_is_piped_in_must_be_text(do: Do) -> None:
    assert "must be text in UTF-8" in _sentence(do("ask", "Look", *ECHO, input=b"GIF89a\xff\xfe\x00"))


def test_what_no_model_could_take_is_kept_and_not_sent(do: Do) -> None:
    """One line of three million characters."""
    said = _sentence(do("ask", *ECHO, input="x" * 3_000_000))
    assert "take a model with a larger window" in said
    assert _kinds(do) == ["user", "agent_killed"]


def test_a_file_can_be_shown_if_it_is_text_or_a_picture(do: Do, tmp_path: Path) -> None:
    note, noise = tmp_path / "note.txt", tmp_path / "noise.bin"
    note.write_text("Lemon cake.")
    noise.write_bytes(b"\xff\xfe\x00")
    assert "Lemon cake." in do("ask", "Look", "--attach", str(note), *ECHO).stdout
    assert "a picture, a PDF, or text in UTF-8" in _sentence(do("ask", "Look", "--attach", str(noise), *ECHO))


def test_a_file_of_agents_that_is_wrong_is_named_and_stops_only_who_needs_it(do: Do, home: Path) -> None:
    do("ask", "Hello", *ECHO)
    folder = home / ".config" / "everthread" / "agents"
    folder.mkdir(parents=True)
    (folder / "bad.toml").write_text("tools = 3")
    assert "bad.toml cannot be used (tools must be a list of texts)" in _sentence(do("ask", "Hello", *ECHO))
    assert do("show").exit_code == 0


def test_an_agent_is_spoken_to_by_name_and_a_conversation_keeps_its_own(do: Do, tmp_path: Path) -> None:
    (tmp_path / "shop.toml").write_text('model = "scripted:shop"')
    script("shop", "We have lemons.")
    said = json.loads(do("ask", "Lemons?", "--agents", str(tmp_path), "--agent", "shop", "--json").stdout)
    assert said["text"] == "We have lemons."
    other = do("ask", "Hello", "--conversation", said["conversation"], "--agent", "default")
    assert "--agent is 'default', but must be 'shop'" in _sentence(other)


def test_the_model_in_the_process_says_first_that_it_is_tiny(do: Do) -> None:
    said = do("ask", "Say hello.", "--set", "reply_tokens=8")
    assert said.exit_code == 0
    assert said.stdout.strip()
    assert "a tiny model" in said.stderr
    assert "ANTHROPIC_API_KEY" in said.stderr


# -- in a process of its own ---------------------------------------------------------------------------------


SLOW = "script('slow', 'word ' * 100_000, pace=0.05)"


def _process(*arguments: str, **options: Any) -> subprocess.Popen[Any]:
    code = f"from everthread.testing.scripted import script; {SLOW}; from everthread.cli import main; main()"
    listen = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    return subprocess.Popen([sys.executable, "-c", code, *arguments], preexec_fn=listen, **pipes)


def test_a_reader_that_has_seen_enough_ends_the_turn_and_what_came_is_kept(do: Do) -> None:
    asking = _process("ask", "Hello", "--model", "scripted:slow", stdin=subprocess.DEVNULL)
    assert asking.stdout
    assert asking.stderr
    assert asking.stdout.read(5) == b"word "
    asking.stdout.close()
    assert (asking.stderr.read(), asking.wait(timeout=PATIENCE)) == (b"", 0)
    asking.stderr.close()
    assert _kinds(do) == ["user", "assistant", "model_call", "agent_killed"]


def test_each_piece_of_the_reply_is_written_as_it_comes(do: Do) -> None:
    """The words take more than an hour: the first is read, and the turn is still open."""
    asking = _process("ask", "Hello", "--model", "scripted:slow", stdin=subprocess.DEVNULL)
    assert asking.stdout
    assert os.read(asking.stdout.fileno(), 100).startswith(b"word")
    assert _kinds(do) == ["user"]
    asking.send_signal(signal.SIGINT)
    _, said = asking.communicate(timeout=PATIENCE)
    assert asking.returncode == 130
    assert said == b"Stopped. What had come of the reply is kept.\n"
    assert _kinds(do) == ["user", "assistant", "model_call", "agent_killed"]


def test_ctrl_c_at_a_terminal_stops_the_reply_on_a_line_of_its_own(store: str) -> None:
    with Terminal("ask", "Hello", "--model", "scripted:slow", before=SLOW) as terminal:
        terminal.expect("word word")
        terminal.press(CTRL_C)
        terminal.expect("\nStopped. What had come of the reply is kept.\n")
        assert terminal.end() == 130


def test_while_nothing_has_come_a_terminal_shows_a_sign_of_life_that_is_removed(store: str) -> None:
    late = "script('late', 'Here.', pace=0.5)"
    with Terminal("ask", "Hello", "--model", "scripted:late", before=late) as terminal:
        assert terminal.end() == 0
        assert "⠋" in terminal.raw
        assert terminal.raw.endswith("\x1b[2KHere.\r\n")
    with Terminal("ask", "Hello", "--json", "--model", "scripted:late", before=late) as terminal:
        assert terminal.end() == 0
        assert "\x1b[2K{\r\n" in terminal.raw


def test_a_reply_cannot_steer_the_terminal_and_keeps_the_letters_of_all_languages(store: str) -> None:
    said = "a\\x1b[2Jb\\tc\\u202e 日本語\\u3000全角 👩\\u200d👧"
    with Terminal("ask", "Hello", "--model", "scripted:odd", before=f"script('odd', '{said}')") as terminal:
        assert terminal.end() == 0
        assert terminal.shown.endswith("a·[2Jb    c· 日本語\u3000全角 👩\u200d👧\n")


def test_on_a_terminal_a_reply_breaks_between_words_however_they_come() -> None:
    """Half a word at the end of a line is taken back. What is too long for any line is left to the terminal."""
    wrapping = Wrapping()
    pieces = ["one two th", "ree", " four\n", "a " * 6, "日本", "語", " ", "x" * 30, " end"]
    written = [wrapping.fit(piece, 11) for piece in pieces]
    assert written[:3] == ["one two th", "\x1b[2D\x1b[K\nthree", " four\n"]
    assert written[3:6] == ["a a a a a \na ", "日本", "語"]
    assert written[6:] == [" ", "x" * 30, " end"]


def test_an_agent_whom_the_user_talks_with_already_needs_no_file(do: Do, store: str) -> None:
    """As the how-tos begin a conversation with `helper`, by the library or the service."""

    async def begin() -> str:
        async with Everthread.open(store) as et:
            return (await et.conversation(user="ana", agent="helper")).id

    id = asyncio.run(begin())
    said = json.loads(do("ask", "Hello", *ECHO, "--agent", "helper", "--json").stdout)
    assert said["conversation"] == id


def test_an_unknown_agent_is_told_with_how_to_write_one(do: Do, home: Path) -> None:
    told = _sentence(do("ask", "Hello", *ECHO, "--agent", "helper"))
    assert "There is no agent 'helper'; there are: none" in told
    assert f"write {home}/.config/everthread/agents/helper.toml, or name a folder with --agents" in told

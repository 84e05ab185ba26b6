"""`everthread chat`: at a terminal, where keys are pressed and the screen is read, and from a pipe."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from everthread import Everthread, Talk, assistant, user
from everthread.testing.scripted import broken, call, script
from tests.cli.conftest import Do
from tests.cli.terminal import BEGINNING, CTRL_C, CTRL_D, ENTER, LEFT, UP, Terminal
from tests.waiting import comes_true

ECHO = ("--model", "scripted:echo", "--set", "clock=off")
TILL = """
from mcp.server.mcpserver import MCPServer

app = MCPServer("till")


@app.tool()
def pay(amount: int) -> str:
    "Pay a bill."
    return f"{amount} paid"


app.run()
"""


def _chat(do: Do, *lines: str, given: tuple[str, ...] = ECHO) -> Result:
    return do("chat", *given, input="".join(f"{line}\n" for line in lines))


def _fill(store: str, turns: int) -> None:
    """Turns of some twenty tokens each."""

    async def fill(talk: Talk) -> None:
        for n in range(1, turns + 1):
            await talk.append(user(f"Question {n}? " + "word " * 10), assistant(f"Answer {n}."))

    _with(store, fill)


def _with(store: str, work: Any) -> Any:
    """Do something with Ana's conversation."""

    async def opened() -> Any:
        async with Everthread.open(store, settings={"memory": False}) as et:
            return await work(await et.conversation(user="ana"))

    return asyncio.run(opened())


async def _kinds(talk: Talk) -> list[str]:
    return [event.kind for event in await talk.after(limit=1000)]


# -- at a terminal -------------------------------------------------------------------------------------------


def test_lines_are_edited_and_found_again_and_the_chat_outlives_what_is_stopped(store: str) -> None:
    """Arrow keys, a line of two lines, ctrl-C in a reply and at the prompt, bytes that are no text, ctrl-D."""
    slow = "script('slow', 'One two.', 'word ' * 100_000, 'Still here.', pace=0.05)"
    with Terminal("chat", "--model", "scripted:slow", before=slow, columns=60) as terminal:
        terminal.expect("default replies with scripted:slow")
        terminal.say(f"Helo{LEFT}l")
        terminal.expect("One two.\nscripted:slow · ")
        terminal.expect("you ›")
        terminal.press(UP + "!" + ENTER)
        terminal.expect("word word")
        terminal.press(CTRL_C)
        terminal.expect("Stopped. What had come of the reply is kept.")
        terminal.expect("you ›")
        terminal.press("not said")
        terminal.expect("not said")
        terminal.press_until(CTRL_C, "Ctrl-D or /quit ends the chat.")  # heard only while readline waits for a key
        terminal.say("")
        terminal.say("first \\")
        terminal.expect("… ›")
        terminal.press("second" + ENTER)
        terminal.expect("Still here.")
        terminal.expect("you ›")
        terminal.press(CTRL_D)
        assert terminal.end() == 0
    said = _with(store, lambda talk: talk.after(limit=1000))
    assert [event.text for event in said if event.kind == "user"] == ["Hello", "Hello!", "first \nsecond"]
    assert [event.kind for event in said].count("agent_killed") == 1


def test_memory_is_made_while_the_user_sits_at_the_prompt(store: str) -> None:
    """Nobody presses a key until there is a brief; then the chat goes on as if nothing had happened."""
    models = "script('guide', 'To Porto.', 'By train.'); script('memory', *['They plan a trip.'] * 20)"
    given = ("chat", "--model", "scripted:guide")

    async def has_brief(talk: Talk) -> bool:
        return "brief_updated" in await _kinds(talk)

    with Terminal(*given, before=models, EVERTHREAD_SUMMARY_MODEL="scripted:memory") as terminal:
        terminal.say("Where to?")
        terminal.expect("To Porto.")
        terminal.expect("you ›")
        terminal.press("And how")
        assert comes_true(lambda: bool(_with(store, has_brief)))
        terminal.press("?" + ENTER)
        terminal.expect("By train.")
        terminal.expect("you ›")
        terminal.press(CTRL_D)
        assert terminal.end() == 0
    said = _with(store, lambda talk: talk.after(limit=1000))
    assert [event.text for event in said if event.kind == "user"] == ["Where to?", "And how?"]


def test_after_a_failure_enter_tries_again_and_so_does_the_same_line(store: str) -> None:
    """The message stands in the log once, however often it is tried."""
    down = "from everthread.errors import Overloaded; down = lambda _: Overloaded('scripted', 'busy', after=3600)"
    with Terminal(
        "chat", "--model", "scripted:guide", before=f"{down}; script('guide', down, down, down, 'To Porto.')"
    ) as terminal:
        terminal.say("Where to?")
        terminal.expect("Error: scripted cannot reply now (busy)")
        terminal.expect("Enter tries again")
        terminal.say("")
        terminal.expect("Enter tries again")
        terminal.expect("you ›")
        terminal.press(UP + ENTER)
        terminal.expect("not said twice")
        terminal.expect("Enter tries again")
        terminal.say("")
        terminal.expect("To Porto.")
        terminal.say("")  # nothing failed: an empty line is nothing
        terminal.say("/retry")
        terminal.expect("There is nothing to go on with")
    assert "talk.resume" not in terminal.shown
    said = _with(store, lambda talk: talk.after(limit=1000))
    assert [event.kind for event in said if event.kind in ("user", "assistant")] == ["user", "assistant"]


def test_ctrl_c_at_a_question_is_a_no_and_the_chat_goes_on(store: str) -> None:
    _fill(store, 1)
    with Terminal("chat", *ECHO) as terminal:
        terminal.say("/forget 1")
        terminal.expect("for ever?")
        terminal.press_until(CTRL_C, "you ›")
        terminal.press_until("Hello." + ENTER, "You said: “Hello.”")  # one ctrl-C too many takes the first away
    said = _with(store, lambda talk: talk.after(limit=1))
    assert said[0].text.startswith("Question 1?")


def test_the_prompt_tells_readline_which_characters_take_no_room(store: str) -> None:
    """Otherwise a line that is longer than the terminal is wide would be drawn over itself."""
    with Terminal("chat", *ECHO, columns=60) as terminal:
        terminal.expect("you ›")
        terminal.press("x" * 56 + BEGINNING + "Z" + ENTER)  # two more than there is room for beside the prompt
        terminal.expect("“Zxx")
    assert "\x1b[A\r\x1b[1;36myou ›\x1b[0m Zxx" in terminal.raw


def test_messages_of_an_earlier_day_are_in_the_history_of_lines(store: str) -> None:
    _fill(store, 2)
    with Terminal("chat", *ECHO) as terminal:
        terminal.expect("you ›")
        terminal.press(UP + UP + ENTER)
        terminal.expect("You said: “Question 1? word")


@pytest.mark.parametrize("columns", [60, 120])
def test_the_rule_stands_between_past_and_window(store: str, columns: int) -> None:
    _fill(store, 3)
    with Terminal("chat", *ECHO, "--set", "budget=60", columns=columns) as terminal:
        shown = terminal.expect("you ›")
    above, below = shown.split(" the window begins here, at event 5 ")
    assert "Answer 2." in above
    assert "Question 3?" in below
    assert max(map(len, shown.split("\n"))) <= columns


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ((), "… 14 messages before, all in the window"),
        (
            ("--set", "memory=false", "--set", "budget=350"),
            r"… 14 messages before, of which \d+ are past",
        ),
        (("--set", "budget=60"), "… 14 messages before, kept, and not sent"),
    ],
)
def test_what_is_not_shown_is_counted_at_the_top(store: str, given: tuple[str, ...], line: str) -> None:
    _fill(store, 10)
    with Terminal("chat", *ECHO, *given) as terminal:
        shown = terminal.expect("you ›")
    assert re.search(line, shown)
    assert ("the window begins here" in shown) == ("before, kept" in line)


def test_after_a_clear_the_rule_stands_below_everything(store: str) -> None:
    _fill(store, 1)
    _with(store, lambda talk: talk.clear())
    with Terminal("chat", *ECHO) as terminal:
        shown = terminal.expect("you ›")
    assert shown.index("Answer 1.") < shown.index("the window begins here: nothing above is sent")


def test_the_model_in_the_process_needs_no_key_and_says_that_it_is_loading(store: str) -> None:
    with Terminal("chat", "--set", "reply_tokens=12", columns=60) as terminal:
        terminal.expect("default replies with local:smollm2")
        terminal.expect("a tiny model of 135 million")
        terminal.say("Say hello.")
        terminal.expect("loading smollm2")
        terminal.expect("local:smollm2 · ")
        terminal.say("/quit")
        assert terminal.end() == 0


# -- tools that ask ------------------------------------------------------------------------------------------


@pytest.fixture
def till(tmp_path: Path) -> tuple[str, ...]:
    """An agent with a tool that asks before it runs."""
    server = tmp_path / "till.py"
    server.write_text(TILL)
    agents = tmp_path / "agents"
    agents.mkdir()
    command = json.dumps([sys.executable, str(server)])
    (agents / "till.toml").write_text(f'model = "scripted:till"\n[mcp.till]\ncommand = {command}\napproval = true\n')
    return ("--agents", str(agents), "--agent", "till")


def test_a_tool_call_waits_for_approval_across_chats(do: Do, till: tuple[str, ...]) -> None:
    pay = [call("pay", {"amount": 3})]
    script("till", ["I will pay.", *pay], "It is paid.", ["Again.", *pay, *pay])
    first = _chat(do, "Pay it.", given=till)
    assert 'pay({"amount": 3}) waits for approval: /approve 3 or /refuse 3' in first.stderr
    second = _chat(do, "/approve", "Again.", "/approve", "/approve nothing", given=till)
    assert second.stdout == "It is paid.\nAgain.\n"
    assert "← 3 paid" in second.stderr
    assert second.stderr.count("Name a tool call that waits for approval: 11, 12.") == 2
    other = ("--model", script("other", "Then not."))  # who goes on is who was chosen for this chat
    third = _chat(do, "/approve 11", "/refuse 12 it's too much", given=(*till, *other))
    assert third.stdout == "Then not.\n"
    assert "✗ The user refused this tool call: it's too much" in third.stderr


@pytest.mark.parametrize("named", ["/approve 2", "/approve"])
def test_an_approval_may_change_the_arguments(do: Do, till: tuple[str, ...], named: str) -> None:
    script("till", [call("pay", {"amount": 3})], "It is paid.")
    bad = ('{"amount": 2', "{} {}", '{"amount": "lots"}', "{}")
    said = _chat(do, "Pay it.", *(f"{named} {one}" for one in bad), f'{named} {{"amount": 7}}', given=till)
    assert said.stdout == "It is paid.\n"
    assert said.stderr.count("but must be a JSON object with all arguments of the tool call, as in") == 2
    assert said.stderr.count("but must be what pay takes (the argument `amount`") == 2
    assert "7 paid" in said.stderr


def test_arguments_that_are_no_object_are_refused(do: Do, till: tuple[str, ...]) -> None:
    script("till", [call("pay", {"amount": 3})])
    said = _chat(do, "Pay it.", "/approve 2 [7]", "/approve 2 7", "/approve 2 amount=7", given=till)
    assert said.stderr.count("but must be a JSON object with all arguments of the tool call, as in") == 3


def test_ask_says_how_to_approve(do: Do, till: tuple[str, ...]) -> None:
    script("till", [call("pay", {"amount": 3})])
    said = do("ask", "Pay it.", *till)
    assert said.exit_code == 0
    assert "waits for approval: everthread chat --conversation " in said.stderr


def test_where_nothing_waits_or_broke_off_it_says_so(do: Do) -> None:
    said = _chat(do, "Hello", "/approve", "/refuse", "/retry").stderr
    assert said.count("No tool call waits for approval.") == 2
    assert "no turn was interrupted" in said


# -- from a pipe ---------------------------------------------------------------------------------------------


def test_from_a_pipe_each_line_is_a_message_and_standard_output_holds_the_replies(do: Do) -> None:
    said = _chat(do, "Hello", "", "More")
    assert (said.exit_code, said.stdout) == (0, "You said: “Hello”\nYou said: “More”\n")
    assert said.stderr.count("scripted:echo · ") == 2


def test_nothing_from_a_pipe_is_no_error(do: Do) -> None:
    assert (_chat(do).exit_code, _chat(do).stdout) == (0, "")


def test_a_line_that_is_no_text_is_refused_and_the_next_is_heard(do: Do) -> None:
    said = do("chat", *ECHO, input=b"\xff\xfe\nHello\n")
    assert (said.exit_code, said.stdout) == (1, "You said: “Hello”\n")
    assert "The line is b'\\xff\\xfe\\n', but must be text in UTF-8" in said.stderr


def test_a_turn_that_fails_is_a_sentence_and_can_be_gone_on_with(do: Do) -> None:
    model = script("frail", ["one two", broken(after_words=1)], "Better.")
    said = _chat(do, "Hello", "/retry", given=("--model", model, "--set", "retries=0"))
    assert (said.exit_code, said.stdout) == (1, "one\nBetter.\n")
    assert "broke off" in said.stderr


def test_as_json_each_piece_is_a_line(do: Do) -> None:
    said = _chat(do, "Hello", "/approve", "/help", given=(*ECHO, "--json"))
    lines = [json.loads(line) for line in said.stdout.splitlines()]
    assert "".join(line.get("text", "") for line in lines) == "You said: “Hello”"
    assert [line["kind"] for line in lines[-3:]] == ["done", "error", "error"]
    assert (said.exit_code, said.stderr) == (1, "")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (("--model", "foo:bar"), "must be provider:name"),
        ((*ECHO, "--agent", "nobody"), "There is no agent 'nobody'"),
        ((*ECHO, "--conversation", "nothing-like-it"), "There are no conversations of 'ana'"),
        ((*ECHO, "--set", "clok=off"), "the nearest is clock"),
        ((*ECHO, "--store", "sqlite:////proc/no/where.db"), "cannot be reached"),
    ],
)
def test_a_chat_that_cannot_begin_is_one_sentence_and_exit_code_1(
    do: Do, given: tuple[str, ...], sentence: str
) -> None:
    said = _chat(do, "Hello", given=given)
    assert (said.exit_code, said.stdout, said.stderr.count("\n")) == (1, "", 1)
    assert sentence in said.stderr


# -- slash commands ------------------------------------------------------------------------------------------


def test_help_names_every_command(do: Do) -> None:
    said = _chat(do, "/help").stdout
    names = "help context usage branches model clear mark rewind fork switch pin config approve refuse retry quit"
    assert all(f"  /{name} " in said for name in names.split())
    assert "ends in \\ goes on" in said


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("/foo", "the command is '/foo', but must be one of /help,"),
        ("/", "begin with // to say it to the agent"),
        ("/mark", "but must be written as /mark NAME"),
        ("/mark a b", "but must be written as /mark NAME"),
        ("/rewind nowhere", "There is no mark 'nowhere'"),
        ("/rewind 99", "There is no event 99"),
        ("/rewind ²", "There is no mark '²'"),
        ("/switch nowhere", "There is no branch 'nowhere'"),
        ("/pin x", "must be the number of one"),
        ("/pin 99", "There is no event 99"),
        ("/model gpt", "model is 'gpt' in /model, but must be provider:name"),
        ("/config get", "written as /config [set NAME [VALUE]]"),
        ("/config set clok off", "the nearest is clock"),
        ("/config set clock noon", "off, day, hour or minute"),
    ],
)
def test_a_command_that_cannot_be_obeyed_says_what_can_and_the_chat_goes_on(do: Do, line: str, sentence: str) -> None:
    said = _chat(do, "Hello", line, "Still there?")
    assert sentence in said.stderr
    assert said.stdout.endswith("You said: “Still there?”\n")


def test_a_message_may_begin_with_a_slash_if_it_has_two(do: Do) -> None:
    assert _chat(do, "//etc/hosts").stdout == "You said: “/etc/hosts”\n"


def test_branches_are_left_and_come_back_to(do: Do) -> None:
    said = _chat(do, "One", "/mark here", "Two", "/rewind here", "/branches", "/fork side", "/switch main")
    assert "/rewind here comes back here." in said.stdout
    assert "  → rewind-2  2 messages" in said.stdout
    assert "  → side  2 messages" in said.stdout
    back = said.stderr.rpartition("turn 1")[2]
    assert "You said: “Two”" in back


def test_the_model_is_changed_for_the_turns_to_come(do: Do) -> None:
    said = _chat(do, "/model", "/model scripted:other", "Hello")
    assert said.stdout.startswith("  scripted:echo\n  scripted:other\n")
    assert "scripted:other · " in said.stderr


def test_a_setting_of_the_branch_is_set_shown_and_taken_back(do: Do) -> None:
    said = _chat(do, "/config set reply_tokens 99", "/config", "/config set reply_tokens").stdout
    assert said.count("  reply_tokens = 99  (this branch's settings)") == 2
    assert "  reply_tokens = 4096  (the default)" in said


def test_clearing_moves_the_window_and_the_rule_says_so(do: Do) -> None:
    said = _chat(do, "One", "/clear", "Two")
    assert "the window now begins at event 5" in said.stderr
    assert "2 messages before it: kept, and not sent." in said.stderr


def test_the_context_and_the_usage_are_shown(do: Do) -> None:
    said = _chat(do, "/usage", "One", "/pin 1", "/context", "/usage").stdout
    assert "No model has been called yet." in said
    assert "the window begins here, at event 1" in said
    assert "  Pinned." in said
    assert "  scripted:echo: 1 model call, " in said


def test_a_step_of_the_window_is_told_after_the_reply(do: Do, store: str) -> None:
    _fill(store, 3)
    said = _chat(do, "word " * 30, given=(*ECHO, "--set", "budget=150"))
    assert "the window now begins at event " in said.stderr
    assert _with(store, _kinds)[-3:] == ["user", "assistant", "model_call"]


def test_after_a_pause_it_says_that_a_new_session_begins(store: str) -> None:
    _with(store, _two_hours_ago)
    with Terminal("chat", *ECHO) as terminal:
        shown = terminal.expect("you ›")
        terminal.press(f"Back.{ENTER}")
        said = terminal.expect("you ›")
    assert "The last message was 2 hours ago: the next one begins a new session." in shown
    assert "A new session: the last message was 2 hours ago." in said


async def _two_hours_ago(talk: Talk) -> None:
    real = talk._log._clock
    talk._log._clock = lambda: real() - 2 * 3_600_000_000
    await talk.append(user("Long ago."), assistant("Yes."))

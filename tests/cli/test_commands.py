"""The command line as a person and as a program sees it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest
from click.testing import CliRunner, Result

from everthread import Everthread, Talk, assistant, tool_call, tool_result, user
from everthread.cli import COMMANDS, main
from everthread.cli.shared import Where, ago
from everthread.core.events import AgentKilled, Clear, Command, Other
from everthread.core.times import EPOCH
from tests.waiting import PATIENCE, comes_true

Run = Callable[..., Result]


@pytest.fixture
def run(address: str, someone: str, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command on the store of this test."""
    monkeypatch.setenv("EVERTHREAD_STORE", address)
    monkeypatch.setenv("EVERTHREAD_USER", someone)
    monkeypatch.setenv("COLUMNS", "100")

    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(main, arguments, catch_exceptions=False)

    return invoke


@pytest.fixture
def filled(address: str, someone: str) -> str:
    """A conversation with a bit of everything; its id."""

    async def fill() -> str:
        async with Everthread.open(address) as et:
            talk = await et.begin(user=someone, agent="helper", name="Cake")
            await talk.append(user("My son is\0 allergic to walnuts. \x1b[2J"), assistant("Noted."))
            await talk.append(user("Cake?"), tool_call("find", {"a": 1}), tool_result("x" * 5000, name="find"))
            await talk.append(assistant("Lemon."), Other(kind="shop.order", data={"n": 1}), AgentKilled(reason="x"))
            await talk.mark("here")
            await _more(talk)
            return talk.id

    return asyncio.run(fill())


async def _more(talk: Talk) -> None:
    side = await talk.fork(at=2, name="side")
    await side.append(user("Another way."))
    await talk.append(Clear(), Command(name="note", arguments={"a": 1}))
    await talk.rewind(to="here")
    await talk.append(user("Again."), assistant("Yes."))
    await talk.redact(1)


@pytest.fixture
def empty(address: str) -> None:
    """A store in which this test's user has said nothing yet."""

    async def make() -> None:
        async with Everthread.open(address):
            pass

    asyncio.run(make())


def test_help_names_every_command(run: Run) -> None:
    said = run("--help").output
    assert all(name in said for name in COMMANDS)
    assert all(run(name, "--help").exit_code == 0 for name in COMMANDS)


def test_an_unknown_command_is_an_error_of_usage(run: Run) -> None:
    assert run("converse").exit_code == 2


def test_conversations_are_listed_in_a_table(run: Run, filled: str) -> None:
    said = run("conversations").output
    assert filled in said
    assert "Cake" in said
    assert "just now" in said


def test_conversations_as_json_have_counts_and_times(run: Run, filled: str) -> None:
    [found] = json.loads(run("conversations", "--json").output)
    assert (found["id"], found["name"], found["agent"]) == (filled, "Cake", "helper")
    assert found["messages"] == 9
    assert found["newest"].endswith("Z")


def test_without_conversations_the_list_says_so(run: Run, empty: None) -> None:
    assert "No conversations" in run("conversations").output
    assert json.loads(run("conversations", "--json").output) == []


def test_a_full_page_says_how_to_go_on(run: Run, filled: str) -> None:
    (found,) = json.loads(run("conversations", "--json").output)
    assert f"--before {found['cursor']}" in run("conversations", "--limit", "1").output
    assert found["cursor"].endswith(filled)


def test_show_gives_the_newest_turns_of_the_current_branch(run: Run, filled: str) -> None:
    said = run("show").output
    assert "(redacted)" in said
    assert "walnuts" not in said
    assert "Again." in said
    assert "to event 9 of branch 1" in said
    assert "3,000 more characters" in said


def test_show_never_lets_an_event_steer_the_terminal(run: Run, address: str, someone: str) -> None:
    async def fill() -> None:
        async with Everthread.open(address) as et:
            await (await et.begin(user=someone)).append(user("a\x1b[2Jb\ud800\0\u202ec"))

    asyncio.run(fill())
    said = run("show").output
    assert "a·[2Jb?··c" in said


@pytest.mark.parametrize("name", ["whole", "beginning", "end", "lower case"])
def test_a_conversation_is_named_by_its_id_or_a_part_of_it(run: Run, filled: str, name: str) -> None:
    part = {"whole": filled, "beginning": filled[:24], "end": filled[-8:], "lower case": filled[-8:].lower()}[name]
    assert run("show", part).exit_code == 0


def test_show_takes_a_branch_by_name_or_number(run: Run, filled: str) -> None:
    for branch in ("side", "2"):
        assert "Another way." in run("show", filled, "--branch", branch).output


def test_show_as_json_is_the_exported_form_with_the_turn(run: Run, filled: str) -> None:
    events = json.loads(run("show", filled, "--json", "--turns", "1").output)
    assert [e["event"]["kind"] for e in events][:2] == ["user", "assistant"]
    assert events[0]["turn"] == 3


def test_show_pages_after_a_seq(run: Run, filled: str) -> None:
    events = json.loads(run("show", "--after", "2", "--limit", "2", "--json").output)
    assert [e["seq"] for e in events] == [3, 4]


def test_the_branches_are_shown_with_where_they_came_from(run: Run, filled: str) -> None:
    said = run("show", "--branches").output
    assert "main after 2" in said
    branches = json.loads(run("show", "--branches", "--json").output)
    assert [b["current"] for b in branches] == [False, False, True]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["show", "nothing-like-it"], "no conversation"),
        (["show", "--branch", "nowhere"], "no branch 'nowhere'"),
        (["show", "--branch", "77"], "no branch 77"),
    ],
)
def test_what_is_not_there_is_a_sentence_and_exit_code_1(
    run: Run, filled: str, arguments: list[str], sentence: str
) -> None:
    failed = run(*arguments)
    assert failed.exit_code == 1
    assert sentence in failed.stderr
    assert "Traceback" not in failed.output


def test_with_json_an_error_is_json_on_stderr(run: Run, empty: None) -> None:
    failed = run("show", "--json")
    assert failed.exit_code == 1
    assert json.loads(failed.stderr)["error"]["type"] == "NoConversation"


def test_looking_into_a_store_that_is_not_there_makes_none(run: Run, tmp_path: Path) -> None:
    for command in ("conversations", "show", "export", "doctor"):
        failed = run(command, "--store", f"sqlite:///{tmp_path}/no/such.db")
        assert failed.exit_code == 1
        assert "There is no store at" in failed.stderr
    assert not (tmp_path / "no").exists()


def test_a_conversation_is_found_by_its_name(run: Run, filled: str) -> None:
    assert filled in run("show", "Cake").output


def test_a_folder_that_is_not_there_is_a_sentence(run: Run, filled: str, tmp_path: Path) -> None:
    failed = run("export", "-o", str(tmp_path / "nowhere" / "x.jsonl"))
    assert failed.exit_code == 2
    assert "There is no folder" in failed.stderr


def test_somebody_elses_conversation_is_not_there(run: Run, filled: str) -> None:
    assert run("show", filled, "--user", "somebody else").exit_code == 1
    assert run("show", filled, "--tenant", "another").exit_code == 1


def test_an_export_can_be_imported_under_another_user_elsewhere(run: Run, filled: str, tmp_path: Path) -> None:
    out = tmp_path / "talk.jsonl"
    assert "Exported 1 conversation" in run("export", "-o", str(out)).output
    store = f"sqlite:///{tmp_path}/elsewhere.db"
    done = run("import", str(out), "--store", store, "--user", "bea", "--json")
    assert json.loads(done.output)["conversations"] == [filled]
    assert (
        run("export", filled, "--store", store, "--user", "bea").stdout_bytes.splitlines()[1:]
        == (out.read_bytes().splitlines()[1:])
    )
    assert "All is well." in run("doctor", "--store", store).output


def test_all_conversations_are_exported_into_one_file(run: Run, filled: str, tmp_path: Path) -> None:
    history = tmp_path / "history.jsonl"
    history.write_text(json.dumps({"id": "h", "messages": [{"role": "user", "content": "Hi"}]}) + "\n")
    assert "Imported 1 conversation, 1 event." in run("import", str(history)).output
    report = json.loads(run("export", "--all", "-o", str(tmp_path / "all.jsonl"), "--json").output)
    assert report["conversations"] == 2


@pytest.mark.parametrize("said", [(), ("--format", "gemini")], ids=["found out", "said"])
def test_contents_of_gemini_are_imported(run: Run, tmp_path: Path, said: tuple[str, ...]) -> None:
    history = tmp_path / "history.json"
    contents = [{"role": "user", "parts": [{"text": "Hi"}]}, {"role": "model", "parts": [{"text": "Hello."}]}]
    history.write_text(json.dumps({"contents": contents}))
    assert "Imported 1 conversation, 2 events." in run("import", str(history), *said).output
    assert "Hello." in run("show").output


def test_a_bad_file_imports_nothing_and_says_which_line(run: Run, tmp_path: Path) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"messages":[{"role":"user","content":"Hi"}]}\n{"messages":[{"role":"clown"}]}\n')
    failed = run("import", str(bad))
    assert failed.exit_code == 1
    assert "line 2" in failed.stderr
    assert json.loads(run("conversations", "--json").output) == []


def test_options_that_do_not_go_together_are_refused(run: Run, filled: str) -> None:
    assert run("export", "--follow").exit_code == 2
    assert run("export", "--json").exit_code == 2


def test_an_export_that_fails_leaves_no_file_behind(run: Run, tmp_path: Path) -> None:
    assert run("export", "nothing-like-it", "-o", str(tmp_path / "x.jsonl")).exit_code == 1
    assert list(tmp_path.glob("x*")) == []


def test_doctor_finds_nothing_wrong_with_a_good_conversation(run: Run, filled: str) -> None:
    """PostgreSQL's database is shared with tests that do damage to conversations of their own."""
    report = json.loads(run("doctor", "--json").output)
    assert [problem for problem in report["problems"] if filled in problem] == []
    assert report["events"] >= 16


def test_doctor_names_what_is_damaged_and_exits_with_1(run: Run, filled: str, address: str, engine: str) -> None:
    if engine == "sqlite":
        apsw.Connection(address.removeprefix("sqlite:///")).execute("UPDATE events SET body = x'00' WHERE seq = 3")
    else:
        asyncio.run(_damage(address, filled))
    failed = run("doctor")
    assert failed.exit_code == 1
    assert f"{filled} branch main: event 3 cannot be read" in failed.output.replace("\n", "")
    assert "damaged" in run("show").output
    _repair(address, engine, filled)


async def _damage(address: str, conversation: str, sql: str = "UPDATE events SET body = '\\x00'") -> None:
    import asyncpg

    connection = await asyncpg.connect(address)
    await connection.execute(f"{sql} WHERE conversation = $1 AND seq = 3 AND branch = 1", conversation)
    await connection.close()


def _repair(address: str, engine: str, conversation: str) -> None:
    """PostgreSQL's database is shared by other tests, whose doctor should find nothing."""
    if engine == "postgres":
        body = b'{"kind":"user","parts":[{"type":"text","text":"Cake?"}]}'
        asyncio.run(_damage(address, conversation, f"UPDATE events SET body = '\\x{body.hex()}'"))


def test_times_are_said_as_a_person_would() -> None:
    now = datetime.now(UTC)
    cases = {0: "just now", 30: "30 s ago", 300: "5 min ago", 7200: "2 h ago", 3 * 86400: "3 d ago"}
    assert [ago(now - timedelta(seconds=seconds)) for seconds in cases] == list(cases.values())
    assert ago(None) == "–"
    assert ago(EPOCH) == "1970-01-01"


def everthread(*arguments: str, **options: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", "from everthread.cli import main; main()", *arguments]
    # Where the tests themselves run in the background, a shell has them, and all they start, ignore interrupts.
    listen = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, preexec_fn=listen, **options)


def test_the_tour_runs_from_a_clean_start(tmp_path: Path) -> None:
    tour = everthread("tour", env={**os.environ, "TMPDIR": str(tmp_path), "COLUMNS": "100"})
    said, problems = tour.communicate(timeout=PATIENCE)
    assert tour.returncode == 0, problems
    assert "Nothing is missing." in said


def test_show_follows_what_another_process_says(address: str, someone: str, filled: str) -> None:
    showing = everthread("show", "--follow", "--json", "--store", address, "--user", someone)
    assert showing.stdout
    for line in showing.stdout:
        if json.loads(line).get("event", {}).get("kind") == "assistant" and "Yes." in line:
            break
    asyncio.run(_say(address, someone, "news"))
    assert any("news" in line for line in iter(showing.stdout.readline, ""))
    showing.send_signal(signal.SIGINT)
    showing.communicate(timeout=PATIENCE)
    assert showing.returncode == 130


async def _say(address: str, someone: str, text: str) -> None:
    async with Everthread.open(address) as et:
        talk = await et.conversation(user=someone, agent="helper")
        await talk.append(user(text))


def test_an_export_mirrors_a_conversation_while_it_grows(
    address: str, someone: str, filled: str, tmp_path: Path
) -> None:
    out = tmp_path / "mirror.jsonl"
    mirroring = everthread("export", "--follow", "-o", str(out), "--store", address, "--user", someone)
    asyncio.run(_say(address, someone, "news"))
    assert comes_true(lambda: out.exists() and b"news" in out.read_bytes())
    mirroring.send_signal(signal.SIGINT)
    mirroring.communicate(timeout=PATIENCE)


def test_a_reader_that_has_seen_enough_ends_the_export_quietly(address: str, someone: str, filled: str) -> None:
    exporting = everthread("export", "--store", address, "--user", someone)
    assert exporting.stdout
    exporting.stdout.close()
    assert exporting.stderr
    assert "Traceback" not in exporting.stderr.read()
    exporting.wait(timeout=PATIENCE)
    exporting.stderr.close()


def test_bench_says_what_it_is_for(run: Run) -> None:
    assert "bare engine" in " ".join(run("bench", "--help").output.split())
    assert run("bench", "nothing").exit_code == 2


@pytest.mark.parametrize("given", [("bench",), ("bench", "log"), ("bench", "--help")])
def test_without_a_clone_bench_says_so_in_a_sentence(
    given: tuple[str, ...], run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("everthread.cli.bench.FOLDER", tmp_path)
    done = run(*given)
    assert done.exit_code == 1
    assert done.stderr == "Error: `everthread bench` works only in a clone of Everthread's repository.\n"


def test_a_benchmark_has_its_own_help_which_says_how_long_it_takes(run: Run) -> None:
    said = run("bench", "cache", "--help").output
    assert "--quick" in said
    assert "minutes" in said


@pytest.mark.parametrize("command", [["show"], ["context", "--model", "openai:gpt-5"]])
def test_where_nobody_said_anything_it_says_whose_and_where(run: Run, empty: None, command: list[str]) -> None:
    said = run(*command, "--user", "nobody", "--tenant", "acme").stderr
    assert "There are no conversations of 'nobody' (tenant 'acme') in " in said
    assert "name whose with --user" in said


def test_no_password_is_shown() -> None:
    whose = Where("postgresql://ana:secret@host/db", "ana", "default", False).whose
    assert whose == "of 'ana' in postgresql://ana:…@host/db"


@pytest.mark.parametrize("command", [["show"], ["context", "--model", "openai:gpt-5"]])
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_terminal_that_knows_few_characters_is_no_reason_to_fail(
    address: str, someone: str, command: list[str], form: list[str]
) -> None:
    asyncio.run(_say(address, someone, "Straße – 10 €"))
    few = {**os.environ, "PYTHONIOENCODING": "ascii"}
    shown = everthread(*command, *form, "--store", address, "--user", someone, env=few)
    said, problems = shown.communicate(timeout=PATIENCE)
    assert (shown.returncode, problems) == (0, "")
    assert ("Stra\\u00dfe" if form else "Stra?e") in said

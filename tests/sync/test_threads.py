"""The thread that the verbs without await are carried out on: errors, interruptions, many callers, the end."""

from __future__ import annotations

import asyncio
import gc
import signal
import subprocess
import sys
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from everthread import user
from everthread.core.deltas import Delta
from everthread.core.logged import Logged
from everthread.errors import BadValue, Closed, TurnCancelled, UnknownBranch, WouldHang
from everthread.sync import Everthread, Reply, Stream, Talk
from everthread.testing.scripted import call, script
from tests.forking import in_a_fork
from tests.waiting import PATIENCE, WHOLE, comes_true

ROOT = Path(__file__).parents[2]


def texts(talk: Talk) -> list[str]:
    return [event.text for event in talk.tail(turns=1_000)]


def test_many_threads_use_one_store_at_once(et: Everthread, talk: Talk) -> None:
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda n: talk.append(user(f"Message {n}")), range(40)))
    assert sorted(texts(talk)) == sorted(f"Message {n}" for n in range(40))
    assert [event.seq for event in talk.after(limit=50)] == list(range(1, 41))


def test_a_verb_works_where_a_loop_runs_already(et: Everthread, talk: Talk) -> None:
    """As in a notebook, whose cells run in the kernel's own loop."""

    async def cell() -> list[str]:
        script("sync", "Of course.")
        talk.say("Does it work here?").result()
        return texts(talk)

    assert asyncio.run(cell())[:2] == ["Does it work here?", "Of course."]


def test_an_error_comes_with_its_own_type_and_where_it_was_raised(talk: Talk) -> None:
    with pytest.raises(UnknownBranch) as caught:
        talk.on("nowhere")
    shown = "".join(traceback.format_exception(caught.value))
    assert __file__ in shown
    assert "branching.py" in shown
    assert "concurrent" not in shown
    with pytest.raises(BadValue):
        talk.tail(turns=0)


def test_leaving_the_loop_ends_the_turn(talk: Talk) -> None:
    script("sync", "word " * 10_000, pace=0.02)
    reply = talk.say("Tell me everything.")
    for _ in reply:
        break
    assert [event.kind for event in talk.tail()][-1] == "agent_killed"  # already: nothing is waited for
    with pytest.raises(TurnCancelled):
        reply.result()


def test_an_error_in_the_loop_ends_the_turn(talk: Talk) -> None:
    script("sync", "word " * 10_000, pace=0.02)
    with pytest.raises(ZeroDivisionError):
        [1 / 0 for _ in talk.say("Tell me everything.")]
    assert [event.kind for event in talk.tail()][-1] == "agent_killed"


def test_a_detached_turn_goes_on_when_its_caller_leaves_the_loop(talk: Talk) -> None:
    script("sync", "One two three four.", pace=0.02)
    reply = talk.say("Count.", detached=True)
    assert reply.accepted().seq == 1
    for _ in reply:
        break
    assert comes_true(lambda: "One two three four." in texts(talk))


def test_a_reply_that_is_dropped_on_everthreads_own_thread_ends_its_turn(et: Everthread, talk: Talk) -> None:
    """The garbage collector may run anywhere."""
    script("sync", "word " * 10_000, pace=0.02)
    begun = iter(talk.say("Tell me everything."))
    next(begun)
    held: list[object] = [begun]
    held.append(held)  # a cycle
    del begun, held

    async def collect(_: object) -> int:
        return gc.collect()

    et.run(collect)
    assert comes_true(lambda: [event.kind for event in talk.tail()][-1] == "agent_killed")


def test_another_thread_ends_a_loop_that_listens(talk: Talk) -> None:
    talk.append(user("First"))
    heard: list[str] = []
    began = threading.Event()
    stream: Stream[Logged | Delta] = talk.listen()

    def listen() -> None:
        for item in stream:
            heard.append(item.kind)
            began.set()

    thread = threading.Thread(target=listen)
    thread.start()
    assert began.wait(PATIENCE)
    stream.close()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert heard == ["user"]
    assert list(stream) == []
    stream.close()


def test_closing_the_store_wakes_those_who_wait(et: Everthread, talk: Talk) -> None:
    script("sync", "word " * 10_000, pace=0.02)
    began = threading.Event()
    raised: list[str] = []

    def listen() -> None:
        try:
            for _ in talk.listen():
                began.set()
        except Closed:
            raised.append("listener")

    def wait(reply: Reply) -> None:
        try:
            reply.result()
        except TurnCancelled:
            raised.append("speaker")

    threads = [threading.Thread(target=listen), threading.Thread(target=wait, args=[talk.say("Hello")])]
    for thread in threads:
        thread.start()
    assert began.wait(PATIENCE)
    et.close()
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(raised) == ["listener", "speaker"]


def test_a_closed_store_says_so(et: Everthread, talk: Talk) -> None:
    et.close()
    et.close()
    with pytest.raises(Closed):
        talk.tail()
    with pytest.raises(Closed):
        list(talk.say("Hello"))


def test_a_plain_tool_may_use_the_talk(talk: Talk) -> None:
    talk.append(user("I like figs."))

    def look() -> str:
        """Looks it up."""
        return talk.recall("figs")[0].text

    script("sync", call("look"), "Figs.")
    assert talk.say("What do I like?", tools=[look]).result().text == "Figs."
    [result] = [event for event in talk.tail() if event.kind == "tool_result"]
    assert "I like figs." in result.text


def test_a_verb_on_everthreads_own_thread_is_refused(talk: Talk) -> None:
    async def look() -> str:
        """Looks it up."""
        return str(talk.tail())

    script("sync", call("look"), "It failed.")
    talk.say("What do I like?", tools=[look]).result()
    [result] = [event for event in talk.tail() if event.kind == "tool_result"]
    assert str(WouldHang()) == result.text


def test_a_forked_process_is_refused_and_may_close(et: Everthread, talk: Talk) -> None:
    assert in_a_fork(lambda: str(talk.tail())).startswith("Forked: ")
    assert in_a_fork(lambda: str(list(talk.say("Hello")))).startswith("Forked: ")
    assert in_a_fork(lambda: _closed(et)) == "closed"
    talk.append(user("Here"))
    assert texts(talk) == ["Here"]


def _closed(et: Everthread) -> str:
    et.close()
    return "closed"


# -- whole programs ------------------------------------------------------------------------------------------

PROGRAM = """
import sys
from everthread.sync import Everthread
from everthread.testing.scripted import script

script("slow", "word " * 100_000, pace=0.01)
et = Everthread.open("sqlite:///talk.db", settings={"model": "scripted:slow", "memory": False})
talk = et.conversation(user="ana")
"""
INTERRUPTED = """
try:
    for number, delta in enumerate(talk.say("Go on for ever.")):
        if number == 3:
            print("begun", flush=True)
        BODY
except KeyboardInterrupt:
    print([event.kind for event in talk.tail()][-1])
et.close()
"""


@pytest.mark.parametrize("body", ["pass", "import time; number < 3 or time.sleep(600)"])
def test_ctrl_c_ends_the_turn(body: str, tmp_path: Path) -> None:
    """While the program waits for the next delta, and while it does something with the last one."""
    program = _started(PROGRAM + INTERRUPTED.replace("BODY", body), tmp_path)
    assert program.stdout is not None
    assert program.stdout.readline() == "begun\n"
    program.send_signal(signal.SIGINT)
    said, wrong = program.communicate(timeout=WHOLE)
    assert (said, wrong, program.returncode) == ("agent_killed\n", "", 0)


@pytest.mark.parametrize(
    "end",
    ["talk.say('Hello', detached=True).accepted()", "it = iter(talk.say('Hello')); next(it)", "sys.exit()", "1 / 0"],
)
def test_a_program_that_forgets_to_close_ends_all_the_same(end: str, tmp_path: Path) -> None:
    program = _started(PROGRAM + end, tmp_path)
    _, wrong = program.communicate(timeout=WHOLE)
    assert program.returncode == ("/" in end)
    assert [line for line in wrong.splitlines() if "ZeroDivisionError" not in line and not line.startswith(" ")] == (
        ["Traceback (most recent call last):"] if "/" in end else []
    )
    with Everthread.open(f"sqlite:///{tmp_path}/talk.db") as et:
        kinds = [event.kind for event in et.conversation(user="ana").tail()]
    assert kinds[-1:] == (["agent_killed"] if "Hello" in end else [])


FORKING = """
import multiprocessing
from everthread.errors import Forked

def work():
    for verb in (talk.tail, lambda: Everthread.open("sqlite:///talk.db")):
        try:
            verb()
        except Forked:
            print("refused", flush=True)

child = multiprocessing.get_context("fork").Process(target=work)
child.start()
child.join()
print(child.exitcode, len(talk.tail()))
"""


def test_a_worker_that_multiprocessing_forks_is_refused_and_ends(tmp_path: Path) -> None:
    program = _started("import warnings; warnings.simplefilter('ignore')\n" + PROGRAM + FORKING, tmp_path)
    said, wrong = program.communicate(timeout=WHOLE)
    assert (said.splitlines(), wrong, program.returncode) == (["refused", "refused", "0 0"], "", 0)


def _started(program: str, folder: Path) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", program], cwd=folder, stdout=pipe, stderr=pipe, text=True)

"""ChatGPT's data export: a tree of messages becomes strands, and every message something we know."""

from __future__ import annotations

import pytest
from hypothesis import given

from everthread.core.events import Event, assistant, system, text_of, tool_call, tool_result, user
from everthread.core.parts import File, Image, Reasoning
from everthread.core.times import moment
from everthread.transfer import Exported, Strand, from_chatgpt
from tests.transfer.exports import (
    EDITED,
    POINTER,
    Json,
    content,
    in_a_row,
    line,
    lines,
    said,
    told,
    tree,
    trees,
    without_what_goes_on,
)


def read(*messages: Json | None) -> list[Event]:
    exported = from_chatgpt(in_a_row(*messages))
    assert len(exported.strands) == 1
    return line(exported, 0)


# -- the tree ----------------------------------------------------------------------------------------------


def test_edits_and_regenerations_are_strands_that_fork_where_they_were_made() -> None:
    exported = from_chatgpt(EDITED)
    assert lines(exported) == [
        ["When is the ferry?", "At nine."],
        ["When is the ferry?", "At ten.", "Sure?", "Sure."],
        ["When is the ferry?", "At ten.", "Sure?", "Very sure."],
        ["When is the last ferry?", "At midnight."],
    ]
    assert [(strand.parent, strand.at) for strand in exported.strands] == [(None, 0), (0, 1), (1, 3), (0, 0)]


def test_the_current_strand_is_the_one_with_the_current_node() -> None:
    assert from_chatgpt(EDITED).current == 1
    assert from_chatgpt({**EDITED, "current_node": "u1"}).current == 0
    assert from_chatgpt({**EDITED, "current_node": "root"}).current == 0


def test_without_a_current_node_the_newest_message_is_current() -> None:
    assert from_chatgpt({**EDITED, "current_node": None}).current == 2


def test_name_and_times_are_kept_to_the_microsecond() -> None:
    exported = from_chatgpt(EDITED)
    assert (exported.name, exported.began) == ("Ferries", moment(1_500_000))
    assert exported.strands[0].events[0][0] == moment(10_000_001)
    later = from_chatgpt(in_a_row(said("user", "x", create_time=1765672231.944857)))
    assert later.strands[0].events[0][0] == moment(1_765_672_231_944_857)
    nameless = from_chatgpt({"mapping": {}, "title": None})
    assert nameless == Exported(name="", began=None, strands=(Strand(),), current=0)


def test_siblings_come_in_the_order_of_their_parents_children() -> None:
    given = tree(("u", None, said("user", "a")), ("y", "u", said("user", "y")), ("x", "u", said("user", "x")))
    given["mapping"]["u"]["children"] = ["x", "gone"]  # y is not named, and comes after
    assert lines(from_chatgpt(given)) == [["a", "x"], ["a", "y"]]


def test_what_answers_a_silent_node_answers_the_one_before_it() -> None:
    exported = from_chatgpt(
        tree(
            ("u", None, said("user", "a")),
            ("nothing", "u", said("assistant", "")),
            ("x", "nothing", said("assistant", "x")),
            ("y", "nothing", said("assistant", "y")),
            ("end", "y", None),
        )
    )
    assert lines(exported) == [["a", "x"], ["a", "y"]]
    assert exported.current == 1


def test_a_very_long_conversation_is_read_without_recursion() -> None:
    exported = from_chatgpt(in_a_row(*(said("user", str(n)) for n in range(20_000))))
    assert len(exported.strands[0].events) == 20_000


@given(trees())
def test_every_line_reads_exactly_the_messages_from_the_root_to_a_leaf(given: Json) -> None:
    exported = from_chatgpt(given)
    every = {tuple(told(given, id)) for id in given["mapping"]}
    assert without_what_goes_on(lines(exported)) == without_what_goes_on([list(one) for one in every])
    assert sum(len(strand.events) for strand in exported.strands) == len(every - {()})
    current = told(given, given["current_node"])
    assert lines(exported)[exported.current][: len(current)] == current


# -- what is said ------------------------------------------------------------------------------------------


SOUND = {"content_type": "audio_asset_pointer", "asset_pointer": "sediment://file_2", "format": "wav"}
MESSAGES: dict[str, tuple[Json, Event]] = {
    "a system message that says something": (said("system", "Be kind.", weight=0), system("Be kind.")),
    "several parts": (said("user", "one", "", "two"), user("one", "two")),
    "a model and its reply": (
        said("assistant", "Hi", metadata={"model_slug": "gpt-4o", "finish_details": {"type": "stop"}}),
        assistant("Hi", model="gpt-4o"),
    ),
    "a reply that was stopped": (
        said("assistant", "I th", metadata={"finish_details": {"type": "interrupted"}}),
        assistant("I th", interrupted=True),
    ),
    "a reply still on its way": (
        said("assistant", "I th", status="in_progress"),
        assistant("I th", interrupted=True),
    ),
    "a reply to nobody but itself": (said("assistant", "Hm.", recipient="assistant"), assistant("Hm.")),
    "an image and a question": (
        said("user", **content("multimodal_text", parts=[POINTER, "What is this?"])),
        user(Image(url="file-service://file-1", width=640, height=480), "What is this?"),
    ),
    "a spoken message": (
        said(
            "user", **content("multimodal_text", parts=[{"content_type": "audio_transcription", "text": "Hi"}, SOUND])
        ),
        user("Hi", File(url="sediment://file_2", media_type="audio/wav")),
    ),
    "a conversation by camera": (
        said(
            "user",
            {
                "content_type": "real_time_user_audio_video_asset_pointer",
                "audio_asset_pointer": SOUND,
                "video_container_asset_pointer": {"asset_pointer": "sediment://film"},
                "frames_asset_pointers": [POINTER],
            },
        ),
        user(
            File(url="sediment://file_2", media_type="audio/wav"),
            File(url="sediment://film"),
            Image(url="file-service://file-1", width=640, height=480),
        ),
    ),
    "files beside the message, one of them shown in it": (
        said(
            "user",
            POINTER,
            "Look",
            metadata={
                "attachments": [{"id": "file-1"}, {"id": "file-9", "name": "a.pdf", "mime_type": "application/pdf"}]
            },
        ),
        user(
            Image(url="file-service://file-1", width=640, height=480),
            "Look",
            File(url="file-9", name="a.pdf", media_type="application/pdf"),
        ),
    ),
    "thoughts": (
        said(
            "assistant", **content("thoughts", thoughts=[{"summary": "Hm", "content": "Ferries."}, {"summary": "Oh"}])
        ),
        assistant(Reasoning(text="Hm\nFerries."), Reasoning(text="Oh")),
    ),
    "thoughts as parts": (
        said("assistant", **content("thoughts", parts=["Ferries."])),
        assistant(Reasoning(text="Ferries.")),
    ),
    "a recap of thoughts": (
        said("assistant", **content("reasoning_recap", content="Thought for 8s")),
        assistant(Reasoning(text="Thought for 8s")),
    ),
    "custom instructions": (
        said("user", **content("user_editable_context", user_profile="Ana", user_instructions="Be brief.")),
        system("Ana\nBe brief."),
    ),
    "memories": (
        said("assistant", **content("model_editable_context", model_set_context="Likes ferries.", repository=None)),
        system("Likes ferries."),
    ),
    "code that is shown": (said("assistant", **content("code", language="python", text="1 + 1")), assistant("1 + 1")),
    "a later type with text": (said("assistant", **content("hologram", text="Hello")), assistant("Hello")),
    "a later type with parts": (said("assistant", **content("hologram", parts=["Hello"])), assistant("Hello")),
    "a later type with a result": (said("assistant", **content("hologram", result="Hello")), assistant("Hello")),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_is_what_it_would_be_here(name: str) -> None:
    message, expected = MESSAGES[name]
    assert read(message) == [expected]


RESULTS: dict[str, tuple[Json, Event]] = {
    "output": (content("execution_output", text="2"), tool_result("2", id="n1", name="python")),
    "an error": (
        content("system_error", name="Timeout", text="too slow"),
        tool_result("Timeout\ntoo slow", id="n1", name="python", error=True),
    ),
    "a quote": (
        content("tether_quote", title="Ferries", url="https://f.example", domain="f", text="Nine."),
        tool_result("Ferries\nhttps://f.example\nNine.", id="n1", name="python"),
    ),
    "a page": (
        content("sonic_webpage", url="https://f.example", text="Nine."),
        tool_result("https://f.example\nNine.", id="n1", name="python"),
    ),
    "search results": (
        content("tether_browsing_display", result="# 0", summary=""),
        tool_result("# 0", id="n1", name="python"),
    ),
    "lines to cite": (content("citable_code_output", output_str="L0"), tool_result("L0", id="n1", name="python")),
    "a screen": (
        content("computer_output", computer_id="1", screenshot=POINTER),
        tool_result(Image(url="file-service://file-1", width=640, height=480), id="n1", name="python"),
    ),
    "nothing, which is an answer too": (
        content("tether_browsing_display", result="", assets=None),
        tool_result(id="n1", name="python"),
    ),
}


@pytest.mark.parametrize("name", RESULTS)
def test_a_tools_message_answers_the_call_before_it(name: str) -> None:
    message, expected = RESULTS[name]
    call = said("assistant", recipient="python", **content("code", language="python", text="1 + 1"))
    told = read(said("user", "Sum?"), call, said("tool", name="python", **message), said("assistant", "2"))
    assert told == [user("Sum?"), tool_call("python", "1 + 1", id="n1"), expected, assistant("2")]


def test_each_result_finds_the_call_of_its_own_tool() -> None:
    events = read(
        said("user", "Draw and search."),
        said("assistant", '{"prompt": "a ferry"}', recipient="dalle.text2im"),
        said("assistant", 'search("a")', recipient="web.search"),
        said("assistant", 'search("b")', recipient="web.search"),
        said("tool", "about a", name="web"),
        said("tool", "drawn", name="dalle.text2im"),
        said("tool", "about b", name="web.search"),
        said("tool", "more about b", name="web.search"),
        said("tool", "whose is this?", name="bio"),
        said("tool", "", name="bio"),
    )
    answered = [(getattr(event, "id", ""), text_of(event)) for event in events[4:]]
    assert answered == [
        ("n2", "about a"),
        ("n1", "drawn"),
        ("n3", "about b"),
        ("n3", "more about b"),
        ("n8", "whose is this?"),  # no call of its own: known by itself; the silent one after it is left out
    ]


def test_a_tool_of_another_name_answers_the_call_that_waits() -> None:
    events = read(
        said("assistant", "{}", recipient="api_tool.call_tool"),
        said("tool", "found", name="GitHub_search"),
    )
    assert events[1] == tool_result("found", id="n0", name="GitHub_search")


def test_a_call_on_one_strand_is_not_answered_on_another() -> None:
    exported = from_chatgpt(
        tree(
            ("u", None, said("user", "Sum?")),
            ("c1", "u", said("assistant", "1 + 1", recipient="python")),
            ("r1", "c1", said("tool", "2", name="python")),
            ("c2", "u", said("assistant", "1 + 2", recipient="python")),
            ("r2", "c2", said("tool", "3", name="python")),
        )
    )
    assert line(exported, 1)[1:] == [
        tool_call("python", "1 + 2", id="c2"),
        tool_result("3", id="c2", name="python"),
    ]

"""What a data export holds that is not understood is named: where, what was found, and what would be
understood. What does no harm is let pass."""

from __future__ import annotations

import pytest

from everthread.errors import BadFormat
from everthread.transfer import from_chatgpt, from_claude
from tests.transfer.exports import (
    EDITED,
    POINTER,
    RETRIED,
    ROOT,
    Json,
    claude,
    content,
    human,
    in_a_row,
    lines,
    linked,
    listed,
    message,
    result,
    said,
    tree,
)


def with_message(**changes: object) -> Json:
    return in_a_row({**said("user", "a"), **changes})


CIRCLE = tree(("r", None, None), ("a", "b", said("user", "a")), ("b", "a", said("user", "b")))
LOST = tree(("a", None, said("user", "a")), ("b", "gone", said("user", "b")))
CHATGPT: dict[str, tuple[object, str, str]] = {
    "no object": ([], "", "found a list, but what is understood here is an object"),
    "no mapping": ({}, ".mapping", "found nothing, but what is understood here is an object"),
    "a node that is none": ({"mapping": {"n0": 3}}, ".mapping.n0", "found a number"),
    "a circle": (CIRCLE, ".mapping.a.parent", "found parents that lead round in a circle"),
    "a missing parent": (LOST, ".mapping.b.parent", "found the parent 'gone', which is not there"),
    "two missing parents": (
        tree(("a", "x", said("user", "a")), ("b", "y", said("user", "b"))),
        ".mapping.a.parent",
        "found the parent 'x', which is not there",
    ),
    "a parent that is no id": ({"mapping": {"a": {"parent": 3}}}, ".mapping.a.parent", "found a number"),
    "a child that is no id": ({"mapping": {"a": {"children": [[]]}}}, ".mapping.a.children[0]", "found a list"),
    "a current node that is not there": (
        {**EDITED, "current_node": "gone"},
        ".current_node",
        "found the node 'gone', which is not in the mapping",
    ),
    "a title that is none": ({**EDITED, "title": 3}, ".title", "a string or null"),
    "a time that is none": ({**EDITED, "create_time": "now"}, ".create_time", "found a string"),
    "a time that is a truth": ({**EDITED, "create_time": True}, ".create_time", "found a boolean"),
    "a time before 1970": (with_message(create_time=-1), ".mapping.n0.message.create_time", "found -1 where"),
    "a time that never comes": (with_message(create_time=1e300), ".mapping.n0.message.create_time", "found 1e+300"),
    "not a number": (with_message(create_time=float("nan")), ".mapping.n0.message.create_time", "found nan"),
    "no author": (with_message(author=None), ".mapping.n0.message.author", "found nothing"),
    "an unknown role": (
        with_message(author={"role": "clown"}),
        ".mapping.n0.message.author",
        "found the role 'clown', but what is understood here is one of: system, user, assistant, tool",
    ),
    "an unknown type": (
        with_message(**content("hologram", shape="cube")),
        ".mapping.n0.message.content",
        "found the content_type 'hologram', but what is understood here is one of: text, multimodal_text, code",
    ),
    "no type": (with_message(content={"shape": 1}), ".mapping.n0.message.content", "found no content_type"),
    "parts that are no list": (
        with_message(**content("text", parts="a")),
        ".mapping.n0.message.content.parts",
        "found a string, but what is understood here is a list",
    ),
    "an unknown part": (
        with_message(**content("multimodal_text", parts=["a", {"content_type": "smell"}])),
        ".mapping.n0.message.content.parts[1]",
        "found the content_type 'smell', but what is understood here is one of: image_asset_pointer",
    ),
    "an image from nowhere": (
        with_message(**content("multimodal_text", parts=[{**POINTER, "asset_pointer": None}])),
        ".mapping.n0.message.content.parts[0].asset_pointer",
        "found nothing",
    ),
    "an image as wide as a word": (
        with_message(**content("multimodal_text", parts=[{**POINTER, "width": "w"}])),
        ".mapping.n0.message.content.parts[0].width",
        "a whole number of pixels",
    ),
    "text that is none": (with_message(**content("code", text=3)), ".mapping.n0.message.content.text", "a number"),
    "a thought that is none": (
        with_message(**content("thoughts", thoughts=["x"])),
        ".mapping.n0.message.content.thoughts[0]",
        "found a string",
    ),
    "an attachment that is none": (
        with_message(metadata={"attachments": [3]}),
        ".mapping.n0.message.metadata.attachments[0]",
        "found a number",
    ),
}


@pytest.mark.parametrize("name", CHATGPT)
def test_what_is_not_understood_of_chatgpts_is_refused_with_its_place(name: str) -> None:
    given, where, reason = CHATGPT[name]
    with pytest.raises(BadFormat) as bad:
        from_chatgpt(given, where="line 1, [3]")  # type: ignore[arg-type]
    assert bad.value.where == f"line 1, [3]{where}"
    assert reason in bad.value.reason


BLOCK = ".chat_messages[0].content[0]"
CLAUDE: dict[str, tuple[object, str, str]] = {
    "no object": ("x", "", "found a string, but what is understood here is an object"),
    "no messages": ({}, ".chat_messages", "found nothing, but what is understood here is a list"),
    "a message that is none": (listed(3), ".chat_messages[0]", "found a number"),  # type: ignore[arg-type]
    "an unknown sender": (
        listed(human("a"), message("clown", "b")),
        ".chat_messages[1]",
        "found the sender 'clown', but what is understood here is one of: human, assistant",
    ),
    "the same uuid twice": (
        listed(human("a", uuid="1"), human("b", uuid="1")),
        ".chat_messages[1].uuid",
        "found the uuid '1' a second time",
    ),
    "a name that is none": (listed(name=3), ".name", "a string or null"),
    "a time that is none": (listed(created_at="noon"), ".created_at", "found 'noon' where a time such as"),
    "a time before 1970": (
        listed(human("a", created_at="1969-12-31T23:59:59Z")),
        ".chat_messages[0].created_at",
        "found '1969-12-31T23:59:59Z' where a time such as",
    ),
    "a time after all dates": (listed(created_at="9999-12-31T23:59:59-10:00"), ".created_at", "found '9999"),
    "a time in seconds": (listed(created_at=1.5), ".created_at", "found a number"),
    "a circle": (
        linked(("a", ROOT, "a"), ("b", "c", "b"), ("c", "b", "c")),
        ".chat_messages[1].parent_message_uuid",
        "found parents that lead round in a circle",
    ),
    "a missing parent": (
        linked(("a", None, "a"), ("b", "a", "b"), ("c", "gone", "c")),
        ".chat_messages[2].parent_message_uuid",
        "found the parent 'gone', which is not there",
    ),
    "a current message that is not there": (
        {**RETRIED, "current_leaf_message_uuid": "gone"},
        ".current_leaf_message_uuid",
        "found the message 'gone', which is not there",
    ),
    "content that is no list": (
        listed(human("a") | {"content": "a"}),
        ".chat_messages[0].content",
        "found a string",
    ),
    "a block that is none": (listed(human(3)), BLOCK, "found a number"),
    "an unknown block": (
        listed(human({"type": "hologram", "text": None})),
        BLOCK,
        "found the type 'hologram', but what is understood here is one of: text, thinking, tool_use, tool_result",
    ),
    "text that is none": (listed(human({"type": "text", "text": 3})), f"{BLOCK}.text", "found a number"),
    "a tool without a name": (listed(claude({"type": "tool_use"})), f"{BLOCK}.name", "found nothing"),
    "an odd result": (listed(claude(result(3))), f"{BLOCK}.content", "a string, a list of blocks or null"),
    "an odd error": (listed(claude(result("x") | {"is_error": 1})), f"{BLOCK}.is_error", "a boolean or null"),
    "an unknown block in a result": (
        listed(claude(result(["a"]))),
        f"{BLOCK}.content[0]",
        "found a string, but what is understood here is an object",
    ),
    "an image that is none": (
        listed(human({"type": "image", "source": {"data": "A*"}})),
        f"{BLOCK}.source.data",
        "found invalid base64",
    ),
    "an attachment that is none": (
        listed(human("a", attachments=["x"])),
        ".chat_messages[0].attachments[0]",
        "found a string",
    ),
    "a file whose name is none": (
        listed(human("a", files=[{"file_name": 3}])),
        ".chat_messages[0].files[0].file_name",
        "found a number",
    ),
}


@pytest.mark.parametrize("name", CLAUDE)
def test_what_is_not_understood_of_claudes_is_refused_with_its_place(name: str) -> None:
    given, where, reason = CLAUDE[name]
    with pytest.raises(BadFormat) as bad:
        from_claude(given, where="line 1, [3]")  # type: ignore[arg-type]
    assert bad.value.where == f"line 1, [3]{where}"
    assert reason in bad.value.reason


HARMLESS: dict[str, tuple[Json, list[list[str]]]] = {
    "two roots": (tree(("a", None, said("user", "a")), ("b", None, said("user", "b"))), [["a"], ["b"]]),
    "a root whose parent is a placeholder": (
        tree(("a", "client-root", said("user", "a")), ("b", "a", said("assistant", "b"))),
        [["a", "b"]],
    ),
    "nodes without children or ids": (
        {"mapping": {"a": {"message": said("user", "a")}, "b": {"message": said("user", "b"), "parent": "a"}}},
        [["a", "b"]],
    ),
    "a message before the one it answers": (
        tree(("b", "a", said("assistant", "b")), ("a", None, said("user", "a"))),
        [["a", "b"]],
    ),
    "null content, and null among the parts": (
        in_a_row(said("user", None, "a"), {**said("assistant"), "content": None}),
        [["a"]],
    ),
    "nobody said anything": (in_a_row(None, said("system", "")), [[]]),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_what_does_no_harm_in_chatgpts_is_tolerated(name: str) -> None:
    given, expected = HARMLESS[name]
    assert lines(from_chatgpt(given)) == expected

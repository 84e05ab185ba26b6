"""Builders of made-up data exports, and how to read along the strands that they become."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from everthread.core.events import Event, text_of
from everthread.transfer import Exported

Json = dict[str, Any]

# -- ChatGPT -----------------------------------------------------------------------------------------------


def said(role: str, *parts: object, name: str | None = None, **more: object) -> Json:
    """A message; what it says besides text is given as its whole `content`."""
    content = {"content_type": "text", "parts": list(parts)}
    return {"author": {"role": role, "name": name}, "content": content, "recipient": "all", **more}


def tree(*nodes: tuple[str, str | None, Json | None], current: str | None = None) -> Json:
    """Nodes as (id, parent, message); children as the export lists them."""
    mapping: dict[str, Json] = {
        id: {"id": id, "message": message, "parent": parent, "children": []} for id, parent, message in nodes
    }
    for id, parent, _ in nodes:
        if parent in mapping:
            mapping[parent]["children"].append(id)
    return {"title": "Ferries", "create_time": 1.5, "mapping": mapping, "current_node": current or nodes[-1][0]}


def in_a_row(*messages: Json | None) -> Json:
    ids = [f"n{index}" for index in range(len(messages))]
    return tree(*zip(ids, (None, *ids), messages, strict=False))


def content(kind: str, **fields: object) -> Json:
    return {"content": {"content_type": kind, **fields}}


POINTER = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://file-1", "width": 640, "height": 480}


EDITED = tree(
    ("root", None, None),
    ("sys", "root", said("system", "", weight=0, metadata={"is_visually_hidden_from_conversation": True})),
    ("u1", "sys", said("user", "When is the ferry?", create_time=10.000001)),
    ("a1", "u1", said("assistant", "At nine.", create_time=11)),
    ("a2", "u1", said("assistant", "At ten.", create_time=12)),
    ("u2", "sys", said("user", "When is the last ferry?", create_time=20)),
    ("a3", "u2", said("assistant", "At midnight.", create_time=21)),
    ("u3", "a2", said("user", "Sure?", create_time=30)),
    ("a4", "u3", said("assistant", "Sure.", create_time=31)),
    ("a5", "u3", said("assistant", "Very sure.", create_time=32)),
    current="a4",
)


@st.composite
def trees(draw: st.DrawFn) -> Json:
    """Any tree of messages, silent ones among them, its nodes in any order."""
    nodes: list[tuple[str, str | None, Json | None]] = []
    for index in range(draw(st.integers(1, 25))):
        parent = f"n{draw(st.integers(0, index - 1))}" if index and draw(st.integers(0, 9)) else None
        text = f"text of {index}" if draw(st.integers(0, 3)) else ""
        nodes.append((f"n{index}", parent, said(draw(st.sampled_from(["user", "assistant", "system"])), text)))
    return tree(*draw(st.permutations(nodes)))


def told(given: Json, id: str | None) -> list[str]:
    """What is read from the root to a node, found the simple way."""
    texts: list[str] = []
    while id is not None:
        texts += [part for part in given["mapping"][id]["message"]["content"]["parts"] if part]
        id = given["mapping"][id]["parent"]
    return texts[::-1]


def without_what_goes_on(texts: list[list[str]]) -> list[list[str]]:
    """Lines that no other line continues."""
    return sorted(one for one in texts if not any(other[: len(one)] == one for other in texts if len(other) > len(one)))


# -- Claude ------------------------------------------------------------------------------------------------

ROOT = "00000000-0000-4000-8000-000000000000"


def message(sender: str, *content: object, **more: object) -> Json:
    blocks = [{"type": "text", "text": block} if isinstance(block, str) else block for block in content]
    return {"sender": sender, "text": "", "content": blocks, "attachments": [], "files": [], **more}


def human(*content: object, **more: object) -> Json:
    return message("human", *content, **more)


def claude(*content: object, **more: object) -> Json:
    return message("assistant", *content, **more)


def listed(*messages: Json, **more: object) -> Json:
    return {"uuid": "c", "name": "Ferries", "created_at": None, "chat_messages": list(messages), **more}


def use(name: str, *, id: str | None = None, input: object = None) -> Json:
    return {"type": "tool_use", "id": id, "name": name, "input": input, "message": None, "start_timestamp": None}


def result(content: object, *, id: str | None = None, **more: object) -> Json:
    return {"type": "tool_result", "tool_use_id": id, "content": content, "is_error": False, **more}


def linked(*messages: tuple[str, str | None, str], **more: object) -> Json:
    """Messages as (uuid, parent, text), a second apart."""
    return listed(
        *(
            human(text, uuid=uuid, parent_message_uuid=parent, created_at=f"1970-01-01T00:{n // 60:02}:{n % 60:02}Z")
            for n, (uuid, parent, text) in enumerate(messages)
        ),
        **more,
    )


RETRIED = linked(
    ("u1", ROOT, "When?"), ("a1", "u1", "Nine."), ("a2", "u1", "Ten."), ("u2", ROOT, "Where?"), ("u3", "a1", "Sure?")
)


# -- strands -----------------------------------------------------------------------------------------------


def line(exported: Exported, index: int) -> list[Event]:
    """What is read along a strand, from the very beginning."""
    strand = exported.strands[index]
    before = [] if strand.parent is None else line(exported, strand.parent)[: strand.at]
    return before + [event for _, event in strand.events]


def lines(exported: Exported) -> list[list[str]]:
    return [[text_of(event) for event in line(exported, index)] for index in range(len(exported.strands))]

"""Hypothesis strategies for events: any text that Python can hold, any metadata, any plain JSON."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from everthread.core.events import (
    MESSAGES,
    AgentKilled,
    Assistant,
    BriefUpdated,
    Clear,
    Command,
    Event,
    Fork,
    Mark,
    ModelCall,
    Other,
    Pin,
    Redacted,
    Rewind,
    ScheduleFailed,
    SessionEnded,
    SessionStarted,
    SettingsChanged,
    Summary,
    System,
    ToolCall,
    ToolResult,
    Upload,
    User,
)
from everthread.core.happenings import HAPPENINGS
from everthread.core.parts import File, Image, Part, Reasoning, Text, file, image

# Every code point there is: NUL, lone surrogates and pairs of them in either order are drawn often.
_odd = st.sampled_from(["\0", "\ud800", "\udfff", "\ud83d\ude00", "\ude00\ud83d", "\ufeff", '"', "\\", "🙂", ""])
any_text = st.lists(st.one_of(st.text(st.characters(exclude_categories=[]), max_size=8), _odd), max_size=4).map("".join)
meta = st.dictionaries(any_text, any_text, max_size=2)
_whole = st.integers(min_value=0, max_value=2**31 - 1)
_data = st.none() | st.binary(max_size=16)
_waits = st.sampled_from(("", "approval", "job"))

_texts: st.SearchStrategy[Part] = st.one_of(
    st.builds(Text, text=any_text, meta=meta), st.builds(Reasoning, text=any_text, meta=meta)
)
# Whatever the types allow, for the stored form alone.
_any_media: st.SearchStrategy[Part] = st.one_of(
    st.builds(
        Image, blob=any_text, url=any_text, media_type=any_text, width=_whole, height=_whole, data=_data, meta=meta
    ),
    st.builds(
        File, blob=any_text, url=any_text, media_type=any_text, name=any_text, size=_whole, data=_data, meta=meta
    ),
)
# What people make: with its bytes, or kept elsewhere.
_real_media: st.SearchStrategy[Part] = st.one_of(
    st.builds(image, st.binary(max_size=16)),
    st.builds(file, st.binary(max_size=16), name=any_text),
    st.builds(Image, url=any_text, media_type=any_text, meta=meta),
)

plain_json: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=2**64, max_value=2**200)
    | st.floats(allow_nan=False, allow_infinity=False)
    | any_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text, inner, max_size=3),
    max_leaves=8,
)
_scalars = st.none() | st.booleans() | st.integers(min_value=-(2**63), max_value=2**64 - 1) | any_text


def _messages(media: st.SearchStrategy[Part]) -> st.SearchStrategy[Event]:
    parts = st.lists(_texts | media, max_size=3).map(tuple)
    return st.one_of(
        st.builds(System, parts=parts, meta=meta),
        st.builds(User, parts=parts, origin=any_text, meta=meta),
        st.builds(Assistant, parts=parts, model=any_text, interrupted=st.booleans(), meta=meta),
        st.builds(ToolCall, id=any_text, name=any_text, arguments=any_text, waits_for=_waits, meta=meta),
        st.builds(ToolResult, id=any_text, name=any_text, parts=parts, error=st.booleans(), meta=meta),
    )


messages = _messages(_any_media)
markers: st.SearchStrategy[Event] = st.one_of(
    st.just(Clear()),
    st.builds(Mark, name=any_text),
    st.builds(Fork, branch=_whole, at=_whole),
    st.builds(Rewind, branch=_whole, to=_whole),
    st.builds(Command, name=any_text, arguments=st.dictionaries(any_text, _scalars, max_size=3)),
    st.builds(
        SettingsChanged,
        values=st.dictionaries(any_text, _scalars | st.floats(allow_nan=False, allow_infinity=False), max_size=3),
    ),
    st.builds(Pin, turn=_whole, pinned=st.booleans()),
    st.builds(BriefUpdated, text=any_text, covers=_whole, facts=any_text, turns=_whole, extractive=st.booleans()),
    st.builds(SessionStarted, session=_whole),
    st.builds(SessionEnded, session=_whole, recap=any_text, extractive=st.booleans()),
    st.builds(Summary, text=any_text, covers=_whole, first=_whole, extractive=st.booleans()),
    st.builds(AgentKilled, reason=any_text),
    st.builds(Upload, parts=st.lists(st.builds(image, st.binary(max_size=16)), max_size=2).map(tuple)),
    st.builds(ScheduleFailed, schedule=any_text, reason=any_text, failures=_whole, paused=st.booleans()),
    st.builds(ModelCall, model=any_text, at=_whole, price=st.none() | st.floats(0, 9), error=any_text),
    st.builds(Redacted, was=st.sampled_from(MESSAGES), interrupted=st.booleans(), waits_for=_waits),
)
others: st.SearchStrategy[Event] = st.builds(
    Other,
    kind=st.from_regex(r"app[a-z0-9_.:-]{0,20}", fullmatch=True),
    data=st.dictionaries(any_text.filter(lambda key: key != "kind"), plain_json, max_size=3),
)
happenings: st.SearchStrategy[Event] = st.builds(
    lambda kind, stored: kind.read(stored),
    st.sampled_from(list(HAPPENINGS.values())),
    st.dictionaries(
        st.one_of(st.sampled_from(["title", "text", "name", "data"]), any_text.filter(lambda key: key != "kind")),
        st.one_of(any_text, plain_json),
        max_size=3,
    ),
)
events: st.SearchStrategy[Event] = st.one_of(messages, markers, happenings, others)
# Events as a log may hold them.
_allowed: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "budget": st.integers(0, 10**9),
        "step": st.floats(0, 1),
        "cache": st.booleans(),
        "retries": st.just(None),
    },
)
storable: st.SearchStrategy[Event] = st.one_of(
    _messages(_real_media),
    markers.filter(lambda event: not isinstance(event, SettingsChanged)),
    st.builds(SettingsChanged, values=_allowed),
    happenings,
    others,
)

"""What stands in a query is read as Starlette reads it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from everthread.server.reading import query_of

_PIECES = st.sampled_from(["a", "b", "=", "&", "%20", "%", "+", ";", "%ff", "ä", "1", "#"])


@given(st.lists(_PIECES).map("".join))
def test_a_query_is_read_as_starlette_reads_it(query: str) -> None:
    request = Request({"type": "http", "query_string": query.encode("latin-1"), "headers": []})
    assert query_of(request) == dict(request.query_params)

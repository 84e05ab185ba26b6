"""The canvas on a terminal: what is drawn at several widths, and that nothing in it can steer the terminal."""

from __future__ import annotations

import io
import re
from textwrap import dedent

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from everthread.cli.drawing import EMPTY, drawn
from everthread.core.canvas import (
    Canvas,
    Card,
    Chart,
    Code,
    Element,
    Field,
    Form,
    List,
    ListItem,
    Picture,
    Series,
    Shown,
    Table,
    TextElement,
)
from everthread.core.canvas.elements import ChartKind
from tests.docs.test_examples import blocks
from tests.examples import examples

WIDTHS = (40, 80, 160)


def shown(*elements: Element, width: int = 40, colours: bool = False, encoding: str = "utf-8", by: str = "") -> str:
    """What stands on a terminal of this width."""
    out = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="replace", write_through=True)
    console = Console(
        file=out, width=width, force_terminal=colours, highlight=False, color_system="standard" if colours else None
    )
    console.print(drawn(Canvas(tuple([Shown(element, by=by) for element in elements]), "split")))
    out.seek(0)
    return out.read()


def framed(element: Element, width: int = 40) -> str:
    """What stands in the frame of an element."""
    lines = shown(element, width=width).splitlines()[2:-1]
    assert all(line[0] == line[-1] == "│" for line in lines)
    return "\n".join(line[2:-2].rstrip() for line in lines)


def test_an_empty_canvas() -> None:
    assert shown() == f"{EMPTY}\n"


def test_an_element_has_a_frame_with_its_title_type_and_id() -> None:
    card = Card(id="hotel", title="Hotel Belém", text="Booked for *three* nights.", link="https://hotel.example")
    assert shown(card, by="user") == dedent(
        """\
        1 element · mode split
        ╭─ Hotel Belém ────────────────────────╮
        │ Booked for three nights.             │
        │ https://hotel.example                │
        ╰─────── card hotel · changed by user ─╯
        """
    )


def test_markdown_is_drawn_and_html_is_shown_as_it_is_written() -> None:
    text = TextElement(
        id="t", text="**Porto**, then <b>Faro</b> ([map](https://m.example))\n\n<script>x</script>\n\n- a"
    )
    assert framed(text, 80) == "Porto, then <b>Faro</b> (map (https://m.example))\n\n<script>x</script>\n\n • a"


def test_a_bar_chart_has_a_bar_for_each_value() -> None:
    chart = Chart(
        id="b",
        chart="bar",
        unit="days",
        labels=("Lisboa", "北京"),
        series=(Series(name="2025", values=(2.0, 8.0)), Series(name="2026", values=(4.5, None))),
    )
    assert framed(chart) == dedent(
        """\
        days
        Lisboa 2025 █████                  2
               2026 ███████████▎         4.5
        北京   2025 ████████████████████   8
               2026                        –"""
    )


def test_what_is_below_nothing_lies_left_of_it() -> None:
    chart = Chart(id="b", chart="bar", labels=("Mon", "Tue"), series=(Series(values=(-1.0, 2.0)),))
    first, second = framed(chart).splitlines()
    assert second.index("█") == first.rindex("█") + 1
    assert first.endswith("-1")


def test_a_pie_has_shares() -> None:
    chart = Chart(id="p", chart="pie", labels=("rent", "food"), series=(Series(values=(750.0, 250.0)),))
    rent, food = framed(chart).splitlines()
    assert rent.endswith("75.0%  750")
    assert food.endswith("25.0%  250")
    assert rent.count("█") == 3 * food.count("█") + 2


LINE = Chart(
    id="l",
    chart="line",
    labels=("Jan", "Feb", "Mar"),
    series=(Series(name="one", values=(0.0, 4.0, 2.0)), Series(name="two", values=(8.0, None, 8.0))),
)


def test_a_line_chart_without_colours_has_a_picture_for_each_line() -> None:
    assert framed(LINE) == dedent(
        """\
        ━ one
        8 ┤
          │
          │               ⢀⣀⡀
          │          ⣀⡠⠤⠒⠊⠁ ⠈⠉⠉⠑⠒⠒⠤⠤⠤⣀⣀⡀
          │     ⣀⡠⠔⠒⠉                  ⠈⠉⠉⠑⠒
        0 ┤⣀⠤⠒⠊⠉
          └─────────────────────────────────
           Jan            Feb            Mar
        ━ two
        8 ┤⠁                               ⠈
          │
          │
          │
          │
        0 ┤
          └─────────────────────────────────
           Jan            Feb            Mar"""
    )


def test_a_line_chart_with_colours_has_one_picture() -> None:
    told = shown(LINE, colours=True)
    assert told.count("Jan") == 1
    assert "\x1b[36m━" in told
    assert "\x1b[33m━" in told


def test_an_area_reaches_down_to_nothing() -> None:
    chart = Chart(id="a", chart="area", series=(Series(values=(5.0, 5.0)),))
    rows = framed(chart).splitlines()[:6]
    assert {row[3:] for row in rows} == {"⣿" * 33}


def test_points_stand_where_their_numbers_say() -> None:
    chart = Chart(id="s", chart="scatter", series=(Series(values=(0.0, 10.0), x=(1.5, 4.0)),))
    rows = framed(chart).splitlines()
    assert rows[0] == f"10 ┤{' ' * 31}•"
    assert rows[5] == " 0 ┤•"
    assert rows[7].split() == ["1.5", "4"]


def test_a_chart_without_values_says_so() -> None:
    for kind in ("line", "bar", "pie"):
        assert framed(Chart(id="c", chart=kind, series=(Series(values=(None,)),))) == "There are no values in it."


def test_a_table_aligns_wide_characters_and_numbers() -> None:
    table = Table(
        id="t", columns=("city", "nights", "early"), rows=(("Porto", 3, True), ("北京", 12.5, False), ("Faro", None))
    )
    assert framed(table) == dedent(
        """\
        city    nights   early
        ──────────────────────
        Porto        3   yes
        北京      12.5   no
        Faro         –   –"""
    )


def test_a_table_that_is_too_wide_is_told_line_by_line() -> None:
    table = Table(id="t", columns=tuple(f"column {n}" for n in range(4)), rows=(("a", 1, "b", "c", "more"), ("d",)))
    told = framed(table).split("\n\n")
    assert told[0].splitlines() == ["column 0 a", "column 1 1", "column 2 b", "column 3 c", "         more"]
    assert told[1].splitlines() == ["column 0 d", "column 1 –", "column 2 –", "column 3 –", "         –"]
    assert "column 0   column 1" in framed(table, 80)


def test_a_picture_is_told_and_never_loaded() -> None:
    picture = Picture(id="m", url="https://m.example/p.png", alt="A map", width=640, height=480)
    assert framed(picture) == "A map\n640×480\nhttps://m.example/p.png"
    assert framed(Picture(id="m", blob="0f" * 32)) == "A picture\nkept with the conversation:\n0f0f0f0f0f0f…"


def test_a_list_has_boxes_and_its_lines_stand_below_each_other() -> None:
    items = (ListItem(text="passport", done=True), ListItem(text="socks, and something else that is warm"))
    assert framed(List(id="l", boxes=True, items=items)) == dedent(
        """\
        [x] passport
        [ ] socks, and something else that
            is warm"""
    )
    assert framed(List(id="l", items=items[:1])) == "• passport"


def test_code_is_shown_as_it_is_and_in_colours() -> None:
    code = Code(id="c", code="def f():\n\treturn [1]\n", language="python")
    assert framed(code) == "def f():\n    return [1]"
    assert "\x1b[" in shown(code, colours=True).splitlines()[2][10:]
    assert framed(msgspec.structs.replace(code, language="no such language")) == "def f():\n    return [1]"


def test_a_form_shows_what_was_filled_in() -> None:
    form = Form(
        id="f",
        text="Tell me.",
        fields=(
            Field(name="day", label="Which day?", kind="date", required=True),
            Field(name="class", kind="choice", choices=("economy", "business"), value="business"),
            Field(name="early", kind="check", value=True),
            Field(name="bags", kind="number", value=2),
        ),
    )
    assert framed(form) == dedent(
        """\
        Tell me.

        Which day? * not filled in
        class        ( ) economy
                     (•) business
        early        [x]
        bags         2"""
    )


def test_a_terminal_that_knows_few_characters_is_told_all_the_same() -> None:
    told = shown(LINE, encoding="ascii")
    assert "8 +*" in told
    assert "?" not in told.partition("\n")[2]


def test_the_page_about_the_canvas_shows_what_is_drawn() -> None:
    chart = Chart(
        id="visitors",
        title="Visitors",
        chart="bar",
        labels=("Mon", "Tue", "Wed"),
        series=(Series(values=(412.0, 577.0, 806.0)),),
    )
    items = (ListItem(text="passport", done=True), ListItem(text="socks"))
    packing = List(id="packing-list", title="Packing list", boxes=True, items=items)
    out = Console(file=io.StringIO(), width=60)
    out.print(drawn(Canvas((Shown(chart), Shown(packing, by="user")), "split")))
    assert isinstance(out.file, io.StringIO)
    assert out.file.getvalue() in blocks("docs/howto/canvas.md", "text")


# -- whatever it holds -------------------------------------------------------------------------------------

EVIL = "\x1b[2J\x1b]8;;https://evil.example\x07\r\x9b31m\u202e\x00&#8238;&#27;&#x9b;[x](https://a.example/\x1b)\ud800"

_texts = st.text(max_size=30) | st.sampled_from(
    [EVIL, "北京" * 30, "👩\u200d👩\u200d👧", "x" * 300, "a\nb\tc", "# A\n\n> b"]
)
_numbers = st.none() | st.floats(allow_nan=True) | st.sampled_from([0.0, -0.0, 5e-324, 1.7e308, -1.7e308, 1.0])
_cells = st.none() | st.booleans() | st.integers() | st.floats() | _texts
_kinds: st.SearchStrategy[ChartKind] = st.sampled_from(["line", "bar", "pie", "area", "scatter"])


def _tuples(of: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(of, max_size=5).map(tuple)


_series = st.builds(Series, name=_texts, values=_tuples(_numbers), x=st.just(()) | _tuples(st.floats()))
_fields = st.builds(
    Field,
    name=_texts,
    label=_texts,
    kind=st.sampled_from(["text", "long", "number", "date", "choice", "check"]),
    choices=_tuples(_texts),
    required=st.booleans(),
    value=_cells,
)
_elements: st.SearchStrategy[Element] = st.one_of(
    st.builds(Card, id=_texts, title=_texts, text=_texts, link=_texts.map("https://{}".format)),
    st.builds(TextElement, id=_texts, text=_texts),
    st.builds(Chart, id=_texts, chart=_kinds, series=_tuples(_series), labels=_tuples(_texts), unit=_texts),
    st.builds(Table, id=_texts, columns=_tuples(_texts), rows=_tuples(_tuples(_cells))),
    st.builds(Picture, id=_texts, alt=_texts, url=_texts.map("http://{}".format), media_type=_texts, blob=_texts),
    st.builds(List, id=_texts, items=_tuples(st.builds(ListItem, text=_texts, done=st.booleans()))),
    st.builds(Code, id=_texts, code=_texts, language=st.sampled_from(["python", "html", EVIL])),
    st.builds(Form, id=_texts, text=_texts, fields=_tuples(_fields)),
)


@settings(max_examples=examples(150), deadline=None)
@given(_elements, st.sampled_from(WIDTHS), st.booleans())
def test_whatever_it_holds_nothing_steers_the_terminal_and_no_line_is_too_long(
    element: Element, width: int, colours: bool
) -> None:
    told = shown(element, width=width, colours=colours, by="user")
    lines = re.sub(r"\x1b\[[0-9;]*m", "", told) if colours else told
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", lines)
    assert max(map(cell_len, lines.split("\n"))) <= width


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_evil_reaches_the_terminal_from_any_place(width: int) -> None:
    """Every field of every element at once, with colours, which are the only escapes that there are."""
    every = (
        Card(id=EVIL, title=EVIL, text=EVIL, link=f"https://{EVIL}"),
        TextElement(id="t", text=EVIL),
        Chart(id="c", chart="bar", labels=(EVIL,), series=(Series(name=EVIL, values=(1.0,)),) * 2, unit=EVIL),
        Chart(id="d", chart="line", labels=(EVIL,), series=(Series(name=EVIL, values=(1.0, 2.0)),) * 2, unit=EVIL),
        Table(id="r", columns=(EVIL,), rows=((EVIL, EVIL),)),
        Picture(id="p", url=f"https://{EVIL}", alt=EVIL, media_type=EVIL),
        List(id="l", items=(ListItem(text=EVIL),)),
        Code(id="o", code=EVIL, language=EVIL),
        Form(id="f", text=EVIL, fields=(Field(name=EVIL, value=EVIL), Field(name="x", kind="choice", choices=(EVIL,)))),
    )
    told = re.sub(r"\x1b\[[0-9;]*m", "", shown(*every, width=width, colours=True, by=EVIL))
    assert {one for one in told if not one.isprintable()} <= {"\n"}

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QTextBlockFormat, QTextCursor, QTextDocument, QTextTable
from PySide6.QtWidgets import QApplication, QPlainTextEdit, QTextEdit, QWidget
from pytestqt.qtbot import QtBot

from app.chat.text.backdrop import region_box
from app.chat.text.highlight import load_lexer
from app.chat.text.regions import RegionKind
from app.chat.text.selection import selected_text
from app.chat.text.styles import CODE_HEADER
from app.chat.text.text_view import TextView
from app.theme.icons import IconButton
from app.theme.theme import Theme, ThemeChoice

MIXED = """\
# Title

Some *words* with `code` and a [link](https://example.org).

1. one
2. two
   - nested

> quoted

```python
def f(x):
    return x  # done
```

| a | b |
|---|--:|
| 1 | 2 |

---

- [ ] open
- last
"""


_LINES = [
    *("text", "# H", "- a", "  - b", "1. x", "- ```", "> q", "```", "```c", "int x;", "---", ""),
    *("/ a / b /", "/---/---/", "/ 1 / 2 /", "/---/", "$$", "$$x$$", "x$$", "  $$", "===", "- > q"),
]


@pytest.fixture(autouse=True)
def _lexers() -> None:
    for language in ("python", "c"):
        load_lexer(language, wait=True)


@pytest.fixture
def host(theme: Theme, qtbot: QtBot) -> QWidget:
    theme.apply(ThemeChoice.LIGHT)
    result = QWidget()
    qtbot.addWidget(result)
    result.resize(700, 400)
    result.show()
    return result


@pytest.fixture
def view(host: QWidget) -> TextView:
    return _text_view(host)


def _text_view(host: QWidget) -> TextView:
    result = TextView("Answer", host)
    result.resize(700, 100)
    result.show()
    return result


def _everything(view: TextView) -> str:
    cursor = QTextCursor(view.document())
    cursor.select(QTextCursor.SelectionType.Document)
    return selected_text(cursor)


def _looks(view: TextView) -> list[tuple[object, ...]]:
    """Every text block with what decides its look."""
    looks: list[tuple[object, ...]] = []
    block = view.document().begin()
    while block.isValid():
        style = block.blockFormat()
        in_list = block.textList() is not None
        colours = [(span.start, span.length) for span in block.layout().formats()]
        look = (block.text(), style.leftMargin(), style.topMargin(), in_list, tuple(colours))
        looks.append(look)
        block = block.next()
    return looks


def test_streamed_looks_like_shown_at_once(view: TextView, host: QWidget) -> None:
    other = _text_view(host)
    other.show_markdown(MIXED)
    for start in range(0, len(MIXED), 3):
        view.append(MIXED[start : start + 3])
    view.finish()
    assert _looks(view) == _looks(other)
    assert view.writer.regions == other.writer.regions


_GROWING = [
    "A paragraph of **bold** and `code words` and *a few* words, which goes on. And on!",
    "1. An item with words, and more of them\n2. another\n\n       code in an item goes on",
    "- a\n\n  ```python\n  some words of code\n  ```\n- | a | b |\n  |---|---|\n  | c | d e f |",
    "> A quote with words\nand a lazy line of it\n\n# A heading of some words\n\nTitle words\n---",
    "It costs $5 and a bit more, or $x + y$ and \\(a b\\) and [a link of words](http://a.b/c d)",
    "a | b of\n--- | ---\nc and d | e and f\n\n- [ ] to be done\n\n***\n\nlast _words_ of it",
]


@pytest.mark.parametrize("text", _GROWING)
def test_every_word_more_looks_as_if_all_were_written_anew(
    view: TextView, host: QWidget, text: str
) -> None:
    other = _text_view(host)
    view.reopen("")
    edges = [0, *(at for at in range(1, len(text)) if text[at] == " " or at % 7 == 0), len(text)]
    for start, end in pairwise(edges):
        view.append(text[start:end])
        other.reopen(text[:end])
        assert _looks(view) == _looks(other), text[:end]
        assert view.writer.regions == other.writer.regions
        places = range(view.document().characterCount())
        here, there = view.writer.map, other.writer.map
        assert [here.source_at(at) for at in places] == [there.source_at(at) for at in places]


def test_words_are_added_to_an_open_paragraph_without_parsing_it_again(
    view: TextView, monkeypatch: pytest.MonkeyPatch
) -> None:
    view.append("It begins with **bold** words")
    for name in ("app.chat.text.block_stream._parse", "app.chat.text.prose.ProseWriter.write"):
        monkeypatch.setattr(name, None)
    view.append(" and goes on")
    view.append(", and on.")
    assert _looks(view)[0][0] == "It begins with bold words and goes on, and on."


def test_finished_blocks_are_never_touched_again(view: TextView) -> None:
    touched: list[tuple[int, int]] = []
    document = view.document()
    document.contentsChange.connect(
        lambda position, _removed, _added: touched.append((position, view.writer.committed_end))
    )
    for start in range(0, len(MIXED), 5):
        view.append(MIXED[start : start + 5])
    view.finish()
    assert len(touched) > 20
    # `committed_end` is still the one from before the change when Qt reports it; Qt may count the
    # invisible mark that closes a table just above.
    assert all(position >= border - 1 for position, border in touched)


def test_an_open_code_block_only_grows(view: TextView) -> None:
    view.append("```python\nx = 1\n")
    removed: list[int] = []
    view.document().contentsChange.connect(lambda _at, gone, _new: removed.append(gone))
    for number in range(50):
        view.append(f"y{number} = 2\n")
    assert len(removed) >= 50
    assert max(removed) <= 1
    view.append("```\n")
    (region,) = view.writer.regions
    assert region.code.count("\n") == 50


def test_colours_of_a_line_that_is_laid_out_in_parts_go_on(view: TextView) -> None:
    line = "x = " + "'y' + " * 2_000 + "'z'"
    view.show_markdown(f"```python\n{line}\n```")
    view.complete()
    parts = [(text, spans) for text, *_, spans in _looks(view)]
    assert len(parts) > 2
    for text, spans in parts:
        assert spans
        assert all(start >= 0 and start + length <= len(str(text)) for start, length in spans)


def test_code_is_coloured_once_it_is_closed(view: TextView) -> None:
    view.append("```python\nreturn 1\n")
    assert not view.document().begin().layout().formats()
    view.append("```\n")
    assert view.document().begin().layout().formats()


@pytest.mark.parametrize("lines", [31, 32, 33, 64])
def test_code_as_long_as_its_links_is_coloured_to_its_end(
    view: TextView, host: QWidget, lines: int
) -> None:
    text = "```python\n" + "return 1\n" * lines + "```\n\nThat is all."
    view.show_markdown(text)
    view.complete()
    other = _text_view(host)
    for start in range(0, len(text), 7):
        other.append(text[start : start + 7])
    other.finish()
    other.complete()
    assert [look[0] for look in _looks(view)] == ["return 1"] * lines + ["That is all."]
    assert all(look[-1] for look in _looks(view)[:-1])
    assert _looks(other) == _looks(view)


def test_an_empty_item_outlives_the_paragraph_below_it(view: TextView) -> None:
    view.append("*\nw")
    view.append("ord")
    view.finish()
    streamed = _looks(view)
    view.show_markdown("*\nword")
    assert _looks(view) == streamed


@pytest.mark.parametrize(
    ("text", "cuts"),
    [
        ("- ```\n[](y)", [1, 4, 7]),
        ("# \n| 1 | 2 |", [3, 4, 5]),
        ("- ![](x)\n\n- [](x)\n- [](x)\n- [](x)", [13, 24, 27]),
    ],
)
def test_a_block_without_a_letter_keeps_its_looks_while_more_comes(
    view: TextView, text: str, cuts: list[int]
) -> None:
    view.show_markdown(text)
    whole = _looks(view)
    view.reopen("")
    for start, end in pairwise([0, *cuts, len(text)]):
        view.append(text[start:end])
    view.finish()
    assert _looks(view) == whole


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.lists(
        st.sampled_from(_LINES).map(lambda line: line.replace("/", "|")),
        max_size=10,
    ).map("\n".join),
    st.lists(st.integers(0, 100), max_size=6),
)
def test_any_stream_ends_as_the_whole_would_look(
    view: TextView, text: str, cuts: list[int]
) -> None:
    view.show_markdown(text)
    whole = _looks(view)
    view.reopen("")
    edges = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    for start, end in pairwise(edges):
        view.append(text[start:end])
    view.finish()
    assert _looks(view) == whole


@pytest.mark.release(keep=3, reason="every degenerate text")
@pytest.mark.parametrize(
    "text",
    [
        "x" * 1_000_000,
        "| a | b | c |\n|---|---|---|\n" + "| 1 | 2 | 3 |\n" * 2_000,
        "> " * 1_000 + "deep",
        "\n".join("  " * depth + "- item" for depth in range(1_000)),
        "[" * 15_000,
        "```python\n" + "x = f(1)  # c\n" * 12_000 + "```",
        "*a **b " * 2_000,
    ],
    ids=["line", "table", "quotes", "list", "brackets", "code", "stars"],
)
def test_degenerate_text_is_shown_quickly(view: TextView, text: str) -> None:
    started = time.thread_time()
    view.show_markdown(text)
    view.complete()
    QApplication.processEvents()
    assert time.thread_time() - started < 8
    assert view.raw_text == text
    assert view.document().characterCount() > 100


def test_what_is_too_long_to_show_is_said_and_copied_whole(view: TextView) -> None:
    view.show_markdown("word " * 60_000)
    view.complete()
    assert "100,000 more characters are not shown" in _everything(view)
    assert len(view.raw_text) == 300_000


def test_html_is_text(view: TextView) -> None:
    hostile = '<img src="file:///etc/passwd"> <script>x</script> <b>bold</b>'
    view.show_markdown(hostile + "\n\n<div>\nblock\n</div>")
    assert hostile in _everything(view)
    assert "<div>" in _everything(view)


def test_a_line_breaks_in_a_cell_and_nowhere_else(view: TextView) -> None:
    view.show_markdown("| a |\n|---|\n| first<br>second<br/>`<br>` |\n\nThe <br> tag.")
    assert "first\u2028second\u2028<br>" in view.toPlainText().replace("\n", "\u2028")
    assert "The <br> tag." in view.toPlainText()


@pytest.mark.parametrize(
    ("text", "bold"),
    [
        ("**注意：**请先阅读。这是**“重点”**内容。", ["注意：", "“重点”"]),
        ("한국어**(강조)**는", ["(강조)"]),
        ("これは**「重要」**です", ["「重要」"]),
        ('a**"b"**c', []),
        ("2 ** 3 ** 4", []),
    ],
)
def test_marks_beside_cjk_punctuation(view: TextView, text: str, bold: list[str]) -> None:
    view.show_markdown(text)
    at = view.document().begin().begin()
    found = []
    while not at.atEnd():
        if at.fragment().charFormat().fontWeight() > 500:
            found.append(at.fragment().text())
        at += 1
    assert found == bold


@pytest.mark.parametrize(
    ("text", "links"),
    [
        ("see https://example.org/a_(b).", ["https://example.org/a_(b)"]),
        (
            "(http://a.org/x?y=1&z=2, **https://b.org/**)",
            ["http://a.org/x?y=1&z=2", "https://b.org/"],
        ),
        ("见https://example.org。好", ["https://example.org"]),
        ("[https://a.org](https://b.org)", ["https://b.org"]),
        ("`https://a.org` http:// xhttps://b.org file:///etc", []),
    ],
)
def test_addresses_are_links(view: TextView, text: str, links: list[str]) -> None:
    view.show_markdown(text)
    assert [address for _, address in _anchors(view)] == links


def test_an_address_that_is_being_written_leads_where_it_says(view: TextView) -> None:
    for piece in ("See https://exam", "ple", ".org", "/path", " here", " and on"):
        view.append(piece)
        (link,) = _anchors(view)
        assert link[0] == link[1]
    assert link[1] == "https://example.org/path"


def _anchors(view: TextView) -> list[tuple[str, str]]:
    """The links of the first paragraph: what they show and where they lead."""
    at = view.document().begin().begin()
    found = []
    while not at.atEnd():
        if at.fragment().charFormat().isAnchor():
            found.append((at.fragment().text(), at.fragment().charFormat().anchorHref()))
        at += 1
    return found


def test_nothing_is_loaded(view: TextView, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(
        TextView, "loadResource", lambda _self, _kind, name: asked.append(str(name))
    )
    view.show_markdown("![photo](https://example.org/x.png) ![local](file:///etc/passwd)")
    QApplication.processEvents()
    assert asked == []
    assert "photo" in _everything(view)
    monkeypatch.undo()
    kind = QTextDocument.ResourceType.ImageResource.value
    assert view.loadResource(kind, QUrl("file:///etc/passwd")) is None


def test_copied_text_keeps_list_markers_and_lines(view: TextView) -> None:
    view.show_markdown("1. one\n2. two\n   - in\n\nEnd\nline")
    assert _everything(view) == "1. one\n2. two\n  - in\nEnd\nline"


def test_a_copied_table_stays_a_table(view: TextView) -> None:
    rows = "| 3 | 4 |\n" * 40
    view.show_markdown(f"above\n\n| a | b & c |\n|---|---|\n| 1<br>2 | $x^2$ |\n{rows}\n- below")
    assert _everything(view) == "above\na\tb & c\n1 2\t$x^2$\n" + "3\t4\n" * 40 + "- below"
    view.selectAll()
    html = view.createMimeDataFromSelection().html()
    assert html.count("<table>") == 1
    assert "<th>a</th><th>b &amp; c</th></tr><tr><td>1 2</td><td>$x^2$</td></tr>" in html
    assert html.count("<tr>") == 42


def test_a_copied_table_is_pasted_as_cells(view: TextView, host: QWidget) -> None:
    """Into programs that take tabs, as spreadsheets do, and into those that take HTML."""
    view.show_markdown('| a | b |\n|---|---|\n| <i>1</i> & "2" | 3<br>4 |\n| `x\\|y` | |\n')
    cells = [["a", "b"], ['<i>1</i> & "2"', "3 4"], ["x|y", ""]]
    view.selectAll()
    copied = view.createMimeDataFromSelection()
    assert [line.split("\t") for line in copied.text().split("\n")] == cells
    page = QTextEdit(host)
    page.insertFromMimeData(copied)
    table = page.document().rootFrame().childFrames()[0]
    assert isinstance(table, QTextTable)
    assert [
        [_in_cell(table, row, column) for column in range(table.columns())]
        for row in range(table.rows())
    ] == cells
    line = QPlainTextEdit(host)
    line.insertFromMimeData(copied)
    assert [row.split("\t") for row in line.toPlainText().split("\n")] == cells


def _in_cell(table: QTextTable, row: int, column: int) -> str:
    cell = table.cellAt(row, column)
    cursor = cell.firstCursorPosition()
    cursor.setPosition(cell.lastPosition(), QTextCursor.MoveMode.KeepAnchor)
    return cursor.selectedText()


def test_a_column_of_a_table_is_copied_alone(view: TextView) -> None:
    view.show_markdown("| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |")
    cursor = view.document().find("2")
    cursor.setPosition(view.document().find("4").position(), QTextCursor.MoveMode.KeepAnchor)
    assert selected_text(cursor) == "2\n4"


def test_text_without_a_table_is_copied_as_text_alone(view: TextView) -> None:
    view.show_markdown("**bold**")
    view.selectAll()
    assert not view.createMimeDataFromSelection().hasHtml()


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        ("1. a\n1. b\n1. c", "1. a\n2. b\n3. c"),
        ("3. a\n\n3. b", "3. a\n4. b"),
        ("0. a\n0. b", "0. a\n1. b"),
        ("1. a\n```\nx\n```\n2. b", "1. a\nx\n2. b"),
        ("5. a\n\nwords\n\n1. b", "5. a\nwords\n1. b"),
        ("4. a\n   1. in\n   1. in\n4. b", "4. a\n  1. in\n  2. in\n5. b"),
        ("> 4. a\n> 4. b", "4. a\n5. b"),
    ],
)
def test_an_ordered_list_counts_from_its_first_number(
    view: TextView, typed: str, shown: str
) -> None:
    view.show_markdown(typed)
    assert _everything(view) == shown


def test_a_giant_line_is_copied_in_one_piece(view: TextView) -> None:
    line = ("ab " * 10_000).rstrip()
    view.show_markdown(line)
    view.complete()
    assert _everything(view) == line


def test_the_copy_button_copies_the_code(view: TextView) -> None:
    view.show_markdown("```c\nint x;\n```\n\ntext\n\n```\nsecond\n\nend\n```")
    assert [region.kind for region in view.writer.regions] == [RegionKind.CODE, RegionKind.CODE]
    view.copy_code(1)
    assert QApplication.clipboard().text() == "second\n\nend"


def test_colours_follow_the_theme(view: TextView, theme: Theme, qtbot: QtBot) -> None:
    view.show_markdown("```python\nreturn 1\n```\n")

    def colour() -> str:
        formats = view.document().begin().layout().formats()
        return formats[0].format.foreground().color().name() if formats else ""

    light = colour()
    theme.apply(ThemeChoice.DARK)
    qtbot.waitUntil(lambda: colour() not in {"", light})
    theme.apply(ThemeChoice.LIGHT)
    qtbot.waitUntil(lambda: colour() == light)


def test_larger_letters_are_laid_out_anew(view: TextView, theme: Theme, qtbot: QtBot) -> None:
    view.show_markdown("Some words.\n\n<think>x</think>\n\n- and a list")
    before, text = view.height(), _everything(view)
    theme.apply(ThemeChoice.LIGHT, font_scale=1.5)
    qtbot.waitUntil(lambda: view.height() > before + 10)
    assert _everything(view) == text
    theme.apply(ThemeChoice.LIGHT, font_scale=1.0)
    qtbot.waitUntil(lambda: view.height() == before)


def test_long_texts_follow_in_slices(view: TextView, qtbot: QtBot) -> None:
    text = "\n\n".join(f"Paragraph {number} of many **words**." for number in range(600))
    with qtbot.waitSignal(view.settled):
        view.show_markdown(text)
        assert view.document().blockCount() < 500
    assert view.document().blockCount() == 600
    assert view.raw_text == text


def test_paragraphs_take_the_direction_of_their_letters(view: TextView) -> None:
    view.show_markdown(
        "\u05e9\u05dc\u05d5\u05dd\n\n> \u05e9\u05dc\u05d5\u05dd\n\nabc\n\n```\n\u05e9\n```"
    )
    block, directions = view.document().begin(), []
    while block.isValid():
        directions.append(block.textDirection())
        block = block.next()
    rtl, ltr = Qt.LayoutDirection.RightToLeft, Qt.LayoutDirection.LeftToRight
    assert directions == [rtl, rtl, ltr, ltr]


def test_what_is_selected_of_a_formula_copies_its_source(view: TextView) -> None:
    text = "So $x^2$ and\n\n$$\n\\frac{a}{b}\n$$\n\nend"
    view.show_markdown(text)
    assert "x\u00b2" in view.toPlainText()
    assert _everything(view) == text.replace("\n\n", "\n")


def test_code_that_wraps_is_marked_and_copied_whole(view: TextView) -> None:
    line = "x = " + " + ".join(f"value_{number}" for number in range(40))
    view.show_markdown(f"```py\n{line}\n```")
    assert view.document().begin().layout().lineCount() > 3
    assert _everything(view) == line
    view.copy_code(0)
    assert QApplication.clipboard().text() == line


def test_a_giant_line_in_an_item_is_laid_out_in_parts_and_copied_whole(view: TextView) -> None:
    giant = "x" * 9_000 + "y"
    view.show_markdown(f"- code\n\n  ```\n  first\n  {giant}\n  last\n  ```")
    view.complete()
    lengths = [len(text) for text in view.toPlainText().split("\n")]
    assert lengths == [4, 5, 4_000, 4_000, 1_001, 4]
    assert _everything(view) == f"- code\nfirst\n{giant}\nlast"


def test_a_huge_table_in_an_item_is_lines_of_text(view: TextView) -> None:
    rows = "".join(f"  | {number} | x |\n" for number in range(700))
    view.show_markdown(f"- | a | b |\n  |---|---|\n{rows}")
    view.complete()
    lines = view.toPlainText().split("\n")
    assert (lines[0], lines[1], lines[-1]) == ("a | b", "0 | x", "699 | x")


def test_what_follows_in_an_item_stands_below_its_text(view: TextView) -> None:
    view.show_markdown("- one\n\n  two\n")
    first = view.document().begin()
    second = first.next()
    assert (first.text(), second.text()) == ("one", "two")
    assert second.textList() is None
    assert second.blockFormat().indent() == 1


def test_cells_stand_as_their_column_and_their_letters_say(view: TextView) -> None:
    view.show_markdown("| middle | نص | right |\n|:-:|---|--:|\n| a | مرحبا | b |")
    found = []
    for text in ("middle", "a", "مرحبا", "b"):
        style = view.document().find(text).blockFormat()
        found.append((style.alignment(), style.layoutDirection()))
    centre, right = Qt.AlignmentFlag.AlignHCenter, Qt.AlignmentFlag.AlignRight
    assert [bool(alignment & centre) for alignment, _ in found] == [True, True, False, False]
    assert bool(found[3][0] & right)
    assert found[2][1] is Qt.LayoutDirection.RightToLeft


@pytest.mark.parametrize(
    ("first", "above"),
    [("```\n  x\n  ```", CODE_HEADER), ("    x", CODE_HEADER), ("| x |\n  |---|", 9), ("> x", 0)],
    ids=["fence", "indented", "table", "quote"],
)
def test_an_item_that_begins_with_no_text_has_its_marker_beside(
    view: TextView, first: str, above: int
) -> None:
    view.show_markdown(f"| cell |\n|---|\n\n- {first}\n\n- last\n-\n- [ ] task")
    copied = ["cell", "- ", "x", "- last", "- ", "- \N{BALLOT BOX} task"]
    assert _everything(view).split("\n") == copied
    layout = view.document().documentLayout()
    cursor = view.document().find("x")
    beside = layout.blockBoundingRect(cursor.block()).top() - above
    cursor.movePosition(QTextCursor.MoveOperation.Left, n=3)
    marker = layout.blockBoundingRect(cursor.block())
    assert cursor.block().textList() is not None
    assert marker.left() == 0
    assert abs(marker.top() - beside) < 1
    empty = layout.blockBoundingRect(view.document().find("last").block().next())
    task = layout.blockBoundingRect(view.document().find("task").block())
    assert empty.bottom() < task.top()


@pytest.mark.parametrize("text", ["> ```\n> x\n> ```", "> a\n> ```\n> x\n> ```\n> b"])
def test_the_bar_of_a_quote_is_as_long_as_the_code_in_it(view: TextView, text: str) -> None:
    view.show_markdown(text)
    boxes = {
        region.kind: region_box(view.document(), region, 600) for region in view.writer.regions
    }
    bar, code = boxes[RegionKind.QUOTE], boxes[RegionKind.CODE]
    assert bar.top() <= code.top()
    assert view.height() >= bar.bottom() >= code.bottom()


def test_the_lines_of_a_formula_stay_below_each_other(view: TextView) -> None:
    view.show_markdown("$$\n\\begin{cases} 1 & a \\\\ 22 & b + c \\end{cases}\n$$")
    block = view.document().begin()
    lines = block.text().split("\u2028")
    assert len(lines) == 2
    assert len(lines[0]) == len(lines[1])
    style = block.blockFormat()
    assert style.alignment() & Qt.AlignmentFlag.AlignHCenter
    assert style.lineHeightType() == QTextBlockFormat.LineHeightTypes.SingleHeight.value


def test_text_outside_the_basic_plane(view: TextView) -> None:
    view.show_markdown('```python\nx = "\U0001f600"  # \U0001f600 comment\n```')
    formats = view.document().begin().layout().formats()
    comment = view.document().begin().text().index("#") + 1  # one surrogate pair before it
    assert any(span.start == comment for span in formats)
    cursor = QTextCursor(view.document())
    cursor.setPosition(5)
    cursor.setPosition(7, QTextCursor.MoveMode.KeepAnchor)
    assert selected_text(cursor) == "\U0001f600"


@pytest.mark.parametrize(
    "text",
    [
        "| a | b |\n|---|--:|\n" + "".join(f"| *{n}* | x{n} |\n" for n in range(70)) + "\nend",
        "```python\n" + "".join(f"x{n} = {n}\n\n" for n in range(60)) + "```\n\nend",
        "Sentence one is here. " * 200 + "\n\nend",
        "x" * 9_000 + "\n\nend",
    ],
    ids=["table", "code", "prose", "line"],
)
def test_a_streamed_chain_looks_like_one_shown_at_once(
    view: TextView, host: QWidget, text: str
) -> None:
    other = _text_view(host)
    other.show_markdown(text)
    other.complete()
    for start in range(0, len(text), 29):
        view.append(text[start : start + 29])
    view.finish()
    view.complete()
    assert _looks(view) == _looks(other)
    assert view.writer.regions == other.writer.regions
    assert _everything(view) == _everything(other)


def test_an_answer_looks_the_same_written_piece_by_piece(host: QWidget) -> None:
    text = (MIXED + "\n> a quote\n> with more\n\n") * 4
    whole, pieces = _text_view(host), _text_view(host)
    whole.show_markdown(text)
    whole.complete()
    for start in range(0, len(text), 7):
        pieces.append(text[start : start + 7])
    pieces.finish()
    pieces.complete()
    places = [[each.pos() for each in _copy_buttons(view)] for view in (whole, pieces)]
    assert len(places[0]) == 4
    assert places[1] == places[0]
    for button in _copy_buttons(whole) + _copy_buttons(pieces):
        button.hide()  # one of them has the focus, or the mouse over it
    assert pieces.grab().toImage() == whole.grab().toImage()


def _copy_buttons(view: TextView) -> list[IconButton]:
    return [each for each in view.findChildren(IconButton) if not each.isHidden()]


@pytest.mark.parametrize("text", ["```c\nint x;\n```\n", "- ```c\n  int x;\n  ```\n"])
def test_an_answer_that_begins_with_code_shows_all_of_it(view: TextView, text: str) -> None:
    """Qt ignores the top margin of a first text block, where language and copy button are."""
    for piece in text:
        view.append(piece)
    view.finish()
    (region,) = view.writer.regions
    box = region_box(view.document(), region, view.width())
    assert box.top() >= 0
    assert box.bottom() <= view.height()
    view.reopen("text\n\n")
    assert view.document().documentLayout().blockBoundingRect(view.document().begin()).top() == 0


def test_an_error_while_it_lays_out_leaves_no_latch_behind(
    view: TextView, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view, "_work", lambda _until: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        view.work(1.0)
    assert not view._working

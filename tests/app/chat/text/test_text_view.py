from __future__ import annotations

import pytest
from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QTextCursor, QTextDocument, QTextTable
from PySide6.QtWidgets import QApplication, QPlainTextEdit, QTextEdit, QWidget
from pytestqt.qtbot import QtBot
from shown_text import everything

from app.chat.text.backdrop import region_box
from app.chat.text.highlight import load_lexer
from app.chat.text.regions import RegionKind
from app.chat.text.selection import selected_text
from app.chat.text.styles import CODE_HEADER
from app.chat.text.text_view import TextView
from app.theme.theme import Theme, ThemeChoice


@pytest.fixture(autouse=True)
def _lexers() -> None:
    for language in ("python", "c"):
        load_lexer(language, wait=True)


def test_what_is_too_long_to_show_is_said_and_copied_whole(view: TextView) -> None:
    view.show_markdown("word " * 60_000)
    view.complete()
    assert "100,000 more characters are not shown" in everything(view)
    assert len(view.raw_text) == 300_000


def test_html_is_text(view: TextView) -> None:
    hostile = '<img src="file:///etc/passwd"> <script>x</script> <b>bold</b>'
    view.show_markdown(hostile + "\n\n<div>\nblock\n</div>")
    assert hostile in everything(view)
    assert "<div>" in everything(view)


def test_a_line_breaks_in_a_cell_and_nowhere_else(view: TextView) -> None:
    view.show_markdown("| a |\n|---|\n| first<br>second<br/>`<br>` |\n\nThe <br> tag.")
    assert "first\u2028second\u2028<br>" in view.toPlainText().replace("\n", "\u2028")
    assert "The <br> tag." in view.toPlainText()


@pytest.mark.parametrize(
    ("text", "bold"),
    [
        ("**注意：**请先阅读。这是**“重点”**内容。", ["注意：", "“重点”"]),
        ("__注意：__请先阅读。这是__重点__内容。", ["注意：", "重点"]),
        ("变量__x__和a__中__b，文件my__file__中", []),
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
    assert "photo" in everything(view)
    monkeypatch.undo()
    kind = QTextDocument.ResourceType.ImageResource.value
    assert view.loadResource(kind, QUrl("file:///etc/passwd")) is None


def test_copied_text_keeps_list_markers_and_lines(view: TextView) -> None:
    view.show_markdown("1. one\n2. two\n   - in\n\nEnd\nline")
    assert everything(view) == "1. one\n2. two\n  - in\nEnd\nline"


def test_a_copied_table_stays_a_table(view: TextView) -> None:
    rows = "| 3 | 4 |\n" * 40
    view.show_markdown(f"above\n\n| a | b & c |\n|---|---|\n| 1<br>2 | $x^2$ |\n{rows}\n- below")
    assert everything(view) == "above\na\tb & c\n1 2\t$x^2$\n" + "3\t4\n" * 40 + "- below"
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
    assert everything(view) == shown


def test_a_giant_line_is_copied_in_one_piece(view: TextView) -> None:
    line = ("ab " * 10_000).rstrip()
    view.show_markdown(line)
    view.complete()
    assert everything(view) == line


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
    before, text = view.height(), everything(view)
    theme.apply(ThemeChoice.LIGHT, font_scale=1.5)
    qtbot.waitUntil(lambda: view.height() > before + 10)
    assert everything(view) == text
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


def test_code_that_wraps_is_marked_and_copied_whole(view: TextView) -> None:
    line = "x = " + " + ".join(f"value_{number}" for number in range(40))
    view.show_markdown(f"```py\n{line}\n```")
    assert view.document().begin().layout().lineCount() > 3
    assert everything(view) == line
    view.copy_code(0)
    assert QApplication.clipboard().text() == line


def test_a_giant_line_in_an_item_is_laid_out_in_parts_and_copied_whole(view: TextView) -> None:
    giant = "x" * 9_000 + "y"
    view.show_markdown(f"- code\n\n  ```\n  first\n  {giant}\n  last\n  ```")
    view.complete()
    lengths = [len(text) for text in view.toPlainText().split("\n")]
    assert lengths == [4, 5, 4_000, 4_000, 1_001, 4]
    assert everything(view) == f"- code\nfirst\n{giant}\nlast"


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
    assert everything(view).split("\n") == copied
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


def test_text_outside_the_basic_plane(view: TextView) -> None:
    view.show_markdown('```python\nx = "\U0001f600"  # \U0001f600 comment\n```')
    formats = view.document().begin().layout().formats()
    comment = view.document().begin().text().index("#") + 1  # one surrogate pair before it
    assert any(span.start == comment for span in formats)
    cursor = QTextCursor(view.document())
    cursor.setPosition(5)
    cursor.setPosition(7, QTextCursor.MoveMode.KeepAnchor)
    assert selected_text(cursor) == "\U0001f600"


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

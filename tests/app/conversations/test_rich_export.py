from __future__ import annotations

import re
from pathlib import Path

import pytest
from pypdf import PdfReader

from app.conversations.rich_export import html_of, write_pdf

_LATEX = r"\int_0^\infty e^{-x^2}\,dx = \frac{\sqrt{\pi}}{2}"


def _without_drawings(html: str) -> str:
    return re.sub(r"<svg.*?</svg>", "", html)


@pytest.mark.usefixtures("qtbot")
def test_a_formula_is_drawn_in_html_with_its_latex_for_those_who_cannot_see_it() -> None:
    html = html_of(f"So:\n\n$$\n{_LATEX} < 1\n$$\n")
    drawn = re.findall(r"<svg role=\"img\".*?</svg>", html)
    assert len(drawn) == 1
    assert f"<title>{_LATEX} &lt; 1</title>" in drawn[0]
    assert re.search(r'<path [^>]*d="M[-\d. MLCe]{200,}"', drawn[0])
    assert "\\int" not in _without_drawings(html)


@pytest.mark.usefixtures("qtbot")
def test_a_formula_that_a_line_can_say_is_text() -> None:
    html = html_of("With $x^2 + y_{10}$ in line")
    assert "<svg" not in html
    assert '<span title="x^2 + y_{10}"><i>x</i>\u00b2' in html


@pytest.mark.usefixtures("qtbot")
def test_a_formula_is_drawn_in_a_pdf_and_its_latex_can_be_copied(tmp_path: Path) -> None:
    def written(name: str, text: str) -> tuple[str, int]:
        write_pdf(tmp_path / name, text, "A chat")
        page = PdfReader(tmp_path / name).pages[0]
        assert page.get_contents() is not None
        return page.extract_text(), page.get_contents().get_data().count(b" c\n")  # type: ignore[union-attr]

    text, curves = written("with.pdf", f"So:\n\n$${_LATEX}$$")
    assert _LATEX in text.replace("\t", " ")
    assert curves > 100  # outlines, no text
    assert written("without.pdf", "So:")[1] == 0


@pytest.mark.usefixtures("qtbot")
def test_a_page_loads_and_runs_nothing_and_breaks_lines_as_the_window_does() -> None:
    html = html_of(
        "one\ntwo <b onclick='x'>t</b> [a](javascript:x) [r](other.md) ![p](https://x.org/p.png)\n\n"
        "| a |\n|---|\n| one<br>two |\n",
        "Title & more",
    )
    assert "one<br>\ntwo" in html
    assert "one<br />\ntwo</td>" in html
    assert "<title>Title &amp; more</title>" in html
    assert re.findall(r'href="([^"]*)"', html) == ["https://x.org/p.png"]
    assert "<img" not in html
    assert "<b onclick" not in html

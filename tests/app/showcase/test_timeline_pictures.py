"""Rounds that were measured on another machine become pictures of the window's timeline."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtGui import QImage

from app.showcase.timeline import draw, main, read_rounds
from app.theme.theme import Theme, ThemeChoice
from engine.backend.round import Round, Verified
from engine.backend.tree import TokenTree
from engine.bench.lanes import overlap, rounds_as_csv
from engine.events import Interval

CHAIN = TokenTree((5, 6, 7), (-1, 0, 1), (0.0, -0.1, -0.2))
ROUNDS = [
    Round(TokenTree.root(4), Verified((0,), (5,), 0, 0), Interval(10.0, 10.02)),
    Round(
        CHAIN,
        Verified((0, 1), (6, 9), 1, 2),
        Interval(10.02, 10.06),
        (Interval(10.01, 10.02), Interval(10.03, 10.05)),
        useful=0.02,
        wasted=0.01,
    ),
]


@pytest.fixture(autouse=True)
def _one_theme(theme: Theme, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second one would be in force behind the back of all tests that come later."""
    monkeypatch.setattr("app.showcase.timeline.Theme", lambda _application: theme)


def test_a_table_is_what_was_measured() -> None:
    first, second = read_rounds(rounds_as_csv(ROUNDS).splitlines())
    assert (first.index, first.drafting, first.drafted) == (0, (), 0)
    assert first.verify.seconds == pytest.approx(0.02)
    assert [(span.start, span.end) for span in second.drafting] == [(0.01, 0.02), (0.03, 0.05)]
    assert (second.verify.start, second.verify.end) == (0.02, 0.06)
    assert (second.drafted, second.accepted, second.committed) == (2, 1, 2)
    assert (second.useful_s, second.wasted_s) == (0.02, 0.01)
    assert overlap(ROUNDS) == pytest.approx(0.5)
    assert read_rounds(rounds_as_csv([]).splitlines()) == []


def test_the_picture_has_both_lanes(tmp_path: Path, theme: Theme) -> None:
    theme.apply(ThemeChoice.LIGHT)
    draw(read_rounds(rounds_as_csv(ROUNDS).splitlines()), tmp_path / "lanes.png")
    picture = QImage(str(tmp_path / "lanes.png"))
    colours = {
        picture.pixelColor(x, y).name()
        for x in range(60, picture.width(), 7)
        for y in range(30, picture.height(), 5)
    }
    assert picture.width() >= 1200
    assert len(colours) > 3
    draw([], tmp_path / "nothing.png")
    assert (tmp_path / "nothing.png").exists()


@pytest.mark.parametrize("text", ["no table\nat all\n", "round,lane\n1,verify\n"])
def test_what_is_no_table_is_told(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rounds.csv").write_text(text)
    assert main([str(tmp_path / "rounds.csv"), str(tmp_path)]) == 2
    assert "This is not a table of rounds" in capsys.readouterr().err
    assert main([str(tmp_path / "none.csv"), str(tmp_path)]) == 2

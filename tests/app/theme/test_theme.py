from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict

import pytest
import shiboken6
from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel, QPushButton, QRadioButton, QToolButton, QWidget
from pytestqt.qtbot import QtBot

import app.theme.theme
from app.theme.fonts import keep_font, scaled, sized
from app.theme.icons import IconButton
from app.theme.style import style_sheet
from app.theme.theme import Theme, ThemeChoice, current, mono_font, reduced_motion, ui_font
from app.theme.tokens import DARK, LIGHT, Tokens, high_contrast

pytestmark = pytest.mark.usefixtures("styled")


@pytest.fixture(autouse=True)
def _as_before(theme: Theme) -> Iterator[None]:
    yield
    theme.apply(ThemeChoice.LIGHT, font_scale=1.0, reduced_motion=False)


@pytest.mark.parametrize("tokens", [LIGHT, DARK])
def test_every_colour_of_the_style_sheet_is_a_token(tokens: Tokens) -> None:
    used = set(re.findall(r"#[0-9a-f]{6}\b", style_sheet(tokens)))
    assert used <= set(asdict(tokens).values())
    assert "$" not in style_sheet(tokens)


def luminance(colour: str) -> float:
    parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("tokens", [LIGHT, DARK, high_contrast(LIGHT), high_contrast(DARK)])
def test_texts_and_focus_rings_stand_out(tokens: Tokens) -> None:
    for ground in (tokens.window, tokens.surface, tokens.sidebar):
        for text in (tokens.text, tokens.muted, tokens.danger, tokens.accent):
            assert contrast(text, ground) >= 4.5, (text, ground)
    assert contrast(tokens.on_accent, tokens.accent) >= 4.5
    assert contrast(tokens.text, tokens.bubble) >= 7
    assert contrast(tokens.danger, tokens.danger_soft) >= 4.5
    assert contrast(tokens.text, tokens.selected) >= 4.5


@pytest.mark.parametrize("tokens", [high_contrast(LIGHT), high_contrast(DARK)])
def test_high_contrast_is_high(tokens: Tokens) -> None:
    assert contrast(tokens.text, tokens.window) == pytest.approx(21)
    assert contrast(tokens.border, tokens.window) >= 7
    assert contrast(tokens.muted, tokens.window) >= 7


def test_the_text_size_reaches_open_windows(theme: Theme, qtbot: QtBot) -> None:
    theme.apply(ThemeChoice.LIGHT, font_scale=1.0)
    plain, heading, button = QLabel("a"), QLabel("b"), IconButton("close", "Close")
    heading.setProperty("look", "heading")
    quiet, push = QToolButton(), QPushButton("c")
    quiet.setProperty("look", "quiet")
    for widget in (plain, heading, button, quiet, push):
        qtbot.addWidget(widget)
        widget.show()
    sizes = plain.font().pointSizeF(), heading.font().pointSizeF(), mono_font().pointSizeF()
    icons = [each.iconSize().width() for each in (button, quiet, push)]
    with qtbot.waitSignal(theme.changed):
        theme.apply(ThemeChoice.LIGHT, font_scale=1.5)
    after = plain.font().pointSizeF(), heading.font().pointSizeF(), mono_font().pointSizeF()
    for before, now in zip(sizes, after, strict=True):
        assert now == pytest.approx(before * 1.5, rel=0.02)
    now = [each.iconSize().width() for each in (button, quiet, push)]
    assert now == [round(icon * 1.5) for icon in icons]
    assert ui_font(1.0).pointSizeF() == pytest.approx(ui_font().pointSizeF() / 1.5)


@pytest.fixture
def around(qtbot: QtBot, styled: None) -> QWidget:
    """A window with two buttons, the first of which has the keyboard."""
    del styled
    around = QWidget()
    qtbot.addWidget(around)
    first, second = QPushButton("First", around), QPushButton("Second", around)
    second.move(0, 60)
    around.show()
    around.activateWindow()
    first.setFocus()
    qtbot.waitUntil(first.hasFocus)
    return around


def edge(button: QPushButton) -> str:
    """Colour in the middle of the upper edge."""
    return button.grab().toImage().pixelColor(button.width() // 2, 0).name()


def test_a_button_that_deletes_shows_the_keyboard_and_whether_it_can(around: QWidget) -> None:
    button, other = around.findChildren(QPushButton)
    button.setProperty("look", "danger")
    button.style().polish(button)
    assert edge(button) == current().text
    other.setFocus()
    assert edge(button) == current().danger
    button.setEnabled(False)
    assert edge(button) == current().border_strong


def test_a_choice_that_is_made_shows_the_keyboard(around: QWidget) -> None:
    button, other = around.findChildren(QPushButton)
    button.setProperty("look", "choice")
    button.setCheckable(True)
    button.setChecked(True)
    button.style().polish(button)
    assert edge(button) == current().text
    other.setFocus()
    assert edge(button) == current().accent


def test_a_radio_button_under_the_keyboard_has_one_ring_and_no_ground(around: QWidget) -> None:
    """The ground that Qt lays over it is no ring of ours."""
    button = QRadioButton("Third", around)
    button.move(0, 120)
    button.show()
    QTest.keyClick(around.focusWidget(), Qt.Key.Key_Tab)
    QTest.keyClick(around.focusWidget(), Qt.Key.Key_Tab)
    assert button.hasFocus()
    picture = button.grab().toImage()
    middle = picture.height() // 2
    assert picture.pixelColor(0, middle).name() == current().accent
    assert picture.pixelColor(picture.width() - 4, middle).name() == current().window


def test_fonts_that_are_kept_follow_and_end_with_their_widget(theme: Theme, qtbot: QtBot) -> None:
    theme.apply(ThemeChoice.LIGHT, font_scale=1.0)
    label, made = QLabel("a"), []
    qtbot.addWidget(label)
    keep_font(label, lambda: made.append(1) or sized(2.0))
    before = label.font().pointSizeF()
    theme.apply(ThemeChoice.LIGHT, font_scale=1.5)
    assert label.font().pointSizeF() == pytest.approx(before * 1.5)
    assert (len(made), scaled(10)) == (2, 15)
    shiboken6.delete(label)
    theme.apply(ThemeChoice.LIGHT, font_scale=1.0)
    assert len(made) == 2


def test_what_does_not_change_costs_nothing(theme: Theme, qtbot: QtBot) -> None:
    theme.apply(ThemeChoice.DARK, font_scale=1.0)
    with qtbot.assertNotEmitted(theme.changed):
        theme.apply(ThemeChoice.DARK, font_scale=1.0, reduced_motion=True)
    assert reduced_motion()
    assert not QApplication.isEffectEnabled(Qt.UIEffect.UI_General)


class Repaints(QObject):
    """Counts palette changes of the widget it watches."""

    count = 0

    def eventFilter(self, _watched: QObject, event: QEvent) -> bool:  # noqa: N802
        self.count += event.type() is QEvent.Type.PaletteChange
        return False


def test_the_systems_scheme_is_followed_live(
    theme: Theme, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    theme.apply(ThemeChoice.SYSTEM)
    label, repaints = QLabel("a"), Repaints()
    label.installEventFilter(repaints)
    qtbot.addWidget(label)
    changed = QGuiApplication.styleHints().colorSchemeChanged
    monkeypatch.setattr(app.theme.theme, "_system_is_dark", lambda: True)
    changed.emit(Qt.ColorScheme.Dark)
    assert current().dark
    assert repaints.count
    theme.apply(ThemeChoice.LIGHT)
    changed.emit(Qt.ColorScheme.Dark)
    assert not current().dark

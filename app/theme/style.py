"""The style sheet on top of Fusion, in named parts. Widgets opt in through the property `look`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from string import Template

from app.theme.tokens import RADIUS, Tokens

_ICONS = Path(__file__).parent / "icons"

HEADING = 1.4
"""Size of a dialog's heading, in sizes of running text."""
SECTION = 1.1
"""Size of a card's title."""
SMALL = 0.92

_TEXTS = """
QLabel[look="muted"] { color: $muted; }
QLabel[look="title"] { font-weight: 600; }
QLabel[look="section-title"] { font-weight: 600; font-size: ${section}pt; }
QLabel[look="heading"] { font-weight: 600; font-size: ${heading}pt; }
QLabel[look="small"] { color: $muted; font-size: ${small}pt; }
QLabel[look="danger"] { color: $danger; }
QLabel[look="caution"] { color: $warning; }
QLabel[look="links"]:focus { background: $accent_soft; border-radius: 4px; }
QTextBrowser { background: transparent; border: none;
    selection-background-color: $accent; selection-color: $on_accent; }
QToolTip { background: $surface; color: $text; border: 1px solid $border_strong;
    padding: 4px 6px; }
"""

_SURFACES = """
QMainWindow, QDialog { background: $window; }
QWidget[look="sidebar"] { background: $sidebar; }
QWidget[look="page"] { background: $window; }
QSplitter::handle { background: $border; }
QSplitter[look="open"]::handle { background: transparent; }
QFrame[look="card"] { background: $surface; border: 1px solid $border_strong;
    border-radius: 14px; }
QFrame[look="card"][focused="true"] { border-color: $accent; }
QFrame[look="card"] QPlainTextEdit { background: transparent; border: none; padding: 0;
    selection-background-color: $accent; selection-color: $on_accent; }
QFrame[look="section"] { background: $surface; border: 1px solid $border;
    border-radius: 12px; }
QLabel[look="section"] { background: transparent; border: none; }
QFrame[look="bubble"] { background: $bubble; border-radius: 14px; }
QFrame[look="banner"] { background: $danger_soft; border: 1px solid $danger;
    border-radius: ${radius}px; }
QFrame[look="notice"] { background: $surface; border: 1px solid $border_strong;
    border-radius: ${radius}px; }
QFrame[look="warning"] { background: $warning_soft; border: 1px solid $warning;
    border-radius: ${radius}px; }
QFrame[look="chip"] { background: $sunken; border: 1px solid $border; border-radius: ${radius}px; }
QFrame[look="foot"] { background: $surface; border: none; border-top: 1px solid $border; }
QFrame[look="line"] { background: $border; border: none; }
"""

_TOOL_BUTTONS = """
QToolButton { border: 2px solid transparent; border-radius: ${radius}px; padding: 4px;
    background: transparent; color: $text; }
QToolButton:hover { background: $hover; }
QToolButton:pressed, QToolButton:checked { background: $selected; }
QToolButton:focus { border-color: $accent; }
QToolButton::menu-indicator { image: none; }
QToolButton[look="round"] { background: $accent; border-radius: ${round_radius}px; }
QToolButton[look="round"]:hover { background: $accent_hover; }
QToolButton[look="round"]:disabled { background: $hover; }
QToolButton[look="round"]:focus { border-color: $text; }
QToolButton[look="floating"] { background: $surface; border: 1px solid $border_strong;
    border-radius: 18px; }
QToolButton[look="floating"]:hover { background: $hover; }
QToolButton[look="floating"]:focus { border: 2px solid $accent; }
QToolButton[look="quiet"] { color: $muted; padding: 3px 6px; icon-size: ${icon_side}px; }
QToolButton[look="quiet"]:hover { color: $text; }
QToolButton[look="strip"] { background: $sidebar; color: $muted; border-radius: 0;
    border: 2px solid $sidebar; border-top: 1px solid $border; padding: 0 10px;
    font-size: ${small}pt; }
QToolButton[look="strip"]:hover { background: $hover; color: $text; }
QToolButton[look="strip"]:focus { border: 2px solid $accent; }
QToolButton[look="chip"] { background: $sunken; border: 1px solid $border;
    border-radius: ${radius}px; padding: 0; }
QToolButton[look="chip"]:hover { background: $hover; }
"""

_PUSH_BUTTONS = """
QPushButton { outline: none; background: $surface; color: $text; border: 1px solid $border_strong;
    border-radius: ${radius}px; padding: 6px 14px; icon-size: ${icon_side}px; }
QPushButton:hover { background: $hover; }
QPushButton:pressed { background: $selected; }
QPushButton:focus { border: 2px solid $accent; padding: 5px 13px; }
QPushButton:disabled { color: $muted; }
QPushButton[look="primary"] { background: $accent; color: $on_accent; border-color: $accent; }
QPushButton[look="primary"]:hover { background: $accent_hover; }
QPushButton[look="primary"]:focus { border: 2px solid $text; }
QPushButton[look="primary"]:disabled { background: $hover; color: $muted;
    border-color: $border; }
QPushButton[look="danger"] { color: $danger; border-color: $danger; }
QPushButton[look="danger"]:hover { background: $danger_soft; }
QPushButton[look="danger"]:focus { border-color: $text; }
QPushButton[look="danger"]:disabled { color: $muted; border-color: $border_strong; }
QPushButton[look="example"] { text-align: left; padding: 12px 14px; border-color: $border;
    border-radius: 10px; }
QPushButton[look="example"]:focus { border: 2px solid $accent; padding: 11px 13px; }
QPushButton[look="choice"] { padding: 3px 12px; }
QPushButton[look="choice"]:focus { padding: 2px 11px; }
QPushButton[look="choice"]:checked { background: $accent_soft; border-color: $accent; }
QPushButton[look="choice"]:checked:focus { border-color: $text; }
QPushButton[look="row"] { text-align: left; background: transparent; padding: 6px 8px;
    border: 2px solid transparent; border-radius: ${radius}px; }
QPushButton[look="row"]:hover { background: $hover; }
QPushButton[look="row"]:checked { background: $selected; font-weight: 600; }
QPushButton[look="row"]:focus { border-color: $accent; }
QDialogButtonBox, QMessageBox { dialogbuttonbox-buttons-have-icons: 0; }
"""

_FIELDS = """
QLineEdit, QPlainTextEdit, QComboBox, QAbstractSpinBox, QTextBrowser[look="reading"] {
    background: $surface; color: $text;
    border: 1px solid $border_strong; border-radius: ${radius}px; padding: 6px 8px;
    selection-background-color: $accent; selection-color: $on_accent; }
QLineEdit, QAbstractSpinBox { border-color: $border; }
QLineEdit:focus, QPlainTextEdit:focus, QComboBox:focus, QAbstractSpinBox:focus,
QTextBrowser[look="reading"]:focus { border: 2px solid $accent; padding: 5px 7px; }
QFrame[look="card"] QPlainTextEdit:focus { border: none; padding: 0; }
QAbstractSpinBox QLineEdit, QAbstractSpinBox QLineEdit:focus { background: transparent;
    border: none; padding: 0; }
QAbstractSpinBox::up-button, QAbstractSpinBox::down-button { width: 0; border: none; }
/* A list below the box: the style's own popup hides entries behind its scroll buttons. */
QComboBox { combobox-popup: 0; }
QComboBox::drop-down { border: none; width: 24px; subcontrol-origin: padding;
    subcontrol-position: right center; }
QComboBox::down-arrow { image: url("$chevron"); width: ${arrow}px; height: ${arrow}px; }
QComboBox QAbstractItemView { background: $surface; border: 1px solid $border_strong;
    selection-background-color: $selected; selection-color: $text; outline: none; }
QCheckBox { outline: none; spacing: 8px; border: 2px solid transparent; border-radius: 6px;
    padding: 2px; }
QCheckBox[look="bare"] { spacing: 0; }
QCheckBox:focus { border-color: $accent; }
QCheckBox::indicator { width: ${tick_side}px; height: ${tick_side}px; border: 1px solid $muted;
    border-radius: 4px; background: $surface; }
QCheckBox::indicator:checked { background: $accent; border-color: $accent; image: url("$tick"); }
QRadioButton { outline: none; spacing: 8px; border: 2px solid transparent; border-radius: 6px;
    padding: 2px; }
QRadioButton:focus { border-color: $accent; }
QRadioButton:disabled { color: $muted; }
QRadioButton::indicator { width: ${dot_side}px; height: ${dot_side}px; border: 1px solid $muted;
    border-radius: ${dot_radius}px; background: $surface; }
QRadioButton::indicator:checked { width: ${dot_inner}px; height: ${dot_inner}px;
    border: ${dot_ring}px solid $accent; background: $on_accent; }
QRadioButton::indicator:disabled { border-color: $border_strong; }
QSlider::groove:horizontal { height: 4px; background: $border_strong; border-radius: 2px; }
QSlider::sub-page:horizontal { background: $accent; border-radius: 2px; }
QSlider::handle:horizontal { background: $accent; width: 16px; height: 16px;
    margin: -6px 0; border-radius: 8px; }
QSlider::handle:horizontal:focus { border: 2px solid $text; width: 12px; height: 12px; }
QSlider:focus { border: none; }
QSlider::sub-page:horizontal:disabled, QSlider::handle:horizontal:disabled {
    background: $border_strong; }
"""

_LISTS = """
QListView { background: transparent; border: none; outline: none; }
QListView::item { border-radius: ${radius}px; padding: 7px 8px; color: $text; }
QListView::item:hover { background: $hover; }
QListView::item:selected { background: $selected; color: $text; }
QListView::item:selected:focus { border: 2px solid $accent; padding: 5px 6px; }
QListView QLineEdit { padding: 2px 4px; }
QTreeView[look="rows"] { background: transparent; }
QTreeView[look="rows"]::item { padding: 6px 8px; }
QTreeView[look="rows"]::item:selected { background: $selected; color: $text; }
QMenu { background: $surface; border: 1px solid $border_strong; padding: 4px; }
QMenu::item { padding: 6px 24px 6px 12px; border-radius: 5px; }
QMenu::item:selected { background: $selected; color: $text; }
QMenu::item:disabled { color: $muted; }
QMenu::separator { height: 1px; background: $border; margin: 4px 8px; }
"""

_SCROLLING = """
QScrollArea { border: none; background: transparent; }
QScrollArea[look="reading"] { border: 2px solid transparent; }
QScrollArea[look="reading"]:focus { border-color: $accent; }
QScrollBar:vertical { background: transparent; width: 12px; margin: 2px; }
QScrollBar::handle:vertical { background: $border_strong; border-radius: 4px; min-height: 32px; }
QScrollBar::handle:vertical:hover { background: $muted; }
QScrollBar::add-line, QScrollBar::sub-line { width: 0; height: 0; }
QScrollBar::add-page, QScrollBar::sub-page { background: transparent; }
QProgressBar { background: $border; border: none; border-radius: 2px; }
QProgressBar::chunk { background: $accent; border-radius: 2px; }
"""

_SHEET = Template(
    _TEXTS + _SURFACES + _TOOL_BUTTONS + _PUSH_BUTTONS + _FIELDS + _LISTS + _SCROLLING
)


def style_sheet(tokens: Tokens, points: float = 10.0, scale: float = 1.0) -> str:
    """The application's style sheet in these colours, for running text of `points`.

    `scale`: of the text size, which marks of boxes and buttons grow with.
    """
    shade = "dark" if tokens.dark else "light"
    ring, inner = round(5 * scale), round(6 * scale)
    return _SHEET.substitute(
        asdict(tokens),
        radius=RADIUS,
        heading=round(points * HEADING, 1),
        section=round(points * SECTION, 1),
        small=round(points * SMALL, 1),
        tick_side=round(16 * scale),
        icon_side=round(16 * scale),
        round_radius=round(18 * scale),
        arrow=round(14 * scale),
        dot_side=inner + 2 * ring - 2,  # as large as when it is checked: borders come on top
        dot_radius=(inner + 2 * ring) // 2,
        dot_inner=inner,
        dot_ring=ring,
        tick=(_ICONS / f"checkmark-{shade}.svg").as_posix(),
        chevron=(_ICONS / f"chevron-down-{shade}.svg").as_posix(),
    )

"""The short style sheet on top of Fusion: fields, buttons, lists, scroll bars, focus rings."""

from __future__ import annotations

from pathlib import Path

from app.theme.tokens import RADIUS, Tokens

_ICONS = Path(__file__).parent / "icons"


def style_sheet(tokens: Tokens) -> str:
    """The application's style sheet in the given colours.

    Widgets opt in through the dynamic property `look`.
    """
    t = tokens
    tick = (_ICONS / f"checkmark-{'dark' if t.dark else 'light'}.svg").as_posix()
    return f"""
QMainWindow, QDialog {{ background: {t.window}; }}
QWidget[look="sidebar"] {{ background: {t.sidebar}; }}
QWidget[look="page"] {{ background: {t.window}; }}
QLabel[look="muted"] {{ color: {t.muted}; }}
QLabel[look="title"] {{ font-weight: 600; }}
QLabel[look="danger"] {{ color: {t.danger}; }}
QTextBrowser {{ background: transparent; border: none;
    selection-background-color: {t.accent}; selection-color: {t.on_accent}; }}
QSplitter::handle {{ background: {t.border}; }}
QToolTip {{ background: {t.surface}; color: {t.text}; border: 1px solid {t.border_strong};
    padding: 4px 6px; }}

QFrame[look="card"] {{ background: {t.surface}; border: 1px solid {t.border_strong};
    border-radius: 14px; }}
QFrame[look="card"][focused="true"] {{ border-color: {t.accent}; }}
QFrame[look="card"] QPlainTextEdit {{ background: transparent; border: none;
    selection-background-color: {t.accent}; selection-color: {t.on_accent}; }}
QFrame[look="bubble"] {{ background: {t.bubble}; border-radius: 14px; }}
QFrame[look="banner"] {{ background: {t.danger_soft}; border: 1px solid {t.danger};
    border-radius: {RADIUS}px; }}
QFrame[look="notice"] {{ background: {t.surface}; border: 1px solid {t.border_strong};
    border-radius: {RADIUS}px; }}
QFrame[look="line"] {{ background: {t.border}; border: none; }}

QToolButton {{ border: 2px solid transparent; border-radius: {RADIUS}px; padding: 4px;
    background: transparent; color: {t.text}; }}
QToolButton:hover {{ background: {t.hover}; }}
QToolButton:pressed, QToolButton:checked {{ background: {t.selected}; }}
QToolButton:focus {{ border-color: {t.accent}; }}
QToolButton::menu-indicator {{ image: none; }}
QToolButton[look="round"] {{ background: {t.accent}; border-radius: 18px; }}
QToolButton[look="round"]:hover {{ background: {t.accent_hover}; }}
QToolButton[look="round"]:disabled {{ background: {t.hover}; }}
QToolButton[look="round"]:focus {{ border-color: {t.text}; }}
QToolButton[look="floating"] {{ background: {t.surface}; border: 1px solid {t.border_strong};
    border-radius: 18px; }}
QToolButton[look="floating"]:hover {{ background: {t.hover}; }}
QToolButton[look="floating"]:focus {{ border: 2px solid {t.accent}; }}
QToolButton[look="quiet"] {{ color: {t.muted}; padding: 3px 6px; }}
QToolButton[look="quiet"]:hover {{ color: {t.text}; }}

QPushButton {{ background: {t.surface}; color: {t.text}; border: 1px solid {t.border_strong};
    border-radius: {RADIUS}px; padding: 6px 14px; }}
QPushButton:hover {{ background: {t.hover}; }}
QPushButton:pressed {{ background: {t.selected}; }}
QPushButton:focus {{ border: 2px solid {t.accent}; padding: 5px 13px; }}
QPushButton:disabled {{ color: {t.muted}; }}
QPushButton[look="primary"] {{ background: {t.accent}; color: {t.on_accent};
    border-color: {t.accent}; }}
QPushButton[look="primary"]:hover {{ background: {t.accent_hover}; }}
QPushButton[look="primary"]:focus {{ border: 2px solid {t.text}; }}
QPushButton[look="example"] {{ text-align: left; padding: 12px 14px; border-color: {t.border};
    border-radius: 10px; }}
QPushButton[look="example"]:focus {{ border: 2px solid {t.accent}; padding: 11px 13px; }}
QPushButton[look="pill"] {{ border-radius: 17px; padding: 7px 14px; }}
QPushButton[look="pill"]:focus {{ padding: 6px 13px; }}

QDialogButtonBox, QMessageBox {{ dialogbuttonbox-buttons-have-icons: 0; }}

QLineEdit {{ background: {t.surface}; color: {t.text};
    border: 1px solid {t.border}; border-radius: {RADIUS}px; padding: 6px 8px;
    selection-background-color: {t.accent}; selection-color: {t.on_accent}; }}
QLineEdit:focus {{ border: 2px solid {t.accent};
    padding: 5px 7px; }}


QAbstractSpinBox QLineEdit {{ border: none; padding: 2px 4px; }}

QCheckBox {{ spacing: 8px; border: 2px solid transparent; border-radius: 6px; padding: 2px; }}
QCheckBox:focus {{ border-color: {t.accent}; }}
QCheckBox::indicator {{ width: 16px; height: 16px; border: 1px solid {t.muted};
    border-radius: 4px; background: {t.surface}; }}
QCheckBox::indicator:checked {{ background: {t.accent}; border-color: {t.accent};
    image: url("{tick}"); }}

QSlider::groove:horizontal {{ height: 4px; background: {t.border_strong}; border-radius: 2px; }}
QSlider::sub-page:horizontal {{ background: {t.accent}; border-radius: 2px; }}
QSlider::handle:horizontal {{ background: {t.accent}; width: 16px; height: 16px;
    margin: -6px 0; border-radius: 8px; }}
QSlider::handle:horizontal:focus {{ border: 2px solid {t.text}; width: 12px; height: 12px; }}
QSlider:focus {{ border: none; }}

QListView {{ background: transparent; border: none; outline: none; }}
QListView::item {{ border-radius: {RADIUS}px; padding: 7px 8px; color: {t.text}; }}
QListView::item:hover {{ background: {t.hover}; }}
QListView::item:selected {{ background: {t.selected}; color: {t.text}; }}
QListView::item:selected:focus {{ border: 2px solid {t.accent}; padding: 5px 6px; }}
QListView QLineEdit {{ padding: 2px 4px; }}

QMenu {{ background: {t.surface}; border: 1px solid {t.border_strong}; padding: 4px; }}
QMenu::item {{ padding: 6px 24px 6px 12px; border-radius: 5px; }}
QMenu::item:selected {{ background: {t.selected}; color: {t.text}; }}
QMenu::item:disabled {{ color: {t.muted}; }}
QMenu::separator {{ height: 1px; background: {t.border}; margin: 4px 8px; }}

QScrollArea {{ border: none; background: transparent; }}
QScrollBar:vertical {{ background: transparent; width: 12px; margin: 2px; }}
QScrollBar::handle:vertical {{ background: {t.border_strong}; border-radius: 4px;
    min-height: 32px; }}
QScrollBar::handle:vertical:hover {{ background: {t.muted}; }}
QScrollBar::add-line, QScrollBar::sub-line {{ width: 0; height: 0; }}
QScrollBar::add-page, QScrollBar::sub-page {{ background: transparent; }}

QProgressBar {{ background: {t.border}; border: none; border-radius: 2px; }}
QProgressBar::chunk {{ background: {t.accent}; border-radius: 2px; }}
"""

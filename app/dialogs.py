"""Keyboard shortcuts and About."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QFrame,
    QGridLayout,
    QLabel,
    QVBoxLayout,
    QWidget,
)

from app.theme.icons import icon
from app.theme.theme import current, ui_font
from app.version import version

_FIXED = (
    ("Send the message", "Enter"),
    ("New line in the message", "Shift+Enter"),
    ("Rename the chosen conversation", "F2"),
    ("Delete the chosen conversation", "Delete"),
    ("Next or previous control", "Tab, Shift+Tab"),
)

_PAPERS = (
    (
        "Dovetail: A CPU/GPU Heterogeneous Speculative Decoding for LLM inference",
        "https://arxiv.org/abs/2412.18934",
        "arXiv 2412.18934",
    ),
    (
        (
            "DuoDecoding: Hardware-aware Heterogeneous Speculative Decoding with"
            " Dynamic Multi-Sequence Drafting"
        ),
        "https://arxiv.org/abs/2503.00784",
        "arXiv 2503.00784",
    ),
)


class ShortcutsDialog(QDialog):
    """Lists what the keyboard does. `shortcuts` are (what it does, key sequence) pairs."""

    def __init__(self, shortcuts: Sequence[tuple[str, str]], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Keyboard shortcuts")
        grid = QGridLayout()
        grid.setHorizontalSpacing(36)
        grid.setVerticalSpacing(9)
        for row, (does, keys) in enumerate([*shortcuts, *_FIXED]):
            native = QKeySequence(keys).toString(QKeySequence.SequenceFormat.NativeText)
            shown = QLabel(native if "," not in keys else keys, self)
            shown.setProperty("look", "muted")
            shown.setAlignment(Qt.AlignmentFlag.AlignRight)
            grid.addWidget(QLabel(does, self), row, 0)
            grid.addWidget(shown, row, 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(28, 24, 28, 20)
        layout.setSpacing(18)
        layout.addWidget(_heading("Keyboard shortcuts", self))
        layout.addLayout(grid)
        layout.addWidget(_close(self))


class AboutDialog(QDialog):
    """What this is, whose ideas it uses, and under which licences."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("About Duotail")
        mark = QLabel(self)
        mark.setPixmap(icon("duotail", current().accent).pixmap(48, 48))
        layout = QVBoxLayout(self)
        layout.setContentsMargins(28, 24, 28, 20)
        layout.setSpacing(10)
        layout.addWidget(mark)
        layout.addWidget(_heading(f"Duotail {version()}", self))
        layout.addWidget(
            _text(
                "Chat with large language models on your own computer. Nothing you write leaves"
                " it. A small draft model guesses ahead and the model you chose checks every"
                " guess, so the text is the chosen model's own, only sooner.",
                self,
            )
        )
        layout.addWidget(_line(self))
        layout.addWidget(_small("The two modes carry the names of the papers they follow:", self))
        for title, address, name in _PAPERS:
            layout.addWidget(_text(f'{title}, <a href="{address}">{name}</a>', self))
        layout.addWidget(_line(self))
        layout.addWidget(
            _text(
                "Duotail is free software under the Apache License 2.0. The window is made with Qt"
                " for Python (PySide6), used under the GNU LGPL version 3; its libraries are"
                " separate files that you may replace. Icons are our own.",
                self,
            )
        )
        layout.addWidget(
            _text(
                "The bundled models were trained for Duotail. The people and licences behind their"
                f' training data are named in the <a href="{_model_card()}">model card</a>.',
                self,
            )
        )
        layout.addSpacing(6)
        layout.addWidget(_close(self))
        self.setFixedWidth(520)


def _model_card() -> str:
    """Address of the bundled models' card, a file of this installation."""
    from engine.hub.local import bundled_models_root

    return (bundled_models_root() / "MODEL_CARD.md").as_uri()


def _heading(text: str, parent: QWidget) -> QLabel:
    label = QLabel(text, parent)
    font = ui_font()
    font.setPointSizeF(font.pointSizeF() * 1.4)
    font.setWeight(font.Weight.DemiBold)
    label.setFont(font)
    return label


def _text(text: str, parent: QWidget) -> QLabel:
    label = QLabel(text, parent)
    label.setWordWrap(True)
    label.setOpenExternalLinks(True)
    label.setTextInteractionFlags(Qt.TextInteractionFlag.TextBrowserInteraction)
    return label


def _small(text: str, parent: QWidget) -> QLabel:
    label = QLabel(text, parent)
    label.setProperty("look", "muted")
    label.setWordWrap(True)
    return label


def _line(parent: QWidget) -> QFrame:
    line = QFrame(parent)
    line.setProperty("look", "line")
    line.setFixedHeight(1)
    return line


def _close(dialog: QDialog) -> QDialogButtonBox:
    box = QDialogButtonBox(QDialogButtonBox.StandardButton.Close, dialog)
    box.rejected.connect(dialog.reject)
    return box

"""Keyboard shortcuts, About, and the notices of everything that Duotail is made with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QFrame,
    QGridLayout,
    QLabel,
    QPlainTextEdit,
    QScrollArea,
    QWidget,
)

from app.theme.icons import icon
from app.theme.keys import key_words
from app.theme.theme import current, mono_font, ui_font
from app.widgets.boxes import Spacing, fill, vbox
from app.widgets.labels import plain_label
from app.widgets.text_button import text_button
from engine.language import later, tr

_FIXED = (
    (later("Send the message"), "Return"),
    (later("New line in the message"), "Shift+Return"),
    (later("Rename the chosen conversation"), "F2"),
    (later("Delete the chosen conversation"), "Del"),
    (later("Pin or unpin the conversation"), "Ctrl+D"),
    (later("Move the chosen conversation to a folder"), "Ctrl+Shift+M"),
    (later("New folder in the conversations"), "Ctrl+Shift+N"),
    (later("Export the chosen conversation"), "Ctrl+E"),
    (later("Import conversations (in their list)"), "Ctrl+I"),
    (later("Next control"), "Tab"),
    (later("Previous control"), "Shift+Tab"),
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


class _Page(QDialog):
    """A heading, what a subclass adds below it, and a button to close; scrolls where it must."""

    def __init__(self, title: str, width: int, parent: QWidget | None) -> None:
        """`width` is in sizes of running text."""
        super().__init__(parent)
        self.setWindowTitle(title)
        self._content = QWidget()
        self._content.setProperty("look", "page")
        self.column = vbox(to=self._content, spacing=10, margins=(28, 24, 28, 8))
        self._scroll = QScrollArea(self, widgetResizable=True)
        self._scroll.setProperty("look", "reading")
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._scroll.setWidget(self._content)
        self._scroll.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self._scroll.setAccessibleName(title)
        self._box = QDialogButtonBox(QDialogButtonBox.StandardButton.Close, self)
        self._box.rejected.connect(self.reject)
        vbox(
            (self._scroll, 1),
            vbox(self._box, margins=(28, 12, 28, 20)),
            to=self,
            spacing=0,
            margins=0,
        )
        self._width = round(width * ui_font().pointSizeF())

    def _fit(self) -> None:
        """Take the height of the content, as far as the screen allows."""
        self.column.addStretch(1)
        room = self.screen().availableGeometry()
        width = min(self._width, room.width() - 60)
        wanted = self.column.heightForWidth(width)
        if wanted < 0:  # nothing wraps
            wanted = self.column.sizeHint().height()
        foot = self._box.sizeHint().height() + 34
        self.resize(width, min(wanted + foot, room.height() - 80))
        self._box.button(QDialogButtonBox.StandardButton.Close).setFocus()


class ShortcutsDialog(_Page):
    """Lists what the keyboard does. `shortcuts` are (what it does, key sequence) pairs."""

    def __init__(self, shortcuts: Sequence[tuple[str, str]], parent: QWidget | None = None) -> None:
        super().__init__(tr("Keyboard shortcuts"), 46, parent)
        fill(self.column, plain_label(tr("Keyboard shortcuts"), self, "heading"), Spacing(6))
        grid = QGridLayout()
        grid.setHorizontalSpacing(28)
        grid.setVerticalSpacing(9)
        grid.setColumnStretch(0, 1)
        pairs = [*shortcuts, *((tr(does), keys) for does, keys in _FIXED)]
        for row, (does, keys) in enumerate(pairs):
            shown = QLabel(key_words(keys), self)
            shown.setProperty("look", "muted")
            shown.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
            grid.addWidget(plain_label(does, self), row, 0)
            grid.addWidget(shown, row, 1)
        self.column.addLayout(grid)
        self._fit()


class AboutDialog(_Page):
    """Name, version, the papers whose ideas are used, and the licences."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(tr("About Duotail"), 52, parent)
        from app.version import version  # slow to import, and no start needs it

        mark = QLabel(self, pixmap=icon("duotail", current().accent).pixmap(48, 48))
        fill(
            self.column,
            mark,
            plain_label(f"Duotail {version()}", self, "heading"),
            plain_label(
                tr(
                    "Chat with large language models on your own computer. Nothing you write "
                    "leaves it. A small draft model drafts ahead and the model you chose verifies "
                    "every token, so the text is the chosen model's own, only sooner."
                ),
                self,
            ),
            _line(self),
        )
        papers = tr("The two modes carry the names of the papers they follow:")
        self.column.addWidget(plain_label(papers, self, "muted"))
        for title, address, name in _PAPERS:
            self.column.addWidget(_rich(f'{title}, <a href="{address}">{name}</a>', self))
        fill(
            self.column,
            _line(self),
            plain_label(
                tr(
                    "Duotail is free software under the Apache License 2.0. The window is made"
                    " with Qt for Python (PySide6), used under the GNU LGPL version 3; its"
                    " libraries are separate files that you may replace. Icons are our own."
                ),
                self,
            ),
            _rich(
                tr(
                    "The starter model is SmolLM2 135M Instruct by Hugging Face, under the Apache"
                    " License 2.0. Where it and its draft come from is told in the"
                    " {link}model card{end}."
                ).format(link=f'<a href="{_model_card()}">', end="</a>"),
                self,
            ),
        )
        notices = text_button(tr("All notices and licences…"), self, self._show_notices)
        self.column.addWidget(notices, 0, Qt.AlignmentFlag.AlignLeft)
        self._fit()

    def _show_notices(self) -> None:
        dialog = NoticesDialog(self)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.open()


class NoticesDialog(_Page):
    """The NOTICE file: papers, libraries, data."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(tr("Notices and licences"), 74, parent)
        self.text = QPlainTextEdit(notices(), self, readOnly=True, tabChangesFocus=True)
        self.text.setFont(mono_font())
        self.text.setAccessibleName(tr("Notices and licences"))
        self.text.setMinimumHeight(self.text.fontMetrics().lineSpacing() * 26)
        self.column.addWidget(self.text)
        self._fit()


def notices() -> str:
    """The NOTICE that is installed with Duotail, or that lies beside its sources."""
    from importlib import metadata

    beside = Path(__file__).parents[1] / "NOTICE"
    places = [beside]
    try:
        installed = metadata.files("duotail") or []
        places += [Path(str(f.locate())) for f in installed if f.name == "NOTICE"]
    except metadata.PackageNotFoundError:
        pass
    for place in places:
        if place.is_file():
            return place.read_text(encoding="utf-8")
    return ""


def _model_card() -> str:
    """Address of the card of starter model and draft, a file of this installation."""
    from engine.model import bundled

    return (bundled.root() / "MODEL_CARD.md").as_uri()


def _rich(text: str, parent: QWidget) -> QLabel:
    label = QLabel(text, parent, wordWrap=True, openExternalLinks=True)
    label.setProperty("look", "links")
    label.setTextInteractionFlags(Qt.TextInteractionFlag.TextBrowserInteraction)
    return label


def _line(parent: QWidget) -> QFrame:
    line = QFrame(parent)
    line.setProperty("look", "line")
    line.setFixedHeight(1)
    return line

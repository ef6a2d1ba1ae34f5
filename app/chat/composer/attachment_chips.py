"""The files that will go along with a message, as small cards above the field."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import Event

from PySide6.QtCore import QEvent, Qt, QTimer, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QLabel, QMenu, QScrollArea, QSizePolicy, QToolButton, QWidget

from app.session.attachments import Attachment
from app.session.encodings import ENCODINGS
from app.signals import TypedSignal
from app.theme.fonts import scaled
from app.theme.icons import IconButton, icon
from app.theme.theme import current
from app.widgets.boxes import hbox, vbox
from app.widgets.flow_layout import FlowLayout
from app.widgets.tab_order import tab_before
from app.widgets.text_button import OPENER
from engine.language import listed, tr, tr_count
from engine.language.units import file_size

_WIDEST_NAME = 200


@dataclass(frozen=True, slots=True, eq=False)
class ReadingFile:
    """A file that is still being read; `stop` ends that."""

    name: str
    stop: Event = field(default_factory=Event)


class AttachmentChip(QFrame):
    """One file: its name, how large it is, a button that takes it away.

    What was pasted has another one that puts it into the message as text.
    """

    removed = Signal()
    text_asked = Signal()
    encoding_chosen = TypedSignal[str]()

    def __init__(self, file: Attachment | ReadingFile, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.file = file
        self.setProperty("look", "chip")
        self._icon = QLabel(self)
        name = QLabel(self)
        taken = file.taken if isinstance(file, Attachment) else ""
        name.setText(self._shortened(name, file.name, taken))
        name.setToolTip(file.name)
        self._about = QLabel(self)
        self._about.setProperty("look", "small")
        self._remove = IconButton("close", "", self)
        self._remove.setToolTip(tr("Remove this file"))
        self._remove.setAccessibleName(tr("Remove \u201c{name}\u201d").format(name=file.name))
        self._remove.clicked.connect(self.removed)
        row = hbox(
            self._icon,
            vbox(name, self._about, spacing=0),
            to=self,
            spacing=8,
            margins=(10, 4, 4, 4),
        )
        self.text_button: IconButton | None = None
        if isinstance(file, Attachment) and file.pasted:
            self.text_button = IconButton("undo", tr("Insert as text"), self)
            self.text_button.clicked.connect(self.text_asked)
            row.addWidget(self.text_button)
        self.encoding_button: QToolButton | None = None
        if isinstance(file, Attachment) and file.encoding:
            self.encoding_button = self._encodings(file)
            row.addWidget(self.encoding_button)
        row.addWidget(self._remove)
        self.show_tokens(None)
        self._recolour()

    def _encodings(self, file: Attachment) -> QToolButton:
        """The button with the encoding that the file was read in, and the others to choose."""
        button = QToolButton(self)
        name = tr(ENCODINGS[file.encoding])
        button.setText(f"{name} {OPENER}")
        button.setProperty("look", "quiet")
        button.setToolTip(tr("The file does not state its encoding. Choose another one here."))
        button.setAccessibleName(
            tr("Encoding of “{name}”: {encoding}").format(name=file.name, encoding=name)
        )
        button.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        menu = QMenu(button)
        for encoding, words in ENCODINGS.items():
            action = menu.addAction(tr(words), partial(self.encoding_chosen.emit, encoding))
            action.setCheckable(True)
            action.setChecked(encoding == file.encoding)
        button.setMenu(menu)
        return button

    @property
    def buttons(self) -> list[QToolButton]:
        """Return its buttons, from left to right."""
        some = self.text_button, self.encoding_button, self._remove
        return [each for each in some if each is not None]

    @property
    def about(self) -> str:
        """Size and tokens in words."""
        return self._about.text()

    def show_tokens(self, tokens: int | None) -> None:
        """Say how many tokens it is, once that is known."""
        if isinstance(self.file, ReadingFile):
            parts = [tr("Reading…")]
        else:
            lines = len(self.file.text.splitlines())
            parts = [file_size(self.file.size), tr_count("{n} line", "{n} lines", lines)]
        if tokens is not None:
            parts.append(tr_count("{n} token", "{n} tokens", tokens))
        self._about.setText(" \u00b7 ".join(parts))
        self.setAccessibleName(listed([self.file.name, *parts]))

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Recolour with the theme."""
        super().changeEvent(event)
        if event.type() in (QEvent.Type.PaletteChange, QEvent.Type.FontChange) and hasattr(
            self, "_remove"
        ):
            self._recolour()

    def _recolour(self) -> None:
        self._icon.setPixmap(icon("file", current().muted).pixmap(scaled(18), scaled(18)))

    @staticmethod
    def _shortened(label: QLabel, name: str, taken: str) -> str:
        """The middle of the file's name gives way: the beginning and the suffix say most."""
        metrics, middle = label.fontMetrics(), Qt.TextElideMode.ElideMiddle
        return metrics.elidedText(name.removesuffix(taken), middle, _WIDEST_NAME) + taken


class AttachmentChips(QScrollArea):
    """All of them, in lines; many can be scrolled. Hidden when there are none."""

    removed = TypedSignal[Attachment | ReadingFile]()
    """It shall not go along, or not be read."""
    text_asked = TypedSignal[Attachment]()
    """It shall stand in the message itself."""
    encoding_chosen = TypedSignal[Attachment, str]()
    """It shall be read again in this encoding."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWidgetResizable(True)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        inside = QWidget(self)
        self._flow = FlowLayout(to=inside)
        self.setWidget(inside)
        inside.setAutoFillBackground(False)
        self.viewport().setAutoFillBackground(False)
        self.chips: list[AttachmentChip] = []
        self.followed_by: QWidget | None = None
        """The widget that Tab reaches after them."""
        self.hide()

    def show_files(self, files: Sequence[Attachment | ReadingFile]) -> None:
        """Show these; chips that are there already stay as they are."""
        kept = [chip for chip in self.chips if chip.file in files]
        for chip in self.chips:
            if chip not in kept:
                self._flow.removeWidget(chip)
                chip.hide()
                chip.deleteLater()
        self.chips = kept
        shown = [chip.file for chip in kept]
        new = [file for file in files if file not in shown]
        made = [self._make(file) for file in new]
        self.chips += made
        if self.followed_by is not None:
            tab_before(self.followed_by, [each for chip in made for each in chip.buttons])
        self.setVisible(bool(self.chips))
        self._fit()
        if new and kept:
            QTimer.singleShot(0, self, self._show_last)  # once it has its place

    def show_tokens(self, attachment: Attachment, tokens: int) -> None:
        """Say how many tokens a file is, if it still goes along."""
        for chip in self.chips:
            if chip.file is attachment:
                chip.show_tokens(tokens)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Narrower lines hold fewer."""
        super().resizeEvent(event)
        self._fit()

    def _show_last(self) -> None:
        if self.chips:
            self.ensureWidgetVisible(self.chips[-1], 0, 0)

    def _fit(self) -> None:
        """Take the height of the lines, up to two and a half."""
        needed = self._flow.heightForWidth(self.viewport().width())
        line = self.chips[0].sizeHint().height() if self.chips else 0
        self.setFixedHeight(min(needed, line * 5 // 2))

    def _make(self, file: Attachment | ReadingFile) -> AttachmentChip:
        chip = AttachmentChip(file, self.widget())
        chip.removed.connect(lambda: self.removed.emit(file))
        if isinstance(file, Attachment):
            chip.text_asked.connect(partial(self.text_asked.emit, file))
            chip.encoding_chosen.connect(partial(self.encoding_chosen.emit, file))
        self._flow.addWidget(chip)
        chip.show()
        return chip

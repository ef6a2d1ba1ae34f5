"""The panel that says how the model runs: mode, draft, graphics memory."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtGui import QKeyEvent, QResizeEvent, QShowEvent
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QScrollArea,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.engine_link.plan_texts import run_words
from app.engine_link.running import Running, RunWish
from app.theme.fonts import keep_sized, scaled
from app.tuning.draft_list import DraftList
from app.tuning.memory_row import MemoryRow
from app.tuning.mode_list import ModeList
from app.widgets.labels import plain_label
from engine.commands import Mode
from engine.language import tr

_WIDTH = 500
_MARGIN = 18
_FRAME = 4
_NEAR = 8
"""Distance from the edges of the screen."""


class RunPanel(QFrame):
    """A popup. What is chosen in it counts once it is applied; closing it changes nothing."""

    folder_asked = Signal()
    file_asked = Signal()
    page_asked = Signal()
    """All there is to know about it shall be shown."""

    def __init__(self, running: Running, parent: QWidget | None = None) -> None:
        super().__init__(parent, Qt.WindowType.Popup | Qt.WindowType.FramelessWindowHint)
        self.setProperty("look", "notice")
        self.setAccessibleName(tr("How the model runs"))
        self._running = running
        self._wish = RunWish()
        self._anchor = QPoint()
        self._now = plain_label("", self, "small")
        self.modes = ModeList(self)
        self.drafts = DraftList(self)
        self.memory = MemoryRow(self)
        self.apply_button = QPushButton(self)
        self.apply_button.setProperty("look", "primary")
        self.page_button = QToolButton(self)
        self.page_button.setText(tr("More on the Tuning page"))
        self.page_button.setProperty("look", "quiet")
        self.page_button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.page_button.setCursor(Qt.CursorShape.PointingHandCursor)
        self._arrange()
        keep_sized(self, lambda: self.setFixedWidth(scaled(_WIDTH)))
        self.modes.chosen.connect(lambda mode: self._choose(mode=mode))
        self.drafts.chosen.connect(lambda draft: self._choose(draft=draft))
        self.memory.chosen.connect(lambda vram: self._choose(vram=vram))
        self.drafts.folder_asked.connect(self.folder_asked)
        self.drafts.file_asked.connect(self.file_asked)
        self.page_button.clicked.connect(self._leave)
        self.apply_button.clicked.connect(self.apply)
        running.changed.connect(self._follow)

    def _arrange(self) -> None:
        self._inside = QWidget(self)
        column = QVBoxLayout(self._inside)
        column.setContentsMargins(_MARGIN, 14, _MARGIN, 8)
        column.setSpacing(6)
        parts = ((tr("Mode"), self.modes), (tr("Draft"), self.drafts))
        column.addWidget(self._now)
        for title, part in (*parts, (tr("Graphics memory"), self.memory)):
            column.addSpacing(6)
            column.addWidget(_title(title, part))
            column.addWidget(part)
        self._scroll = QScrollArea(self)
        self._scroll.setWidgetResizable(True)
        self._scroll.setFrameShape(QFrame.Shape.NoFrame)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._scroll.setWidget(self._inside)
        self._inside.setAutoFillBackground(False)
        self._scroll.viewport().setAutoFillBackground(False)
        self._foot = QHBoxLayout()
        self._foot.setContentsMargins(_MARGIN, 4, _MARGIN, 14)
        self._foot.addWidget(self.page_button)
        self._foot.addStretch(1)
        self._foot.addWidget(self.apply_button)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(1, 1, 1, 1)
        layout.setSpacing(0)
        layout.addWidget(self._scroll, 1)
        layout.addLayout(self._foot)

    @property
    def wish(self) -> RunWish:
        """Return the choice in the panel."""
        return self._wish

    def open_below(self, place: QPoint, wish: RunWish | None = None) -> None:
        """Open with the upper right corner at `place`, in screen coordinates, within the screen.

        `wish`: what is chosen already; without it, what is in force.
        """
        self._anchor = place
        self._wish = wish or self._running.wish
        self._show_state()
        self._fit()
        self.show()
        self._fit()  # once shown, it has its fonts

    def measure(self) -> None:
        """Find out ahead how much room the texts take."""
        self._show_state()
        self._fit()

    def apply(self) -> None:
        """Run the model as it is chosen here."""
        self.hide()
        self._running.apply(self._wish)

    def _leave(self) -> None:
        self.hide()
        self.page_asked.emit()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Return applies from anywhere in the panel."""
        entered = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        if entered and self.page_button.hasFocus():
            self._leave()
        elif entered and self.apply_button.isEnabled():
            self.apply()
        else:
            super().keyPressEvent(event)

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        """Keyboard users land on the mode, or on what is left to do."""
        super().showEvent(event)
        ready = self.apply_button.isEnabled()
        first = self.apply_button if ready else self.modes.rows[self._wish.mode].button
        first.setFocus(Qt.FocusReason.PopupFocusReason)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Labels are shortened to the width there is."""
        super().resizeEvent(event)
        room = self.width() - 2 * _MARGIN - 16
        for row in self.modes.rows.values():
            row.fit(room)
        self.drafts.fit(room)

    def _follow(self) -> None:
        """The engine has told something new."""
        if self.isVisible():
            self._show_state()

    def _choose(self, **values: object) -> None:
        self._wish = replace(self._wish, **values)  # type: ignore[arg-type]
        self._show_state()

    def _show_state(self) -> None:
        if not self._running.possible:
            self.hide()
            return
        status, wish = self._running.bridge.status, self._wish
        plan = status.plan
        self._now.setText("" if plan is None else f"{run_words(plan, status.machine)}.")
        self._now.setVisible(plan is not None)
        self._now.setToolTip("" if plan is None else "\n".join(plan.reasons))
        self.modes.show_mode(wish.mode, status.machine, wish.draft)
        self.drafts.show_draft(wish.draft, self._running.drafts)
        self._order_tabs()
        self.drafts.setEnabled(wish.mode is not Mode.PLAIN)
        self.memory.show_ceiling(wish.vram, status.machine, plan)
        self.memory.setEnabled(wish.mode is not Mode.CPU)
        self.apply_button.setEnabled(wish != self._running.wish)
        self.apply_button.setText(tr("Apply after this answer") if status.busy else tr("Apply"))

    def _order_tabs(self) -> None:
        """Set the order of Tab from top to bottom, whenever the drafts' buttons were made."""
        rows = [*self.modes.rows.values(), *self.drafts.rows.values()]
        stops = [
            *(row.button for row in rows),
            self.drafts.folder_button,
            self.drafts.file_button,
            self.memory.automatic,
            self.memory.slider,
            self.memory.number,
            self.page_button,
            self.apply_button,
        ]
        for first, second in pairwise(stops):
            QWidget.setTabOrder(first, second)

    def _fit(self) -> None:
        """Take the height of the content, as far as the screen goes."""
        self._inside.ensurePolished()
        foot = self._foot.sizeHint().height()
        wanted = self._inside.heightForWidth(self.width() - 2) + foot + _FRAME
        screen = self.screen().availableGeometry()
        height = min(wanted, screen.bottom() - self._anchor.y() - _NEAR)
        self.setFixedHeight(height)
        left = max(self._anchor.x() - self.width(), screen.left() + _NEAR)
        self.move(min(left, screen.right() - self.width() - _NEAR), self._anchor.y())


def _title(text: str, part: QWidget) -> QLabel:
    label = QLabel(text, part.parentWidget())
    label.setProperty("look", "title")
    part.setAccessibleName(text)
    return label

"""The panel that says how the model runs: mode, draft, GPU memory."""

from __future__ import annotations

from itertools import pairwise

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtGui import QHideEvent, QKeyEvent, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QFrame, QPushButton, QToolButton, QWidget

from app.engine_link.plan_texts import run_words
from app.settings.profiles import ModelProfile
from app.theme.fonts import keep_sized, scaled
from app.tuning.budget.model import BudgetModel
from app.tuning.budget.view import BudgetView
from app.tuning.draft_list import DraftList
from app.tuning.mode_list import ModeList
from app.tuning.refusal_notice import RefusalNotice
from app.tuning.run_choice import RunChoice
from app.widgets.boxes import Spacing, fill, hbox, vbox
from app.widgets.enter import enter_presses
from app.widgets.labels import part_title, plain_label, say
from app.widgets.popover import place_popup
from app.widgets.scroller import scroller
from app.widgets.terms import plan_tooltip
from engine.language import tr

_WIDTH = 500
_MARGIN = 18
_FRAME = 4


class RunPanel(QFrame):
    """A popup. What is chosen in it counts once it is applied; closing it changes nothing."""

    page_asked = Signal()
    """All there is to know about it shall be shown."""

    def __init__(self, choosing: RunChoice, parent: QWidget | None = None) -> None:
        super().__init__(parent, Qt.WindowType.Popup | Qt.WindowType.FramelessWindowHint)
        self.setProperty("look", "notice")
        self.setAccessibleName(tr("How the model runs"))
        self.choosing, self._running = choosing, choosing.running
        self._before: ModelProfile | None = None
        """The choice that closing goes back to; None: nothing, as the choice goes on elsewhere."""
        self._anchor = QPoint()
        self._now = plain_label("", self, "small")
        self.modes = ModeList(self)
        self.drafts = DraftList(self)
        self.memory = BudgetView(self, pictures=False)
        self.refusal = RefusalNotice(self)
        self.apply_button = QPushButton(self)
        self.apply_button.setProperty("look", "primary")
        self.page_button = QToolButton(self)
        self.page_button.setText(tr("More on the Tuning page"))
        self.page_button.setProperty("look", "quiet")
        self.page_button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.page_button.setCursor(Qt.CursorShape.PointingHandCursor)
        self._arrange()
        keep_sized(self, lambda: self.setFixedWidth(scaled(_WIDTH)))
        choose = choosing.choose
        self.modes.chosen.connect(lambda mode: choose(mode=mode))
        self.drafts.chosen.connect(lambda draft: choose(draft=draft))
        self.memory.chosen.connect(lambda vram: choose(vram=vram))
        self.memory.mode_chosen.connect(lambda mode: choose(mode=mode))
        self.refusal.chosen.connect(lambda load: choosing.take(ModelProfile.of(load)))
        self.page_button.clicked.connect(self._leave)
        self.apply_button.clicked.connect(self.apply)
        for news in (choosing.changed, choosing.previews.changed, choosing.running.changed):
            news.connect(self._follow)

    def _arrange(self) -> None:
        self._inside = QWidget(self)
        parts = ((tr("Mode"), self.modes), (tr("Draft"), self.drafts))
        column = vbox(self._now, to=self._inside, spacing=6, margins=(_MARGIN, 14, _MARGIN, 8))
        for title, part in parts:
            fill(column, Spacing(6), part_title(title, part), part)
        column.addSpacing(6)
        column.addLayout(hbox((part_title(tr("GPU memory"), self.memory), 1), self.memory.buttons))
        column.addWidget(self.memory)
        self._scroll = scroller(self._inside, self)
        self._foot = hbox(self.page_button, 1, self.apply_button, margins=(_MARGIN, 4, _MARGIN, 14))
        vbox(
            (self._scroll, 1),
            vbox(self.refusal, margins=(_MARGIN, 4, _MARGIN, 4)),
            self._foot,
            to=self,
            spacing=0,
            margins=1,
        )

    def open_below(self, place: QPoint) -> None:
        """Open with the upper right corner at `place`, in screen coordinates."""
        self._anchor, self._before = place, self.choosing.profile
        self.choosing.watch(self, watching=True)
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
        self.put_aside()
        self._running.apply(self.choosing.profile)

    def put_aside(self) -> None:
        """Close, and leave what is chosen as it is."""
        self._before = None
        self.hide()

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        """Go back to what was chosen before."""
        super().hideEvent(event)
        self.choosing.watch(self, watching=False)
        if self._before is not None:
            self.choosing.take(self._before)

    def _leave(self) -> None:
        self.put_aside()
        self.page_asked.emit()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Return applies from anywhere in the panel but from its buttons, which it presses."""
        entered = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        if enter_presses(event):
            return
        if entered and self.apply_button.isEnabled():
            self.apply()
        else:
            super().keyPressEvent(event)

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        """Keyboard users land on the mode, or on what is left to do."""
        super().showEvent(event)
        ready = self.apply_button.isEnabled()
        first = self.apply_button if ready else self.modes.rows[self.choosing.profile.mode].button
        first.setFocus(Qt.FocusReason.PopupFocusReason)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Labels are shortened to the width there is."""
        super().resizeEvent(event)
        self._fit_labels()

    def _fit_labels(self) -> None:
        room = self.width() - 2 * _MARGIN - 16
        for row in self.modes.rows.values():
            row.fit(room - row.room_for_note)
        self.drafts.fit(room)

    def _follow(self) -> None:
        """The engine has told something new."""
        if self.isVisible():
            self._show_state()
            self._fit()

    def _show_state(self) -> None:
        if not self._running.possible:
            self.hide()
            return
        choosing, status = self.choosing, self._running.bridge.status
        plan, told, machine = status.plan, choosing.told, choosing.machine
        say(self._now, "" if plan is None else f"{run_words(plan, status.machine)}.")
        self._now.setToolTip("" if plan is None else plan_tooltip(plan))
        self.modes.show_choice(choosing)
        self.drafts.show_choice(choosing)
        self._order_tabs()
        self._fit_labels()
        self.memory.show_model(None if told is None else BudgetModel.of(told, plan), machine)
        self.memory.show_profile(choosing.profile)
        self.refusal.show_refusal(choosing.refusal)
        self.apply_button.setEnabled(choosing.differs and choosing.refusal is None)
        self.apply_button.setText(tr("Apply after this answer") if status.busy else tr("Apply"))

    def _order_tabs(self) -> None:
        """Set the order of Tab from top to bottom, whenever the drafts' buttons were made."""
        stops = [
            *(row.button for row in self.modes.rows.values()),
            self.modes.others,
            *(row.button for row in self.drafts.rows.values()),
            self.drafts.folder_button,
            self.drafts.file_button,
            *self.memory.stops,
            *self.refusal.buttons,
            self.page_button,
            self.apply_button,
        ]
        for first, second in pairwise(stops):
            QWidget.setTabOrder(first, second)

    def _fit(self) -> None:
        """Take the height of the content, as far as the window goes."""
        self._inside.ensurePolished()
        foot = self._foot.sizeHint().height() + 8
        if not self.refusal.isHidden():
            foot += self.refusal.heightForWidth(self.width() - 2 * _MARGIN - 2)
        wanted = self._inside.heightForWidth(self.width() - 2) + foot + _FRAME
        place_popup(self, self._anchor, wanted, above=False)

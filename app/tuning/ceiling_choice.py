"""The ceiling of graphics memory with Auto and Lock, in the quick menu and on the page."""

from __future__ import annotations

from PySide6.QtWidgets import QPushButton, QWidget

from app.engine_link.plan_texts import accelerator_of
from app.settings.profiles import ModelProfile
from app.signals import TypedSignal
from app.tuning.budget.model import BudgetModel
from app.tuning.budget.view import BudgetView
from app.tuning.budget.wording import without_card
from app.widgets.boxes import hbox, vbox
from app.widgets.labels import plain_label
from app.widgets.painted import SIDE
from app.widgets.text_button import text_button
from engine.commands import Mode
from engine.language import tr
from engine.machine.facts import Machine


class CeilingChoice(QWidget):
    """Shows a budget; `buttons` are for a line above it.

    Args:
        pictures: whether curve, layers and memory are shown beside the slider.
    """

    chosen = TypedSignal[int | None]()
    """Bytes, or None for Auto; at every step of a drag, and from the user only."""

    def __init__(self, parent: QWidget, *, pictures: bool = True) -> None:
        super().__init__(parent)
        self.budget = BudgetView(self, pictures=pictures)
        self.note = plain_label("", self, "muted")
        side = SIDE if pictures else 0
        self.note.setContentsMargins(side, 0, side, 0)
        self.auto_button = _choice(tr("Auto"), self)
        self.auto_button.setToolTip(tr("Only as much GPU memory as is useful"))
        self.lock_button = _choice(tr("Lock"), self)
        self.lock_button.setToolTip(tr("Keep this budget when other settings change"))
        self.buttons = QWidget(self)
        hbox(self.auto_button, self.lock_button, to=self.buttons, spacing=4, margins=0)
        vbox(self.note, self.budget, to=self, spacing=12, margins=0)
        self.auto_button.clicked.connect(lambda _=False: self._let_go())
        self.lock_button.clicked.connect(lambda _=False: self._lock())
        self.budget.ceiling_changed.connect(self.chosen.emit)

    @property
    def stops(self) -> list[QWidget]:
        """Return the widgets that Tab goes through, in order."""
        return [
            self.auto_button,
            self.lock_button,
            self.budget.rival_button,
            self.budget.slider,
        ]

    def show_budget(self, model: BudgetModel | None, machine: Machine | None) -> None:
        """Show what every ceiling would give."""
        card = machine is not None and accelerator_of(machine) is not None
        self.budget.setVisible(model is not None)
        self.buttons.setVisible(card and model is not None)
        if model is not None:
            self.budget.show_model(model)
        self.budget.sentence.setVisible(card)  # without one, the note says more
        unknown = machine is None or model is None
        words = "" if card else without_card(machine)
        self.note.setText(tr("No data yet.") if unknown and not words else words)
        self.note.setVisible(unknown or not card)

    def show_profile(self, profile: ModelProfile) -> None:
        """Show where the ceiling stands."""
        self.budget.set_ceiling(profile.vram)
        self._show_lock()
        uses = profile.mode is not Mode.CPU
        self.budget.setEnabled(uses)
        self.buttons.setEnabled(uses)

    def _show_lock(self) -> None:
        locked = self.budget.ceiling is not None
        self.auto_button.setChecked(not locked)
        self.lock_button.setChecked(locked)
        self.lock_button.setText(tr("Locked") if locked else tr("Lock"))

    def _let_go(self) -> None:
        self.chosen.emit(None)
        self._show_lock()

    def _lock(self) -> None:
        """Keep what Auto has chosen."""
        model = self.budget.model
        point = None if model is None else model.at(self.budget.ceiling)
        if point is not None and self.budget.ceiling is None:
            self.chosen.emit(point.vram)
        self._show_lock()


def _choice(words: str, parent: QWidget) -> QPushButton:
    button = text_button(words, parent, look="choice")
    button.setCheckable(True)
    return button

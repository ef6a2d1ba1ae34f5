"""The budget of GPU memory: Auto, Lock and a slider, and in pictures what comes of it."""

from __future__ import annotations

from PySide6.QtCore import QEvent
from PySide6.QtGui import QResizeEvent, QShowEvent
from PySide6.QtWidgets import QLabel, QPushButton, QSizePolicy, QWidget

from app.engine_link.plan_texts import accelerator_of, mode_name, unbroken
from app.settings.profiles import ModelProfile
from app.signals import TypedSignal
from app.tuning.budget.curve_view import CurveView
from app.tuning.budget.layer_map import LayerMap
from app.tuning.budget.layers import LayerPlaces
from app.tuning.budget.memory_view import MemoryView
from app.tuning.budget.model import BudgetModel
from app.tuning.budget.slider import BudgetSlider
from app.tuning.budget.wording import (
    card_title,
    forbidden_words,
    host_title,
    knee_words,
    mode_words,
    sentence,
    without_card,
)
from app.widgets.boxes import hbox, vbox
from app.widgets.labels import plain_label, say
from app.widgets.painted import SIDE, Painted
from app.widgets.text_button import text_button
from engine.commands import Mode
from engine.language import sentences, tr
from engine.machine.facts import Machine

_GAP = 6
_RIGHT = 14
"""Room right of the axis, for half a number."""


class BudgetView(QWidget):
    """Shows a `BudgetModel`, and lets the user choose a budget; changes nothing by itself.

    `buttons` are for a line above it.

    Args:
        pictures: whether curve, layers and memory are shown beside the slider.
    """

    chosen = TypedSignal[int | None]()
    """Bytes, or None for Auto; from the user only, at every step of a drag."""
    mode_chosen = TypedSignal[Mode]()
    """By the button that offers a mode."""

    def __init__(self, parent: QWidget | None = None, *, pictures: bool = True) -> None:
        super().__init__(parent)
        self._pictures = pictures
        self.model: BudgetModel | None = None
        self.budget: int | None = None
        """Bytes; None is Auto: as much as is useful."""
        self._stale = False
        self.unknown = plain_label("", self, "muted")
        """Stands where there is nothing to choose."""
        self.auto_button = _choice(tr("Auto"), self)
        self.auto_button.setToolTip(tr("Only as much GPU memory as is useful"))
        self.lock_button = _choice(tr("Lock"), self)
        self.lock_button.setToolTip(tr("Keep this budget when other settings change"))
        self.buttons = QWidget(self)
        hbox(self.auto_button, self.lock_button, to=self.buttons, spacing=4, margins=0)
        self.body = QWidget(self)
        self.sentence = plain_label("", self, "heading" if pictures else "title")
        self.note = plain_label("", self, "muted")
        self.rival_button = text_button("", self)
        self.curve, self.slider = CurveView(self), BudgetSlider(self)
        self.forbidden = plain_label("", self, "small")
        self.layers = LayerMap(self)
        self.card, self.host = MemoryView(self), MemoryView(self)
        side = SIDE if pictures else 0
        texts = (self.sentence, self.note)
        vbox(
            *texts,
            hbox(self.rival_button, 1, margins=(side, 2, side, 2)),
            self.curve,
            self.slider,
            self.forbidden,
            *self._below,
            to=self.body,
            spacing=_GAP,
            margins=0,
        )
        vbox(self.unknown, self.body, to=self, spacing=12, margins=0)
        self.unknown.setContentsMargins(side, 0, side, 0)
        for label in (*texts, self.forbidden):
            label.setContentsMargins(side, 0, side, 0)
            label.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.slider.moved.connect(self._moved)
        self.slider.settled.connect(self._describe)
        self.rival_button.clicked.connect(lambda _=False: self._take_rival())
        self.auto_button.clicked.connect(lambda _=False: self._choose(None))
        self.lock_button.clicked.connect(lambda _=False: self._lock())
        self.curve.pointed.connect(self.slider.move_to)
        self.curve.let_go.connect(self.slider.settle)
        for view in self.views:
            view.table_asked.connect(lambda view=view: self.show_table(view))

    @property
    def views(self) -> list[Painted]:
        """Return all painted views that have numbers behind them, from top to bottom."""
        return [self.curve, *self._below]

    @property
    def _below(self) -> tuple[LayerMap, MemoryView, MemoryView]:
        return self.layers, self.card, self.host

    @property
    def stops(self) -> list[QWidget]:
        """Return the widgets that Tab goes through, in order."""
        return [self.auto_button, self.lock_button, self.rival_button, self.slider]

    def show_model(self, model: BudgetModel | None, machine: Machine | None = None) -> None:
        """Show what is known now; the budget stays. Costs nothing while nobody looks."""
        card = machine is not None and accelerator_of(machine) is not None
        card = card or (model is not None and model.card is not None)
        nothing = model is None
        words = "" if card else without_card(machine)
        self.unknown.setText(tr("No data yet.") if nothing and not words else words)
        self.unknown.setVisible(nothing or not card)
        self.body.setVisible(model is not None)
        self.buttons.setVisible(card and model is not None)
        self.sentence.setVisible(card)  # without one, the line above says more
        if model is not None:
            self._take(model)

    def _take(self, model: BudgetModel) -> None:
        if model != self.model:
            self.model, self._stale = model, True
            if self.isVisible():
                self._show_all()

    def show_profile(self, profile: ModelProfile) -> None:
        """Show where the budget stands, on the curve of the wished mode; tells nobody."""
        if self.model is not None:
            self._take(self.model.led_by(profile.mode))
        for part in (self.body, self.buttons):
            part.setEnabled(profile.mode is not Mode.CPU)
        if profile.vram != self.budget:
            self.budget = profile.vram
            self._show_budget()
            if not self.slider.isSliderDown():
                self._describe()
        self._show_lock()

    def _show_lock(self) -> None:
        locked = self.budget is not None
        self.auto_button.setChecked(not locked)
        self.lock_button.setChecked(locked)
        self.lock_button.setText(tr("Locked") if locked else tr("Lock"))

    def show_table(self, view: Painted) -> None:
        """Open the numbers behind a picture."""
        from app.widgets.table_dialog import TableDialog

        TableDialog(view.table(), self).open()

    # -- what the user does ----------------------------------------------------------------

    def _moved(self, index: int) -> None:
        if self.model is not None and self.model.steps:
            self._choose(self.model.steps[index])

    def _choose(self, budget: int | None) -> None:
        self.chosen.emit(budget)
        self._show_lock()

    def _lock(self) -> None:
        """Keep what Auto has chosen."""
        point = None if self.model is None else self.model.at(self.budget)
        self._choose(self.budget if point is None or self.budget is not None else point.vram)

    def _take_rival(self) -> None:
        rival = None if self.model is None else self.model.rival
        if rival is not None:
            self.mode_chosen.emit(rival.mode)

    # -- what is shown ---------------------------------------------------------------------

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        """Catch up with what happened while hidden."""
        super().showEvent(event)
        if self._stale:
            self._show_all()

    def _show_all(self) -> None:
        model, self._stale = self.model, False
        if model is None:
            return
        there = bool(model.total)
        self.slider.setVisible(there)
        self.forbidden.setVisible(there)
        for picture in (self.curve, self.layers, self.card):
            picture.setVisible(there and self._pictures)
        self.host.setVisible(self._pictures)
        rival = model.rival if there else None
        self.rival_button.setVisible(rival is not None)
        if rival is not None:
            self.rival_button.setText(tr("Use {mode}").format(mode=mode_name(rival.mode)))
        self.curve.show_model(model)
        self.slider.show_model(model)
        self.forbidden.setText(forbidden_words(model))
        self._align()
        self._show_budget()
        self._describe()

    def _align(self) -> None:
        """Use one axis for everything that is measured in GiB of the GPU."""
        if self.model is not None and not self.model.total:
            self.host.set_sides(0, 0)  # nothing else is there to be in line with
            return
        left = max(self.curve.gutter(), self.card.gutter())
        self.curve.set_sides(left, _RIGHT)
        self.card.set_sides(left, _RIGHT)
        self.host.set_sides(left, _RIGHT)
        self.slider.set_sides(left + SIDE, _RIGHT + SIDE)

    def _show_budget(self) -> None:
        model, budget = self.model, self.budget
        if model is None or self._stale:
            return
        self.host.show_stacks(host_title(), model.host_now(), model.host_then(budget))
        if not model.total:
            self.sentence.setText(without_card())
            say(self.note, model.main.refusal)
            return
        self.note.show()
        said = sentence(model, budget)
        self.slider.show_step(model.index(budget))
        self.slider.setAccessibleDescription(said)
        self._say(self.sentence, unbroken(said))
        self._say(self.note, sentences(mode_words(model, budget), knee_words(model)))
        self.curve.show_budget(budget)
        self.layers.show_places(LayerPlaces.of(model, budget))
        self.card.show_stacks(card_title(model), model.card_now(), model.card_then(budget))

    def _say(self, label: QLabel, words: str) -> None:
        """Set a text so that nothing below jumps with its length while somebody drags."""
        if words == label.text():
            return
        label.setText(words)
        needed = label.heightForWidth(label.width())
        if needed > label.minimumHeight():
            label.setMinimumHeight(needed)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Break the lines anew for another width."""
        super().resizeEvent(event)
        for label in (self.sentence, self.note):
            label.setMinimumHeight(0)

    def _describe(self) -> None:
        """Renew what screen readers are told of the pictures; not during a drag."""
        for view in self.views:
            words = view.describe()
            if words != view.accessibleDescription():
                view.setAccessibleDescription(words)

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Larger type needs more room beside the axis."""
        super().changeEvent(event)
        if event.type() in {QEvent.Type.FontChange, QEvent.Type.StyleChange}:
            self._align()


def _choice(words: str, parent: QWidget) -> QPushButton:
    button = text_button(words, parent, look="choice")
    button.setCheckable(True)
    return button

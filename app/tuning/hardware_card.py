"""Card on this PC: every device, why one is not used, and the measured speeds."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtWidgets import QLabel, QProgressBar, QWidget

from app.engine_link.status import EngineStatus
from app.theme.fonts import keep_sized, scaled
from app.theme.icons import icon
from app.theme.theme import current
from app.tuning.hardware_words import DeviceWords, device_words
from app.widgets.boxes import fill, hbox, vbox
from app.widgets.card import Card, divider
from app.widgets.labels import plain_label, say
from app.widgets.text_button import text_button
from engine.language import sentences, tr
from engine.machine.facts import Machine
from engine.machine.speeds import Speeds

_DOT = " · "
_ICON = 20
_STEPS = 1000


class DeviceRow(QWidget):
    """One device."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._symbol = ""
        self._icon = QLabel(self)
        keep_sized(self._icon, lambda: self._icon.setFixedSize(scaled(_ICON), scaled(_ICON)))
        self.name = plain_label("", self, "title")
        self.facts = plain_label("", self, "small")
        self.speeds = plain_label("", self, "small")
        self.trouble = plain_label("", self, "caution")
        hbox(
            (self._icon, 0, Qt.AlignmentFlag.AlignTop),
            (vbox(self.name, self.trouble, self.facts, self.speeds, spacing=2), 1),
            to=self,
            spacing=12,
            margins=0,
        )

    def say(self, words: DeviceWords) -> None:
        """Show a device."""
        self._symbol = "warning" if words.trouble else "chip"
        self.name.setText(words.name)
        say(self.facts, _DOT.join(words.facts))
        say(self.speeds, words.speeds)
        say(self.trouble, words.trouble)
        unknown = "\n".join(words.missing)
        self.setToolTip(tr("Unknown:\n{facts}").format(facts=unknown) if unknown else "")
        self.setAccessibleName(words.name)
        texts = (words.trouble, self.facts.text(), self.speeds.text())
        self.setAccessibleDescription("\n".join(text for text in texts if text))
        self._recolour()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Recolour with the theme."""
        super().changeEvent(event)
        if event.type() is QEvent.Type.PaletteChange and hasattr(self, "_symbol"):
            self._recolour()

    def _recolour(self) -> None:
        if self._symbol:
            colour = current().warning if self._symbol == "warning" else current().muted
            self._icon.setPixmap(icon(self._symbol, colour).pixmap(scaled(_ICON), scaled(_ICON)))


class HardwareCard(Card):
    """The devices of this PC, and a button to measure them."""

    measure_asked = Signal()
    cancel_asked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(tr("This computer"), "", parent)
        self.rows: list[DeviceRow] = []
        self._devices = vbox(spacing=14)
        self.state = plain_label("", self, "small")
        self.progress = QProgressBar(self, textVisible=False)
        self.progress.setRange(0, _STEPS)
        self.progress.setFixedHeight(4)
        self.progress.setAccessibleName(tr("Progress of the measurement"))
        self.measure_button = text_button(tr("Measure now"), self)
        self.measure_button.clicked.connect(self.measure_asked)
        self.cancel_button = text_button(tr("Cancel"), self)
        self.cancel_button.setAccessibleName(tr("Cancel measuring"))
        self.cancel_button.clicked.connect(self.cancel_asked)
        self.column.setSpacing(14)
        fill(
            self.column,
            self._devices,
            divider(self),
            hbox(
                (vbox(self.state, self.progress, spacing=8), 1),
                self.measure_button,
                self.cancel_button,
                spacing=16,
            ),
        )

    def show_machine(self, machine: Machine | None, speeds: Speeds | None) -> None:
        """Show what was found."""
        told = [] if machine is None else device_words(machine, speeds)
        while len(self.rows) > len(told):
            self.rows.pop().deleteLater()
        while len(self.rows) < len(told):
            row = DeviceRow(self)
            self.rows.append(row)
            self._devices.addWidget(row)
            row.show()
        for row, words in zip(self.rows, told, strict=True):
            row.say(words)
        none = machine is not None and not machine.accelerators
        self.say(tr("No GPU was found: everything runs on the CPU.") if none else "")

    def show_measuring(self, status: EngineStatus, speeds: Speeds | None, *, asked: bool) -> None:
        """Say whether speeds are known, or how far their measurement is; `asked`: it waits."""
        known = speeds is not None and speeds.measured
        measuring = status.measured is not None
        waits = asked and not measuring
        self.progress.setVisible(measuring)
        self.progress.setValue(round((status.measured or 0.0) * _STEPS))
        self.cancel_button.setVisible(measuring)
        self.measure_button.setVisible(not measuring)
        self.measure_button.setEnabled(not waits)
        self.measure_button.setText(tr("Measure again") if known else tr("Measure now"))
        if measuring:
            words = tr("Measuring this computer. Messages you send go first.")
        elif waits:
            words = tr("It is measured as soon as Duotail is idle.")
        elif known:
            words = tr("Predictions use the speeds measured here.")
        else:
            words = sentences(
                tr("Not measured yet: predictions use typical speeds."),
                tr("Measuring takes a few seconds."),
            )
        self.state.setText(words)

"""The page of the first start: what was found here, where data lies, which language is spoken."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtWidgets import QFrame, QWidget

from app.chat.machine_words import machine_words
from app.data_folder.paths import Paths
from app.engine_link.background import in_background, numpy_whole
from app.engine_link.bridge import EngineBridge
from app.engine_link.status import EngineStatus, Phase
from app.session.session import ChatSession
from app.settings import Settings, SettingsStore
from app.settings.model import SettingsSection
from app.settings_page.rows import SettingRow
from app.shell.housekeeping import Housekeeping
from app.widgets.boxes import vbox
from app.widgets.card import SIDE
from app.widgets.labels import LabelledRow, say
from app.widgets.text_button import text_button
from engine.language import tr
from engine.machine.facts import Machine

if TYPE_CHECKING:
    from app.shell.main_window import MainWindow

_log = logging.getLogger(__name__)


class WelcomePage(QWidget):
    """Stands below the greeting, which says how far the model is."""

    places_asked = Signal()
    left = Signal()

    def __init__(self, settings: SettingsStore, data: Path, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        card = QFrame(self)
        card.setProperty("look", "section")
        self.machine = LabelledRow(tr("This computer"), machine_words(None), QWidget(), card)
        words = tr(
            "What you write stays on this computer, in {folder}. Nothing is sent unless you search "
            "for models, download one or add a server."
        )
        self.places_button = text_button(tr("Data and privacy"), card, self.places_asked.emit)
        kept = words.format(folder=_short(data))
        self.data = LabelledRow(tr("Your data"), kept, self.places_button, card)
        self.data.about.setToolTip(str(data))
        self.language = SettingRow("language", settings, card)
        kept_room = self.language.back.sizePolicy()
        kept_room.setRetainSizeWhenHidden(False)
        self.language.back.setSizePolicy(kept_room)  # in line with the button above
        vbox(
            *(self.machine, self.data, self.language),
            to=card,
            spacing=0,
            margins=(SIDE, 4, SIDE, 4),
        )
        self.start_button = text_button(tr("Start chatting"), self, self.left.emit)
        centred = Qt.AlignmentFlag.AlignHCenter
        vbox(card, (self.start_button, 0, centred), to=self, spacing=18, margins=0)

    def show_phase(self, phase: Phase) -> None:
        """Have one button that is meant to be pressed: a model comes first."""
        without = phase is Phase.NO_MODEL
        words = tr("Later") if without else tr("Start chatting")
        say(self.start_button, words, "" if without else "primary")

    def show_machine(self, machine: Machine) -> None:
        """Say what was found in this computer."""
        words = "\n".join(filter(None, (machine.host.name, machine_words(machine))))
        self.machine.about.setText(words)


class FirstStart(QObject):
    """Shows the page until it is left: by its button, Escape or a first message."""

    def __init__(
        self,
        window: MainWindow,
        settings: SettingsStore,
        bridge: EngineBridge,
        session: ChatSession,
        house: Housekeeping,
        paths: Paths,
    ) -> None:
        super().__init__(window)
        self._chat, self._settings = window.chat, settings
        self._looked = False
        self.page: WelcomePage | None = WelcomePage(settings, paths.data)
        self.page.language.restart.clicked.connect(lambda: house.start_anew(safe=False))
        self.page.places_asked.connect(lambda: house.show_settings(SettingsSection.PRIVACY))
        self.page.left.connect(self._leave)
        session.message_added.connect(self._leave)
        settings.changed.connect(self._look)
        bridge.status_changed.connect(self._show_status)
        self._chat.greeting.welcome(self.page)
        self._show_status(bridge.status)

    def _leave(self) -> None:
        self._settings.change(first_start=False)

    def _look(self, settings: Settings) -> None:
        if self.page is not None and not settings.first_start:
            self.page = None
            self._chat.greeting.welcome(None)
            self._chat.composer.field.setFocus()

    def _show_status(self, status: EngineStatus) -> None:
        if self.page is None:
            return
        self.page.show_phase(status.phase)
        if status.machine is not None:
            self.page.show_machine(status.machine)
        elif status.phase is Phase.NO_MODEL and not self._looked:
            self._looked = True  # else the engine tells with the load
            in_background(self, _look_here, self._found, lambda error: _log.warning("%r", error))

    def _found(self, machine: Machine) -> None:
        if self.page is not None:
            self.page.show_machine(machine)


def _look_here() -> Machine:
    numpy_whole()
    from engine.devices.probe import probe_machine

    return probe_machine()


def _short(folder: Path) -> str:
    """The folder as people say it: from their own folder on."""
    try:
        return f"~/{folder.relative_to(Path.home()).as_posix()}"
    except ValueError:
        return str(folder)

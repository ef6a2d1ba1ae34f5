"""The settings page in a window of its own."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QDialog, QWidget

from app.data_folder.paths import Paths
from app.settings.model import SettingsSection
from app.settings.store import SettingsStore
from app.settings_page.page import Panel, SettingsPage
from app.theme.theme import Theme, ui_font
from app.widgets.boxes import vbox
from app.widgets.enter import enter_presses
from engine.language import tr


class SettingsDialog(QDialog):
    """Shows `page`; Escape empties the search field first, then closes."""

    def __init__(
        self,
        settings: SettingsStore,
        theme: Theme,
        paths: Paths,
        panels: Sequence[Panel] = (),
        parent: QWidget | None = None,
        section: SettingsSection = SettingsSection.GENERAL,
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("Settings"))
        self.page = SettingsPage(settings, theme, paths, panels, self)
        self.page.show_section(section)
        vbox(self.page, to=self, margins=0)
        em = ui_font().pointSizeF()
        self.setMinimumSize(min(720, round(46 * em)), 420)
        self.resize(min(1100, round(84 * em)), min(820, round(58 * em)))
        self.page.sections.setFocus()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Escape leaves one thing after the other; Enter presses a button."""
        if event.key() == Qt.Key.Key_Escape and self.page.search.text():
            self.page.search.clear()
            return
        if not enter_presses(event):
            super().keyPressEvent(event)

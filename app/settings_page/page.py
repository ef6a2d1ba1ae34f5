"""The settings page: sections on the left, rows made from the metadata on the right."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QSize, Signal
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import QFrame, QLineEdit, QListWidget, QListWidgetItem, QWidget

from app.data_folder.paths import Paths
from app.settings.model import SPECS, SettingsSection
from app.settings.store import SettingsStore
from app.settings_page.privacy import PrivacyPage
from app.settings_page.rows import SettingRow
from app.theme.icons import icon
from app.theme.theme import Theme, current
from app.widgets.boxes import Spacing, hbox, vbox
from app.widgets.labels import LabelledRow, plain_label
from app.widgets.scroller import scroller
from engine.language import tr

_ICONS = {
    SettingsSection.GENERAL: "sliders",
    SettingsSection.APPEARANCE: "contrast",
    SettingsSection.CHAT: "pencil",
    SettingsSection.MODELS: "import",
    SettingsSection.TOOLS: "tool",
    SettingsSection.SERVER: "server",
    SettingsSection.PRIVACY: "lock",
}


class SettingsPage(QWidget):
    """Every setting. A search field shows the rows of all sections that hold the words."""

    restart_asked = Signal(bool)
    """Start anew; True: in safe mode."""

    def __init__(
        self, settings: SettingsStore, theme: Theme, paths: Paths, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.rows: dict[str, SettingRow] = {}
        self.search = QLineEdit(self, placeholderText=tr("Search settings"))
        self.search.setAccessibleName(tr("Search settings"))
        self.search.setClearButtonEnabled(True)
        self.sections = QListWidget(self)
        self.sections.setAccessibleName(tr("Sections"))
        self.privacy = PrivacyPage(paths, self, hub_cache=settings.value.hub_cache)
        self._blocks = {section: _Block(section, settings, self) for section in SettingsSection}
        for block in self._blocks.values():
            for row in block.rows:
                if isinstance(row, SettingRow):
                    self.rows[row.name] = row
                    row.restart.clicked.connect(lambda _=False: self.restart_asked.emit(False))
        self._blocks[SettingsSection.PRIVACY].take(self.privacy, self.privacy.rows)
        self._nothing = plain_label(tr("No settings found."), self, "muted")
        self._arrange()
        self.sections.currentRowChanged.connect(lambda _row: self._choose())
        self.search.textChanged.connect(self._filter)
        QShortcut(QKeySequence(QKeySequence.StandardKey.Find), self, self.search.setFocus)
        self.privacy.restart_asked.connect(self.restart_asked)
        self.privacy.reset_settings_asked.connect(settings.reset_all)
        theme.changed.connect(self._recolour)
        self._recolour()
        self.sections.setCurrentRow(0)

    def show_section(self, section: SettingsSection) -> None:
        """Go to a section."""
        self.search.clear()
        self.sections.setCurrentRow(list(SettingsSection).index(section))

    def take(
        self,
        section: SettingsSection,
        widget: QWidget,
        rows: list[LabelledRow],
        behind: str = "",
    ) -> None:
        """Show more in a section.

        Args:
            section: where.
            widget: the rows together.
            rows: found by the search like others.
            behind: setting whose row stands before them; empty: they come last.
        """
        self._blocks[section].take(widget, rows, self.rows.get(behind))
        self._filter(self.search.text())

    def _arrange(self) -> None:
        side = QFrame(self)
        side.setProperty("look", "sidebar")
        vbox(self.search, (self.sections, 1), to=side, spacing=10, margins=(12, 16, 12, 12))
        for section in SettingsSection:
            self.sections.addItem(QListWidgetItem(tr(section.value)))
        self._column = QWidget()
        self._column.setProperty("look", "page")
        vbox(
            *self._blocks.values(),
            self._nothing,
            1,
            to=self._column,
            spacing=20,
            margins=(28, 20, 24, 24),
        )
        self._scroll = scroller(self._column, self)
        hbox(side, (self._scroll, 1), to=self, spacing=0, margins=0)
        self._side = side

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """The list of sections is as wide as its texts need."""
        super().changeEvent(event)
        if event.type() in (QEvent.Type.FontChange, QEvent.Type.StyleChange):
            self._fit_side()

    def _fit_side(self) -> None:
        metrics = self.fontMetrics()
        widest = max(metrics.horizontalAdvance(tr(section.value)) for section in SettingsSection)
        self._side.setFixedWidth(max(190, widest + 86))
        side = metrics.height() + 2
        self.sections.setIconSize(QSize(side, side))

    def _recolour(self) -> None:
        for section, row in zip(SettingsSection, range(self.sections.count()), strict=True):
            self.sections.item(row).setIcon(icon(_ICONS[section], current().muted))
        self._fit_side()

    def _choose(self) -> None:
        if self.search.text():
            self.search.clear()  # which comes back here
        else:
            self._filter("")
            self._scroll.verticalScrollBar().setValue(0)

    def _filter(self, text: str) -> None:
        words = text.casefold().split()
        chosen = list(SettingsSection)[self.sections.currentRow()]
        found = False
        for section, block in self._blocks.items():
            shown = block.filter(words) if words else block.show_all(visible=section is chosen)
            found = found or shown
        self._nothing.setVisible(not found)


class _Block(QWidget):
    """One section: its name and its rows."""

    def __init__(self, section: SettingsSection, settings: SettingsStore, parent: QWidget) -> None:
        super().__init__(parent)
        self.hide()  # what is not seen need not be dressed yet
        self._section = tr(section.value).casefold()
        self._layout = vbox(
            plain_label(tr(section.value), self, "heading"),
            Spacing(10),
            to=self,
            spacing=0,
            margins=0,
        )
        self.rows: list[LabelledRow] = []
        for name, spec in SPECS.items():
            if spec.section is section:
                row = SettingRow(name, settings, self)
                self.rows.append(row)
                self._layout.addWidget(row)

    def take(self, widget: QWidget, rows: list[LabelledRow], behind: QWidget | None = None) -> None:
        """Show more, below the rows or behind one of them."""
        self.rows += rows
        place = self._layout.count() if behind is None else self._layout.indexOf(behind) + 1
        self._layout.insertWidget(place, widget)

    def filter(self, words: list[str]) -> bool:
        """Show the rows that hold the words, all where the section itself does; whether any."""
        if all(word in self._section for word in words):
            return self.show_all(visible=True)
        found = [row for row in self.rows if row.says(words)]
        for row in self.rows:
            row.setVisible(row in found)
        self.setVisible(bool(found))
        return bool(found)

    def show_all(self, *, visible: bool) -> bool:
        """Show everything, or nothing."""
        for row in self.rows:
            row.setVisible(True)
        self.setVisible(visible)
        return visible

"""The settings page: sections on the left, rows made from the metadata on the right."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QSize, QTimer, Signal
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import QFrame, QLineEdit, QListWidget, QListWidgetItem, QWidget

from app.data_folder.paths import Paths
from app.settings.model import SPECS, SettingsSection
from app.settings.store import SettingsStore
from app.settings_page.privacy import PrivacyPage
from app.settings_page.rows import SettingRow, back_button
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

_SEEN_MS = 200
"""By then the first section is on the screen, as a rule."""

_ALL = "all pieces are made"


@dataclass(frozen=True, slots=True)
class Panel:
    """More than settings in a section.

    `make` returns a widget and the rows in it, which the search finds like others. `behind`: the
    setting whose row stands before it; empty: it comes last. `fill` adds further rows, one a step.
    """

    section: SettingsSection
    make: Callable[[QWidget], tuple[QWidget, Sequence[LabelledRow]]]
    behind: str = ""
    fill: Callable[[], Iterator[None]] = lambda: iter(())


class SettingsPage(QWidget):
    """Every setting. A search field shows the rows of all sections that hold the words.

    A section is made when it is shown, the others soon after the first picture, a row in each turn
    of the loop: all at once, with a style sheet, take 70 ms.
    """

    restart_asked = Signal(bool)
    """Start anew; True: in safe mode."""
    delete_conversations_asked = Signal()
    forget_measured_asked = Signal()
    """Both as in `PrivacyPage`."""

    def __init__(
        self,
        settings: SettingsStore,
        theme: Theme,
        paths: Paths,
        panels: Sequence[Panel] = (),
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._settings, self._paths = settings, paths
        self._privacy: PrivacyPage | None = None
        privacy = Panel(SettingsSection.PRIVACY, self._make_privacy, fill=self._fill_privacy)
        self._panels = (*panels, privacy)
        self.search = QLineEdit(self, placeholderText=tr("Search settings"))
        self.search.setAccessibleName(tr("Search settings"))
        self.search.setClearButtonEnabled(True)
        self.sections = QListWidget(self)
        self.sections.setAccessibleName(tr("Sections"))
        self._blocks = {section: _Block(section, self) for section in SettingsSection}
        self._unmade = {section: self._pieces(section) for section in SettingsSection}
        self._nothing = plain_label(tr("No settings found."), self, "muted")
        self._arrange()
        self.sections.currentRowChanged.connect(lambda _row: self._choose())
        self.search.textChanged.connect(self._filter)
        QShortcut(QKeySequence(QKeySequence.StandardKey.Find), self, self.search.setFocus)
        theme.changed.connect(self._recolour)
        self._recolour()
        QTimer.singleShot(_SEEN_MS, self, self._make_next)

    @property
    def rows(self) -> dict[str, SettingRow]:
        """The rows of settings by name; makes those that are not there yet."""
        self._make_all()
        rows = (row for block in self._blocks.values() for row in block.rows)
        return {row.name: row for row in rows if isinstance(row, SettingRow)}

    @property
    def privacy(self) -> PrivacyPage:
        """Data and privacy, at the end of its section."""
        self._make(SettingsSection.PRIVACY)
        assert self._privacy is not None  # noqa: S101 - made with its section
        return self._privacy

    def show_section(self, section: SettingsSection) -> None:
        """Go to a section."""
        self.search.clear()
        self.sections.setCurrentRow(list(SettingsSection).index(section))

    def _make_privacy(self, parent: QWidget) -> tuple[QWidget, Sequence[LabelledRow]]:
        page = PrivacyPage(self._paths, parent, hub_cache=self._settings.value.hub_cache)
        page.restart_asked.connect(self.restart_asked)
        page.reset_settings_asked.connect(self._settings.reset_all)
        page.delete_conversations_asked.connect(self.delete_conversations_asked)
        page.forget_measured_asked.connect(self.forget_measured_asked)
        self._privacy = page
        return page, page.rows

    def _fill_privacy(self) -> Iterator[None]:
        return iter(()) if self._privacy is None else self._privacy.fill()

    def _pieces(self, section: SettingsSection) -> Iterator[None]:
        """Make a section, a piece each time that the next one is asked for."""
        block = self._blocks[section]
        panels = [each for each in self._panels if each.section is section]
        yield from block.pieces(self._settings, panels)
        for row in block.rows:
            if isinstance(row, SettingRow):
                row.restart.clicked.connect(lambda _=False: self.restart_asked.emit(False))

    def _make(self, section: SettingsSection) -> None:
        for _piece in self._unmade.pop(section, ()):
            pass

    def _make_all(self) -> None:
        for section in SettingsSection:
            self._make(section)

    def _make_next(self) -> None:
        if self._unmade:
            section, pieces = next(iter(self._unmade.items()))
            if next(pieces, _ALL) is _ALL:
                del self._unmade[section]
            QTimer.singleShot(0, self, self._make_next)

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
        if words:
            self._make_all()
        else:
            self._make(chosen)
        found = False
        for section, block in self._blocks.items():
            shown = block.filter(words) if words else block.show_all(visible=section is chosen)
            found = found or shown
        self._nothing.setVisible(not found)


class _Block(QWidget):
    """One section: its name and, once it is made, its rows."""

    def __init__(self, section: SettingsSection, parent: QWidget) -> None:
        super().__init__(parent)
        self.hide()  # what is not seen need not be dressed yet
        self._section = section
        self._layout = vbox(
            plain_label(tr(section.value), self, "heading"),
            Spacing(10),
            to=self,
            spacing=0,
            margins=0,
        )
        self.rows: list[LabelledRow] = []

    def pieces(self, settings: SettingsStore, panels: Sequence[Panel]) -> Iterator[None]:
        """Make everything, a piece at a time, from top to bottom as the keyboard goes."""
        for name, spec in SPECS.items():
            if spec.section is self._section:
                row = SettingRow(name, settings, self)
                self.rows.append(row)
                self._layout.addWidget(row)
                yield
                yield from self._add(panel for panel in panels if panel.behind == name)
        yield from self._add(panel for panel in panels if not panel.behind)

    def _add(self, panels: Iterable[Panel]) -> Iterator[None]:
        for panel in panels:
            widget, rows = panel.make(self)
            if panel.behind and isinstance(widget, LabelledRow):  # controls of one column
                back_button(widget, widget.label.text())
            self._layout.addWidget(widget)
            yield
            yield from panel.fill()
            self.rows += rows

    def filter(self, words: list[str]) -> bool:
        """Show the rows that hold the words, all where the section itself does; whether any."""
        name = tr(self._section.value).casefold()
        if all(word in name for word in words):
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

"""“Memory in detail”: predicted and held, by purpose and device; the loads before."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QSize, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import (
    QAbstractItemView,
    QDialog,
    QDialogButtonBox,
    QHeaderView,
    QTableView,
    QWidget,
)

from app.engine_link.background import in_background
from app.shell import memory_texts
from app.shell.memory_strip import MemoryStrip
from app.shell.memory_tables import (
    LOADED,
    MEMORY,
    MODE,
    MODEL,
    WHAT_FOR,
    of_held,
    of_loads,
    typical_errors,
)
from app.theme.fonts import scaled
from app.widgets.boxes import vbox
from app.widgets.labels import plain_label, say
from app.widgets.table import Table, as_text
from app.widgets.table_dialog import Index, TableModel
from engine.language import tr

if TYPE_CHECKING:
    from engine.devices.kept_estimates import ModelEstimates

_WIDTH, _HEIGHT = 960, 620
_MOST_SENTENCES = 4


def kept_estimates() -> tuple[ModelEstimates, ...]:
    """Return the kept estimates of all loads; reads files."""
    from engine.devices.kept_estimates import KeptEstimates

    return KeptEstimates().all()


class MemoryDialog(QDialog):
    """Follows the strip as long as it is open.

    Args:
        kept: tells of the loads before; called beside the window.
    """

    def __init__(
        self,
        strip: MemoryStrip,
        parent: QWidget | None = None,
        kept: Callable[[], tuple[ModelEstimates, ...]] = kept_estimates,
    ) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(tr("Memory in detail"))
        self._strip = strip
        self.error = plain_label("", self)
        self.now = _TableView(self)
        self.before = _TableView(self)
        self.notes = plain_label("", self, "small")
        self._nothing = plain_label(tr("No model is in memory."), self, "muted")
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close, self)
        buttons.button(QDialogButtonBox.StandardButton.Close).setText(tr("Close"))
        copy = buttons.addButton(tr("Copy all"), QDialogButtonBox.ButtonRole.ActionRole)
        copy.clicked.connect(self.copy)
        buttons.rejected.connect(self.close)
        column = vbox(to=self, spacing=8)
        for widget, stretch in (
            (plain_label(tr("The model in memory"), self, "title"), 0),
            (self.error, 0),
            (self._nothing, 0),
            (self.now, 3),
            (plain_label(tr("Earlier loads"), self, "title"), 0),
            (self.before, 2),
            (self.notes, 0),
            (buttons, 0),
        ):
            column.addWidget(widget, stretch)
        self.before.show_table(of_loads(()))
        self.resize(QSize(scaled(_WIDTH), scaled(_HEIGHT)))
        strip.told.connect(self._follow)
        self._follow()
        in_background(self, kept, self._show_kept, lambda _: None)
        self.now.setFocus()

    def _follow(self) -> None:
        """The model holds something else now."""
        told = self._strip.held
        loaded = told is not None and bool(told.devices)
        self.error.setVisible(loaded)
        self._nothing.setVisible(not loaded)
        self.now.setVisible(loaded)
        if told is not None:
            self.error.setText(memory_texts.error_in_words(told.typical_error))
        self.now.show_table(of_held(self._strip.shown))

    def _show_kept(self, kept: tuple[ModelEstimates, ...]) -> None:
        self.before.show_table(of_loads(kept))
        said = typical_errors(kept)[:_MOST_SENTENCES]
        say(self.notes, "\n".join(said))

    def copy(self) -> None:
        """Put both tables on the clipboard."""
        tables = self.now.table, self.before.table
        said = "\n".join(f"{table.title}\n{as_text(table)}" for table in tables)
        QGuiApplication.clipboard().setText(said)


class _Rows(TableModel):
    """Names stand to the left, numbers to the right."""

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """The text of a cell."""
        if role == Qt.ItemDataRole.TextAlignmentRole and index.column() in self.names:
            return None
        return super().data(index, role)

    def headerData(  # noqa: N802
        self,
        section: int,
        orientation: Qt.Orientation,
        role: int = Qt.ItemDataRole.DisplayRole,
    ) -> object:
        """The columns' names, above what they name."""
        if role == Qt.ItemDataRole.TextAlignmentRole and section in self.names:
            return Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
        return super().headerData(section, orientation, role)

    @property
    def names(self) -> list[int]:
        """The columns of names."""
        known = {tr(name) for name in (MEMORY, WHAT_FOR, LOADED, MODEL, MODE)}
        return [place for place, name in enumerate(self.table.columns) if name in known]


class _TableView(QTableView):
    """Rows of texts; a table of the same shape keeps the place."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.table = Table("", (), ())
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setAlternatingRowColors(True)
        self.setShowGrid(False)
        self.setTabKeyNavigation(False)
        self.setWordWrap(False)
        self.verticalHeader().hide()
        header = self.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setHighlightSections(False)

    def show_table(self, table: Table) -> None:
        """Show other rows."""
        if table == self.table:
            return
        self.table = table
        self.setAccessibleName(table.title)
        old: QObject | None = self.model()
        rows = _Rows(table, self)
        self.setModel(rows)
        header = self.horizontalHeader()
        for place in rows.names[-1:]:
            header.setSectionResizeMode(place, QHeaderView.ResizeMode.Stretch)
        if old is not None:
            old.deleteLater()

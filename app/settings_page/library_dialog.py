"""A library of named things: change, add, delete, bring back. Every change applies at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Generic

from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QGridLayout, QListWidget, QWidget

from app.settings_page.named_form import N, NamedForm
from app.theme.theme import ui_font
from app.widgets.boxes import hbox, vbox
from app.widgets.labels import plain_label
from app.widgets.scroller import scroller
from app.widgets.text_button import text_button
from engine.language import tr


@dataclass(frozen=True, slots=True)
class LibraryWords:
    """Texts of a library's dialog."""

    title: str
    empty: str
    new_name: str
    restore: str


class LibraryDialog(QDialog, Generic[N]):
    """The things on the left, the chosen one's parts on the right.

    Args:
        form: shows one of them.
        read: returns everything that is kept.
        keep: keeps these.
        built_in: those that come with Duotail.
        words: the texts.
        parent: the window that it belongs to.
    """

    def __init__(
        self,
        form: NamedForm[N],
        read: Callable[[], tuple[N, ...]],
        keep: Callable[[tuple[N, ...]], None],
        built_in: tuple[N, ...],
        words: LibraryWords,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle(words.title)
        self._read, self._keep, self._built_in = read, keep, built_in
        self._words = words
        self._take_back: Callable[[], None] | None = None
        self.list = QListWidget(self)
        self.list.setAccessibleName(words.title)
        self.form = form
        self._empty = plain_label(words.empty, self, "muted")
        self.new = text_button(tr("New"), self, self._add)
        self.copy = text_button(tr("Duplicate"), self, self._duplicate)
        self.delete = text_button(tr("Delete"), self, self._delete)
        self.restore = text_button(tr("Restore"), self, self._restore)
        self.restore.setToolTip(words.restore)
        self._done = plain_label("", self, "muted")
        self.undo = text_button(tr("Undo"), self, self._undo)
        QShortcut(QKeySequence(QKeySequence.StandardKey.Undo), self, self._undo)
        self._arrange()
        self.list.currentRowChanged.connect(lambda _row: self._show())
        self.form.changed.connect(self._change)
        self._offer_undo("", None)
        self._fill(0)

    @property
    def items(self) -> tuple[N, ...]:
        """Everything that is kept."""
        return self._read()

    def keep_changed(self, items: tuple[N, ...], before: N, after: N) -> None:
        """Keep these, of which one was another `before`."""
        del before, after
        self._keep(items)

    def _arrange(self) -> None:
        buttons = QGridLayout()
        buttons.setSpacing(6)
        for index, button in enumerate((self.new, self.copy, self.delete, self.restore)):
            buttons.addWidget(button, index // 2, index % 2)
        column = QWidget()
        column.setProperty("look", "page")
        vbox(self.form, self._empty, 1, to=column, margins=(4, 0, 12, 0))
        box = QDialogButtonBox(QDialogButtonBox.StandardButton.Close, self)
        box.rejected.connect(self.reject)
        vbox(
            (
                hbox(
                    vbox((self.list, 1), buttons, spacing=8),
                    (scroller(column, self), 1),
                    spacing=20,
                ),
                1,
            ),
            hbox((self._done, 1), self.undo, box, spacing=8),
            to=self,
            spacing=14,
            margins=(20, 18, 20, 16),
        )
        em = ui_font().pointSizeF()
        self.list.setMinimumWidth(round(17 * em))
        self.resize(min(1100, round(78 * em)), min(820, round(58 * em)))

    def _fill(self, row: int) -> None:
        self.list.blockSignals(True)
        self.list.clear()
        self.list.addItems([item.label for item in self.items])
        self.list.setCurrentRow(min(row, len(self.items) - 1))
        self.list.blockSignals(False)
        self._show()

    def _show(self) -> None:
        row = self.list.currentRow()
        chosen = 0 <= row < len(self.items)
        self.form.setVisible(chosen)
        self._empty.setVisible(not chosen)
        self.copy.setEnabled(chosen)
        self.delete.setEnabled(chosen)
        self.restore.setEnabled(bool(self._missing()))
        if chosen:
            others = {item.name for item in self.items} - {self.items[row].name}
            self.form.show_item(self.items[row], others)

    def _change(self, item: N) -> None:
        """The form has another item now."""
        row, items = self.list.currentRow(), self.items
        self.keep_changed((*items[:row], item, *items[row + 1 :]), items[row], item)
        self.list.item(row).setText(item.label)
        self.restore.setEnabled(bool(self._missing()))

    def _add(self) -> None:
        self._append(self.form.blank.renamed(self._free_name(self._words.new_name)))

    def _duplicate(self) -> None:
        chosen = self.items[self.list.currentRow()]
        name = tr("{name} (copy)").format(name=chosen.label)
        self._append(chosen.renamed(self._free_name(name)))

    def _append(self, item: N) -> None:
        self._keep((*self.items, item))
        self._fill(len(self.items) - 1)
        self.form.begin()

    def _delete(self) -> None:
        row, items = self.list.currentRow(), self.items
        self._keep((*items[:row], *items[row + 1 :]))
        self._fill(row)
        self.list.setFocus()
        words = tr("“{name}” was deleted.").format(name=items[row].label)
        self._offer_undo(words, partial(self._put_back, (items[row],), row))

    def _missing(self) -> list[N]:
        return [item for item in self._built_in if item not in self.items]

    def _restore(self) -> None:
        """Bring back what came with Duotail, also where it was changed; own ones come after it."""
        names = {item.name for item in self._built_in}
        changed = tuple(
            each for each in self.items if each.name in names and each not in self._built_in
        )
        own = [item for item in self.items if item.name not in names]
        self._keep((*self._built_in, *own))
        self._fill(0)
        undo = partial(self._put_back, changed, len(self.items)) if changed else None
        self._offer_undo(tr("What you had changed was replaced.") if changed else "", undo)

    # -- undo ------------------------------------------------------------------------------

    def _offer_undo(self, done: str, take_back: Callable[[], None] | None) -> None:
        self._take_back = take_back
        self._done.setText(done)
        self.undo.setVisible(take_back is not None)

    def _undo(self) -> None:
        if self._take_back is not None:
            self._take_back()
            self._offer_undo("", None)
            self.list.setFocus()

    def _put_back(self, gone: tuple[N, ...], row: int) -> None:
        """Put back what is gone: in place of what has its name now, else at its old place."""
        items = list(self.items)
        for item in gone:
            places = [i for i, each in enumerate(items) if each.name == item.name]
            place = places[0] if places else min(row, len(items))
            items[place : place + len(places)] = [item]
            row = place
        self._keep(tuple(items))
        self._fill(row)

    def _free_name(self, name: str) -> str:
        taken = {item.name for item in self.items}
        number, free = 2, name
        while free in taken:
            free = f"{name} {number}"
            number += 1
        return free

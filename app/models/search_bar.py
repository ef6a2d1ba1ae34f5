"""The three tabs of the page, the field to search with, and how results are narrowed down."""

from __future__ import annotations

from enum import StrEnum
from itertools import pairwise

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QButtonGroup, QComboBox, QLabel, QPushButton, QWidget

from app.models.model_texts import PACKAGINGS
from app.signals import TypedSignal
from app.widgets.boxes import hbox, vbox
from app.widgets.button_group import keep_tab_on_checked
from app.widgets.flow_layout import FlowLayout
from app.widgets.labels import plain_label
from app.widgets.search_field import SearchField
from app.widgets.text_button import text_button
from engine.hub.messages import Order, Packaging
from engine.language import later, tr


class ModelsTab(StrEnum):
    """Lists to show; the values are texts for `tr`."""

    INSTALLED = later("Installed")
    RECOMMENDED = later("Recommended")
    SEARCH = later("Search")


_FIELD = {
    ModelsTab.INSTALLED: later("Filter the models on this computer"),
    ModelsTab.RECOMMENDED: later("Filter the suggestions"),
    ModelsTab.SEARCH: later("Search Hugging Face: a name, or owner/name"),
}
_NOTES = {
    ModelsTab.INSTALLED: later("This list is read from your disk. Nothing is sent."),
    ModelsTab.RECOMMENDED: later(
        "Chosen on this computer, from a list that came with Duotail. Nothing is sent until you "
        "press a download button."
    ),
    ModelsTab.SEARCH: later(
        "Nothing is sent until you search. Then the words in the field go to huggingface.co, and "
        "so does the name of every model that you choose in the list."
    ),
}


class SearchBar(QWidget):
    """Tells what is wanted; it asks nobody by itself."""

    tab_chosen = TypedSignal[ModelsTab]()
    filtered = Signal(str)
    """The text that the lists on this computer are filtered by."""
    search_asked = Signal()
    """`words`, `packaging` and `order` are to be asked of the hub."""
    left = Signal()
    """The keyboard goes on to the list."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.tab = ModelsTab.RECOMMENDED
        self._words = dict.fromkeys(ModelsTab, "")
        self.field = SearchField(self)
        self.field.setClearButtonEnabled(True)
        self.field.setMaxLength(200)
        self.button = text_button(tr("Search"), self)
        self.packaging_box = QComboBox(self)
        self.order_box = QComboBox(self)
        self.note = plain_label("", self, "small")
        self.count = QLabel(self)
        self.count.setProperty("look", "muted")
        self.tabs: dict[ModelsTab, QPushButton] = {}
        self._group = QButtonGroup(self)
        for tab in ModelsTab:
            self.tabs[tab] = self._tab_button(tab)
        self._fill()
        self._arrange()
        self._connect()
        keep_tab_on_checked(self._group)
        self.show_tab(self.tab)
        for first, second in pairwise(self.stops):
            self.setTabOrder(first, second)

    @property
    def stops(self) -> list[QWidget]:
        """Return the widgets that Tab goes through, in order."""
        boxes = self.packaging_box, self.order_box
        return [*self.tabs.values(), self.field, self.button, *boxes]

    @property
    def words(self) -> str:
        """Return the text in the field."""
        return self.field.text().strip()

    @property
    def packaging(self) -> Packaging | None:
        """Return the packaging that is searched for; None: any."""
        data = self.packaging_box.currentData()
        return Packaging(data) if data else None

    @property
    def order(self) -> Order:
        """Return the order of the results."""
        return Order(self.order_box.currentData())

    def show_tab(self, tab: ModelsTab) -> None:
        """Show another tab; each has words of its own in the field."""
        self._words[self.tab] = self.field.text()
        self.tab = tab
        self.tabs[tab].setChecked(True)
        self.field.setPlaceholderText(tr(_FIELD[tab]))
        self.field.setAccessibleName(tr(_FIELD[tab]))
        if self.field.text() != self._words[tab]:
            self.field.setText(self._words[tab])
        finding = tab is ModelsTab.SEARCH
        self.button.setVisible(finding)
        self._narrowing.setVisible(finding)
        self.note.setText(tr(_NOTES[tab]))

    def _tab_button(self, tab: ModelsTab) -> QPushButton:
        button = text_button(tr(tab.value), self, lambda: self.tab_chosen.emit(tab), look="choice")
        button.setCheckable(True)
        self._group.addButton(button)
        return button

    def _fill(self) -> None:
        self.packaging_box.setAccessibleName(tr("Format"))
        self.packaging_box.addItem(tr("GGUF and safetensors"), "")
        for packaging, name in PACKAGINGS.items():
            self.packaging_box.addItem(name, packaging.value)
        self.order_box.setAccessibleName(tr("Order"))
        self.order_box.addItem(tr("Most downloaded"), Order.DOWNLOADS.value)
        self.order_box.addItem(tr("Trending"), Order.TRENDING.value)
        self.order_box.addItem(tr("Newest"), Order.NEWEST.value)

    def _arrange(self) -> None:
        self._narrowing = QWidget(self)
        below = (self.packaging_box, self.order_box, self.count)
        FlowLayout(*below, to=self._narrowing, spacing=8)
        # As high as the boxes beside it, so that its words are on their line.
        self.count.setMinimumHeight(self.order_box.sizeHint().height())
        vbox(
            FlowLayout(*self.tabs.values(), spacing=8),
            hbox((self.field, 1), self.button, spacing=8),
            self._narrowing,
            self.note,
            to=self,
            spacing=10,
            margins=0,
        )

    def _connect(self) -> None:
        self.field.textChanged.connect(self._typed)
        self.field.open_asked.connect(self._entered)
        self.field.down_asked.connect(self.left)
        self.button.clicked.connect(self.search_asked)
        self.packaging_box.activated.connect(lambda _=0: self._narrowed())
        self.order_box.activated.connect(lambda _=0: self._narrowed())

    def _typed(self, words: str) -> None:
        if self.tab is not ModelsTab.SEARCH:
            self.filtered.emit(words.strip())

    def _entered(self) -> None:
        if self.tab is ModelsTab.SEARCH:
            self.search_asked.emit()
        else:
            self.left.emit()

    def _narrowed(self) -> None:
        """Asks anew only where something was asked already."""
        if self.words:
            self.search_asked.emit()

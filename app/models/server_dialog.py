"""The dialog that adds a server, or changes one: address, key, and a test of both."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QLineEdit, QWidget

from app.models.server_book import ServerBook
from app.models.server_texts import found_words, route_words
from app.theme.fonts import scaled
from app.widgets.boxes import Spacing, hbox, vbox
from app.widgets.labels import plain_label, say
from app.widgets.text_button import text_button
from engine.errors import UserFixable
from engine.language import sentences, tr
from engine.remote.address import ServerAddress
from engine.remote.catalogue import Catalogue
from engine.remote.servers import RemoteServer

_WIDTH = 480


class DialogState(Enum):
    """How far the user is: nothing can be kept that was not tested as it stands."""

    EMPTY = auto()
    ENTERED = auto()
    TESTING = auto()
    FAILED = auto()
    TESTED = auto()


class ServerDialog(QDialog):
    """Asks for a server.

    Args:
        book: where it is kept.
        server: the one to change; None: a new one.
    """

    kept = Signal()

    def __init__(
        self, book: ServerBook, server: RemoteServer | None = None, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._book, self._server = book, server
        self._found: RemoteServer | None = None
        self._call_off: Callable[[], object] = lambda: None
        self._key_changed = server is None
        self.state = DialogState.EMPTY
        self.setWindowTitle(tr("Add a server") if server is None else server.address.host)
        self._make()
        self._arrange()
        if server is not None:
            self.address.setText(server.url)
            self.address.setReadOnly(True)
            self.key.setPlaceholderText(tr("As saved"))
        self.address.textChanged.connect(lambda _: self._edited())
        self.key.textEdited.connect(lambda _: self._edited(key=True))
        self.finished.connect(lambda _: self._call_off())
        self._edited()

    def _make(self) -> None:
        self.address, self.key = QLineEdit(self), QLineEdit(self)
        self.address.setPlaceholderText(tr("http://192.168.1.5:8000"))
        self.address.setAccessibleName(tr("Address"))
        self.address.setMaxLength(2000)
        self.key.setEchoMode(QLineEdit.EchoMode.Password)
        self.key.setPlaceholderText(tr("None"))
        self.key.setAccessibleName(tr("Key"))
        self.key.setMaxLength(4000)
        self.route = plain_label("", self, "small")
        self.outcome = plain_label("", self)
        self.test_button = text_button(tr("Test"), self, self.test)
        self.box = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel, self)
        words = tr("Add") if self._server is None else tr("Save")
        self.keep_button = self.box.addButton(words, QDialogButtonBox.ButtonRole.AcceptRole)
        self.box.accepted.connect(self._keep)
        self.box.rejected.connect(self.reject)
        if self._server is not None:
            remove = self.box.addButton(tr("Remove"), QDialogButtonBox.ButtonRole.ResetRole)
            remove.setProperty("look", "danger")
            remove.clicked.connect(self._remove)

    def _arrange(self) -> None:
        about = plain_label(
            tr(
                "Models that run elsewhere, in the same chat: on vLLM, SGLang, llama-server, "
                "LM Studio, Ollama, another Duotail, or any other OpenAI-compatible server."
            ),
            self,
            "muted",
        )
        secret = plain_label(
            tr(
                "A key is stored in your system's keyring and sent only to this address. A test "
                "asks for the list of models and sends nothing else."
            ),
            self,
            "small",
        )
        vbox(
            about,
            Spacing(6),
            plain_label(tr("Address"), self),
            hbox((self.address, 1), self.test_button, spacing=8),
            self.route,
            Spacing(4),
            plain_label(tr("Key"), self),
            self.key,
            secret,
            Spacing(4),
            self.outcome,
            self.box,
            to=self,
            spacing=8,
        )
        self.setMinimumWidth(scaled(_WIDTH))

    def test(self) -> None:
        """Ask the server for its models."""
        try:
            address = ServerAddress.typed(self.address.text())
        except UserFixable as error:
            self._failed(error)
            return
        self.show_state(
            DialogState.TESTING, tr("Asking {host}…").format(host=address.host), "muted"
        )
        self._call_off = self._book.test(
            address,
            self.key.text().strip() if self._key_changed else None,
            lambda catalogue: self._tested(address, catalogue),
            self._failed,
            self,
        )

    def _tested(self, address: ServerAddress, catalogue: Catalogue) -> None:
        known = self._book.server(address.url) or RemoteServer(address.url)
        self._found = known.told(catalogue)
        self.show_state(DialogState.TESTED, found_words(catalogue), "")
        self.keep_button.setFocus()

    def _failed(self, error: Exception) -> None:
        if not isinstance(error, UserFixable):
            raise error
        self.show_state(DialogState.FAILED, sentences(error.cause, error.remedy), "danger")

    def _edited(self, *, key: bool = False) -> None:
        """Forget what was tested: it is another server now."""
        self._call_off()
        self._key_changed = self._key_changed or key
        self._found = None
        route, look = "", "small"
        text = self.address.text().strip()
        if text:
            try:
                address = ServerAddress.typed(text)
            except UserFixable:
                pass  # still being typed
            else:
                route = route_words(address)
                look = "small" if address.local or address.encrypted else "caution"
        say(self.route, route, look)
        self.show_state(DialogState.ENTERED if text else DialogState.EMPTY, "", "")

    def show_state(self, state: DialogState, words: str, look: str) -> None:
        """Show how far it is, and what there is to say of it in a look of the style sheet."""
        self.state = state
        say(self.outcome, words, look)
        tested = state is DialogState.TESTED
        self.keep_button.setEnabled(tested)
        self.test_button.setEnabled(state not in (DialogState.EMPTY, DialogState.TESTING))
        self.keep_button.setDefault(tested)
        self.test_button.setDefault(not tested)
        width = max(self.width(), self.minimumWidth())
        layout = self.layout()
        assert layout is not None  # noqa: S101 - told to the type checker
        self.resize(width, layout.totalHeightForWidth(width))

    def _keep(self) -> None:
        if self._found is not None:
            self._book.keep(self._found, self.key.text().strip() if self._key_changed else None)
            self.kept.emit()
            self.accept()

    def _remove(self) -> None:
        if self._server is not None:
            self._book.remove(self._server.url)
        self.accept()

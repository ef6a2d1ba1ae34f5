"""Messages that lie over no one's work: what happened, what to do, details to copy."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, Qt, QTimer, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from app.theme.icons import IconButton, icon
from app.theme.theme import current
from engine.errors import UserFixable

_MOST = 3
_NOTICE_MS = 12_000


class Banner(QFrame):
    """One message with its buttons. `dismissed` asks to be removed."""

    dismissed = Signal()

    def __init__(
        self,
        text: str,
        remedy: str = "",
        details: str = "",
        action: tuple[str, Callable[[], None]] | None = None,
        *,
        trouble: bool = True,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.text = text
        self._trouble = trouble
        self.setProperty("look", "banner" if trouble else "notice")
        self.setAccessibleName(f"{text} {remedy}".strip())
        self._icon = QLabel(self)
        self._icon.setAlignment(Qt.AlignmentFlag.AlignTop)
        words = QVBoxLayout()
        words.setSpacing(2)
        for line, look in ((text, "title" if trouble else ""), (remedy, "")):
            if line:
                label = QLabel(line, self)
                label.setProperty("look", look)
                label.setTextFormat(Qt.TextFormat.PlainText)
                label.setWordWrap(True)
                label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
                words.addWidget(label)
        row = QHBoxLayout(self)
        row.setContentsMargins(14, 10, 8, 10)
        row.setSpacing(10)
        row.addWidget(self._icon)
        row.addLayout(words, 1)
        if action is not None:
            row.addWidget(self._button(action[0], action[1], closes=True))
        if details:
            row.addWidget(
                self._button("Copy details", lambda: QGuiApplication.clipboard().setText(details))
            )
        close = IconButton("close", "Dismiss", self)
        close.clicked.connect(self.dismissed)
        row.addWidget(close)
        self._recolour()

    def _button(self, text: str, call: Callable[[], None], *, closes: bool = False) -> QPushButton:
        button = QPushButton(text, self)
        button.setAutoDefault(False)
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        button.clicked.connect(call)
        if closes:
            button.clicked.connect(self.dismissed)
        return button

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Recolour with the theme."""
        super().changeEvent(event)
        if event.type() is QEvent.Type.PaletteChange and hasattr(self, "_icon"):
            self._recolour()

    def _recolour(self) -> None:
        tokens = current()
        name, colour = ("warning", tokens.danger) if self._trouble else ("info", tokens.muted)
        self._icon.setPixmap(icon(name, colour).pixmap(20, 20))


class BannerArea(QWidget):
    """At most three messages, the newest on top; the same one is not shown twice."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.setSpacing(8)
        self._banners: list[Banner] = []
        self.hide()

    @property
    def texts(self) -> list[str]:
        """What is being said, newest first."""
        return [banner.text for banner in self._banners]

    def show_trouble(
        self, problem: UserFixable, action: tuple[str, Callable[[], None]] | None = None
    ) -> None:
        """Tell of something that went wrong."""
        self._add(Banner(problem.cause, problem.remedy, problem.details, action, parent=self))

    def show_notice(self, text: str, action: tuple[str, Callable[[], None]] | None = None) -> None:
        """Tell of something that was done; goes away by itself."""
        banner = Banner(text, action=action, trouble=False, parent=self)
        self._add(banner)
        QTimer.singleShot(_NOTICE_MS, banner, lambda: self._remove(banner))

    def clear(self) -> None:
        """Dismiss everything."""
        for banner in list(self._banners):
            self._remove(banner)

    def _add(self, banner: Banner) -> None:
        for other in [each for each in self._banners if each.text == banner.text]:
            self._remove(other)
        for other in self._banners[_MOST - 1 :]:
            self._remove(other)
        self._banners.insert(0, banner)
        self._layout.insertWidget(0, banner)
        banner.dismissed.connect(lambda: self._remove(banner))
        self.show()

    def _remove(self, banner: Banner) -> None:
        if banner in self._banners:
            self._banners.remove(banner)
            self._layout.removeWidget(banner)
            banner.hide()
            banner.deleteLater()
        self.setVisible(bool(self._banners))

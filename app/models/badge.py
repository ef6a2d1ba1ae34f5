"""Badges: a sign, a word or two and a colour, in a list or as a widget of its own."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from PySide6.QtCore import QRect, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.theme.icons import icon
from app.theme.theme import current
from app.theme.tokens import Tokens
from app.widgets.painting import draw_line, shortened

_SIDE = 8


class Tone(StrEnum):
    """Meaning of a badge; each has a sign of its own beside its colour."""

    GOOD = "good"
    FAIR = "fair"
    BAD = "bad"
    PLAIN = "plain"


@dataclass(frozen=True, slots=True)
class RowBadge:
    """A badge: never a colour alone.

    Attributes:
        text: a word or two.
        tip: the whole reason.
    """

    text: str
    tone: Tone = Tone.PLAIN
    tip: str = ""


_SIGNS = {Tone.GOOD: "check", Tone.FAIR: "info", Tone.BAD: "warning"}


class BadgeLabel(QWidget):
    """Shows a mark, or nothing."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.mark: RowBadge | None = None
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def show_mark(self, mark: RowBadge | None) -> None:
        """Show another badge, or none."""
        self.mark = mark
        self.setVisible(mark is not None)
        self.setAccessibleName(mark.text if mark is not None else "")
        self.setAccessibleDescription(mark.tip if mark is not None else "")
        self.setToolTip(mark.tip if mark is not None else "")
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802
        """Return the size of sign and words."""
        return badge_size(self.mark, self.font()) if self.mark is not None else QSize(0, 0)

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802
        """Draw the badge as in a list."""
        if self.mark is not None:
            painter = QPainter(self)
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            draw_badge(painter, QRectF(self.rect()), self.mark, self.font())
            painter.end()


def badge_size(mark: RowBadge, font: QFont) -> QSize:
    """Return the size of a badge in this font."""
    metrics = QFontMetricsF(font)
    sign = metrics.height() + 2 if mark.tone in _SIGNS else 0
    width = metrics.horizontalAdvance(mark.text) + sign + 2 * _SIDE
    return QSize(round(width) + 1, round(metrics.height()) + 4)


def draw_badge(painter: QPainter, area: QRectF, mark: RowBadge, font: QFont) -> None:
    """Draw a rounded box with a sign and the words."""
    text, fill = _colours(mark.tone)
    painter.setPen(QPen(QColor(text), 1) if mark.tone is not Tone.PLAIN else Qt.PenStyle.NoPen)
    painter.setBrush(QColor(fill))
    painter.drawRoundedRect(area.adjusted(0.5, 0.5, -0.5, -0.5), 6, 6)
    words = area.adjusted(_SIDE, 0, -_SIDE + 2, 0)
    sign = _SIGNS.get(mark.tone)
    if sign is not None:
        side = round(QFontMetricsF(font).height() - 2)
        top = round(area.center().y() - side / 2)
        icon(sign, text).paint(painter, QRect(round(words.left()), top, side, side))
        words.setLeft(words.left() + side + 4)
    draw_line(painter, words, shortened(mark.text, font, words.width() + 1), font, text)


def _colours(tone: Tone) -> tuple[str, str]:
    tokens: Tokens = current()
    return {
        Tone.GOOD: (tokens.success, tokens.surface),
        Tone.FAIR: (tokens.warning, tokens.warning_soft),
        Tone.BAD: (tokens.danger, tokens.danger_soft),
        Tone.PLAIN: (tokens.muted, tokens.sunken),
    }[tone]

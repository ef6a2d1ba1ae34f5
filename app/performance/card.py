"""The performance card: one picture to share, with what was measured and on what."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QImage, QPainter

from app.engine_link.plan_texts import mode_name
from app.performance.gain import Gain
from app.theme.theme import current
from engine.bench.modes.report import Hardware, hardware_words
from engine.commands import Mode
from engine.machine.facts import Machine

_SIZE = QSize(1200, 630)
_SIDE = 72
_BAR, _BAR_STEP = 34, 104
_SMALLEST = 30
"""Pixels of a headline that would not fit into the line otherwise."""
_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


@dataclass(frozen=True, slots=True)
class CardFacts:
    """Everything on the card; nothing of it tells who measured or what was asked.

    Attributes:
        gain: what drafting brought.
        model: its name.
        mode: None where it is not known.
        machine: None where it is not known.
        at: Unix time of the answer.
    """

    gain: Gain
    model: str
    mode: Mode | None
    machine: Machine | None
    at: float

    @property
    def lines(self) -> tuple[str, str]:
        """Return mode and date, and the machine."""
        day = datetime.fromtimestamp(self.at).astimezone().strftime("%Y-%m-%d")
        mode = "" if self.mode is None else mode_name(self.mode)
        machine = "" if self.machine is None else hardware_words(Hardware.of(self.machine))
        return " · ".join(each for each in (mode, day) if each), machine


def draw_card(facts: CardFacts, font: QFont) -> QImage:
    """Return the card in the present colours.

    Args:
        facts: what is on it.
        font: the window's; its size does not matter.
    """
    tokens = current()
    image = QImage(_SIZE, QImage.Format.Format_RGB32)
    image.fill(QColor(tokens.surface))
    painter = QPainter(image)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.fillRect(QRectF(0, 0, _SIZE.width(), 12), QColor(tokens.accent))
    width = _SIZE.width() - 2 * _SIDE
    top = 56.0

    def write(text: str, pixels: int, colour: str, *, bold: bool = False) -> None:
        nonlocal top
        sized = QFont(font)
        sized.setBold(bold)
        sized.setPixelSize(pixels)
        while pixels > _SMALLEST and QFontMetricsF(sized).horizontalAdvance(text) > width:
            pixels -= 2
            sized.setPixelSize(pixels)
        line = QRectF(_SIDE, top, width, 1.35 * pixels)
        painter.setFont(sized)
        painter.setPen(QColor(colour))
        elided = QFontMetricsF(sized).elidedText(text, Qt.TextElideMode.ElideRight, width)
        painter.drawText(line, _LEFT, elided)
        top = line.bottom()

    gain = facts.gain
    write(facts.model, 30, tokens.muted)
    write(gain.figure, 76, tokens.text, bold=True)
    top += 10
    most = max((bar.tokens_per_s or 0.0 for bar in gain.bars), default=0.0)
    for place, bar in enumerate(gain.bars):
        sized = QFont(font)
        sized.setPixelSize(26)
        painter.setFont(sized)
        painter.setPen(QColor(tokens.text))
        line = QRectF(_SIDE, top, width, 40)
        painter.drawText(line, _LEFT, bar.name)
        painter.drawText(line, _RIGHT, bar.value)
        track = QRectF(_SIDE, line.bottom() + 4, width, _BAR)
        painter.fillRect(track, QColor(tokens.sunken))
        if most and bar.tokens_per_s:
            track.setWidth(track.width() * bar.tokens_per_s / most)
            painter.fillRect(track, QColor(tokens.border_strong if place else tokens.accent))
        top += _BAR_STEP
    write(gain.counts, 28, tokens.text)
    about, machine = facts.lines
    top = _SIZE.height() - 122.0
    write(about, 24, tokens.muted)
    write(machine, 24, tokens.muted)
    painter.drawText(QRectF(_SIDE, top - 66, width, 34), _RIGHT, "Duotail")
    painter.end()
    return image

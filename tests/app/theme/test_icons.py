"""Icons of buttons that cannot be pressed."""

from __future__ import annotations

import pytest
from PySide6.QtGui import QColor, QIcon
from PySide6.QtWidgets import QApplication

from app.theme.icons import icon, names
from app.theme.tokens import DARK, LIGHT, Tokens


def strongest(image: QIcon, mode: QIcon.Mode) -> float:
    """Opacity of the most opaque pixel."""
    drawn = image.pixmap(20, 20, mode).toImage()
    places = [(x, y) for x in range(drawn.width()) for y in range(drawn.height())]
    return max(QColor(drawn.pixelColor(*place)).alphaF() for place in places)


@pytest.mark.usefixtures("qapp")
@pytest.mark.parametrize("tokens", [LIGHT, DARK])
def test_an_icon_is_faint_where_it_cannot_be_pressed(tokens: Tokens) -> None:
    assert QApplication.instance() is not None
    for name in names():
        image = icon(name, tokens.muted)
        assert strongest(image, QIcon.Mode.Disabled) < strongest(image, QIcon.Mode.Normal) / 2

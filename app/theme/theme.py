"""Applies colours and text size to the application, and follows the system when asked to."""

from __future__ import annotations

from enum import StrEnum
from functools import cache

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontDatabase, QPalette
from PySide6.QtWidgets import QApplication

from app.theme.style import style_sheet
from app.theme.tokens import DARK, LIGHT, Tokens, high_contrast

FORMULA_FAMILIES = (
    "STIX Two Math",
    "Cambria Math",
    "Latin Modern Math",
    "STIX Two Text",
    "DejaVu Math TeX Gyre",
    "DejaVu Serif",
    "serif",
)
"""Families that formulas are set in, the best first."""
_UI_FAMILIES = [
    "Inter",
    "Segoe UI Variable Text",
    "Segoe UI",
    ".AppleSystemUIFont",
    "SF Pro Text",
    "Cantarell",
    "Ubuntu",
    "Noto Sans",
    "DejaVu Sans",
]
_NO_FAMILIES = {"sans", "sans serif", "sans-serif"}
_MONO_FAMILIES = [
    "JetBrains Mono",
    "Cascadia Mono",
    "SF Mono",
    "Menlo",
    "Consolas",
    "Noto Sans Mono",
    "DejaVu Sans Mono",
]


class ThemeChoice(StrEnum):
    """Choices of a theme."""

    SYSTEM = "system"
    LIGHT = "light"
    DARK = "dark"


class Theme(QObject):
    """The application's look. There is one; widgets read `current()` and repaint on `changed`.

    A change of colours also reaches every widget as `QEvent.Type.PaletteChange`, one of the text
    size as `QEvent.Type.FontChange` or, where a style sheet sets the font, `StyleChange`.
    """

    changed = Signal()

    def __init__(self, application: QApplication) -> None:
        super().__init__(application)
        self._application = application
        self.choice = ThemeChoice.SYSTEM
        self._applied = False
        self._effects = QApplication.isEffectEnabled(Qt.UIEffect.UI_General)
        self.tokens = LIGHT
        _InForce.font_scale, _InForce.reduced_motion = 1.0, False
        _InForce.theme = self
        application.setStyle("Fusion")
        application.setFont(ui_font())
        hints = application.styleHints()
        hints.colorSchemeChanged.connect(self._system_changed)
        if hasattr(hints, "accessibility"):  # Qt 6.10 and newer
            hints.accessibility().contrastPreferenceChanged.connect(self._refresh)

    def apply(
        self,
        choice: ThemeChoice,
        *,
        font_scale: float | None = None,
        reduced_motion: bool | None = None,
    ) -> None:
        """Switch to `choice`; windows that are open repaint at once. None leaves what is."""
        if reduced_motion is not None:
            _InForce.reduced_motion = reduced_motion
            effects = self._effects and not reduced_motion
            QApplication.setEffectEnabled(Qt.UIEffect.UI_General, effects)
        larger = font_scale is not None and font_scale != _InForce.font_scale
        if font_scale is not None:
            _InForce.font_scale = font_scale
        if larger:
            self._application.setFont(ui_font())
        if larger or choice is not self.choice or not self._applied:
            self.choice, self._applied = choice, True
            hints = self._application.styleHints()
            if hasattr(hints, "setColorScheme"):
                hints.setColorScheme(_SCHEMES[choice])
            self._refresh()

    def _system_changed(self) -> None:
        if self.choice is ThemeChoice.SYSTEM:
            self._refresh()

    def _refresh(self) -> None:
        dark = self.choice is ThemeChoice.DARK
        if self.choice is ThemeChoice.SYSTEM:
            dark = _system_is_dark()
        tokens = DARK if dark else LIGHT
        self.tokens = high_contrast(tokens) if self._wants_contrast() else tokens
        _InForce.tokens = self.tokens
        self._application.setPalette(palette(self.tokens))
        self._application.setStyleSheet(
            style_sheet(self.tokens, ui_font().pointSizeF(), font_scale())
        )
        self.changed.emit()

    def _wants_contrast(self) -> bool:
        hints = self._application.styleHints()
        return (
            hasattr(hints, "accessibility")
            and hints.accessibility().contrastPreference() is Qt.ContrastPreference.HighContrast
        )


_SCHEMES = {
    ThemeChoice.SYSTEM: Qt.ColorScheme.Unknown,
    ThemeChoice.LIGHT: Qt.ColorScheme.Light,
    ThemeChoice.DARK: Qt.ColorScheme.Dark,
}


def _system_is_dark() -> bool:
    return QApplication.styleHints().colorScheme() is Qt.ColorScheme.Dark


class _InForce:
    tokens: Tokens = LIGHT
    font_scale: float = 1.0
    reduced_motion: bool = False
    theme: Theme | None = None


def in_force() -> Theme | None:
    """The theme of the application, where there is one."""
    return _InForce.theme


def current() -> Tokens:
    """The colours in force."""
    return _InForce.tokens


def font_scale() -> float:
    """Return the scale of texts, 1 is the system's size."""
    return _InForce.font_scale


def reduced_motion() -> bool:
    """Return whether nothing shall glide or fade."""
    return _InForce.reduced_motion


def palette(tokens: Tokens) -> QPalette:
    """The Qt palette that plain widgets draw with."""
    role = QPalette.ColorRole
    colours = {
        role.Window: tokens.window,
        role.WindowText: tokens.text,
        role.Base: tokens.surface,
        role.AlternateBase: tokens.sunken,
        role.Text: tokens.text,
        role.PlaceholderText: tokens.muted,
        role.Button: tokens.surface,
        role.ButtonText: tokens.text,
        role.BrightText: tokens.danger,
        role.Highlight: tokens.accent,
        role.HighlightedText: tokens.on_accent,
        role.Link: tokens.accent,
        role.LinkVisited: tokens.accent,
        role.ToolTipBase: tokens.surface,
        role.ToolTipText: tokens.text,
        role.Light: tokens.border,
        role.Midlight: tokens.border,
        role.Mid: tokens.border_strong,
        role.Dark: tokens.border_strong,
        role.Accent: tokens.accent,
    }
    result = QPalette()
    for each, colour in colours.items():
        result.setColor(each, QColor(colour))
    for each in (role.WindowText, role.Text, role.ButtonText):
        result.setColor(QPalette.ColorGroup.Disabled, each, QColor(tokens.muted))
    return result


@cache
def _families() -> frozenset[str]:
    """Names of the fonts here; to ask the system takes a millisecond, for each widget with text."""
    return frozenset(QFontDatabase.families())


def ui_font(scale: float | None = None) -> QFont:
    """The font of the interface and of running text: the system's, else a clean fallback.

    Its size is the system's times `scale`, by default the one in force.
    """
    font = QFontDatabase.systemFont(QFontDatabase.SystemFont.GeneralFont)
    available = _families()
    if font.family() not in available or font.family().lower() in _NO_FAMILIES:
        present = [family for family in _UI_FAMILIES if family in available]
        font.setFamilies([*present, "sans-serif"])
    font.setPointSizeF(max(font.pointSizeF(), 10.0) * (scale or _InForce.font_scale))
    return font


def mono_font() -> QFont:
    """The font of code, a touch smaller than running text so that both look the same size."""
    available = _families()
    present = [family for family in _MONO_FAMILIES if family in available]
    font = ui_font()
    font.setFamilies([*present, "monospace"])
    font.setStyleHint(QFont.StyleHint.Monospace)
    font.setFixedPitch(True)
    font.setPointSizeF(font.pointSizeF() * 0.89)
    return font

"""Puts the language that the user chose, or the system's, into force for our texts and Qt's."""

from __future__ import annotations

from PySide6.QtCore import QLibraryInfo, QLocale, Qt, QTranslator
from PySide6.QtWidgets import QApplication

from app.settings.model import SYSTEM
from engine import language

_NAME = "Qt's own texts"


def chosen(code: str) -> str:
    """The code of the language to speak: `code` itself, or the system's where it says so."""
    if code != SYSTEM:
        return code
    wanted = QLocale.system().uiLanguages()
    return language.best(wanted[0]) if wanted else language.ENGLISH


def speak(application: QApplication, code: str) -> None:
    """Speak the language of this setting. Runs before any text is made: texts stay as they are."""
    spoken = chosen(code)
    language.use(spoken)
    locale = QLocale(language.ENGLISH if spoken == language.PSEUDO else spoken)
    if locale.language() is not QLocale.system().language():
        QLocale.setDefault(locale)  # else the system's own, with its country's habits
    application.setLayoutDirection(
        Qt.LayoutDirection.RightToLeft
        if locale.textDirection() is Qt.LayoutDirection.RightToLeft
        else Qt.LayoutDirection.LeftToRight
    )
    for old in application.findChildren(QTranslator, _NAME):
        application.removeTranslator(old)
        old.deleteLater()
    translator = QTranslator(application)
    translator.setObjectName(_NAME)
    folder = QLibraryInfo.path(QLibraryInfo.LibraryPath.TranslationsPath)
    if translator.load(locale, "qtbase", "_", folder):
        application.installTranslator(translator)

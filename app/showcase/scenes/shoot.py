"""Helpers that every scene needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from PySide6.QtWidgets import QDialog, QMenu, QWidget

from app.showcase.stage import Stage, catch_up, settle
from engine.events import FinishReason


class Shoot(Protocol):
    """Takes the picture of a scene."""

    def __call__(self, name: str, widget: QWidget = ...) -> None:
        """Take one, of the window unless told otherwise."""


def answer(
    stage: Stage, question: str, text: str, reason: FinishReason = FinishReason.STOP
) -> None:
    """Ask a question and write its whole answer."""
    stage.assembly.session.send(question)
    stage.stream(text)
    stage.finish(text, reason)
    catch_up()


def new_chat(stage: Stage) -> None:
    """Leave the conversation."""
    stage.assembly.session.open(None)
    settle()


def dialog(stage: Stage, shoot: Shoot, name: str, opener: Callable[[], object]) -> None:
    """Open a dialog, take its picture, close it."""
    opener()
    settle()
    for found in stage.window.findChildren(QDialog):
        if found.isVisible():
            shoot(name, found)
            found.close()
    settle()


def menu(shoot: Shoot, name: str, opened: QMenu) -> None:
    """Take the picture of a menu."""
    opened.popup(opened.pos())
    shoot(name, opened)
    opened.close()
    opened.deleteLater()


def narrow(stage: Stage, shoot: Shoot, name: str) -> None:
    """Take the picture of a narrow window."""
    size = stage.window.size()
    stage.window.resize(700, 800)
    catch_up()
    shoot(name)
    stage.window.resize(size)
    catch_up()

"""Imports of what is needed soon after the window has come up, beside it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from importlib import import_module

from PySide6.QtCore import QObject, QTimer

from app.engine_link.background import in_background, numpy_whole

_log = logging.getLogger(__name__)

SOON = (
    "app.markdown.dialect",
    "app.chat.text.markdown",
    "app.chat.text.block_stream",
    "app.chat.text.typed",
    "app.chat.text.message_source",
    "app.markdown.maths.symbols",
    "app.markdown.maths.scripts",
    "app.markdown.maths.shapes",
    "app.markdown.maths.atoms",
    "app.markdown.maths.formula",
    "app.chat.text.lines",
    "app.markdown.formula_object",
    "app.chat.text.inline_writer",
    "app.chat.text.highlight",
    "app.chat.text.table",
    "app.chat.text.writer",
    "app.chat.text.line_boxes",
    "app.chat.text.backdrop",
    "app.chat.text.tint",
    "app.chat.text.overlay",
    "app.chat.text.surface",
    "app.chat.text.thought_view",
    "app.chat.text.text_view",
    "app.tuning.budget.model",
    "app.tuning.budget.axis",
    "app.tuning.budget.slider",
    "app.tuning.budget.legend",
    "app.tuning.budget.wording",
    "app.tuning.budget.tables",
    "app.tuning.budget.curve_view",
    "app.tuning.budget.layers",
    "app.tuning.budget.layer_map",
    "app.tuning.budget.memory_view",
    "app.tuning.budget.view",
    "app.tuning.choice_row",
    "app.tuning.draft_list",
    "app.tuning.mode_list",
    "app.tuning.refusal_notice",
    "app.widgets.popover",
    "app.tuning.run_panel",
)
"""Modules of the first message and of the panel of how the model runs, after those they import.

Each is a turn of the loop of its own: while a model is read, too, 15 ms of work take 50.
"""
LATER = (
    "app.models.file_chooser",
    "app.widgets.number_box",
    "app.settings_page.editors",
    "app.settings_page.rows",
    "app.tools.results",
    "app.tools.server",
    "app.session.file_parts",
    "engine.model.text.tool_calls",
    "app.session.calls",
    "app.tools.toolbox",
    "app.settings_page.tool_server_dialog",
    "app.settings_page.tool_server_json",
    "app.settings_page.tool_servers",
    "app.settings_page.tools",
    "app.settings_page.privacy",
    "app.settings_page.serving",
    "app.settings_page.dialog",
    "engine.updates",
    "app.shell.updates",
)
"""Modules of the settings."""
_LATER_MS = 6_000
"""By then a model is loaded, as a rule: that is not to wait for the settings."""


def warm_up(owner: QObject, then: Callable[[], None]) -> None:
    """Import what the first answer and the first graph would wait for, and do `then`.

    Widgets are imported in this thread, a piece in each turn of its loop; the rest beside it. One
    after the other: with every file that is read a thread gives the interpreter away, and three
    others that want it have this one wait for 50 ms in all.
    """

    def widgets() -> None:
        _import_next(owner, iter(SOON), then)

    def failed(error: Exception) -> None:
        _log.warning("%r", error)
        widgets()

    in_background(owner, _import, lambda _: widgets(), failed)
    QTimer.singleShot(_LATER_MS, owner, lambda: _import_later(owner))


def _import_later(owner: QObject) -> None:
    in_background(
        owner,
        lambda: import_module("app.settings_page.stored"),  # no widgets, and most of them
        lambda _: _import_next(owner, iter(LATER), lambda: None),
        lambda error: _log.warning("%r", error),
    )


def _import_next(owner: QObject, left: Iterator[str], then: Callable[[], None]) -> None:
    name = next(left, None)
    if name is None:
        then()
    else:
        import_module(name)
        QTimer.singleShot(0, owner, lambda: _import_next(owner, left, then))


def _import() -> None:
    from app.markdown.dialect import blocks_only, parser

    parser()
    blocks_only()
    numpy_whole()  # the graphs' numbers

"""Chores beside the conversations: settings, crash reports, starting anew."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtWidgets import QWidget

from app.data_folder.paths import Paths
from app.diagnostics.report_text import safe_traceback
from app.diagnostics.reports import ReportFolder
from app.notices import report
from app.serving.model_server import ModelServer
from app.session.session import ChatSession
from app.settings import SettingsStore
from app.settings.model import SettingsSection
from app.theme.theme import Theme
from app.tools.access import ToolAccess
from app.version import version
from app.widgets.labels import LabelledRow
from engine.errors import UserFixable
from engine.language import tr

if TYPE_CHECKING:
    from app.shell.updates import Updates


class Housekeeping(QObject):
    """Opens the settings, tells of errors and crashes, and notes a wish to start anew."""

    forget_measured_asked = Signal()
    """The speeds of answers are to be forgotten."""

    def __init__(
        self,
        paths: Paths,
        settings: SettingsStore,
        theme: Theme,
        session: ChatSession,
        server: ModelServer,
        tools: ToolAccess,
        window: QWidget,
    ) -> None:
        super().__init__(window)
        self._paths = paths
        self._settings = settings
        self._theme = theme
        self._session = session
        self._server, self._tools = server, tools
        self._window = window
        self.reports = ReportFolder(paths)
        self.restart: bool | None = None
        """Start again when the window is closed: None: not, False: as usual, True: in safe mode."""

    @cached_property
    def updates(self) -> Updates:
        """The search for newer versions, which most runs never make."""
        from app.shell.updates import Updates

        return Updates(self._settings, self._window)

    def look_for_update(self) -> None:
        """Ask for a newer version."""
        self.updates.ask()

    def show_settings(self, section: SettingsSection = SettingsSection.GENERAL) -> None:
        """Open the settings at a section."""
        from app.settings_page.dialog import SettingsDialog
        from app.settings_page.page import Panel

        panels = (
            Panel(SettingsSection.GENERAL, self._updates_row, behind="reopen_last"),
            Panel(SettingsSection.TOOLS, self._tools_panel),
            Panel(SettingsSection.SERVER, self._serving_panel, behind="serve"),
        )
        dialog = SettingsDialog(
            self._settings, self._theme, self._paths, panels, self._window, section
        )
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.page.restart_asked.connect(self.start_anew)
        dialog.page.delete_conversations_asked.connect(self._delete_conversations)
        dialog.page.forget_measured_asked.connect(self.forget_measured_asked)
        dialog.open()

    def _updates_row(self, parent: QWidget) -> tuple[QWidget, Sequence[LabelledRow]]:
        row = self.updates.row(parent)
        return row, [row]

    def _tools_panel(self, parent: QWidget) -> tuple[QWidget, Sequence[LabelledRow]]:
        from app.settings_page.tools import ToolsPanel

        panel = ToolsPanel(self._tools.toolbox, parent)
        return panel, panel.rows

    def _serving_panel(self, parent: QWidget) -> tuple[QWidget, Sequence[LabelledRow]]:
        from app.settings_page.serving import ServingPanel

        panel = ServingPanel(self._server, self._settings, parent)
        panel.requests_asked.connect(parent.window().close)
        panel.requests_asked.connect(self.show_requests)
        return panel, panel.rows

    def show_server(self) -> None:
        """Open the settings of the server."""
        self.show_settings(SettingsSection.SERVER)

    def show_tools(self) -> None:
        """Open the settings of tools."""
        self.show_settings(SettingsSection.TOOLS)

    def show_requests(self) -> None:
        """Open the list of requests, beside the window."""
        from app.settings_page.requests_dialog import RequestsDialog

        dialog = RequestsDialog(self._server.requests, self._window)
        dialog.settings_asked.connect(self.show_server)
        dialog.show()

    def tell_of_server(self, problem: UserFixable) -> None:
        """Report that the server could not start."""
        report(problem, (tr("Server settings"), self.show_server))

    def show_prompts(self) -> None:
        """Open the saved prompts."""
        from app.settings_page.prompts_dialog import PromptsDialog

        dialog = PromptsDialog(self._settings, self._window)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.open()

    def show_reports(self) -> None:
        """Open the crash reports."""
        from app.settings_page.reports_dialog import ReportsDialog

        dialog = ReportsDialog(self.reports, self._window)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.restart_asked.connect(self.start_anew)
        dialog.open()

    def tell_of_error(self, error: BaseException) -> None:
        """Report an error that nobody foresaw."""
        if self.reports.knows(error):
            return
        what = tr("Something went wrong inside Duotail.")
        if self.reports.of_error(error) is None:
            remedy = tr("Your conversations are safe. No report could be written.")
            report(UserFixable(what, remedy, safe_traceback(error)))
            return
        remedy = tr("Your conversations are safe. A report was written; it stays on this computer.")
        report(UserFixable(what, remedy), (tr("Show report"), self.show_reports))

    def tell_of_other(self, other: str) -> None:
        """Another version was started, for which this window came forward."""
        what = tr("Duotail {other} was started, but this window belongs to Duotail {own}.")
        remedy = tr("Close this window, then start the other one: your data stays where it is.")
        report(UserFixable(what.format(other=other, own=version()), remedy))

    def tell_of_last_crash(self) -> None:
        """The last run may have ended by a crash."""
        if self.reports.of_last_crash() is not None:
            report(
                UserFixable(
                    tr("Duotail crashed last time."),
                    tr(
                        "Your conversations were saved. A crash report was written; it stays on "
                        "this computer."
                    ),
                ),
                (tr("Show report"), self.show_reports),
            )

    def start_anew(self, safe: bool) -> None:
        """Close the window, then start Duotail once more."""
        self.restart = safe
        self._window.close()

    def _delete_conversations(self) -> None:
        session = self._session
        session.open(None)
        session.conversations.delete_for_good()

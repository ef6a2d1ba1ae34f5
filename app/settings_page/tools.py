"""Tools in the settings: those that may run without being asked for."""

from __future__ import annotations

from functools import partial

from PySide6.QtWidgets import QPushButton, QWidget

from app.settings_page.tool_servers import ToolServers
from app.tools.entry import ToolEntry
from app.tools.toolbox import Toolbox
from app.widgets.boxes import Spacing, vbox
from app.widgets.labels import LabelledRow, plain_label
from app.widgets.text_button import text_button
from engine.language import tr


class ToolsPanel(QWidget):
    """The built-in tools, and a way back for each that always may run."""

    def __init__(self, toolbox: Toolbox, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._toolbox = toolbox
        self._buttons: dict[str, QPushButton] = {}
        words = tr(
            "Tools do something for a model: calculate, look something up. Each chat chooses its "
            "tools below the message field, and asks before one runs."
        )
        self.servers = ToolServers(toolbox, self)
        about = tr(
            "Programs and addresses that offer tools over MCP, the Model Context Protocol. They "
            "are off until you turn them on."
        )
        row = LabelledRow(tr("MCP servers"), about, self.servers, self, wide=True)
        built_in = [entry for entry in toolbox.entries if not entry.source]
        self.rows = [*(self._row(entry) for entry in built_in), row]
        vbox(
            plain_label(words, self, "muted"),
            Spacing(6),
            *self.rows,
            to=self,
            spacing=0,
            margins=0,
        )
        toolbox.changed.connect(self._show)
        self._show()

    def _row(self, entry: ToolEntry) -> LabelledRow:
        ask = partial(self._toolbox.allow, entry, always=False)
        button = self._buttons[entry.key] = text_button("", None, ask)
        return LabelledRow(entry.title, entry.about, button, self)

    def _show(self) -> None:
        for entry in self._toolbox.entries:
            if (button := self._buttons.get(entry.key)) is not None:
                show_permission(button, entry, allowed=self._toolbox.allowed(entry))


def show_permission(button: QPushButton, entry: ToolEntry, *, allowed: bool) -> None:
    """Show on a button whether a tool may always run; pressing it takes that back."""
    button.setText(tr("Ask again") if allowed else tr("Asks first"))
    button.setEnabled(allowed)
    button.setAccessibleName(f"{entry.title}: {button.text()}")
    words = tr("This tool runs without asking. Press to be asked again.")
    button.setToolTip(words if allowed else "")

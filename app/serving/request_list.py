"""The latest requests to the server, as a table that grows at its top."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt

from engine.language import later, number, tr
from engine.language.units import tokens_per_s
from engine.server.events import RequestState, RequestStatus

MOST = 200
COLUMNS = (
    later("Time"),
    later("From"),
    later("Request"),
    later("Model"),
    later("State"),
    later("Tokens in"),
    later("Tokens out"),
    later("Tokens/s"),
)
STATE, _NUMBERS = 4, 5
"""The column of the state, and the first one with numbers."""
STATES = {
    RequestState.WAITING: later("Waiting"),
    RequestState.READING: later("Reading"),
    RequestState.WRITING: later("Writing"),
    RequestState.DONE: later("Done"),
    RequestState.REFUSED: later("Refused"),
    RequestState.GONE: later("Disconnected"),
}
_Index = QModelIndex | QPersistentModelIndex


class RequestList(QAbstractTableModel):
    """Who requests what kind of thing, and how far it is; nothing of the content."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.requests: list[RequestStatus] = []
        """The latest first."""

    @property
    def active(self) -> int:
        """Number of requests that are not over."""
        return sum(not request.state.over for request in self.requests)

    def take(self, arrived: Iterable[RequestStatus]) -> None:
        """Show what is new of requests."""
        for status in {each.id: each for each in arrived}.values():
            rows = (row for row, known in enumerate(self.requests) if known.id == status.id)
            row = next(rows, None)
            if row is None:
                self._insert(status)
            else:
                self.requests[row] = status
                self.dataChanged.emit(self.index(row, 0), self.index(row, len(COLUMNS) - 1))

    def _insert(self, status: RequestStatus) -> None:
        if len(self.requests) >= MOST:
            last = len(self.requests) - 1
            self.beginRemoveRows(QModelIndex(), last, last)
            self.requests.pop()
            self.endRemoveRows()
        self.beginInsertRows(QModelIndex(), 0, 0)
        self.requests.insert(0, status)
        self.endInsertRows()

    def rowCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008, N802
        """Return the number of requests."""
        return 0 if parent.isValid() else len(self.requests)

    def columnCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008, N802
        """Return the number of columns."""
        return 0 if parent.isValid() else len(COLUMNS)

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """Return the text of a cell; numbers stand to the right."""
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.ToolTipRole):
            return _cells(self.requests[index.row()])[index.column()]
        return self._alignment(index.column(), role)

    def headerData(  # noqa: N802
        self,
        section: int,
        orientation: Qt.Orientation,
        role: int = Qt.ItemDataRole.DisplayRole,
    ) -> object:
        """Return the name of a column; rows have none."""
        if orientation is Qt.Orientation.Horizontal and role == Qt.ItemDataRole.DisplayRole:
            return tr(COLUMNS[section])
        return self._alignment(section, role)

    @staticmethod
    def _alignment(column: int, role: int) -> object:
        if role != Qt.ItemDataRole.TextAlignmentRole:
            return None
        side = Qt.AlignmentFlag.AlignRight if column >= _NUMBERS else Qt.AlignmentFlag.AlignLeft
        return side | Qt.AlignmentFlag.AlignVCenter


def _cells(request: RequestStatus) -> tuple[str, ...]:
    """Return a request in words, in the order of `COLUMNS`."""
    state = tr(STATES[request.state])
    if request.state is RequestState.REFUSED and request.code:
        state = f"{state} ({request.code})"
    speed = request.tokens_per_s
    return (
        f"{datetime.fromtimestamp(request.started_at, UTC).astimezone():%H:%M:%S}",
        " · ".join(filter(None, (request.address, request.user_agent))),
        request.path,
        request.model,
        state,
        number(request.prompt_tokens) if request.prompt_tokens else "",
        number(request.tokens) if request.tokens else "",
        "" if speed is None else tokens_per_s(speed),
    )

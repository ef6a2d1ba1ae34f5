"""Conversations on disk: one SQLite file, one process at a time, nothing ever thrown away unasked.

Import from here; the modules below are its rooms. No Qt, no torch.
"""

from __future__ import annotations

from app.history.database import set_aside
from app.history.lock import HistoryInUse
from app.history.message import StoredMessage
from app.history.place import Gone, NoPlace
from app.history.records import (
    AnswerState,
    ChatSetup,
    Conversation,
    Folder,
    Hit,
    TokenMarks,
    UndoToken,
)
from app.history.searcher import HistorySearch
from app.history.store import HistoryStore
from app.history.trees import Tree, beside

__all__ = [
    "AnswerState",
    "ChatSetup",
    "Conversation",
    "Folder",
    "Gone",
    "HistoryInUse",
    "HistorySearch",
    "HistoryStore",
    "Hit",
    "NoPlace",
    "StoredMessage",
    "TokenMarks",
    "Tree",
    "UndoToken",
    "beside",
    "set_aside",
]

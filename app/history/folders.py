"""Folders of conversations."""

from __future__ import annotations

from app.history.columns import clean_text
from app.history.database import translated
from app.history.file import HistoryFile
from app.history.records import Folder


class Folders:
    """The folders of a file, and which conversations lie in them."""

    def __init__(self, file: HistoryFile) -> None:
        self._file = file

    def all(self) -> list[Folder]:
        """All folders, by name."""
        with translated(self._file.path):
            rows = self._file.rows("SELECT id, name FROM folder")
        return sorted((Folder(*row) for row in rows), key=lambda f: (f.name.casefold(), f.id))

    def create(self, name: str) -> Folder:
        """Add a folder; several may have the same name."""
        name = clean_text(name)
        with self._file.writing():
            return Folder(self._file.insert("INSERT INTO folder(name) VALUES (?)", (name,)), name)

    def rename(self, folder_id: int, name: str) -> None:
        """Give a folder another name."""
        with self._file.writing():
            self._file.change(
                "UPDATE folder SET name = ? WHERE id = ?", (clean_text(name), folder_id)
            )

    def delete(self, folder_id: int) -> None:
        """Remove a folder. Its conversations stay, outside of any."""
        with self._file.writing():
            self._file.connection.execute(
                "UPDATE conversation SET folder_id = NULL WHERE folder_id = ?", (folder_id,)
            )
            self._file.change("DELETE FROM folder WHERE id = ?", (folder_id,))

    def put(self, conversation_id: int, folder_id: int | None) -> None:
        """Put a conversation into a folder; None takes it out."""
        with self._file.writing():
            if folder_id is not None:
                self._file.change("UPDATE folder SET name = name WHERE id = ?", (folder_id,))
            self._file.change(
                "UPDATE conversation SET folder_id = ? WHERE id = ?", (folder_id, conversation_id)
            )

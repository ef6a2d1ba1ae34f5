"""Pieces of answers that are not finished: each arrives as a row of its own.

Adding a row costs the same at any length; growing the message would rewrite the whole answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.history.columns import clean_text, pack_ids
from app.history.file import HistoryFile
from app.history.message import ID, MARKS, TEXT, TOKEN_IDS
from app.history.records import AnswerState, TokenMarks


class AnswerPieces:
    """Texts and tokens that unfinished answers have received so far."""

    def __init__(self, file: HistoryFile) -> None:
        self._file = file

    def append(
        self, message_id: int, text: str, token_ids: Sequence[int], marks: TokenMarks | None
    ) -> None:
        """Add verified text and its tokens to an answer in progress; cheap at any length."""
        packed = None if marks is None else marks.packed
        with self._file.writing():
            self._file.insert(
                "INSERT INTO answer_piece(message_id, text, token_ids, marks)"
                " SELECT id, ?, ?, ? FROM message WHERE id = ? AND state = ?",
                (
                    clean_text(text),
                    pack_ids(token_ids),
                    packed,
                    message_id,
                    AnswerState.INTERRUPTED,
                ),
            )

    def added_to(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        """A row of `MESSAGE_COLUMNS` with what the answer has received so far."""
        text, ids, marks = self.of(row[ID])
        grown = list(row)
        grown[TEXT] += text
        grown[TOKEN_IDS] = _joined_ids(grown[TOKEN_IDS], ids, text)
        grown[MARKS] = _joined(grown[MARKS], marks)
        return tuple(grown)

    def of(self, message_id: int) -> tuple[str, bytes, bytes]:
        """Text, token ids and marks that an unfinished answer has received."""
        rows = self._file.rows(
            "SELECT text, token_ids, ifnull(marks, x'') FROM answer_piece"
            " WHERE message_id = ? ORDER BY id",
            (message_id,),
        )
        texts, ids, marks = zip(*rows, strict=True) if rows else ((), (), ())
        return "".join(texts), b"".join(ids), b"".join(marks)

    def settle(self) -> None:
        """Merge what answers had received when the last process died; they stay INTERRUPTED."""
        unfinished = self._file.rows(
            "SELECT id, text, token_ids, marks FROM message"
            " WHERE id IN (SELECT DISTINCT message_id FROM answer_piece)"
        )
        for message_id, text, ids, marks in unfinished:
            more_text, more_ids, more_marks = self.of(message_id)
            self._file.to_index(message_id)
            self._file.connection.execute(
                "UPDATE message SET text = ?, token_ids = ?, marks = ? WHERE id = ?",
                (
                    text + more_text,
                    _joined_ids(ids, more_ids, more_text),
                    _joined(marks, more_marks),
                    message_id,
                ),
            )
        self._file.connection.execute("DELETE FROM answer_piece")


def _joined_ids(ids: bytes | None, more: bytes, text: str) -> bytes | None:
    """Return the token ids of an answer; of text that came without them, only the text is known."""
    return None if text and not more else _joined(ids, more)


def _joined(blob: bytes | None, more: bytes) -> bytes | None:
    """Return a blob and what came after it; what is unknown from the start stays so."""
    return None if blob is None else blob + more

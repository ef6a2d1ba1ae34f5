"""Questions and answers: added, resumed, finished, and the rounds they were written in."""

from __future__ import annotations

import time
from dataclasses import replace

from app.history.branches import Branches
from app.history.columns import clean_text, pack_calls, pack_ids, pack_sampling, pack_stats
from app.history.database import translated
from app.history.file import HistoryFile
from app.history.message import StoredMessage
from app.history.records import AnswerState, TokenMarks
from engine.events import AnswerStats
from engine.request import Role, SamplingParams, ToolCall


class Answers:
    """Adds messages below the end of the branch on show."""

    def __init__(self, file: HistoryFile, branches: Branches) -> None:
        self._file, self._branches = file, branches

    def add_user_message(self, conversation_id: int, text: str) -> StoredMessage:
        """Append what the user said to the active branch."""
        with self._file.writing():
            message = self._add(conversation_id, Role.USER, clean_text(text), AnswerState.COMPLETE)
            self._file.to_index(message.id)
        return message

    def begin(
        self, conversation_id: int, *, model: str, sampling: SamplingParams, varied: bool = False
    ) -> StoredMessage:
        """Append an empty answer to the active branch; INTERRUPTED until it is finished."""
        model = clean_text(model)
        with self._file.writing():
            message = self._add(conversation_id, Role.ASSISTANT, "", AnswerState.INTERRUPTED)
            self._file.change(
                "UPDATE message SET token_ids = x'', marks = x'', model = ?, sampling = ?,"
                " varied = ? WHERE id = ?",
                (model, pack_sampling(sampling), varied, message.id),
            )
        return replace(
            message,
            token_ids=(),
            marks=TokenMarks(),
            model=model,
            sampling=sampling,
            varied=varied,
        )

    def resume(self, message_id: int) -> None:
        """Reopen an answer to be continued: INTERRUPTED again, its text and ids kept."""
        with self._file.writing():
            self._file.change(
                "UPDATE message SET state = ? WHERE id = ? AND role = ?",
                (AnswerState.INTERRUPTED, message_id, Role.ASSISTANT),
            )

    def finish(
        self,
        message_id: int,
        *,
        text: str,
        token_ids: tuple[int, ...] | None,
        marks: TokenMarks | None,
        state: AnswerState,
        stats: AnswerStats | None,
        signature: str,
        calls: tuple[ToolCall, ...] = (),
    ) -> None:
        """Replace what was appended by the final text and tokens, and note how the answer ended."""
        text = clean_text(text)
        ids = None if token_ids is None else pack_ids(token_ids)
        packed = None if marks is None else marks.packed
        with self._file.writing():
            self._file.change(
                "UPDATE message SET text = ?, token_ids = ?, marks = ?, state = ?, stats = ?,"
                " signature = ?, calls = ? WHERE id = ? AND role = ?",
                (
                    *(text, ids, packed, state, pack_stats(stats), signature, pack_calls(calls)),
                    *(message_id, Role.ASSISTANT),
                ),
            )
            self._file.connection.execute(
                "DELETE FROM answer_piece WHERE message_id = ?", (message_id,)
            )
            self._file.connection.execute(
                "UPDATE conversation SET updated_at = ?"
                " WHERE id = (SELECT conversation_id FROM message WHERE id = ?)",
                (time.time(), message_id),
            )
            self._file.to_index(message_id)

    def add_call(self, conversation_id: int, call: ToolCall) -> StoredMessage:
        """Append a tool call to the active branch; INTERRUPTED until somebody allows it."""
        with self._file.writing():
            message = self._add(conversation_id, Role.TOOL, "", AnswerState.INTERRUPTED)
            self._file.change(
                "UPDATE message SET calls = ? WHERE id = ?", (pack_calls((call,)), message.id)
            )
        return replace(message, calls=(call,))

    def set_result(self, message_id: int, text: str, state: AnswerState) -> None:
        """Note how far a tool call is, and its result."""
        with self._file.writing():
            self._file.change(
                "UPDATE message SET text = ?, state = ? WHERE id = ? AND role = ?",
                (clean_text(text), state, message_id, Role.TOOL),
            )
            self._file.to_index(message_id)

    def keep_verdict(self, message_id: int, packed: str) -> None:
        """Keep what is said of an answer's speed, in the place of what was; "": nothing."""
        with self._file.writing():
            self._file.connection.execute(
                "UPDATE message SET verdict = ? WHERE id = ?", (packed or None, message_id)
            )

    def verdict(self, message_id: int) -> str:
        """Return what `keep_verdict` was given last; "" for nothing."""
        with translated(self._file.path):
            rows = self._file.rows("SELECT verdict FROM message WHERE id = ?", (message_id,))
        return next((packed for (packed,) in rows if isinstance(packed, str)), "")

    def keep_rounds(self, message_id: int, packed: bytes) -> None:
        """Add to an answer the rounds it was written in; nothing where it is gone by now."""
        with self._file.writing():
            self.add_rounds(message_id, packed)

    def rounds(self, message_id: int) -> tuple[bytes, ...]:
        """Return the rounds that `keep_rounds` was given for an answer, in this order."""
        with translated(self._file.path):
            rows = self._file.rows(
                "SELECT packed FROM answer_rounds WHERE message_id = ? ORDER BY id", (message_id,)
            )
        return tuple(packed for (packed,) in rows if isinstance(packed, bytes))

    def add_rounds(self, message_id: int, packed: bytes) -> None:
        """Add rounds to an answer, inside a transaction."""
        self._file.connection.execute(
            "INSERT INTO answer_rounds(message_id, packed) SELECT id, ? FROM message WHERE id = ?",
            (packed, message_id),
        )

    def _add(
        self, conversation_id: int, role: Role, text: str, state: AnswerState
    ) -> StoredMessage:
        now = time.time()
        message_id = self._file.insert(
            "INSERT INTO message(conversation_id, parent_id, role, text, state, created_at)"
            " SELECT id, active_leaf, ?, ?, ?, ? FROM conversation WHERE id = ?",
            (role, text, state, now, conversation_id),
        )
        parent_id = self._branches.leaf(conversation_id)
        self._file.change(
            "UPDATE conversation SET active_leaf = ?, updated_at = ? WHERE id = ?",
            (message_id, now, conversation_id),
        )
        place = len(self._branches.children(conversation_id, parent_id))
        return StoredMessage(
            id=message_id,
            role=role,
            text=text,
            state=state,
            parent_id=parent_id,
            version=place,
            versions=place,
            created_at=now,
        )

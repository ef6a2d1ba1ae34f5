"""Questions, and answers piece by piece while they are written."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from app.history.branches import Branches, joined
from app.history.columns import clean_text, pack_ids, pack_sampling, pack_stats
from app.history.database import translated
from app.history.message import StoredMessage
from app.history.records import AnswerState, TokenMarks
from engine.events import AnswerStats
from engine.request import Role, SamplingParams


class Answers(Branches):
    """The part of the store that adds messages below the active leaf."""

    def add_user_message(self, conversation_id: int, text: str) -> StoredMessage:
        """Append what the user said to the active branch."""
        with self._writing():
            message = self._add(conversation_id, Role.USER, clean_text(text), AnswerState.COMPLETE)
            self._to_index(message.id)
        return message

    def begin_answer(
        self, conversation_id: int, *, model: str, sampling: SamplingParams
    ) -> StoredMessage:
        """Append an empty answer to the active branch; INTERRUPTED until it is finished."""
        model = clean_text(model)
        with self._writing():
            message = self._add(conversation_id, Role.ASSISTANT, "", AnswerState.INTERRUPTED)
            self._change(
                "UPDATE message SET token_ids = x'', marks = x'', model = ?, sampling = ?"
                " WHERE id = ?",
                (model, pack_sampling(sampling), message.id),
            )
        return replace(message, token_ids=(), marks=TokenMarks(), model=model, sampling=sampling)

    def resume_answer(self, message_id: int) -> None:
        """Reopen an answer to be continued: INTERRUPTED again, its text and ids kept."""
        with self._writing():
            self._change(
                "UPDATE message SET state = ? WHERE id = ? AND role = ?",
                (AnswerState.INTERRUPTED, message_id, Role.ASSISTANT),
            )

    def append_to_answer(
        self, message_id: int, text: str, token_ids: Sequence[int], marks: TokenMarks | None
    ) -> None:
        """Add verified text and its tokens to an answer in progress; cheap at any length."""
        packed = None if marks is None else marks.packed
        with self._writing():
            self._insert(
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

    def finish_answer(
        self,
        message_id: int,
        *,
        text: str,
        token_ids: tuple[int, ...] | None,
        marks: TokenMarks | None,
        state: AnswerState,
        stats: AnswerStats | None,
        signature: str,
    ) -> None:
        """Replace what was appended by the final text and tokens, and note how the answer ended."""
        text = clean_text(text)
        ids = None if token_ids is None else pack_ids(token_ids)
        packed = None if marks is None else marks.packed
        with self._writing():
            self._change(
                "UPDATE message SET text = ?, token_ids = ?, marks = ?, state = ?, stats = ?,"
                " signature = ? WHERE id = ? AND role = ?",
                (
                    *(text, ids, packed, state, pack_stats(stats), signature),
                    *(message_id, Role.ASSISTANT),
                ),
            )
            self._connection.execute("DELETE FROM answer_piece WHERE message_id = ?", (message_id,))
            self._connection.execute(
                "UPDATE conversation SET updated_at = ?"
                " WHERE id = (SELECT conversation_id FROM message WHERE id = ?)",
                (time.time(), message_id),
            )
            self._to_index(message_id)

    def keep_rounds(self, message_id: int, packed: bytes) -> None:
        """Add to an answer the rounds it was written in; nothing where it is gone by now."""
        with self._writing():
            self._add_rounds(message_id, packed)

    def rounds(self, message_id: int) -> tuple[bytes, ...]:
        """Return the rounds that `keep_rounds` was given for an answer, in this order."""
        with translated(self.path):
            rows = self._rows(
                "SELECT packed FROM answer_rounds WHERE message_id = ? ORDER BY id", (message_id,)
            )
        return tuple(packed for (packed,) in rows if isinstance(packed, bytes))

    def has_rounds(self, message_id: int) -> bool:
        """Return whether `rounds` would find any."""
        with translated(self.path):
            found = self._rows(
                "SELECT 1 FROM answer_rounds WHERE message_id = ? LIMIT 1", (message_id,)
            )
        return bool(found)

    # -- inside ----------------------------------------------------------------------------

    def _add_rounds(self, message_id: int, packed: bytes) -> None:
        self._connection.execute(
            "INSERT INTO answer_rounds(message_id, packed) SELECT id, ? FROM message WHERE id = ?",
            (packed, message_id),
        )

    def _add(
        self, conversation_id: int, role: Role, text: str, state: AnswerState
    ) -> StoredMessage:
        now = time.time()
        message_id = self._insert(
            "INSERT INTO message(conversation_id, parent_id, role, text, state, created_at)"
            " SELECT id, active_leaf, ?, ?, ?, ? FROM conversation WHERE id = ?",
            (role, text, state, now, conversation_id),
        )
        parent_id = self._leaf(conversation_id)
        self._change(
            "UPDATE conversation SET active_leaf = ?, updated_at = ? WHERE id = ?",
            (message_id, now, conversation_id),
        )
        place = len(self._children(conversation_id, parent_id))
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

    def _to_index(self, message_id: int) -> None:
        self._connection.execute("INSERT OR REPLACE INTO to_index VALUES (?, 0)", (message_id,))
        self._new_words = True

    def _settle_interrupted(self) -> None:
        """Merge what answers had received when the last process died; they stay INTERRUPTED."""
        unfinished = self._rows(
            "SELECT id, text, token_ids, marks FROM message"
            " WHERE id IN (SELECT DISTINCT message_id FROM answer_piece)"
        )
        for message_id, text, ids, marks in unfinished:
            more_text, more_ids, more_marks = self._pieces(message_id)
            self._to_index(message_id)
            self._connection.execute(
                "UPDATE message SET text = ?, token_ids = ?, marks = ? WHERE id = ?",
                (text + more_text, joined(ids, more_ids), joined(marks, more_marks), message_id),
            )
        self._connection.execute("DELETE FROM answer_piece")

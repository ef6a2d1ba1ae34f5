"""How far an answer is, while it is being written."""

from __future__ import annotations

from dataclasses import dataclass

from engine.events import RoundFinished


@dataclass(slots=True)
class CompletionProgress:
    """Counts of an answer so far, as in `AnswerStats`."""

    prompt_tokens: int
    committed: int = 0
    rounds: int = 0
    plain_rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    _drafting_tokens: int = 0

    def add(self, done: RoundFinished) -> None:
        """Count a round; the first one's token is the prompt's own."""
        self.committed += done.committed
        if done.index == 0:
            return
        self.rounds += 1
        self.drafted += done.drafted
        self.accepted += done.accepted
        if done.drafted:
            self._drafting_tokens += done.committed
        else:
            self.plain_rounds += 1

    @property
    def acceptance_length(self) -> float | None:
        """Tokens committed per target forward that verified a drafted token."""
        drafting = self.rounds - self.plain_rounds
        return self._drafting_tokens / drafting if drafting else None

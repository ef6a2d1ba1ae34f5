"""An answer, from its prompt to its end."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from engine.events.rounds import TokenSpan


class FinishReason(StrEnum):
    """Why an answer ended."""

    STOP = "stop"
    """The model ended its turn, or a stop string came up."""
    LENGTH = "length"
    """`max_tokens` was reached."""
    CONTEXT = "context"
    """The context is full."""
    STOPPED = "stopped"
    """The user stopped it."""
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class PrefillProgress:
    """`done` of `total` prompt tokens are processed, `reused` of them came from a kept state."""

    at: float
    request_id: str
    done: int
    total: int
    reused: int


@dataclass(frozen=True, slots=True)
class TextDelta:
    """Verified text to append to the answer, with the tokens it came from.

    Joining all deltas gives the answer; text that might become a stop string or half a character
    is held back until it is decided. What the template itself has begun the answer with (a think
    block) comes first, its tokens as the target's own.
    """

    at: float
    request_id: str
    text: str
    spans: tuple[TokenSpan, ...]


@dataclass(frozen=True, slots=True)
class AnswerStats:
    """The counts and timings of one answer; definitions in the README's glossary.

    `acceptance_length`: tokens committed in decode rounds (trimmed at end, stop and limit; the
    prefill's own token excluded) per target forward in rounds that verified at least one drafted
    token; None without such a round. `tokens_per_s`: committed tokens from first to last.
    """

    prompt_tokens: int
    reused_tokens: int
    committed: int
    rounds: int
    plain_rounds: int
    drafted: int
    accepted: int
    drafted_by_depth: tuple[int, ...]
    accepted_by_depth: tuple[int, ...]
    acceptance_length: float | None
    ttft_s: float | None
    tokens_per_s: float | None
    seconds: float
    draft_seconds: float = 0.0
    verify_seconds: float = 0.0
    fallback_reason: str | None = None
    decode_seconds: float = 0.0
    """From the first committed token to the last."""
    mode: str | None = None
    """The `Mode` of the plan it was written with; None of answers that older versions stored."""
    useful_seconds: float = 0.0
    wasted_seconds: float = 0.0
    """Of `draft_seconds`: some of what was drafted was committed, or none. The fate of the rest was
    open when the answer ended."""
    plain_round_s: float | None = None
    """Typical seconds of a round without a draft, from one commit to the next; None: too few."""

    @property
    def draft_idle(self) -> float | None:
        """Share of the decoding time in which nothing was drafted."""
        return self._idle(self.draft_seconds)

    @property
    def draft_useful(self) -> float | None:
        """Share of the drafting time of which something was committed."""
        return self._of_drafting(self.useful_seconds)

    @property
    def draft_wasted(self) -> float | None:
        """Share of the drafting time of which nothing was committed."""
        return self._of_drafting(self.wasted_seconds)

    @property
    def verify_idle(self) -> float | None:
        """Share of the decoding time in which the target verified nothing."""
        return self._idle(self.verify_seconds)

    def _of_drafting(self, seconds: float) -> float | None:
        if not self.draft_seconds:
            return None
        # Some of what was decided may have been drafted before the first round.
        return seconds / max(self.draft_seconds, self.useful_seconds + self.wasted_seconds)

    def _idle(self, busy: float) -> float | None:
        if self.decode_seconds <= 0:
            return None
        return min(max(1 - busy / self.decode_seconds, 0.0), 1.0)


@dataclass(frozen=True, slots=True)
class Finished:
    """An answer ended. `text` and `token_ids` are what to store; both hold verified tokens only.

    Half a character at the end of an answer that can go on is in the ids and not in the text: it is
    told when its other half is there. What might have become a stop string is in neither.
    `token_ids` is None when a stop string cut the text in the middle of a token, so that the
    text alone says what was shown.
    """

    at: float
    request_id: str
    reason: FinishReason
    text: str
    token_ids: tuple[int, ...] | None
    stats: AnswerStats
    seed: int = 0
    signature: str = ""


@dataclass(frozen=True, slots=True)
class Counted:
    """How long a request is: the answer to `Count`."""

    at: float
    request_id: str
    prompt_tokens: int
    context: int

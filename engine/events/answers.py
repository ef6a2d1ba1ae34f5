"""An answer, from its prompt through rounds of draft -> verify -> commit to its end."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import zip_longest

from engine.commands import QuestionId
from engine.events.intervals import Interval, hull

BUSY_CPU = 20.0
"""Percent of the CPU in other programs' hands from which on they are the cause of a speed."""


def _added(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(map(sum, zip_longest(first, second, fillvalue=0)))


def _mean(first: float | None, second: float | None, weights: tuple[float, float]) -> float | None:
    """The mean of what is known of two, weighted; the second one where neither has a weight."""
    if first is None or second is None:
        return second if first is None else first
    total = sum(weights)
    return (first * weights[0] + second * weights[1]) / total if total > 0 else second


class FinishReason(StrEnum):
    """Reasons why an answer ended."""

    STOP = "stop"
    """The model ended its turn, or a stop string came up."""
    LENGTH = "length"
    """`max_tokens` was reached."""
    CONTEXT = "context"
    """The context is full."""
    STOPPED = "stopped"
    """The user stopped it."""
    REPETITION = "repetition"
    """The answer repeated itself, and the request was to stop it then."""
    YIELDED = "yielded"
    """It made room for another one, see `Generate.gives_way`."""
    ERROR = "error"


class Origin(StrEnum):
    """Source of a committed token's proposal. Either way the target has verified it."""

    DRAFTED = "drafted"
    TARGET = "target"


@dataclass(frozen=True, slots=True)
class Alternative:
    """A token that might have stood at some place; `probability` is as in `TokenSpan`."""

    token_id: int
    text: str
    probability: float


@dataclass(frozen=True, slots=True)
class TokenSpan:
    """The stretch of answer text one token wrote; empty for a token that completes no character."""

    token_id: int
    start: int
    end: int
    origin: Origin
    probability: float | None = None
    """What the target gave it, at temperature 1 and before penalties and filters; None where nobody
    told."""
    others: tuple[Alternative, ...] = ()
    """The likeliest tokens at this place, its own among them, where the request asked for them."""


@dataclass(frozen=True, slots=True)
class PromptToken:
    """A token of a prompt; `probability` and `others` are as in `TokenSpan`, none of the first."""

    token_id: int
    text: str
    probability: float | None = None
    others: tuple[Alternative, ...] = ()


@dataclass(frozen=True, slots=True)
class PrefillProgress:
    """`done` of `total` prompt tokens are processed, `reused` of them from the prefix cache."""

    at: float
    request_id: str
    done: int
    total: int
    reused: int


@dataclass(frozen=True, slots=True)
class PromptRead:
    """Details of a prompt that its request asked for (`PromptDetail`).

    Attributes:
        tokens: its tokens in their order, where their probabilities were wanted.
        embedding: the mean of its last hidden states, where that was wanted.
    """

    at: float
    request_id: str
    tokens: tuple[PromptToken, ...] = ()
    embedding: tuple[float, ...] = ()


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
class Received:
    """Tokens of an answer that have come from a server by now; told a few times a second.

    `acceptance_length` is the server's own figure so far; None: it does not tell.
    """

    at: float
    request_id: str
    tokens: int
    acceptance_length: float | None = None


@dataclass(frozen=True, slots=True)
class Guess:
    """A drafted token on the verified way: those that were accepted, then the first that was not.

    Attributes:
        text: what it writes; empty for a token that completes no character.
        draft_probability: what the draft model gave it behind the tokens before; where tokens are
            drawn, the draft ranks with the noise of the draw, and this is its guess at the draw.
            None of a token that no model has drafted (lookup).
        probability: what the target gave it, as in `TokenSpan`.
    """

    text: str
    draft_probability: float | None
    probability: float | None
    accepted: bool


@dataclass(frozen=True, slots=True)
class RoundFinished:
    """One round of draft -> verify -> commit.

    `drafted_by_depth[i]` tells whether a node at depth i + 1 was on offer below accepted nodes
    (1 or 0), `accepted_by_depth[i]` whether one was accepted: summed over rounds they give
    acceptance by position.
    """

    at: float
    request_id: str
    index: int
    drafting: tuple[Interval, ...]
    """When the draft lane computed, in order: for this round or, while the round before was being
    verified, ahead of it."""
    verify: Interval
    drafted: int
    accepted: int
    committed: int
    drafted_by_depth: tuple[int, ...] = ()
    accepted_by_depth: tuple[int, ...] = ()
    context_used: int = 0
    rejected: str = ""
    """Text of the likeliest drafted continuation that the target did not take."""
    text_start: int = 0
    text_end: int = 0
    """The stretch of the answer released with this round: that of its TextDelta, if it had one."""
    rejected_at: int = 0
    """Offset in the answer of the token the target wrote instead of `rejected`."""
    useful_s: float = 0.0
    wasted_s: float = 0.0
    """Seconds of drafting whose fate this round decided: some of it was committed, or none is any
    more."""
    transfers: tuple[Interval, ...] = ()
    """When something was copied from one device to another and somebody waited for it; since the
    round before, in order."""
    guesses: tuple[Guess, ...] = ()
    """The accepted ones, `accepted` of them, and the first of `rejected`."""

    @property
    def draft(self) -> Interval | None:
        """Interval from the first drafting to the last."""
        return hull(self.drafting)

    @property
    def drafting_s(self) -> float:
        """Seconds in which the draft lane computed."""
        return sum(each.seconds for each in self.drafting)


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
    host: str = ""
    """Server that wrote it, "" where it was written here. Times are then measured here, and
    counts are the server's own."""
    host_tokens_per_s: float | None = None
    """The server's own figure of its speed; None where it tells none."""
    others_cpu: float | None = None
    """Percent of the CPU in other programs' hands meanwhile; None: not known."""

    def followed_by(self, later: AnswerStats) -> AnswerStats:
        """Return what an answer took in all that was written in two goes, with a pause between.

        What is of a beginning, such as the prompt and the time to the first token, is this one's;
        what is of the circumstances, such as mode and server, is the later one's.
        """
        verified = self.rounds - self.plain_rounds, later.rounds - later.plain_rounds
        decoded = self.decode_seconds, later.decode_seconds
        return replace(
            later,
            prompt_tokens=self.prompt_tokens,
            reused_tokens=self.reused_tokens,
            ttft_s=self.ttft_s,
            committed=self.committed + later.committed,
            rounds=self.rounds + later.rounds,
            plain_rounds=self.plain_rounds + later.plain_rounds,
            drafted=self.drafted + later.drafted,
            accepted=self.accepted + later.accepted,
            drafted_by_depth=_added(self.drafted_by_depth, later.drafted_by_depth),
            accepted_by_depth=_added(self.accepted_by_depth, later.accepted_by_depth),
            acceptance_length=_mean(self.acceptance_length, later.acceptance_length, verified),
            tokens_per_s=_mean(self.tokens_per_s, later.tokens_per_s, decoded),
            seconds=self.seconds + later.seconds,
            draft_seconds=self.draft_seconds + later.draft_seconds,
            verify_seconds=self.verify_seconds + later.verify_seconds,
            decode_seconds=sum(decoded),
            useful_seconds=self.useful_seconds + later.useful_seconds,
            wasted_seconds=self.wasted_seconds + later.wasted_seconds,
            fallback_reason=later.fallback_reason or self.fallback_reason,
            host_tokens_per_s=_mean(self.host_tokens_per_s, later.host_tokens_per_s, decoded),
            others_cpu=_mean(self.others_cpu, later.others_cpu, decoded),
        )

    @property
    def disturbed(self) -> bool:
        """True if other programs held enough of the CPU to explain the speed."""
        return self.others_cpu is not None and self.others_cpu >= BUSY_CPU

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
    stop: str = ""
    """The stop string that ended it; empty where something else did."""


@dataclass(frozen=True, slots=True)
class Counted:
    """Length of a request: the response to `Count`.

    Attributes:
        ids: its tokens, where they were asked for.
        text: what they spell, likewise.
        refused: why it cannot be read, in words; nothing is counted then.
    """

    at: float
    id: QuestionId
    prompt_tokens: int
    context: int
    ids: tuple[int, ...] = ()
    text: str = ""
    refused: str = ""

"""Numbers and states in words, as shown under answers."""

from __future__ import annotations

from app.history import AnswerState, StoredMessage
from engine.events import AnswerStats


def answer_stats(stats: AnswerStats) -> str:
    """One line: speed, acceptance, size, wait. Only what was measured."""
    parts = []
    if stats.tokens_per_s is not None:
        parts.append(f"{stats.tokens_per_s:.1f} tokens/s")
    if stats.acceptance_length is not None:
        parts.append(f"acceptance length {stats.acceptance_length:.2f}")
    parts.append(f"{stats.committed:,} {'token' if stats.committed == 1 else 'tokens'}")
    if stats.ttft_s is not None:
        parts.append(f"first after {seconds(stats.ttft_s)}")
    return " · ".join(parts)


def answer_details(message: StoredMessage) -> str:
    """The longer account for the tooltip."""
    stats = message.stats
    if stats is None:
        return ""
    lines = [
        f"Model: {message.model or 'unknown'}",
        f"Prompt: {stats.prompt_tokens:,} tokens, {stats.reused_tokens:,} of them kept from before",
        f"Target passes: {stats.rounds:,}, {stats.plain_rounds:,} of them without drafted tokens",
        f"Drafted {stats.drafted:,} tokens, accepted {stats.accepted:,}",
        f"Seed {message.sampling.seed}, temperature {message.sampling.temperature:g}",
    ]
    if stats.fallback_reason:
        lines.append(f"Drafting was paused: {stats.fallback_reason}")
    return "\n".join(lines)


def answer_note(message: StoredMessage) -> str:
    """How an answer ended, when it did not simply end."""
    return {
        AnswerState.COMPLETE: "",
        AnswerState.STOPPED: "Stopped before its end.",
        AnswerState.INTERRUPTED: "Interrupted: Duotail was closed while this was being written.",
        AnswerState.FAILED: "This answer failed.",
        AnswerState.FULL: "The context is full, so the answer ends here. Go on in a new chat.",
    }[message.state]


def seconds(value: float) -> str:
    """A time span the way one would say it."""
    if value < 1:
        return f"{value * 1000:.0f} ms"
    return f"{value:.1f} s" if value < 60 else f"{value / 60:.1f} min"


def memory(size: int) -> str:
    """Bytes in GiB, small sizes in MiB."""
    return gib(size) if size >= 2**30 / 10 else f"{size / 2**20:.0f} MiB"


def gib(size: int) -> str:
    """Bytes in GiB."""
    return f"{size / 2**30:.1f} GiB"

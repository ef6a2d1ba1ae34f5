"""Numbers and states in words, as shown under answers."""

from __future__ import annotations

from collections.abc import Sequence

from app.history import AnswerState, StoredMessage
from engine.events import AnswerStats
from engine.language import later, tr, tr_count
from engine.request import SamplingParams

_IN_TOOLTIP = 6
_FILTERS = {
    "top_k": later("top-k"),
    "top_p": later("top-p"),
    "min_p": later("min-p"),
    "repetition_penalty": later("repetition penalty"),
    "presence_penalty": later("presence penalty"),
    "frequency_penalty": later("frequency penalty"),
}


def answer_numbers(stats: AnswerStats) -> tuple[str, ...]:
    """Speed, size, acceptance, wait, the most asked for first. Only what was measured."""
    parts = []
    if stats.tokens_per_s is not None:
        parts.append(tr("{speed} tokens/s").format(speed=f"{stats.tokens_per_s:.1f}"))
    parts.append(tr_count("{n} token", "{n} tokens", stats.committed))
    if stats.acceptance_length is not None:
        length = f"{stats.acceptance_length:.2f}"
        parts.append(tr("acceptance length {length}").format(length=length))
    if stats.ttft_s is not None:
        parts.append(tr("first after {time}").format(time=seconds(stats.ttft_s)))
    return tuple(parts)


def answer_details(message: StoredMessage) -> str:
    """The longer account for the tooltip."""
    return "\n".join(f"{name}: {value}" for name, value in answer_table(message)[:_IN_TOOLTIP])


def answer_table(message: StoredMessage) -> list[tuple[str, str]]:
    """Everything that is known of how an answer was written: what it is, and its value."""
    stats = message.stats
    lines = [
        (tr("Model"), message.model or tr("unknown")),
        (tr("Settings"), sampling_words(message.sampling)),
    ]
    if stats is not None:
        lines += [*_speeds(stats), *_drafting(stats)]
    if message.signature:
        lines.append((tr("Numeric signature"), message.signature))
    return lines


def _speeds(stats: AnswerStats) -> list[tuple[str, str]]:
    prompt = tr("{tokens} tokens, {kept} of them kept from before").format(
        tokens=f"{stats.prompt_tokens:,}", kept=f"{stats.reused_tokens:,}"
    )
    lines = [(tr("Tokens written"), f"{stats.committed:,}"), (tr("Prompt"), prompt)]
    if stats.tokens_per_s is not None:
        lines.insert(0, (tr("Speed"), tr("{n} tokens/s").format(n=f"{stats.tokens_per_s:.1f}")))
    if stats.ttft_s is not None:
        lines.append((tr("First token after"), seconds(stats.ttft_s)))
    lines.append((tr("Time in all"), seconds(stats.seconds)))
    return lines


def _drafting(stats: AnswerStats) -> list[tuple[str, str]]:
    passes = tr("{all}, {plain} of them without drafted tokens").format(
        all=f"{stats.rounds:,}", plain=f"{stats.plain_rounds:,}"
    )
    lines = [(tr("Passes of the model"), passes)]
    if stats.drafted:
        accepted = tr("{accepted} of {drafted} drafted tokens ({share} %)").format(
            accepted=f"{stats.accepted:,}",
            drafted=f"{stats.drafted:,}",
            share=f"{100 * stats.accepted / stats.drafted:.0f}",
        )
        lines.append((tr("Accepted"), accepted))
    if stats.acceptance_length is not None:
        lines.append((tr("Acceptance length"), f"{stats.acceptance_length:.2f}"))
    shares = [
        f"{100 * accepted / drafted:.0f} %"
        for drafted, accepted in zip(stats.drafted_by_depth, stats.accepted_by_depth, strict=False)
        if drafted
    ]
    if shares:
        lines.append((tr("Accepted by position"), ", ".join(shares)))
    if stats.fallback_reason:
        lines.append((tr("Drafting was paused"), stats.fallback_reason))
    return lines


def markdown_table(lines: Sequence[tuple[str, str]]) -> str:
    """Lines of a table as Markdown, the first one as its head."""
    rows = [f"| {name} | {value.replace('|', chr(92) + '|')} |" for name, value in lines]
    return "\n".join([*rows[:1], "|:--|:--|", *rows[1:]]) + "\n"


def sampling_words(sampling: SamplingParams) -> str:
    """How the answer was drawn: the temperature, then what is not as usual, then the seed."""
    usual = SamplingParams()
    said = [tr("temperature {t}").format(t=f"{sampling.temperature:g}")]
    for field, name in _FILTERS.items():
        value = getattr(sampling, field)
        if value != getattr(usual, field):
            said.append(f"{tr(name)} {value:g}")
    said.append(tr("seed {seed}").format(seed=sampling.seed))
    return ", ".join(said)


def answer_note(message: StoredMessage) -> str:
    """How an answer ended, when it did not simply end."""
    return {
        AnswerState.COMPLETE: "",
        AnswerState.STOPPED: tr("Stopped before its end."),
        AnswerState.INTERRUPTED: tr(
            "Interrupted: Duotail was closed while this was being written."
        ),
        AnswerState.FAILED: tr("This answer failed."),
        AnswerState.FULL: tr("The context is full, so the answer ends here."),
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

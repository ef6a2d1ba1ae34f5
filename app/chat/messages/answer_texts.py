"""Numbers and states in words, as shown under answers."""

from __future__ import annotations

from collections.abc import Sequence

from app.engine_link.measured import FEWEST_TOKENS
from app.engine_link.plan_texts import mode_name
from app.history import AnswerState, StoredMessage
from engine.events import AnswerStats
from engine.language import later, listed, number, tr, tr_count
from engine.language.units import acceptance_length, duration, tokens_per_s
from engine.request import SamplingParams

_IN_TOOLTIP = 6
_LOOKED_UP = 0.02
"""A smaller part of the time that verifying takes is no draft's work: the tokens were looked up."""
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
    told = stats.tokens_per_s is not None and stats.committed >= FEWEST_TOKENS
    if told and stats.tokens_per_s is not None:
        parts.append(_speed(stats.tokens_per_s))
    if not stats.host or stats.tokens_per_s is not None:  # else nobody has counted to the end
        parts.append(tr_count("{n} token", "{n} tokens", stats.committed))
    if stats.acceptance_length is not None:
        length = acceptance_length(stats.acceptance_length)
        parts.append(tr("acceptance length {length}").format(length=length))
    if stats.mode:
        parts.insert(int(told), mode_name(stats.mode))
    if stats.host:
        parts.insert(int(told), tr("on {host}").format(host=stats.host))
    if stats.ttft_s is not None:
        parts.append(tr("first token after {time}").format(time=duration(stats.ttft_s)))
    return tuple(parts)


def answer_details(message: StoredMessage) -> str:
    """The longer account for the tooltip."""
    return "\n".join(f"{name}: {value}" for name, value in answer_table(message)[:_IN_TOOLTIP])


def answer_table(message: StoredMessage) -> list[tuple[str, str]]:
    """Return all that is known of how an answer was written, as names and values."""
    stats = message.stats
    lines = [
        (tr("Model"), message.model or tr("unknown")),
        (tr("Settings"), sampling_words(message.sampling)),
    ]
    if stats is not None:
        if stats.mode:
            lines.append((tr("Mode"), mode_name(stats.mode)))
        if stats.host:
            lines.append((tr("Server"), stats.host))
        lines += [*_speeds(stats), *_drafting(stats)]
    if message.signature:
        lines.append((tr("Numeric signature"), message.signature))
    return lines


def _speeds(stats: AnswerStats) -> list[tuple[str, str]]:
    prompt = tr("{tokens}, {kept} of them cached").format(
        tokens=tr_count("{n} token", "{n} tokens", stats.prompt_tokens),
        kept=number(stats.reused_tokens),
    )
    lines = [(tr("Tokens written"), number(stats.committed)), (tr("Prompt"), prompt)]
    if stats.host_tokens_per_s is not None:
        own = _speed(stats.host_tokens_per_s)
        lines.insert(0, (tr("Speed reported by the server"), own))
    if stats.tokens_per_s is not None:
        lines.insert(0, (tr("Speed"), _speed(stats.tokens_per_s)))
    if stats.ttft_s is not None:
        lines.append((tr("First token after"), duration(stats.ttft_s)))
    lines.append((tr("Total time"), duration(stats.seconds)))
    if stats.host:
        lines.append((tr("Times"), tr("measured here, including the network")))
    return lines


def _speed(value: float) -> str:
    return tr("{speed} tokens/s").format(speed=tokens_per_s(value))


def _drafting(stats: AnswerStats) -> list[tuple[str, str]]:
    passes = tr("{all}, {plain} of them without drafted tokens").format(
        all=number(stats.rounds), plain=number(stats.plain_rounds)
    )
    lines = [(tr("Forward passes"), passes)] if stats.rounds or not stats.host else []
    if stats.drafted:
        accepted = tr("{accepted} of {drafted} drafted tokens ({share})").format(
            accepted=number(stats.accepted),
            drafted=number(stats.drafted),
            share=number(stats.accepted / stats.drafted, ".0%"),
        )
        lines.append((tr("Accepted"), accepted))
        if stats.committed:
            share = number(min(stats.accepted / stats.committed, 1.0), ".0%")
            lines.append((tr("Share of drafted tokens in the answer"), share))
    if stats.acceptance_length is not None:
        lines.append((tr("Acceptance length"), acceptance_length(stats.acceptance_length)))
    lines += _lanes(stats)
    shares = [
        number(accepted / drafted, ".0%")
        for drafted, accepted in zip(stats.drafted_by_depth, stats.accepted_by_depth, strict=False)
        if drafted
    ]
    if shares:
        lines.append((tr("Accepted by position"), listed(shares)))
    if stats.fallback_reason:
        lines.append((tr("Drafting was paused"), stats.fallback_reason))
    return lines


def _lanes(stats: AnswerStats) -> list[tuple[str, str]]:
    """Return how draft and target used the time from the first token to the last."""
    useful, wasted, idle = stats.draft_useful, stats.draft_wasted, stats.draft_idle
    if useful is None or wasted is None or idle is None or stats.verify_idle is None:
        return []
    target = (tr("Target idle"), number(stats.verify_idle, ".0%"))
    if stats.draft_seconds < _LOOKED_UP * stats.verify_seconds:
        return [target]
    shares = (
        (tr("useful {share}"), (1 - idle) * useful),
        (tr("wasted {share}"), (1 - idle) * wasted),
        (tr("idle {share}"), idle),
    )
    return [
        (
            tr("The draft's time"),
            listed(words.format(share=number(share, ".0%")) for words, share in shares),
        ),
        target,
    ]


def markdown_table(lines: Sequence[tuple[str, str]]) -> str:
    """Lines of a table as Markdown, the first one as its head."""
    rows = [f"| {name} | {value.replace('|', chr(92) + '|')} |" for name, value in lines]
    return "\n".join([*rows[:1], "|:--|:--|", *rows[1:]]) + "\n"


def sampling_words(sampling: SamplingParams) -> str:
    """Return the sampling of an answer: temperature, what is not as usual, seed."""
    usual = SamplingParams()
    said = [tr("temperature {t}").format(t=number(sampling.temperature, "g"))]
    for field, name in _FILTERS.items():
        value = getattr(sampling, field)
        if value != getattr(usual, field):
            said.append(f"{tr(name)} {number(value, 'g')}")
    said.append(tr("seed {seed}").format(seed=sampling.seed))
    return listed(said)


def answer_note(message: StoredMessage) -> str:
    """Return how an answer ended, when it did not simply end, and how it was varied."""
    notes = [_varied_note(message)] if message.varied else []
    if message.state is AnswerState.FAILED and message.failure:
        return " ".join([*notes, tr("This answer failed."), message.failure])
    return " ".join([*notes, _end_note(message.state)]).strip()


def _varied_note(message: StoredMessage) -> str:
    words = tr("For a different answer, Duotail used {how} instead of your settings.")
    return words.format(how=sampling_words(message.sampling))


def _end_note(state: AnswerState) -> str:
    return {
        AnswerState.COMPLETE: "",
        AnswerState.STOPPED: tr("Stopped early."),
        AnswerState.INTERRUPTED: tr(
            "Interrupted: Duotail was closed while this was being written."
        ),
        AnswerState.FAILED: tr("This answer failed."),
        AnswerState.FULL: tr("The context is full, so the answer ends here."),
        AnswerState.REPEATED: tr("The model kept repeating itself, so Duotail stopped the answer."),
    }[state]

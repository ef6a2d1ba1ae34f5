"""The benchmark in words."""

from __future__ import annotations

from collections.abc import Sequence

from app.benchmark.benchmark import Benchmark, BenchmarkStage
from app.engine_link.plan_texts import mode_name
from app.widgets.table import Table
from engine.bench.modes.questions import QUESTIONS
from engine.bench.modes.report import ModeRow, cells, heads
from engine.commands import Compare, Mode
from engine.events import Previewed
from engine.language import number, sentences, tr, tr_count
from engine.language.units import acceptance_length, duration, memory, tokens_per_s

_CHANGE_S = 3.0
"""About what a change of models takes."""


def row_name(row: ModeRow) -> str:
    """The mode, with what came of the automatic choice."""
    if row.mode is Mode.AUTO and row.ran is not None:
        return tr("{mode} ({ran})").format(mode=mode_name(row.mode), ran=mode_name(row.ran))
    return mode_name(row.mode)


def table_of(rows: Sequence[ModeRow], title: str) -> Table:
    """The numbers behind the bars."""
    measured = [row for row in rows if row.tokens_per_s is not None]
    return Table(title, tuple(heads()), [tuple(cells(row, row_name(row))) for row in measured])


def bars_words(rows: Sequence[ModeRow], winner: Mode | None) -> str:
    """Return the content of the bars for screen readers."""
    said = []
    for row in rows:
        if row.tokens_per_s is None:
            continue
        text = tr("{mode}: {speed} tokens per second.")
        if row.mode is winner:
            text = tr("{mode}: {speed} tokens per second, the best here.")
        speed = tokens_per_s(row.tokens_per_s)
        said.append(text.format(mode=row_name(row), speed=speed))
    return sentences(*said) or tr("Nothing measured yet.")


def details(row: ModeRow) -> list[str]:
    """The small line under a bar, in parts."""
    parts = []
    if row.lowest is not None and row.highest is not None:
        ends = tr("{low} to {high}")
        low, high = tokens_per_s(row.lowest), tokens_per_s(row.highest)
        parts.append(ends.format(low=low, high=high))
    if row.relative is not None:
        times = number(row.relative, ".2f")
        parts.append(tr("{times}x the target alone").format(times=times))
    if row.ttft_s is not None:
        parts.append(tr("first token after {time}").format(time=duration(row.ttft_s)))
    if row.acceptance_length is not None:
        length = acceptance_length(row.acceptance_length)
        parts.append(tr("{length} tokens a round").format(length=length))
    if row.gpu_bytes:
        parts.append(tr("{size} on the GPU").format(size=memory(row.gpu_bytes)))
    return parts


def notes(rows: Sequence[ModeRow], *, over: bool) -> list[str]:
    """Return why other modes have no bar, or no speed when all is `over`."""
    alike = tr("{mode} would run like {other}.")
    short = tr("{mode}: the answers were too short to measure a speed.")
    said = []
    for row in rows:
        name = mode_name(row.mode)
        if row.same_as is not None:
            said.append(alike.format(mode=name, other=mode_name(row.same_as)))
        elif row.refusal:
            said.append(tr("{mode}: {reason}").format(mode=name, reason=row.refusal))
        elif over and row.tokens_per_s is None:
            said.append(short.format(mode=name))
    return said


def plan_words(preview: Previewed | None, wish: Compare) -> str:
    """Return which modes will be measured, and about how long that takes."""
    if preview is None:
        return ""
    speeds = [
        point.tokens_per_s
        for curve in preview.curves
        if curve.mode is not Mode.AUTO and (point := curve.at()) is not None
    ]
    if not speeds:
        return ""
    answers = wish.passes * len(QUESTIONS)
    spent = sum(answers * wish.tokens / speed for speed in speeds if speed > 0)
    spent += wish.passes * _CHANGE_S * (len(speeds) - 1)
    modes = tr_count("{n} mode fits here", "{n} modes fit here", len(speeds))
    return tr("{modes}; that takes about {time}.").format(modes=modes, time=_about(spent))


def stage_words(benchmark: Benchmark) -> str:
    """Return what is being measured now; empty while nothing is."""
    progress = benchmark.progress
    match benchmark.stage:
        case BenchmarkStage.WAITING if benchmark.status.busy:
            return tr("Starts after the answer.")
        case BenchmarkStage.WAITING:
            return tr("Starts in a moment.")
        case BenchmarkStage.STOPPING:
            return tr("Stopping; the model will run as before.")
        case BenchmarkStage.RUNNING if progress is None:
            return tr("Looking for the modes that fit")
        case BenchmarkStage.RUNNING if progress is not None:
            name = mode_name(progress.mode)
            now = tr("{mode}: loading") if progress.loading else tr("{mode}: writing answers")
            noisy = tr("Too noisy: measuring once more.") if progress.again else ""
            return sentences(noisy, now.format(mode=name))
    return ""


def outcome_words(benchmark: Benchmark) -> str:
    """Return what the last benchmark means for this model."""
    last, outcome = benchmark.report, benchmark.outcome
    if benchmark.stage is not BenchmarkStage.IDLE:
        return ""
    if outcome is not None and not outcome.complete:
        return tr("It was not finished, so nothing was changed; the model runs as before.")
    if last is None or last.winner is None or last.best is None:
        return ""
    if last.noisy:
        noisy = tr("Too noisy to tell which mode is fastest: the speeds overlap, measured twice.")
        return sentences(noisy, tr("Nothing was changed; close other programs and measure again."))
    name = row_name(last.best)
    in_use = benchmark.running.profile.mode is last.winner
    if last.winner is Mode.AUTO:
        best = tr("{mode} is as fast as any mode here.").format(mode=name)
    else:
        best = tr("{mode} is the fastest here.").format(mode=name)
    use = tr("{model} uses it from now on.").format(model=last.model) if in_use else ""
    return sentences(best, use)


def _about(span: float) -> str:
    """Return a time span in words, without pretending to know it well."""
    if span < 55:
        tens = max(round(span / 10), 1) * 10
        return tr_count("{n} second", "{n} seconds", tens)
    return tr_count("{n} minute", "{n} minutes", max(round(span / 60), 1))

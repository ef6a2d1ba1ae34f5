"""Measurements of `duotail bench ui`, beside their budgets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from statistics import median, quantiles

from app.showcase.measure.probe import Spent, Waits
from engine.cli.output import left, right
from engine.language import number, tr, tr_count


@dataclass(frozen=True, slots=True)
class MeasureSetup:
    """Setup of a measurement."""

    model: str
    threads: int | None
    """Threads of the engine where they were chosen; it may use fewer than there are cores."""
    cores: int
    platform: str
    """Qt's: "xcb" is an X server, "offscreen" is no screen at all."""
    theme: str
    width: int
    height: int
    scale: float
    panel: bool
    """True if the performance panel is open."""
    page: str = ""
    """The page in the place of the chat, where there is one."""


@dataclass(frozen=True, slots=True)
class Start:
    """Times from the command to a model that is ready."""

    window_s: float
    """Seconds from the start of the process to the end of the first paint."""
    ready_s: float
    """Seconds from there to the bundled model being loaded, as the window knows it."""
    stall_ms: float
    """The longest stall between the two."""
    torch_imported: bool


@dataclass(frozen=True, slots=True)
class Streaming:
    """Answers being written in the window's sight. Shares are of one core."""

    pace: float | None
    """Tokens per second that were let through; None: all that came."""
    tokens_per_s: float
    waits: Waits
    window_share: float
    screen_share: float | None


@dataclass(frozen=True, slots=True)
class Opening:
    """A long conversation, opened: until its end is painted, and the longest stall until quiet."""

    messages: int
    painted_ms: float
    stall_ms: float


@dataclass(frozen=True, slots=True)
class Searching:
    """Searches in a large history: until the hits are there to be listed."""

    megabytes: float
    median_ms: float
    slowest_ms: float


@dataclass(frozen=True, slots=True)
class Cost:
    """Share of the engine's tokens per second that the window takes.

    An answer alone (the window's thread sleeps) and the same answer shown make a pair; which comes
    first takes turns. `cost` is the median over the pairs, `low` and `high` the quartiles.
    """

    pairs: int
    tokens: int
    alone_tokens_per_s: float
    shown_tokens_per_s: float
    cost: float
    low: float
    high: float
    window_share: float
    """Processor time of the window's thread while answers were shown, in shares of one core."""
    screen_share: float | None
    """Share of the X server, which draws for the window."""

    @classmethod
    def of(
        cls, tokens: int, alone: list[float], shown: list[float], spent: Spent, seconds: float
    ) -> Cost:
        """Return the cost by both sides' tokens per second, and the time spent on the window."""
        costs = [1 - mine / other for mine, other in zip(shown, alone, strict=True)]
        low, _, high = quantiles(costs, n=4, method="inclusive") if len(costs) > 1 else costs * 3
        return cls(
            len(costs),
            tokens,
            median(alone),
            median(shown),
            median(costs),
            low,
            high,
            spent.window / seconds,
            None if spent.screen is None else spent.screen / seconds,
        )


@dataclass(frozen=True, slots=True)
class UiReport:
    """Everything; None where it was not asked for."""

    setting: MeasureSetup
    start: Start
    streaming: tuple[Streaming, ...] = ()
    opening: Opening | None = None
    searching: Searching | None = None
    cost: Cost | None = None

    def as_json(self) -> dict[str, object]:
        """Return what `--json` prints; `budgets` has every budget with its measurement."""
        budgets = {
            line.key: {"measured": line.measured, "budget": line.budget, "kept": line.kept}
            for line in self.lines()
        }
        return {**asdict(self), "budgets": budgets}

    def lines(self) -> Iterator[Line]:
        """The measured numbers that have a budget."""
        start = self.start
        yield Line("window_s", tr("Window on the screen"), start.window_s, 1.5, "s")
        yield Line("stall_loading_ms", tr("Longest stall while loading"), start.stall_ms, 50, "ms")
        for each in self.streaming:
            speed = tr("full speed")
            if each.pace is not None:
                speed = tr("{speed} tokens/s").format(speed=number(each.pace, "g"))
            key = "full" if each.pace is None else f"{each.pace:g}"
            frame = tr("Frame, 99th percentile, {speed}").format(speed=speed)
            stall = tr("Longest stall, {speed}").format(speed=speed)
            yield Line(f"frame_p99_ms_{key}", frame, each.waits.frame_p99_ms, 16, "ms")
            yield Line(f"stall_ms_{key}", stall, each.waits.stall_ms, 50, "ms")
        opening, searching, cost = self.opening, self.searching, self.cost
        if opening is not None:
            what = tr("Opening {n} messages").format(n=number(opening.messages))
            yield Line("open_ms", what, opening.painted_ms, 200, "ms")
            yield Line("stall_ms_open", tr("Longest stall, opening"), opening.stall_ms, 50, "ms")
        if searching is not None:
            what = tr("Search in {n} MB, slowest").format(n=number(searching.megabytes, ".0f"))
            yield Line("search_ms", what, searching.slowest_ms, 100, "ms")
        if cost is not None:
            yield Line("cost_percent", tr("The window's cost"), 100 * cost.cost, 3, "%")


@dataclass(frozen=True, slots=True)
class Line:
    """One number and its budget, in the same unit."""

    key: str
    what: str
    measured: float
    budget: float
    unit: str

    @property
    def kept(self) -> bool:
        """True if the budget was kept."""
        return self.measured <= self.budget


def table(report: UiReport) -> str:
    """The report for people."""
    setting = report.setting
    threads = tr("the engine's own choice of threads")
    if setting.threads:
        threads = tr_count("{n} engine thread", "{n} engine threads", setting.threads)
    cores = tr_count("{n} core", "{n} cores", setting.cores)
    where = f"{setting.platform}, {setting.theme}, {setting.width}x{setting.height}"
    where += f", {setting.page}" if setting.page else ""
    lines = [
        f"{setting.model}, {threads}, {cores}, {where}",
        "",
        left("", 42) + right(tr("measured"), 12) + right(tr("budget"), 12),
    ]
    lines += [
        left(line.what, 42)
        + right(_number(line.measured, line.unit), 12)
        + right(_number(line.budget, line.unit), 12)
        + "  "
        + (tr("kept") if line.kept else tr("OVER"))
        for line in report.lines()
    ]
    lines += ["", *_details(report)]
    return "\n".join(lines) + "\n"


def _details(report: UiReport) -> Iterator[str]:
    start, cost = report.start, report.cost
    yield tr("Model ready after {time} s.").format(time=number(start.ready_s, ".2f"))
    if start.torch_imported:
        yield tr("torch was imported.")
    for each in report.streaming:
        waits = each.waits
        yield tr(
            "At {speed} tokens/s: {n} frames, half of them within {time} ms; {shares}."
        ).format(
            speed=number(each.tokens_per_s, ".0f"),
            n=waits.frames,
            time=number(waits.frame_p50_ms, ".1f"),
            shares=_shares(each.window_share, each.screen_share),
        )
    if cost is not None:
        yield tr("Engine alone {alone} tokens/s, shown {shown}; {shares}.").format(
            alone=number(cost.alone_tokens_per_s, ".1f"),
            shown=number(cost.shown_tokens_per_s, ".1f"),
            shares=_shares(cost.window_share, cost.screen_share),
        )
        yield tr(
            "Cost {cost}, quartiles {low} to {high}, of {pairs} pairs of {tokens} tokens."
        ).format(
            cost=number(cost.cost, ".1%"),
            low=number(cost.low, ".1%"),
            high=number(cost.high, ".1%"),
            pairs=cost.pairs,
            tokens=cost.tokens,
        )


def _shares(window: float, screen: float | None) -> str:
    words = tr("the window's thread took {share} of a core").format(share=number(window, ".0%"))
    if screen is None:
        return words
    return tr("{window}, the X server {share}").format(window=words, share=number(screen, ".0%"))


def _number(value: float, unit: str) -> str:
    digits = 2 if unit == "s" else 1
    return f"{number(value, f'.{digits}f')} {unit}"

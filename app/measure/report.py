"""What `duotail bench ui` measured, beside what it should be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from statistics import median, quantiles

from app.measure.probe import Spent, Waits


@dataclass(frozen=True, slots=True)
class Setting:
    """On what it was measured."""

    model: str
    threads: int | None
    """Of the engine, where they were chosen; it may use fewer than there are cores."""
    cores: int
    platform: str
    """Qt's: "xcb" is an X server, "offscreen" is no screen at all."""
    theme: str
    width: int
    height: int
    scale: float
    panel: bool
    """Whether the performance panel is open."""


@dataclass(frozen=True, slots=True)
class Start:
    """From the command to a model that is ready."""

    window_s: float
    """From the start of the process to the end of the first paint."""
    ready_s: float
    """From there to the bundled model being loaded, as the window knows it."""
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
    """The same of the X server, which draws for the window."""

    @classmethod
    def of(
        cls, tokens: int, alone: list[float], shown: list[float], spent: Spent, seconds: float
    ) -> Cost:
        """From the tokens per second of both sides, and what was spent showing answers."""
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

    setting: Setting
    start: Start
    streaming: tuple[Streaming, ...] = ()
    opening: Opening | None = None
    searching: Searching | None = None
    cost: Cost | None = None

    def as_json(self) -> dict[str, object]:
        """What `--json` prints; every budget with what was measured is in `budgets` too."""
        budgets = {
            line.key: {"measured": line.measured, "budget": line.budget, "kept": line.kept}
            for line in self.lines()
        }
        return {**asdict(self), "budgets": budgets}

    def lines(self) -> Iterator[Line]:
        """The measured numbers that have a budget."""
        start = self.start
        yield Line("window_s", "Window on the screen", start.window_s, 1.5, "s")
        yield Line("stall_loading_ms", "Longest stall while loading", start.stall_ms, 50, "ms")
        for each in self.streaming:
            speed = "full speed" if each.pace is None else f"{each.pace:g} tokens/s"
            key = "full" if each.pace is None else f"{each.pace:g}"
            frame, stall = each.waits.frame_p99_ms, each.waits.stall_ms
            yield Line(f"frame_p99_ms_{key}", f"Frame, 99th percentile, {speed}", frame, 16, "ms")
            yield Line(f"stall_ms_{key}", f"Longest stall, {speed}", stall, 50, "ms")
        if self.opening is not None:
            what = f"Opening {self.opening.messages:,} messages"
            yield Line("open_ms", what, self.opening.painted_ms, 200, "ms")
            yield Line("stall_ms_open", "Longest stall, opening", self.opening.stall_ms, 50, "ms")
        if self.searching is not None:
            what = f"Search in {self.searching.megabytes:.0f} MB, slowest"
            yield Line("search_ms", what, self.searching.slowest_ms, 100, "ms")
        if self.cost is not None:
            yield Line("cost_percent", "The window's cost", 100 * self.cost.cost, 3, "%")


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
        """Whether the budget was kept."""
        return self.measured <= self.budget


def table(report: UiReport) -> str:
    """The report for people."""
    setting = report.setting
    threads = f"{setting.threads} engine threads" if setting.threads else "the engine's own threads"
    where = f"{setting.platform}, {setting.theme}, {setting.width}x{setting.height}"
    lines = [
        f"{setting.model}, {threads} on {setting.cores} cores, {where}",
        "",
        f"{'':<42}{'measured':>12}{'budget':>12}",
    ]
    lines += [
        f"{line.what:<42}{_number(line.measured, line.unit):>12}"
        f"{_number(line.budget, line.unit):>12}  {'kept' if line.kept else 'OVER'}"
        for line in report.lines()
    ]
    lines += ["", *_details(report)]
    return "\n".join(lines) + "\n"


def _details(report: UiReport) -> Iterator[str]:
    start = report.start
    yield f"Model ready after {start.ready_s:.2f} s" + (
        "; torch was imported" if start.torch_imported else ""
    )
    for each in report.streaming:
        waits = each.waits
        yield (
            f"At {each.tokens_per_s:.0f} tokens/s: {waits.frames} frames, "
            f"half of them within {waits.frame_p50_ms:.1f} ms; "
            + _shares(each.window_share, each.screen_share)
        )
    cost = report.cost
    if cost is not None:
        yield (
            f"Engine alone {cost.alone_tokens_per_s:.1f} tokens/s, shown "
            f"{cost.shown_tokens_per_s:.1f}: cost {cost.cost:.1%} (quartiles {cost.low:.1%} to "
            f"{cost.high:.1%}, {cost.pairs} pairs of {cost.tokens} tokens); "
            + _shares(cost.window_share, cost.screen_share)
        )


def _shares(window: float, screen: float | None) -> str:
    words = f"the window's thread took {window:.0%} of a core"
    return words if screen is None else f"{words}, the X server {screen:.0%}"


def _number(value: float, unit: str) -> str:
    digits = 2 if unit == "s" else 1
    return f"{value:.{digits}f} {unit}"

"""Pages besides the chat: names, icons, keys."""

from __future__ import annotations

from enum import StrEnum

from engine.language import later


class PageName(StrEnum):
    """Pages in the order shown; the values are texts for `tr`."""

    MODELS = later("Models")
    TUNING = later("Tuning")
    PERFORMANCE = later("Performance")
    BENCHMARK = later("Benchmark")


ICONS = {
    PageName.MODELS: "box",
    PageName.TUNING: "sliders",
    PageName.PERFORMANCE: "gauge",
    PageName.BENCHMARK: "bars",
}
KEYS = {
    PageName.MODELS: "Ctrl+5",
    PageName.TUNING: "Ctrl+2",
    PageName.PERFORMANCE: "Ctrl+3",
    PageName.BENCHMARK: "Ctrl+4",
}

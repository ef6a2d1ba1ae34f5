"""Live graphs and the draft/verify timeline. The pure models know no Qt; `panel` shows them."""

from __future__ import annotations

from app.performance.panel import PerformancePanel

__all__ = ["PerformancePanel"]

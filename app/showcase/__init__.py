"""`duotail --screenshot DIR`: every page and state as a picture, with a scripted engine."""

from __future__ import annotations

from app.showcase.tour import take_screenshots

__all__ = ["take_screenshots"]

"""Crash reports: written here, kept here, shown to the user, sent nowhere."""

from __future__ import annotations

from app.reports.folder import Report, ReportFolder, ReportKind

__all__ = ["Report", "ReportFolder", "ReportKind"]

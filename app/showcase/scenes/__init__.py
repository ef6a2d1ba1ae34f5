"""Scenes of the pictures. A scene leaves the window ready for the next one."""

from __future__ import annotations

from app.showcase.scenes import (
    asking,
    benchmark,
    first,
    fitting,
    keeping,
    memory,
    models,
    models_page,
    panels,
    performance_page,
    running,
    tuning,
    writing,
)

ALL = (
    first.first_start,
    writing.an_answer,
    writing.versions,
    writing.kinds_of_text,
    writing.scripts,
    writing.tinted,
    asking.composer,
    asking.context_full,
    keeping.folders,
    keeping.searching,
    keeping.troubles,
    keeping.no_model,
    models.choosing,
    models.loading,
    models.another_family,
    fitting.too_large,
    fitting.game,
    running.panel,
    running.troubles,
    running.side_by_side,
    tuning.machines,
    tuning.choosing,
    benchmark.benchmark,
    models_page.models_page,
    memory.strip,
    first.narrow,
    panels.performance,
    performance_page.performance_page,
    panels.dialogs,
    panels.settings,
    first.large_text,
)
"""Every scene, in the order of the walk."""

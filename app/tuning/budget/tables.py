"""The numbers behind the budget's curve. No Qt."""

from __future__ import annotations

from app.engine_link.plan_texts import mode_name
from app.tuning.budget.model import BudgetModel
from app.tuning.budget.wording import size_words
from app.widgets.table import Row, Table
from engine.language import number, tr
from engine.language.units import tokens_per_s


def of_curve(title: str, model: BudgetModel | None) -> Table:
    """Every step of every mode, that of the wish first, and what was measured."""
    columns = (
        tr("Chosen mode"),
        tr("GPU memory"),
        tr("Layers on the GPU"),
        tr("Runs as"),
        tr("Tokens/s"),
        tr("Without a draft"),
    )
    found: list[Row] = []
    for curve in model.curves if model is not None else ():
        found += [
            (
                mode_name(curve.mode),
                size_words(point.vram),
                number(point.layers_on_gpu),
                mode_name(point.mode),
                tokens_per_s(point.tokens_per_s, about=True),
                tokens_per_s(point.plain_tokens_per_s, about=True),
            )
            for point in curve.points
        ]
        if not curve.points:
            found.append((mode_name(curve.mode), curve.refusal, "", "", "", ""))
    for seen in model.measured if model is not None else ():
        size, rate = size_words(seen.vram), tokens_per_s(seen.tokens_per_s)
        name = tr("Measured {when}").format(when=seen.when_words)
        found.append((name, size, "", mode_name(seen.mode), rate, ""))
    return Table(title, columns, tuple(found))

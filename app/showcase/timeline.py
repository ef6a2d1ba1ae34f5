"""Pictures of rounds that were measured elsewhere: a table in, the timeline of the window out.

    python -m app.showcase.timeline ROUNDS.csv [...] DIR

The tables are those of `engine.bench.lanes`, as the check of a card writes them.
"""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

from PySide6.QtCore import QSize

from app.application import make_application
from app.performance.model import PerformanceModel
from app.performance.sight import Sight
from app.performance.timeline_view import TimelineView
from app.settings.language import speak
from app.showcase.stage import settle
from app.theme.theme import Theme, ThemeChoice
from engine.errors import UserFixable
from engine.events import Interval, RoundFinished
from engine.language import ENGLISH, tr

_SIZE = QSize(1200, 260)


def read_rounds(lines: Iterable[str]) -> list[RoundFinished]:
    """Return the rounds of a table.

    Raises:
        UserFixable: it is none.
    """
    rows = list(csv.DictReader(lines))
    try:
        return [
            _round(int(index), list(work))
            for index, work in groupby(rows, lambda row: row["round"])
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise UserFixable(
            tr("This is not a table of rounds: {error}.").format(error=error),
            tr("Choose one that the check of a GPU has written."),
        ) from error


def _round(index: int, work: Sequence[dict[str, str]]) -> RoundFinished:
    (verify,) = (_span(row) for row in work if row["lane"] == "verify")
    first = work[0]
    return RoundFinished(
        at=verify.end,
        request_id="measured",
        index=index,
        drafting=tuple(_span(row) for row in work if row["lane"] == "draft"),
        verify=verify,
        drafted=int(first["drafted"]),
        accepted=int(first["accepted"]),
        committed=int(first["committed"]),
        useful_s=float(first["useful_ms"]) / 1000,
        wasted_s=float(first["wasted_ms"]) / 1000,
    )


def _span(row: dict[str, str]) -> Interval:
    return Interval(float(row["start_ms"]) / 1000, float(row["end_ms"]) / 1000)


def draw(rounds: Sequence[RoundFinished], target: Path) -> None:
    """Write the timeline of these rounds as a picture; a window's application is needed."""
    model = PerformanceModel()
    for done in rounds:
        model.timeline.add(done)
        model.now = done.at
    view = TimelineView(Sight(model), roomy=True)
    view.resize(_SIZE)
    settle()
    view.grab().save(str(target))
    view.deleteLater()


def main(arguments: Sequence[str]) -> int:
    """Draw every table, light and dark; 0 where all are drawn."""
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    *tables, folder = map(Path, arguments)
    folder.mkdir(parents=True, exist_ok=True)
    application = make_application()
    speak(application, ENGLISH)
    theme = Theme(application)
    for table in tables:
        try:
            with table.open(encoding="utf-8", newline="") as lines:
                rounds = read_rounds(lines)
        except (OSError, UserFixable) as error:
            sys.stderr.write(f"{table}: {error}\n")
            return 2
        for choice in (ThemeChoice.LIGHT, ThemeChoice.DARK):
            theme.apply(choice)
            draw(rounds, folder / f"{table.stem}-{choice}.png")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

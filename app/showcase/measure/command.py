"""`duotail bench ui`: the options, a window on empty folders, and what is printed."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from app.display import check_display
from engine.errors import Absent, UserFixable
from engine.language import tr

if TYPE_CHECKING:
    from app.showcase.measure.report import UiReport
    from app.showcase.measure.window import MeasureOptions

PARTS = ("streaming", "opening", "search", "cost")
_LARGE_MB = 100


def main(argv: Sequence[str]) -> int:
    """Measure, print, and return the exit code."""
    options = make_parser().parse_args(argv)
    try:
        return _run(options)
    except UserFixable as error:
        sys.stderr.write(f"{error}\n")
        if options.json:
            answer = {"error": error.cause, "remedy": error.remedy}
            sys.stdout.write(json.dumps(answer) + "\n")
        from engine.cli.exit_code import ExitCode  # it imports the whole engine

        return ExitCode.ABSENT if isinstance(error, Absent) else ExitCode.BAD_INPUT


def _run(options: argparse.Namespace) -> int:
    check_display(os.environ)
    if options.threads:
        os.environ["DUOTAIL_THREADS"] = str(options.threads)
    # Only now: the window's modules take a while, and the environment had to be set before.
    from PySide6.QtWidgets import QApplication

    from app.application import Assembly, make_application, run
    from app.data_folder.paths import Paths
    from app.showcase.measure.engine import Tap

    tap = Tap(options.tokens)
    taken: list[UiReport] = []
    failed: list[UserFixable] = []

    def opened(assembly: Assembly) -> None:
        on_screen = time.perf_counter()
        from app.showcase.measure.window import Measurement  # a start has none of this to import

        measurement = Measurement(assembly, tap, on_screen)
        try:
            taken.append(measurement.take(_wishes(options)))
        except UserFixable as error:
            failed.append(error)
        finally:
            QApplication.quit()

    with tempfile.TemporaryDirectory(prefix="duotail-measure-") as folder:
        paths = Paths(Path(folder), Path(folder))
        make_application()
        _choose(paths.settings, options)
        code = run(paths, tap.make, opened)
    if failed:
        raise failed[0]
    if not taken:
        return code or 1
    from app.showcase.measure.report import table

    report = taken[0]
    sys.stdout.write(json.dumps(report.as_json()) + "\n" if options.json else table(report))
    return code


def _wishes(options: argparse.Namespace) -> MeasureOptions:
    from app.engine_link.background import numpy_whole

    numpy_whole()  # the engine is being imported in another thread
    from app.shell.page_names import PageName
    from app.showcase.measure.random_model import shape_path
    from app.showcase.measure.window import MeasureOptions
    from engine.hub.local import default_target

    parts = options.only or PARTS
    paces: tuple[float | None, ...] = (float(options.pace), None)
    return MeasureOptions(
        model=shape_path(options.shape) if options.shape else options.model or default_target(),
        threads=options.threads,
        theme=options.theme,
        seconds=options.seconds,
        paces=paces if "streaming" in parts else (),
        messages=options.messages if "opening" in parts else 0,
        megabytes=options.large or 0 if "search" in parts else 0,
        pairs=options.pairs if "cost" in parts else 0,
        panel=not options.no_panel,
        page=PageName[options.page.upper()] if options.page else None,
    )


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of `duotail bench ui`."""
    parser = argparse.ArgumentParser(
        prog="duotail bench ui",
        description=tr(
            "Measure what the window costs: start, stalls, frames, and engine speed beside it."
            " Opens a real window on empty folders; leave it alone until it closes."
        ),
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--model",
        type=Path,
        metavar="DIR",
        help=tr("the target model (default: the starter model)"),
    )
    which.add_argument(
        "--shape", metavar="S", help=tr("random weights of a published shape, such as qwen2.5-1.5b")
    )
    parser.add_argument(
        "--threads", type=_count, metavar="N", help=tr("number of CPU threads of the engine")
    )
    parser.add_argument(
        "--theme",
        choices=("light", "dark"),
        default="light",
        help=tr("theme of the window (default: light)"),
    )
    parser.add_argument(
        "--size",
        type=_size,
        default=(1280, 800),
        metavar="WxH",
        help=tr("size of the window in pixels (default: 1280x800)"),
    )
    parser.add_argument("--no-panel", action="store_true", help=tr("close the performance panel"))
    parser.add_argument(
        "--page", choices=("performance", "tuning"), help=tr("show this page instead of the chat")
    )
    _add_measurements(parser)
    parser.add_argument("--json", action="store_true", help=tr("print one JSON object on stdout"))
    return parser


def _add_measurements(parser: argparse.ArgumentParser) -> None:
    """Declare which parts are measured, and how much of each."""
    parser.add_argument(
        "--only",
        choices=PARTS,
        action="append",
        help=tr("measure only this part, and the start; may be given several times"),
    )
    parser.add_argument(
        "--large",
        type=_count,
        nargs="?",
        const=_LARGE_MB,
        metavar="MB",
        help=tr("also measure the search in this many megabytes of conversations"),
    )
    pairs = tr("measure what the window costs the engine with this many pairs of answers")
    for name, usual, about in (
        ("pace", 200, tr("stream this many tokens per second (default: 200), then at full speed")),
        ("messages", 10_000, tr("open a conversation of this many messages (default: 10000)")),
        ("pairs", 7, pairs),
        ("tokens", 900, tr("generate this many tokens per answer")),
        ("seconds", 6, tr("measure every speed of streaming for this many seconds")),
    ):
        parser.add_argument(f"--{name}", type=_count, default=usual, metavar="N", help=about)


def _count(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(
            tr("{text} is not a whole number of 1 or more").format(text=repr(text))
        )
    return number


def _size(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{3,4})x(\d{3,4})", text)
    if match is None:
        raise argparse.ArgumentTypeError(
            tr("{text} is not a size such as 1280x800").format(text=repr(text))
        )
    return int(match[1]), int(match[2])


def _choose(settings: Path, options: argparse.Namespace) -> None:
    """Write the settings that the window starts with."""
    from app.settings import SettingsStore
    from app.settings.presets import PRECISE
    from app.theme.theme import ThemeChoice

    width, height = options.size
    store = SettingsStore(settings)
    store.change(
        theme=ThemeChoice(options.theme),
        window_width=width,
        window_height=height,
        default_preset=PRECISE.name,  # as the engine alone answers
    )
    store.flush()

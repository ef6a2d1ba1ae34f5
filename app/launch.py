"""The `duotail` command: opens the window, or hands a sub-command to the engine's own interface."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from app.paths import find_paths

COMMANDS = ("chat", "bench", "plan", "models", "train-draft")


def main(argv: list[str] | None = None) -> int:
    """Run Duotail; the exit code."""
    arguments = sys.argv[1:] if argv is None else argv
    if arguments and arguments[0] in COMMANDS:
        from engine.cli import main as command_line

        return command_line(arguments)
    options = _parser().parse_args(arguments)
    paths = find_paths(options.data_dir)
    if options.screenshot is not None:
        from app.screenshots import take_screenshots

        return take_screenshots(options.screenshot)
    if options.measure_window is not None:
        from app.measure import measure_window

        return measure_window(options.measure_window, options.model)
    from app.application import run

    return run(paths)


def _parser() -> argparse.ArgumentParser:
    from app.version import version

    parser = argparse.ArgumentParser(
        prog="duotail",
        description="Chat with large language models on your own computer.",
        epilog="Without a command the window opens. Commands: " + ", ".join(COMMANDS) + ".",
    )
    parser.add_argument("--version", action="version", version=f"duotail {version()}")
    parser.add_argument(
        "--data-dir",
        metavar="DIR",
        help="keep conversations, settings and logs in DIR (also: DUOTAIL_DATA_DIR)",
    )
    parser.add_argument(
        "--screenshot",
        metavar="DIR",
        type=Path,
        help="draw every page and state into PNG files in DIR and exit",
    )
    # For developers: what the window costs, as one JSON object. --json is what it always does.
    parser.add_argument(
        "--measure-window",
        metavar="ROUNDS",
        type=_rounds,
        nargs="?",
        const=5,
        help=argparse.SUPPRESS,
    )
    parser.add_argument("--model", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help=argparse.SUPPRESS)
    return parser


def _rounds(text: str) -> int:
    rounds = int(text)
    if rounds < 1:
        raise argparse.ArgumentTypeError("at least one round")
    return rounds

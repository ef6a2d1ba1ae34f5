"""What commands print: tables, one object with `--json`, a line of progress."""

from __future__ import annotations

import argparse
import json
import sys
import unicodedata
from collections.abc import Collection, Iterable, Sequence

from engine.cli.exit_code import ExitCode
from engine.language import number


def show(arguments: argparse.Namespace, answer: object, lines: Iterable[str]) -> ExitCode:
    """Print what a command has found: with `--json` as one object, else as lines."""
    printed = [json.dumps(answer)] if arguments.json else lines
    sys.stdout.writelines(f"{line}\n" for line in printed)
    return ExitCode.DONE


def show_progress(line: str) -> None:
    """Write a line in the place of the last one to standard error, if that is a terminal."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{line}")
        sys.stderr.flush()


def table(rows: Sequence[Sequence[str]], texts: Collection[int] = (0,)) -> list[str]:
    """Return the lines of a table whose columns are as wide as their widest cells.

    Args:
        rows: cells of every row, the titles first.
        texts: columns that begin at the left; those of numbers end at the right.
    """
    widths = [max(map(width, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            (left if column in texts else right)(cell, cells)
            for column, (cell, cells) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def or_dash(value: float | None, spec: str) -> str:
    """Return a figure of a table; a dash where there is none."""
    return "-" if value is None else number(value, spec)


def width(text: str) -> int:
    """Return how many cells of a terminal `text` takes; a Chinese character takes two."""
    return sum(
        2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
        if not unicodedata.combining(character)
    )


def left(text: str, cells: int) -> str:
    """Pad `text` at the right to `cells` cells of a terminal."""
    return text + " " * (cells - width(text))


def right(text: str, cells: int) -> str:
    """Pad `text` at the left to `cells` cells of a terminal."""
    return " " * (cells - width(text)) + text

"""The prompt of `duotail chat`: --prompt, standard input behind it, and files."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from engine.errors import UserFixable
from engine.language import tr

STANDARD_INPUT = "-"
"""This value of --prompt says that the prompt is on standard input."""


def add_prompt_options(parser: argparse.ArgumentParser) -> None:
    """Declare what `prompt_text` reads."""
    parser.add_argument(
        "--prompt",
        metavar="TEXT",
        help=tr("the prompt; what is on standard input follows it (-: standard input alone)"),
    )
    parser.add_argument(
        "--file",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help=tr("add this text file to the prompt; may be given several times"),
    )


def is_interactive(arguments: argparse.Namespace) -> bool:
    """Tell whether prompts are typed on a terminal."""
    return arguments.prompt is None and not arguments.json and at_terminal()


def prompt_text(arguments: argparse.Namespace) -> str:
    """Return the prompt.

    Raises:
        UserFixable: it is empty, or not UTF-8, or a file cannot be read.
    """
    text = "\n\n".join(filter(str.strip, _parts(arguments)))
    if not text.strip():
        raise UserFixable(
            tr("The prompt is empty."), tr("Give a text with --prompt or on standard input.")
        )
    return text


def files_text(files: list[Path]) -> str:
    """Return files as a prompt holds them, each behind its name.

    Raises:
        UserFixable: one cannot be read, or is no text.
    """
    return "\n\n".join(f"{file.name}:\n\n{_file(file)}" for file in files)


def _parts(arguments: argparse.Namespace) -> Iterator[str]:
    prompt: str | None = arguments.prompt
    if prompt is not None and prompt != STANDARD_INPUT:
        # The shell's bytes that were not UTF-8 arrive as lone surrogates.
        yield _decoded(prompt.encode("utf-8", "surrogateescape"))
    if prompt in (None, STANDARD_INPUT) or not at_terminal():
        yield _decoded(_standard_input()).removesuffix("\n")
    yield files_text(arguments.file)


def at_terminal() -> bool:
    """Tell whether standard input is a terminal."""
    return sys.stdin is not None and sys.stdin.isatty()


def _standard_input() -> bytes:
    try:
        return sys.stdin.buffer.read() if sys.stdin is not None else b""
    except OSError:  # it was closed before the program began
        return b""


def _decoded(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserFixable(
            tr("The prompt is not valid UTF-8 text (byte {start}).").format(start=error.start),
            tr("Convert it to UTF-8 and try again."),
        ) from error


def _file(file: Path) -> str:
    try:
        return file.read_text("utf-8-sig").strip("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UserFixable(
            tr("The file “{name}” cannot be read.").format(name=file.name),
            tr("Name a text file in UTF-8."),
            str(error),
        ) from error

"""The prompt of `duotail chat`: --prompt, standard input behind it, and files."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from engine.cli.standard_input import at_terminal, read_all, read_if_it_comes
from engine.errors import UserFixable
from engine.language import tr

STANDARD_INPUT = "-"
"""This value of --prompt says that the prompt is on standard input."""


def add_prompt_options(parser: argparse.ArgumentParser) -> None:
    """Declare what `prompt_text` reads."""
    parser.add_argument(
        "--prompt",
        metavar="TEXT",
        help=tr(
            "the prompt; what comes on standard input follows it, if it begins within three "
            "seconds (-: standard input alone, however long that takes)"
        ),
    )
    parser.add_argument(
        "--file",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help=tr(
            "add this text file to the prompt (-: standard input, however long that takes); may be "
            "given several times"
        ),
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
    return "\n\n".join(map(_named, files))


def _parts(arguments: argparse.Namespace) -> Iterator[str]:
    prompt: str | None = arguments.prompt
    if prompt is not None and prompt != STANDARD_INPUT:
        # The shell's bytes that were not UTF-8 arrive as lone surrogates.
        yield _decoded(prompt.encode("utf-8", "surrogateescape"))
    if prompt == STANDARD_INPUT or (prompt is None and not arguments.file):
        yield _decoded(read_all()).removesuffix("\n")
    elif Path(STANDARD_INPUT) not in arguments.file and not at_terminal():
        yield _beside()
    yield files_text(arguments.file)


def _beside() -> str:
    """Return what is on standard input beside a prompt or files."""
    found = read_if_it_comes()
    if found is None:
        left_out = tr("Nothing came on standard input, so it is left out; “--file -” waits for it.")
        sys.stderr.write(left_out + "\n")
        return ""
    return _decoded(found).removesuffix("\n")


def _decoded(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserFixable(
            tr("The prompt is not valid UTF-8 text (byte {start}).").format(start=error.start),
            tr("Convert it to UTF-8 and try again."),
        ) from error


def _named(file: Path) -> str:
    if file == Path(STANDARD_INPUT):
        return _decoded(read_all()).removesuffix("\n")
    return f"{file.name}:\n\n{_file(file)}"


def _file(file: Path) -> str:
    try:
        return file.read_text("utf-8-sig").strip("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UserFixable(
            tr("The file “{name}” cannot be read.").format(name=file.name),
            tr("Name a text file in UTF-8."),
            str(error),
        ) from error

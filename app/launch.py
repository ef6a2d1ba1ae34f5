"""The `duotail` command: opens the window, or hands a sub-command to the engine's own interface.

`bench ui` stays here: the engine knows of no window that it could measure.
"""

from __future__ import annotations

import argparse
import gc
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from app.data_folder.paths import absolute_path, find_paths
from app.display import check_display
from engine import language
from engine.errors import Absent
from engine.language import LANGUAGES, listed, tr

_LARGEST_GPU = 10_000
_BROKEN, _NO_DISPLAY, _INTERRUPTED, _READER_GONE = 1, 3, 130, 141
"""Exit codes, as in `engine.cli.exit_code`."""
COMMANDS = (
    *("chat", "serve", "bench", "plan", "hardware", "models", "train-draft", "pytorch"),
    "completion",
)
"""Sub-commands that need no window; known here without importing the engine."""


def main(argv: list[str] | None = None) -> int:
    """Run Duotail and return the exit code."""
    _take_every_letter()
    try:
        return _run(sys.argv[1:] if argv is None else argv)
    except KeyboardInterrupt:  # before anybody else hears of it
        return _INTERRUPTED
    except BrokenPipeError:
        # The interpreter flushes standard output once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _READER_GONE


def _take_every_letter() -> None:
    """Files and pipes get UTF-8 instead of a code page, as Windows has; terminals keep theirs."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.encoding.lower() != "utf-8":
            encoding = stream.encoding if stream.isatty() else "utf-8"
            stream.reconfigure(encoding=encoding, errors="replace")


def _run(arguments: list[str]) -> int:
    if arguments[:2] == ["bench", "ui"]:
        from app.showcase.measure.command import main as measure

        gc.disable()
        return measure(arguments[2:])
    if arguments and arguments[0] in COMMANDS:
        from engine.cli import main as command_line

        return command_line(arguments, find_paths().data)
    language.use(language.of_environment(os.environ))
    options = make_parser().parse_args(arguments)
    paths = find_paths(options.data_dir)
    if options.screenshot is not None:
        from app.showcase.tour import take_screenshots

        return take_screenshots(options.screenshot, options.language)
    try:
        check_display(os.environ)
    except Absent as error:
        sys.stderr.write(f"{error}\n")
        return _NO_DISPLAY
    gc.disable()  # what a start makes stays, nearly all; later `app.garbage` collects
    try:
        from app.application import run
    except ImportError as error:
        sys.stderr.write(_incomplete(error))
        return _BROKEN
    return run(
        paths,
        language=options.language,
        model=options.model,
        measure=True,
        simulate_gpu=options.simulate_gpu,
        device=options.device,
    )


def _incomplete(error: ImportError) -> str:
    """Say that files are missing: Qt's, a package's, or a library of the system."""
    cause = tr("Duotail is not installed completely: {reason}.").format(reason=error)
    remedy = tr("Install it again; conversations and settings stay.")
    return f"{cause}\n{remedy}\n"


class _Version(argparse._VersionAction):  # noqa: SLF001 - for its help
    """Looks the version up when it is asked for: a start has no use for it."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[object] | None,
        option_string: str | None = None,
    ) -> None:
        from app.version import version

        self.version = f"duotail {version()}"
        super().__call__(parser, namespace, values, option_string)


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the options that `duotail` takes without a sub-command."""
    parser = argparse.ArgumentParser(
        prog="duotail",
        description=tr("Chat with large language models on your own computer."),
        epilog=tr(
            "Without a command, the window opens. Commands: {commands}. “duotail bench ui” "
            "measures the window."
        ).format(commands=listed(COMMANDS)),
    )
    parser.add_argument(
        "model",
        nargs="?",
        type=_model,
        metavar="MODEL",
        help=tr("open the window with this model: a GGUF file, or a folder with a model"),
    )
    parser.add_argument("--version", action=_Version)
    parser.add_argument(
        "--data-dir",
        metavar="DIR",
        help=tr("keep conversations, settings and logs in DIR (also: DUOTAIL_DATA_DIR)"),
    )
    parser.add_argument(
        "--screenshot",
        metavar="DIR",
        type=Path,
        help=tr("save a picture of every page and state to DIR, then exit"),
    )
    parser.add_argument(
        "--language",
        metavar="CODE",
        default="",
        help=tr("use this language instead of the one in the settings: {codes}").format(
            codes=listed(LANGUAGES)
        ),
    )
    parser.add_argument(
        "--simulate-gpu",
        metavar="GIB",
        type=_gibibytes,
        help=tr("simulate a GPU with this much memory, in GiB, on the CPU"),
    )
    parser.add_argument(
        "--device",
        metavar="NAME",
        help=tr("use this device, such as webgpu:0; `duotail hardware` lists them"),
    )
    return parser


def _model(text: str) -> Path:
    """Parse the path of a file or folder that exists."""
    path = Path(text)
    if not path.exists():
        raise argparse.ArgumentTypeError(
            tr("“{text}” is neither a command nor a file").format(text=text)
        )
    return absolute_path(path)


def _gibibytes(text: str) -> int:
    """Parse a size in GiB above 0; returns bytes."""
    size = float(text)
    if not 0 < size < _LARGEST_GPU:
        raise ValueError(text)
    return round(size * 2**30)

"""`duotail pytorch`: download PyTorch, which training and a few models need."""

from __future__ import annotations

import argparse
from importlib import metadata
from threading import Event

from engine.cli.exit_code import ExitCode, on_interrupt
from engine.cli.options import add_options
from engine.cli.output import show, show_progress
from engine.errors import Cancelled
from engine.hub.pytorch_download import download_pytorch, is_complete
from engine.language import number, tr
from engine.pytorch import PACKAGES


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the sub-command."""
    parser = commands.add_parser(
        "pytorch", help=tr("download PyTorch, which training and a few models need")
    )
    parser.add_argument(
        "--cuda", action="store_true", help=tr("take the large build for NVIDIA GPUs")
    )
    add_options(parser, "--json")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> ExitCode:
    """Download what is missing."""
    stop = Event()
    if not is_complete(cuda=arguments.cuda):
        with on_interrupt(stop.set):
            try:
                download_pytorch(_tell, stop.is_set, cuda=arguments.cuda)
            except Cancelled:
                return ExitCode.INTERRUPTED
            finally:
                show_progress("")
    versions = {name: metadata.version(name) for name in PACKAGES}
    words = tr("PyTorch {version} is installed.").format(version=versions["torch"])
    return show(arguments, versions, [words])


def _tell(stage: str, fraction: float) -> None:
    show_progress(f"{number(fraction, '.0%')} {stage}")

"""`duotail models` and its actions."""

from __future__ import annotations

import argparse

from engine.cli import hub, kept_models, models
from engine.language import tr

ACTIONS = ("here", "search", "show", "list", "download", "rm", "ps")
"""Words after `duotail models` that are no path."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the sub-command."""
    parser = commands.add_parser(
        "models", help=tr("list the models on this computer, or use the hub")
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for module in (models, hub, kept_models):
        module.add_parser(actions)


def completed(argv: list[str]) -> list[str]:
    """Put in the action that `duotail models` has without one; a folder is written `./list`."""
    if argv[:1] == ["models"] and argv[1:2] not in ([each] for each in (*ACTIONS, "-h", "--help")):
        return ["models", "here", *argv[1:]]
    return argv

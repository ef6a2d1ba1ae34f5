"""`duotail models`: the models that come with Duotail."""

from __future__ import annotations

import argparse
import json
import sys

from engine.cli.exit_code import ExitCode
from engine.hub.local import ModelFolder, bundled_names, resolve_model


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the sub-command."""
    parser = commands.add_parser("models", help="list the bundled models")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> ExitCode:
    """List and print."""
    models = [(name, ModelFolder.inspect(resolve_model(name))) for name in bundled_names()]
    if arguments.json:
        rows = [
            {"name": name, "title": model.name, "path": str(model.path)} for name, model in models
        ]
        sys.stdout.write(json.dumps({"models": rows}) + "\n")
    else:
        for name, model in models:
            sys.stdout.write(f"{name:<20} {model.name:<20} {model.path}\n")
    return ExitCode.DONE

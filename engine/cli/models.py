"""`duotail models`: the models that come with Duotail, and the cache of quantised weights."""

from __future__ import annotations

import argparse
import json
import sys

from engine.backend.native.packed_cache import PackedCache
from engine.cli.exit_code import ExitCode
from engine.hub.local import ModelFolder, bundled_names, resolve_model
from engine.language import tr


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the sub-command."""
    parser = commands.add_parser("models", help=tr("list the bundled models"))
    parser.add_argument(
        "--clear-cache",
        action="store_true",
        help=tr("delete the quantised weights kept on disk (they are made anew when needed)"),
    )
    parser.add_argument("--json", action="store_true", help=tr("one JSON object on stdout"))
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> ExitCode:
    """List and print."""
    cache = PackedCache()
    freed = cache.clear() if arguments.clear_cache else 0
    models = [(name, ModelFolder.inspect(resolve_model(name))) for name in bundled_names()]
    held = {"path": str(cache.folder), "bytes": cache.usage(), "freed_bytes": freed}
    if arguments.json:
        rows = [
            {"name": name, "title": model.name, "path": str(model.path)} for name, model in models
        ]
        sys.stdout.write(json.dumps({"models": rows, "cache": held}) + "\n")
        return ExitCode.DONE
    for name, model in models:
        sys.stdout.write(f"{name:<20} {model.name:<20} {model.path}\n")
    kept = tr("{kept:.1f} GB of quantised weights in {folder}")
    if freed:
        kept = tr("{kept:.1f} GB of quantised weights in {folder}, {freed:.1f} GB deleted")
    sizes = {"kept": cache.usage() / 1e9, "freed": freed / 1e9}
    sys.stdout.write(kept.format(**sizes, folder=cache.folder) + "\n")
    return ExitCode.DONE

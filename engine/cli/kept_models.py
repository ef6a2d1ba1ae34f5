"""`duotail models rm` and `ps`: models that are deleted, and those that are held in memory."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from time import time

from engine.cli.exit_code import ExitCode
from engine.cli.hub import data_folder
from engine.cli.options import add_options
from engine.cli.output import show, table
from engine.errors import UserFixable
from engine.hub.shelf.names import model_named
from engine.hub.shelf.removal import ModelDeletion, delete, deletion
from engine.hub.shelf.shelf import ModelShelf
from engine.language import tr, tr_count
from engine.language.units import duration, file_size
from engine.server.running import running


def add_parser(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the actions."""
    remove = actions.add_parser("rm", help=tr("delete a model from this computer"))
    remove.add_argument(
        "name", metavar="NAME|PATH", help=tr("the model, by a name that “models list” shows")
    )
    remove.add_argument(
        "--yes", action="store_true", help=tr("delete without asking what will be deleted first")
    )
    add_options(remove, "--json")
    remove.set_defaults(run=_remove)
    running_ = actions.add_parser(
        "ps", help=tr("list the models that windows and “duotail serve” hold")
    )
    add_options(running_, "--json")
    running_.set_defaults(run=_running)


def _remove(arguments: argparse.Namespace) -> ExitCode:
    shelf = ModelShelf(data_folder(arguments))
    model = shelf.describe(model_named(arguments.name, shelf.folder.parent))
    found = deletion(model, shelf)
    if not arguments.yes and not _agrees(model.name, found):
        raise UserFixable(tr("Nothing was deleted."), tr("Add --yes to delete without a question."))
    freed = delete(found, shelf, ())
    answer = {"path": str(model.path), "files": list(map(str, found.files)), "freed_bytes": freed}
    deleted = tr("{model} is deleted: {size} are free again.")
    return show(arguments, answer, [deleted.format(model=model.name, size=file_size(freed))])


def _agrees(name: str, found: ModelDeletion) -> bool:
    """Ask at the terminal; nobody there agrees to nothing."""
    if sys.stdin is None or not sys.stdin.isatty():
        return False
    files = tr_count("{n} file", "{n} files", len(found.files))
    question = tr("Delete {model} ({files}, {size})? [y/N]")
    sys.stderr.write(question.format(model=name, files=files, size=file_size(found.nbytes)) + " ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes", tr("yes"))


def _running(arguments: argparse.Namespace) -> ExitCode:
    servers = running(data_folder(arguments))
    head = (tr("Model"), tr("Process"), tr("Address"), tr("Since"))
    rows = [
        (each.model, str(each.pid), each.url or tr("window"), duration(max(time() - each.since, 0)))
        for each in servers
    ]
    lines = table([head, *rows], texts=(0, 2, 3)) if rows else [tr("No model is loaded.")]
    return show(arguments, {"servers": [asdict(each) for each in servers]}, lines)

"""`duotail models`: the bundled ones and those in folders, and the cache of quantised weights."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from engine.backend.native.packed_cache import PackedCache
from engine.cli.exit_code import ExitCode
from engine.cli.options import add_options
from engine.cli.output import show, table
from engine.hub.local import bundled_models
from engine.hub.own_drafts import drafts_here
from engine.hub.shelf.names import model_named
from engine.language import listed, tr
from engine.language.units import file_size
from engine.model.file_notes import file_notes
from engine.model.heads.description import DraftOnly
from engine.model.local_model import LocalModel
from engine.model.model_files import SeveralModels


def add_parser(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the action."""
    parser = actions.add_parser(
        "here", help=tr("list the bundled models and those in folders, as without an action")
    )
    parser.add_argument(
        "paths", nargs="*", metavar="PATH", help=tr("a folder with models, or a GGUF file")
    )
    parser.add_argument(
        "--clear-cache",
        action="store_true",
        help=tr("delete the quantised weights cached on disk; they are rebuilt when needed"),
    )
    add_options(parser, "--json")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> ExitCode:
    """List and print."""
    cache = PackedCache()
    freed = cache.clear() if arguments.clear_cache else 0
    models = [(name, LocalModel.inspect(path)) for name, path in bundled_models().items()]
    for path in arguments.paths:
        models += [(str(model.path), model) for model in _models_at(model_named(path))]
    held = {"path": str(cache.folder), "bytes": cache.usage(), "freed_bytes": freed}
    rows = [
        (name, each.name, each.kind, file_size(each.weight_bytes), f"{each.path}{_draft_for(each)}")
        for name, each in models
    ]
    kept = tr("{kept:.1f} GB of quantised weights in {folder}")
    if freed:
        kept = tr("{kept:.1f} GB of quantised weights in {folder}, {freed:.1f} GB deleted")
    sizes = {"kept": cache.usage() / 1e9, "freed": freed / 1e9}
    notes = [f"{each.name}: {note}" for _, each in models for note in file_notes(each)]
    lines = [*table(rows, texts=range(5)), *notes, kept.format(**sizes, folder=cache.folder)]
    answer = {"models": [_row(name, model) for name, model in models], "cache": held}
    return show(arguments, answer, lines)


def _models_at(path: Path) -> Iterator[LocalModel]:
    """Yield the model that a path names, or all that a folder of GGUF files holds."""
    try:
        yield LocalModel.inspect(path)
    except SeveralModels as several:
        for file in several.files:
            yield LocalModel.inspect(file)


def _drafts(model: LocalModel) -> tuple[Path, ...]:
    """Return what drafts for a model by itself: its own, or those that lie on this disk."""
    if model.draft is not None:
        return (model.draft,)
    return tuple(each.path for each in drafts_here(model, lambda: model.tokens().ids))


def _draft_for(model: LocalModel) -> str:
    """Return for which target a head was made, or what drafts for a model."""
    head = model.config
    if not isinstance(head, DraftOnly):
        names = listed(path.name for path in _drafts(model))
        return " (" + tr("drafts: {names}").format(names=names) + ")" if names else ""
    if not head.is_head:
        said = tr("draft for {target}").format(target=head.target) if head.target else tr("draft")
        return f" ({said})"
    if not head.target:
        return " (" + tr("draft head") + ")"
    return " (" + tr("draft head for {target}").format(target=head.target) + ")"


def _row(name: str, model: LocalModel) -> dict[str, object]:
    head = model.config if isinstance(model.config, DraftOnly) else None
    return {
        "name": name,
        "title": model.name,
        "path": str(model.path),
        "kind": model.kind,
        "bytes": model.weight_bytes,
        "head": head.kind if head else None,
        "target": head.target or None if head else None,
        "drafts": [] if head else [str(path) for path in _drafts(model)],
        "notes": list(file_notes(model)),
    }

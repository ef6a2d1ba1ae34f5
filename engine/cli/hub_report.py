"""Models of the hub and of this computer, for people and for scripts."""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from engine.cli.output import table
from engine.hub.messages import FoundRepository, Repository, Variant
from engine.hub.shelf.kept_model import KeptModel
from engine.language import listed, number, sentences, tr, tr_count
from engine.language.units import file_size

Models = Sequence[FoundRepository]

_UNITS = ((1e9, "B"), (1e6, "M"), (1e3, "k"))


def write_found(found: Models, *, as_json: bool) -> None:
    """Write a list of the hub's models."""
    if as_json:
        _write({"models": [_found(each) for each in found]})
        return
    if not found:
        _lines([tr("No models found.")])
        return
    rows = [
        (
            each.repo,
            listed(str(packaging) for packaging in each.packagings) or tr("not usable"),
            "" if each.parameters is None else _short(each.parameters),
            _short(each.downloads),
            sentences(each.licence or "", tr("(terms)") if each.gated else ""),
        )
        for each in found
    ]
    head = (tr("Model"), tr("Format"), tr("Parameters"), tr("Downloads"), tr("Licence"))
    _lines(table([head, *rows], texts=(0, 1, 4)))


def write_repository(repository: Repository, page: str, *, as_json: bool) -> None:
    """Write everything that a repository has."""
    if as_json:
        _write(_repository(repository))
        return
    found = repository.found
    lines = [tr("{repo}, revision {revision}").format(
        repo=found.repo, revision=repository.revision[:12]
    )]  # fmt: skip
    if found.parameters:
        lines.append(tr("{n} parameters").format(n=_short(found.parameters)))
    if repository.context:
        lines.append(tr_count("{n} token of context", "{n} tokens of context", repository.context))
    licence = [found.licence or tr("not specified"), repository.licence_link or ""]
    lines.append(tr("Licence: {name}").format(name=" ".join(licence).rstrip()))
    if found.gated:
        lines.append(tr("Accept its terms first, at {address}.").format(address=page))
    if not repository.has_template and repository.variants:
        lines.append(tr("It has no chat template."))
    rows = [
        (each.name, str(each.packaging), file_size(each.nbytes), _files(each))
        for each in repository.variants
    ]
    lines += (
        ["", *table(rows, texts=(0, 1, 3))]
        if rows
        else [tr("Duotail can use none of its variants.")]
    )
    if repository.unusable:
        lines += ["", tr("Left out:"), *(f"  {line}" for line in repository.unusable)]
    _lines(lines)


def write_kept(models: Iterable[KeptModel], *, as_json: bool) -> None:
    """Write the models on this computer."""
    if as_json:
        _write({"models": [_kept(model) for model in models]})
        return
    rows = [
        (model.name, model.kind, file_size(model.weight_bytes), model.problem or str(model.path))
        for model in models
    ]
    _lines(table(rows, texts=(0, 1, 3)))


def write_fetched(repository: Repository, variant: Variant, path: Path, *, as_json: bool) -> None:
    """Write what has been fetched, and where it lies."""
    if as_json:
        _write(
            {
                "path": str(path),
                "repo": repository.found.repo,
                "revision": repository.revision,
                "variant": variant.name,
                "bytes": variant.nbytes,
            }
        )
        return
    _lines([str(path)])


def _found(found: FoundRepository) -> dict[str, object]:
    return {**asdict(found), "packagings": [str(each) for each in found.packagings]}


def _repository(repository: Repository) -> dict[str, object]:
    return {
        **_found(repository.found),
        "revision": repository.revision,
        "licence_link": repository.licence_link,
        "context": repository.context,
        "has_template": repository.has_template,
        "variants": [
            {
                "name": each.name,
                "packaging": str(each.packaging),
                "bytes": each.nbytes,
                "weight_bytes": each.weight_bytes,
                "files": [asdict(file) for file in each.files],
            }
            for each in repository.variants
        ],
        "unusable": list(repository.unusable),
    }


def _kept(model: KeptModel) -> dict[str, object]:
    return {
        **asdict(model),
        "path": str(model.path),
        "origin": str(model.origin),
        "draft": None if model.draft is None else str(model.draft),
    }


def _files(variant: Variant) -> str:
    return tr_count("{n} file", "{n} files", len(variant.files))


def _short(count: int) -> str:
    """Return a large number in few letters."""
    for size, unit in _UNITS:
        if count >= size:
            return number(count / size, ".1f" if count < 99.95 * size else ",.0f") + unit
    return number(count)


def _lines(lines: Iterable[str]) -> None:
    sys.stdout.writelines(f"{_printable(line)}\n" for line in lines)


def _printable(line: str) -> str:
    """Return a line in which nothing that a stranger wrote commands the terminal."""
    return "".join(
        sign
        if sign.isprintable() or unicodedata.category(sign) == "Zs"
        else "\N{REPLACEMENT CHARACTER}"
        for sign in line
    )


def _write(answer: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")

"""The models that Ollama keeps: manifests by name and tag, files by their hash."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from engine.errors import UserFixable
from engine.hub.shelf.kept_model import ModelOrigin
from engine.hub.shelf.searching import FoundModel, ShelfSearch
from engine.model.json_object import JsonObject

_MODEL, _LICENCE = (f"application/vnd.ollama.image.{what}" for what in ("model", "license"))
_DIGEST = re.compile(r"sha256[:-]([0-9a-f]{64})", re.ASCII)
_USUAL = "registry.ollama.ai"
_LIBRARY = "library"
_DEPTH = 4
_MOST_MANIFEST = 1 << 20
_SERVICE = Path("/usr/share/ollama/.ollama/models")
"""Where it is on Linux when it runs as a service."""


def ollama_models(
    search: ShelfSearch, home: Path, environment: Mapping[str, str]
) -> Iterator[FoundModel]:
    """All whose weights are one GGUF file; `home`: the user's folder."""
    for root in _roots(home, environment):
        manifests = root / "manifests"
        for manifest in search.files_below(manifests, _DEPTH):
            found = _read(root, manifests, manifest)
            if found is not None:
                yield found


def is_blob(path: Path) -> bool:
    """Whether this is one of Ollama's own files, which its manifests name by their hash."""
    return path.parent.name == "blobs" and _DIGEST.fullmatch(path.name) is not None


def _roots(home: Path, environment: Mapping[str, str]) -> list[Path]:
    chosen = environment.get("OLLAMA_MODELS", "")
    if chosen and "\0" not in chosen and Path(chosen).is_absolute():
        return [Path(chosen)]
    return [home / ".ollama" / "models", _SERVICE]


def _read(root: Path, manifests: Path, manifest: Path) -> FoundModel | None:
    """One name and tag; None where it is none, or its weights are not here."""
    try:
        layers = JsonObject.read(manifest, max_bytes=_MOST_MANIFEST).items("layers")
    except (UserFixable, OSError):
        return None
    weights = _blob(root, layers, _MODEL)
    if weights is None:
        return None
    return FoundModel(
        weights,
        ModelOrigin.OLLAMA,
        name=_name(manifest.relative_to(manifests).parts),
        licence=_first_line(_blob(root, layers, _LICENCE)),
    )


def _blob(root: Path, layers: tuple[object, ...], kind: str) -> Path | None:
    for layer in layers:
        if not isinstance(layer, dict) or layer.get("mediaType") != kind:
            continue
        match = _DIGEST.fullmatch(str(layer.get("digest")))
        file = root / "blobs" / f"sha256-{match[1]}" if match else None
        try:
            return file if file is not None and file.is_file() else None
        except OSError:
            return None
    return None


def _name(parts: tuple[str, ...]) -> str:
    """As `ollama list` writes it: what goes without saying is left out."""
    *before, model, tag = parts if len(parts) > 1 else ("", *parts)
    if before[:1] == [_USUAL]:
        before = before[1:]
    if before == [_LIBRARY]:
        before = []
    return "/".join([*before, f"{model}:{tag}"])


def _first_line(file: Path | None) -> str:
    if file is None:
        return ""
    try:
        with file.open(encoding="utf-8", errors="replace") as stream:
            lines = (line.strip() for line in stream.read(2000).splitlines())
            return next((line[:80] for line in lines if line), "")
    except OSError:
        return ""

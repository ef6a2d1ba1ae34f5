"""A disk as other programs leave it: LM Studio's folders, Ollama's blobs, the hub's cache."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from engine.hub.shelf.other_programs import ShelfSearch
from engine.model.model_files import own_files

COMMIT, OTHER_COMMIT = "1" * 40, "2" * 40


def patient() -> ShelfSearch:
    """A search that a busy machine does not cut short."""
    return ShelfSearch(seconds=600)


def into_lm_studio(root: Path, repo: str, model: Path) -> Path:
    """A model in LM Studio's folder."""
    folder = root / repo
    folder.mkdir(parents=True, exist_ok=True)
    files = own_files(model)
    for file in files:
        shutil.copy(file, folder)
    return folder if model.is_dir() else folder / model.name


def into_ollama(root: Path, name: str, tag: str, model: Path, licence: str = "") -> Path:
    """A GGUF file as Ollama keeps it; its blob."""
    blob = _ollama_blob(root, model.read_bytes())
    layers = [_layer("model", blob)]
    if licence:
        layers.append(_layer("license", _ollama_blob(root, licence.encode())))
    manifest = root / "manifests" / name / tag
    manifest.parent.mkdir(parents=True, exist_ok=True)
    manifest.write_text(json.dumps({"schemaVersion": 2, "layers": layers}))
    return blob


def _ollama_blob(root: Path, content: bytes) -> Path:
    blob = root / "blobs" / f"sha256-{hashlib.sha256(content).hexdigest()}"
    blob.parent.mkdir(parents=True, exist_ok=True)
    blob.write_bytes(content)
    return blob


def _layer(kind: str, blob: Path) -> dict[str, object]:
    digest = blob.name.replace("-", ":")
    media = f"application/vnd.ollama.image.{kind}"
    return {"mediaType": media, "digest": digest, "size": blob.stat().st_size}


def into_cache(
    cache: Path, repo: str, files: Iterable[Path], commit: str = COMMIT, *, main: bool = True
) -> Path:
    """Files as the hub's library keeps them: links to blobs named by their hashes; the snapshot."""
    repository = cache / f"models--{repo.replace('/', '--')}"
    snapshot = repository / "snapshots" / commit
    for folder in (snapshot, repository / "blobs", repository / "refs"):
        folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        content = file.read_bytes()
        large = file.suffix in (".gguf", ".safetensors")
        header = b"blob %d\0" % len(content)
        digest = hashlib.sha256(content) if large else hashlib.sha1(header + content)  # noqa: S324
        blob = repository / "blobs" / digest.hexdigest()
        blob.write_bytes(content)
        (snapshot / file.name).symlink_to(os.path.relpath(blob, snapshot))
    if main:
        (repository / "refs" / "main").write_text(commit)
    return snapshot


def below(folder: Path) -> set[str]:
    """All files, links and folders in a folder."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def no_permission_bites() -> bool:
    """Whether this user may read everything anyhow."""
    return hasattr(os, "geteuid") and os.geteuid() == 0


needs_links = pytest.mark.skipif(os.name == "nt", reason="links need rights there")

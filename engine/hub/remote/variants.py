"""Which models a repository has to choose from, the files of each, and what is left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from engine.hub.remote.answer import ServerObject, unreadable
from engine.hub.remote.faults import Fault
from engine.hub.remote.folder_variant import FolderFiles, folder_variant
from engine.hub.remote.gguf_variants import ENDING, gguf_variants
from engine.hub.remote.left_out import LeftOut, Reason
from engine.hub.remote.listing import RemoteFile, Variant
from engine.hub.remote.safe_files import (
    Danger,
    can_run_code,
    danger,
    is_commit,
    is_old_weights,
    is_sha256,
)
from engine.hub.remote.trouble import refuse
from engine.language import tr
from engine.model.families.common import unsupported
from engine.model.gguf.config import is_runnable

_OTHER_FORMATS = (".onnx", ".onnx_data", ".tflite", ".mlmodel", ".engine", ".ot", ".gguf_v1")
_WEIGHTS = (".gguf", ".safetensors")


def remote_files(
    siblings: Sequence[Mapping[str, object]],
) -> tuple[tuple[RemoteFile, ...], tuple[LeftOut, ...]]:
    """The files that a hub lists, checked, and those that are left out.

    Raises:
        HubError: names that lead out of the folder, or sizes and hashes that make no sense.
    """
    files: dict[str, RemoteFile] = {}
    left_out = list[LeftOut]()
    for each in siblings:
        path = each.get("rfilename")
        wrong = danger(path)
        if wrong is Danger.LEADS_OUT or not isinstance(path, str):
            raise refuse(Fault.UNSAFE, f"a file is called {path!r:.200}")
        if wrong is Danger.CANNOT_BE_STORED:
            if path.lower().endswith(_WEIGHTS):
                left_out.append(LeftOut(Reason.CANNOT_BE_STORED, path))
        elif is_old_weights(path):
            left_out.append(LeftOut(Reason.RUNS_CODE, path))
        elif path.lower().endswith(_OTHER_FORMATS):
            left_out.append(LeftOut(Reason.OTHER_FORMAT, path))
        elif not can_run_code(path):
            files.setdefault(path.casefold(), _file(path, ServerObject(each)))
    return tuple(files.values()), tuple(left_out)


def variants_of(
    files: Sequence[RemoteFile],
    model: ServerObject,
    config: ServerObject | None,
    shards: frozenset[str] | None,
) -> tuple[tuple[Variant, ...], tuple[LeftOut, ...]]:
    """All that can be fetched, smallest first, and what cannot.

    Args:
        files: as `remote_files` gives them.
        model: what the hub says of the repository.
        config: its config.json.
        shards: of its safetensors, by their index.
    """
    ggufs, left_out = gguf_variants(files)
    architecture = model.member("gguf").text("architecture")
    if ggufs and architecture and not is_runnable(architecture):
        left_out += tuple(
            LeftOut(Reason.UNKNOWN_MODEL, each.files[0].path, _unknown(architecture))
            for each in ggufs
        )
        ggufs = ()
    by_path = {file.path: file for file in files if not file.path.lower().endswith(ENDING)}
    folder, more = folder_variant(FolderFiles(by_path, config, shards, model))
    found = ggufs if folder is None else (*ggufs, folder)
    return tuple(sorted(found, key=lambda each: each.weight_bytes)), (*left_out, *more)


def _file(path: str, told: ServerObject) -> RemoteFile:
    """With a hash, so that nobody has to believe what is fetched."""
    size = told.required_size("size", path)
    if not told.member("lfs").data:
        sha1 = told.data.get("blobId")
        if not is_commit(sha1):
            unreadable(f"hash of {path}: {sha1!r:.60}")
        return RemoteFile(path, size, git_sha1=str(sha1))
    large = told.member("lfs")
    sha256 = large.data.get("sha256") or large.data.get("oid")
    if not is_sha256(sha256) or large.required_size("size", path) != size:
        unreadable(f"hash or size of {path}: {sha256!r:.80}")
    return RemoteFile(path, size, sha256=str(sha256))


def _unknown(architecture: str) -> str:
    said = tr("its family is “{family}”").format(family=architecture[:60])
    return unsupported(said).cause

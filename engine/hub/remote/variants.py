"""Which models a repository has to choose from: quantisations in GGUF or safetensors."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from engine.errors import UserFixable
from engine.hub.messages import Packaging, RemoteFile, Variant
from engine.hub.remote.connection import ServerObject, unreadable
from engine.hub.remote.faults import Fault, refuse
from engine.hub.remote.files import (
    Danger,
    LeftOut,
    Reason,
    can_run_code,
    danger,
    is_commit,
    is_mtp_head,
    is_old_weights,
    is_sha256,
)
from engine.language import tr
from engine.model.families import READERS, parse_config
from engine.model.families.common import unsupported
from engine.model.gguf.config import is_runnable
from engine.model.heads.reading import is_head
from engine.model.json_object import JsonObject
from engine.model.other_family import is_other, read_other

_SAFETENSORS = ".safetensors"
CONFIG = "config.json"
SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
_SHARD = re.compile(r"model-\d{5}-of-\d{5}\.safetensors")
_BESIDE = (
    "generation_config.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
)
_TOKENIZERS = (("tokenizer.json",), ("vocab.json", "merges.txt"))
"""Best first; without one of them, any `tokenizer.model*` or `*.tiktoken`."""
_LARGEST_BESIDE = 64 << 20
"""Bytes; larger ones are not read later."""
_TYPES = {"bfloat16": "BF16", "float16": "F16", "float32": "F32"}
_ADAPTERS = ("adapter_model.safetensors", "adapter_config.json")
_HEAD_LAYERS = 1
"""Blocks of a config that may be a draft head, which has no tokenizer of its own."""


@dataclass(frozen=True, slots=True)
class FolderFiles:
    """Facts that a repository gives about the model in its top folder.

    Attributes:
        config: its config.json, None where nobody could read it.
        shards: files that the index names; None where there is no index, or nobody could read it.
    """

    files: Mapping[str, RemoteFile]
    config: ServerObject | None
    shards: frozenset[str] | None
    model: ServerObject


def folder_variant(folder: FolderFiles) -> tuple[Variant | None, tuple[LeftOut, ...]]:
    """Return the model, and the files that belong to none."""
    weights = tuple(path for path in folder.files if path.lower().endswith(_SAFETENSORS))
    if not weights:
        return None, ()
    ours = _weights(folder, weights)
    left_out = [LeftOut(_why_not(path), path) for path in weights if path not in ours]
    if not ours:
        return None, tuple(left_out)
    reason = _unusable(folder, ours)
    if reason is not None:
        return None, tuple(left_out) + tuple(
            LeftOut(reason.reason, path, reason.words) for path in ours
        )
    return _of_folder(folder, ours), tuple(left_out)


def _weights(folder: FolderFiles, stored: Sequence[str]) -> tuple[str, ...]:
    """Return the paths of the weights in order; an index goes before a single file."""
    if INDEX in folder.files:
        if folder.shards is not None:
            return tuple(sorted(folder.shards))
        return tuple(sorted(path for path in stored if _SHARD.fullmatch(path)))
    return (SINGLE,) if SINGLE in folder.files else ()


def _why_not(path: str) -> Reason:
    return Reason.ADAPTER if path.endswith(_ADAPTERS[0]) else Reason.ELSEWHERE


def _unusable(folder: FolderFiles, weights: Sequence[str]) -> LeftOut | None:
    first = weights[0]
    there = [folder.files[path] for path in weights if path in folder.files]
    if len(there) < len(weights) or not all(file.nbytes for file in there):
        return LeftOut(Reason.INCOMPLETE, first)
    if CONFIG not in folder.files:
        adapter = _ADAPTERS[1] in folder.files
        return LeftOut(Reason.ADAPTER if adapter else Reason.NO_CONFIG, first)
    if folder.config is not None:
        reason = _not_runnable(folder.config)
        if reason is not None:
            return reason
    if not _tokenizer(folder.files) and not _may_be_head(folder.config):
        return LeftOut(Reason.NO_TOKENIZER, first)
    return None


def _not_runnable(config: ServerObject) -> LeftOut | None:
    """Return why the engine cannot run a model of this config; None: it can."""
    source = JsonObject(config.data, CONFIG)
    family = config.text("model_type")
    try:
        if is_head(source):
            return None
        if is_other(source):
            read_other(source)
        else:
            parse_config(config.data)
    except UserFixable as error:
        if config.member("auto_map").data and family not in READERS:
            return LeftOut(Reason.REMOTE_CODE, "")
        return LeftOut(Reason.UNKNOWN_MODEL, "", error.cause)
    return None


def _may_be_head(config: ServerObject | None) -> bool:
    if config is None:
        return False
    return is_head(JsonObject(config.data, CONFIG)) or (
        config.count("num_hidden_layers") == _HEAD_LAYERS
    )


def _tokenizer(files: Mapping[str, RemoteFile]) -> tuple[str, ...]:
    for names in _TOKENIZERS:
        if all(name in files for name in names):
            return names
    return tuple(
        path
        for path in sorted(files)
        if "/" not in path and (path.startswith("tokenizer.model") or path.endswith(".tiktoken"))
    )


def _of_folder(folder: FolderFiles, weights: Sequence[str]) -> Variant:
    index = (INDEX,) if INDEX in folder.files else ()
    beside = (*index, CONFIG, *_tokenizer(folder.files), *_BESIDE)
    small = [
        folder.files[path]
        for path in beside
        if path in folder.files and folder.files[path].nbytes <= _LARGEST_BESIDE
    ]
    large = [folder.files[path] for path in weights]
    nbytes = sum(file.nbytes for file in large)
    return Variant(_name(folder), Packaging.SAFETENSORS, (*large, *small), nbytes)


def _name(folder: FolderFiles) -> str:
    """Return the type of most of a model's numbers."""
    kinds = folder.model.member("safetensors").member("parameters")
    counts = {kind: kinds.count(kind) or 0 for kind in kinds.data if kind.isprintable()}
    if counts:
        return max(counts, key=lambda kind: counts[kind])[:20]
    config = folder.config or ServerObject({})
    said = config.text("torch_dtype") or config.text("dtype")
    return _TYPES.get(said, "safetensors")


_OTHER_FORMATS = (".onnx", ".onnx_data", ".tflite", ".mlmodel", ".engine", ".ot", ".gguf_v1")
_WEIGHTS = (".gguf", ".safetensors")


def remote_files(
    siblings: Sequence[Mapping[str, object]],
) -> tuple[tuple[RemoteFile, ...], tuple[LeftOut, ...]]:
    """Return the files that a hub lists, checked, and those that are left out.

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
    """Return all that can be fetched, smallest first, and what cannot.

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
    by_path = {file.path: file for file in files if not file.path.lower().endswith(_GGUF)}
    folder, more = folder_variant(FolderFiles(by_path, config, shards, model))
    found = ggufs if folder is None else (*ggufs, folder)
    return tuple(sorted(found, key=lambda each: each.weight_bytes)), (*left_out, *more)


def _file(path: str, told: ServerObject) -> RemoteFile:
    """Return a listed file with its hash, against which the download is verified."""
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


_GGUF = ".gguf"
_TYPE = re.compile(
    r"(?:(?<=[-._/ ])|^)(UD-)?("
    r"IQ[1-6]_(?:XXS|XS|NL|S|M|KS|KT|K)"
    r"|Q[1-8]_K(?:_(?:XXL|XL|XS|S|M|L|P))?"
    r"|Q[1-8]_[01](?:_[48]_[48]|_L)?"
    r"|TQ[12]_0|I2_S|MXFP4(?:_MOE)?|NVFP4|BF16|FP?16|FP?32"
    r")(?=[-._/ ]|$)",
    re.IGNORECASE,
)
"""Names of quantisations in names of files: Q4_K_M, IQ2_XXS, BF16, UD-Q4_K_XL..."""
_SPELT = {"FP16": "F16", "FP32": "F32"}
_PART = re.compile(r"(?P<name>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.IGNORECASE)
_MOST_PARTS = 1000
_NOT_MODELS = (
    (re.compile(r"mmproj|(?:^|[-_.])(?:vision|audio)[-_]?(?:encoder|tower|projector)"),
     Reason.PICTURES),
    (re.compile(r"imatrix|importance"), Reason.STATISTICS),
    (re.compile(r"^(?!.*merged).*(?:^|[-_.])(?:lora|adapter)(?:[-_.]|$)"), Reason.ADAPTER),
    (re.compile(r"^ggml-vocab|(?:^|[-_.])vocab[-_]only|control[-_]vector"), Reason.NO_MODEL),
)  # fmt: skip


def gguf_variants(files: Sequence[RemoteFile]) -> tuple[tuple[Variant, ...], tuple[LeftOut, ...]]:
    """Return the GGUF models, smallest first, and the files that are none.

    A model is fetched with the MTP head that lies beside it.
    """
    heads = list[RemoteFile]()
    left_out = list[LeftOut]()
    models = list[tuple[str, tuple[RemoteFile, ...]]]()
    groups: dict[str, list[RemoteFile]] = {}
    for file in files:
        if not file.path.lower().endswith(_GGUF):
            continue
        reason = _no_model(file.path)
        if reason is not None:
            left_out.append(LeftOut(reason, file.path))
        elif is_mtp_head(file.path):
            heads.append(file)
        else:
            groups.setdefault(_first_part(file.path), []).append(file)
    for path, group in groups.items():
        whole = _in_order(path, group)
        if whole is None:
            left_out.append(LeftOut(Reason.INCOMPLETE, path))
        else:
            models.append((path, whole))
    variants = [_variant(name, group, _head_of(group[0], heads)) for name, group in _named(models)]
    taken = {file.path for variant in variants for file in variant.files}
    left_out += [LeftOut(Reason.HEAD, head.path) for head in heads if head.path not in taken]
    return tuple(sorted(variants, key=lambda each: each.weight_bytes)), tuple(left_out)


def quantisation(path: str) -> str | None:
    """Return the quantisation in a file's name, or else in its folder's."""
    name = PurePosixPath(path)
    for part in (name.name[: -len(_GGUF)], *reversed(name.parent.parts)):
        found = list(_TYPE.finditer(part))
        if found:
            dynamic, kind = found[-1].groups()
            kind = _SPELT.get(kind.upper(), kind.upper())
            return f"UD-{kind}" if dynamic else kind
    return None


def _no_model(path: str) -> Reason | None:
    name = PurePosixPath(path).name.lower()
    return next((reason for pattern, reason in _NOT_MODELS if pattern.search(name)), None)


def _first_part(path: str) -> str:
    """Return the path of the first part of a split model; of another file its own."""
    match = _PART.fullmatch(path)
    if match is None or not 0 < int(match["count"]) <= _MOST_PARTS:
        return path
    return f"{match['name']}-{1:05}-of-{match['count']}{path[-len(_GGUF) :]}"


def _in_order(first: str, group: Iterable[RemoteFile]) -> tuple[RemoteFile, ...] | None:
    """Return all parts of a model; None where some are missing."""
    parts = {_number(file.path): file for file in group}
    match = _PART.fullmatch(first)
    count = int(match["count"]) if match else 1
    if sorted(parts) != list(range(1, count + 1)) or not all(map(_weighs, parts.values())):
        return None
    return tuple(parts[number] for number in sorted(parts))


def _number(path: str) -> int:
    match = _PART.fullmatch(path)
    return int(match["number"]) if match else 1


def _weighs(file: RemoteFile) -> bool:
    return file.nbytes > 0


def _named(
    models: Sequence[tuple[str, tuple[RemoteFile, ...]]],
) -> Iterable[tuple[str, tuple[RemoteFile, ...]]]:
    """Yield every model under its quantisation, or its file's name where that is not enough."""
    kinds = Counter(quantisation(path) for path, _ in models)
    taken = set[str]()
    for path, group in models:
        kind = quantisation(path)
        name = kind if kind is not None and kinds[kind] == 1 else _stem(path)
        while name in taken:
            name += "'"
        taken.add(name)
        yield name, group


def _stem(path: str) -> str:
    match = _PART.fullmatch(path)
    return match["name"] if match else path[: -len(_GGUF)]


def _variant(name: str, files: tuple[RemoteFile, ...], head: RemoteFile | None) -> Variant:
    beside = () if head is None else (head,)
    return Variant(name, Packaging.GGUF, files + beside, sum(file.nbytes for file in files))


def _head_of(model: RemoteFile, heads: Sequence[RemoteFile]) -> RemoteFile | None:
    """Return the MTP head for a model: of its own quantisation, or else the smallest."""
    name, kind = PurePosixPath(model.path).name, quantisation(model.path)
    own = [head for head in heads if _weighs(head) and is_head_of(head.path, name)]
    return min(own, key=lambda head: (quantisation(head.path) != kind, head.nbytes), default=None)


def is_head_of(head: str, model: str) -> bool:
    """Tell whether an MTP head's file, as in "mtp-Qwen3.6-27B-Q8_0", is named after a model."""
    name = PurePosixPath(head).name.removesuffix(_GGUF)
    found = list(_TYPE.finditer(name))
    wanted = letters(name[: found[-1].start()] if found else name).removeprefix("mtp")
    return bool(wanted) and wanted in letters(model)


def letters(name: str) -> str:
    """Return the letters and digits of a name, in lower case: marks differ from place to place."""
    return re.sub(r"[^a-z0-9]", "", name.lower())

"""The GGUF files of a repository as models to choose from, told apart by their names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from engine.hub.remote.left_out import LeftOut, Reason
from engine.hub.remote.listing import Packaging, RemoteFile, Variant

ENDING = ".gguf"
_TYPE = re.compile(
    r"(?:(?<=[-._/ ])|^)(UD-)?("
    r"IQ[1-6]_(?:XXS|XS|NL|S|M|KS|KT|K)"
    r"|Q[1-8]_K(?:_(?:XXL|XL|XS|S|M|L|P))?"
    r"|Q[1-8]_[01](?:_[48]_[48]|_L)?"
    r"|TQ[12]_0|I2_S|MXFP4(?:_MOE)?|NVFP4|BF16|FP?16|FP?32"
    r")(?=[-._/ ]|$)",
    re.IGNORECASE,
)
"""As quantisations are called in names of files: Q4_K_M, IQ2_XXS, BF16, UD-Q4_K_XL..."""
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
    """The models, smallest first, and the files that are none."""
    left_out = list[LeftOut]()
    models = list[tuple[str, tuple[RemoteFile, ...]]]()
    groups: dict[str, list[RemoteFile]] = {}
    for file in files:
        if not file.path.lower().endswith(ENDING):
            continue
        reason = _no_model(file.path)
        if reason is not None:
            left_out.append(LeftOut(reason, file.path))
        else:
            groups.setdefault(_first_part(file.path), []).append(file)
    for path, group in groups.items():
        whole = _in_order(path, group)
        if whole is None:
            left_out.append(LeftOut(Reason.INCOMPLETE, path))
        else:
            models.append((path, whole))
    variants = [_variant(name, group) for name, group in _named(models)]
    return tuple(sorted(variants, key=lambda each: each.weight_bytes)), tuple(left_out)


def quantisation(path: str) -> str | None:
    """What a file's name, or else its folder's, says of its numbers."""
    name = PurePosixPath(path)
    for part in (name.name[: -len(ENDING)], *reversed(name.parent.parts)):
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
    """The path of the first part of a split model; of another file its own."""
    match = _PART.fullmatch(path)
    if match is None or not 0 < int(match["count"]) <= _MOST_PARTS:
        return path
    return f"{match['name']}-{1:05}-of-{match['count']}{path[-len(ENDING) :]}"


def _in_order(first: str, group: Iterable[RemoteFile]) -> tuple[RemoteFile, ...] | None:
    """All parts of a model; None where some are missing."""
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
    """Every model under a name of its own: its quantisation where that tells it from others."""
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
    return match["name"] if match else path[: -len(ENDING)]


def _variant(name: str, files: tuple[RemoteFile, ...]) -> Variant:
    return Variant(name, Packaging.GGUF, files, sum(file.nbytes for file in files))

"""A trained draft in few bits: its folder once more, its tensors in one GGUF file."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Kind
from numpy.typing import NDArray

from engine.backend.native.library import Format
from engine.backend.native.matrix import pack_rows
from engine.backend.native.pool import shared_pool
from engine.backend.native.stretches import BLOCK, ggml_rows
from engine.errors import NotPossible, UserFixable
from engine.language import tr
from engine.model.heads.description import DraftOnly
from engine.model.local_model import LocalModel
from engine.model.model_files import PACKED
from engine.model.weights.reader import INTEGERS
from engine.model.weights.safetensors_folder import SafetensorsFolder
from engine.train.settings import PackedKind

ARCHITECTURE = "duotail-draft"
_BESIDE = ("README.md", "LICENSE", "NOTICE", "duotail.json", "config.json")
"""Files that are copied if they exist; config.json, by which a draft is recognised, last."""
_FORMATS = {PackedKind.Q8_0: Format.Q8, PackedKind.Q4_0: Format.Q4}
_STEPS = 15
"""Steps from the least number of a 4-bit block to the greatest."""
_FINER = tuple(np.linspace(0.7, 1.05, 15).tolist())
"""Shares of a block's range that are tried: what lies outside is cut, all else is finer."""
_ROWS = 512

Floats = NDArray[np.float32]


def write_packed(folder: Path, out: Path, kind: PackedKind) -> Path:
    """Write a draft's folder with quantised matrices.

    Vectors stay in fp32. A matrix whose rows are no whole blocks stays in 16 bits.

    Args:
        folder: a draft in safetensors as `write_draft` leaves it: a head, or a model of few rows.
        out: of the result.
        kind: of its matrices.

    Returns:
        The GGUF file.

    Raises:
        NotPossible: the folder holds something else.
        UserFixable: it cannot be read, or `out` cannot be written to.
    """
    model = LocalModel.inspect(folder)
    if not isinstance(model.config, DraftOnly) or model.gguf is not None:
        raise NotPossible(
            tr("{folder} holds no draft in safetensors that could be packed.").format(
                folder=folder.name
            ),
            tr("Name a folder that “duotail train-draft” has written."),
        )
    file, new = out / PACKED, out / f".{PACKED}.{os.getpid()}"
    try:
        out.mkdir(parents=True, exist_ok=True)
        try:
            _write(SafetensorsFolder.open(folder), new, model.name, kind)
            new.replace(file)
        finally:
            new.unlink(missing_ok=True)
        for name in _BESIDE:
            if (folder / name).is_file():
                shutil.copyfile(folder / name, out / name)
    except OSError as error:
        raise UserFixable(
            tr("{file} cannot be written.").format(file=file),
            tr("Make room on the disk, or choose another folder."),
            str(error),
        ) from error
    return file


def _write(tensors: SafetensorsFolder, file: Path, name: str, kind: PackedKind) -> None:
    writer = gguf.GGUFWriter(file, ARCHITECTURE)
    writer.add_name(name)
    for each in tensors.names():
        if tensors.kind(each) in INTEGERS:
            writer.add_tensor(each, tensors.integers(each))
            continue
        values = tensors.float32(each, check_finite=True)
        if values.ndim == 1:
            writer.add_tensor(each, values)
            continue
        if values.shape[1] % BLOCK == 0:
            writer.add_tensor(each, quantised(values, kind), raw_dtype=Kind[kind.upper()])
        else:
            halves = gguf.quants.quantize(values, Kind.BF16)
            writer.add_tensor(each, halves, raw_dtype=Kind.BF16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def quantised(rows: Floats, kind: PackedKind) -> NDArray[np.uint8]:
    """Return a matrix in ggml's blocks, uint8 [rows, bytes per row], with scales of small error.

    Args:
        rows: fp32 [rows, cols], whole blocks.
        kind: of the blocks.
    """
    if kind is PackedKind.Q4_1:
        return np.concatenate(list(_q4_1(rows)))
    packed = pack_rows(shared_pool(), np.ascontiguousarray(rows), _FORMATS[kind])
    return ggml_rows(packed.struct, 0, len(rows)).copy()


_Q4_1 = np.dtype([("scale", np.float16), ("least", np.float16), ("numbers", np.uint8, (16,))])


def _q4_1(rows: Floats) -> Iterator[NDArray[np.uint8]]:
    """Yield the blocks of some rows at a time."""
    for start in range(0, len(rows), _ROWS):
        part = rows[start : start + _ROWS]
        blocks = part.reshape(-1, BLOCK)
        scale, least = _line(blocks)
        found = np.empty(len(blocks), dtype=_Q4_1)
        found["scale"], found["least"] = scale, least
        numbers = _numbers(blocks, found["scale"][:, None], found["least"][:, None])
        whole = numbers.astype(np.uint8)
        found["numbers"] = whole[:, : BLOCK // 2] | whole[:, BLOCK // 2 :] << 4
        yield found.view(np.uint8).reshape(len(part), -1)


def _line(blocks: Floats) -> tuple[Floats, Floats]:
    """Return scale and least number of each block, fp32 [blocks], of little squared error.

    Each share of a block's range gives whole numbers, and to these belongs a line of least squares.
    """
    low, high = blocks.min(1), blocks.max(1)
    best = np.full(len(blocks), np.inf, dtype=np.float32)
    scale, least = np.zeros_like(low), low.copy()
    for share in _FINER:
        width = (high - low) * np.float32(share)
        step = width / _STEPS
        middle = (high + low) / 2
        numbers = _numbers(blocks, step[:, None], (middle - width / 2)[:, None])
        mean, mean_number = blocks.mean(1), numbers.mean(1)
        apart = numbers - mean_number[:, None]
        spread = np.square(apart).sum(1)
        slope = (apart * blocks).sum(1) / np.where(spread > 0, spread, 1)
        start = mean - slope * mean_number
        error = np.square(blocks - numbers * slope[:, None] - start[:, None]).sum(1)
        better = error < best
        best[better], scale[better], least[better] = error[better], slope[better], start[better]
    return scale, least


def _numbers(blocks: Floats, scale: NDArray[Any], least: NDArray[Any]) -> Floats:
    """Return the whole numbers nearest to those of the blocks, 0 to 15."""
    step = scale.astype(np.float32)
    inverse = np.divide(1, step, out=np.zeros_like(step), where=step > 0)
    whole = np.rint((blocks - least.astype(np.float32)) * inverse)
    found: Floats = np.clip(whole, 0, _STEPS)
    return found

"""The kernels as Triton's interpreter runs them: on torch's "cpu" device, with its numbers."""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from stored_blocks import random_rows, widened

from engine.backend.accelerator import kernels
from engine.backend.accelerator.driver import Driver
from engine.backend.accelerator.matrix import FLOATS, DeviceMatrix
from engine.backend.accelerator.memory import DeviceAllocator
from engine.backend.ledger import unlimited

_MODULES = ("multiply", "attend", "launch")


@cache
def launch() -> ModuleType:
    """Apart from the compiled kernels, which tests of a real device use in the same process."""
    compiled = {name: sys.modules.pop(f"{kernels.__name__}.{name}", None) for name in _MODULES}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_INTERPRET", "1")
        for name in _MODULES:
            vars(kernels).pop(name, None)
        found = import_module(f"{kernels.__name__}.launch")
    for name, module in compiled.items():
        del sys.modules[f"{kernels.__name__}.{name}"]
        delattr(kernels, name)
        if module is not None:
            sys.modules[f"{kernels.__name__}.{name}"] = module
            setattr(kernels, name, module)
    return found


def random_matrix(kind: str, rows: int, cols: int) -> tuple[DeviceMatrix, torch.Tensor]:
    """Stored, and its numbers as products take them: rounded to fp16, in fp64."""
    matrix = DeviceMatrix.empty(kind, rows, cols, DeviceAllocator(Driver("cpu"), unlimited()))
    if kind in FLOATS:
        numbers = np.random.default_rng(rows).standard_normal((rows, cols), dtype=np.float32)
        matrix.planes[0].copy_(torch.from_numpy(numbers))
        return matrix, matrix.planes[0].half().double()
    stored = random_rows(kind, rows, matrix.width, seed=rows)
    matrix.fill(0, stored, "w")
    numbers = widened(stored, kind)[:, :cols]
    return matrix, torch.from_numpy(numbers).half().double()


def summed_in_order(_builder: Any, a: Any, b: Any, sums: Any, *_precision: Any) -> Any:
    """The interpreter's product of fp16 tiles [m, k] and [k, n], summed by ascending k in fp32."""
    left, right = (tile.data.astype(np.float32) for tile in (a, b))
    found = np.add.reduce(left[:, :, None] * right[None], axis=1)
    return type(sums)(found + sums.data, sums.dtype.scalar)

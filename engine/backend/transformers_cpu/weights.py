"""A model of transformers filled from our reader of weights: checked, with progress, stoppable."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import EllipsisType
from typing import Any

import torch
import transformers

from engine.errors import Cancelled, UserFixable
from engine.model.other_family import OtherConfig, not_loadable
from engine.model.weights.readable import Readable
from engine.model.weights.stored import not_finite


def filled_model(
    folder: Path, config: OtherConfig, weights: Readable, names: Sequence[str], dtype: torch.dtype
) -> transformers.PreTrainedModel:
    """The model of a folder, ready to run.

    Nothing is fetched, and no code of the folder is executed.

    Raises:
        Cancelled: the reader was told to stop.
        UserFixable: the weights are damaged or do not fit.
    """
    logging: Any = transformers.utils.logging
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    reader = _Reader(weights, dtype)
    try:
        described = transformers.AutoConfig.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
        model, report = getattr(transformers, config.architecture).from_pretrained(
            None,
            config=described,
            state_dict={name: _Tensor(reader, name) for name in names},
            dtype=dtype,
            local_files_only=True,
            trust_remote_code=False,
            output_loading_info=True,
        )
    except Exception as error:
        raise reader.trouble or _refused(config, error) from error
    if reader.trouble is not None:
        raise reader.trouble
    wrong = [*report["missing_keys"], *report["mismatched_keys"], *report["unexpected_keys"]]
    if wrong or report["error_msgs"]:
        raise not_loadable(config.family, str(report)[:2000])
    filled: transformers.PreTrainedModel = model.eval()
    return filled


def _refused(config: OtherConfig, error: Exception) -> Exception:
    if isinstance(error, MemoryError | UserFixable):
        return error
    return not_loadable(config.family, "".join(traceback.format_exception(error))[-4000:])


class _Reader:
    """Reads one tensor at a time, whichever of transformers' threads asks.

    transformers goes on after an error, so the first one is kept and ends all that follows.
    """

    def __init__(self, weights: Readable, dtype: torch.dtype) -> None:
        self._weights, self._dtype = weights, dtype
        self._one_at_a_time = threading.Lock()
        self.trouble: Cancelled | UserFixable | None = None

    def read(self, name: str) -> torch.Tensor:
        with self._one_at_a_time:
            if self.trouble is not None:
                raise self.trouble
            try:
                return self._read(name)
            except (Cancelled, UserFixable) as error:
                self.trouble = error
                raise

    def _read(self, name: str) -> torch.Tensor:
        shape = self._weights.shape(name)
        if len(shape) != 2:
            return torch.from_numpy(self._weights.float32(name)).to(self._dtype)
        tensor, first = torch.empty(shape, dtype=self._dtype), 0
        for stretch in self._weights.stretches(name):
            bits = torch.from_numpy(stretch)
            part = bits.view(torch.bfloat16) if bits.dtype is torch.uint16 else bits
            if not torch.isfinite(part).all():
                raise not_finite(name)
            tensor[first : first + len(part)] = part
            first += len(part)
        return tensor


class _Tensor:
    """Stands for a tensor until it is read, as slices of safetensors do."""

    def __init__(self, reader: _Reader, name: str) -> None:
        self._reader, self._name = reader, name

    def __getitem__(self, _all: EllipsisType) -> torch.Tensor:
        return self._reader.read(self._name)

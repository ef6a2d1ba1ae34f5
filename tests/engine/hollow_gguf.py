"""GGUF files of large models with real headers: 16-bit weights, zeros that nobody has written."""

from __future__ import annotations

import os
from math import prod
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from folder_models import FOLDER_TARGET
from gguf_models import _add_config, _stored_name, add_vocabulary

from engine.model.families import parse_config
from engine.model.tensors import expected_tensors

_ALIGNMENT = 32


def write_hollow_gguf(file: Path, config: dict[str, Any]) -> Path:
    """A Llama of this shape in F16 that talks with a trained model's tokenizer and template."""
    writer = gguf.GGUFWriter(file, "llama")
    _add_config(writer, config)
    add_vocabulary(writer, FOLDER_TARGET)
    end = 0
    for name, shape in expected_tensors(parse_config(config)).items():
        kind = np.dtype(np.float16 if len(shape) > 1 else np.float32)
        nbytes = prod(shape) * kind.itemsize
        writer.add_tensor_info(_stored_name(name), shape, kind, nbytes)
        end += nbytes + -nbytes % _ALIGNMENT
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    header = file.stat().st_size
    os.truncate(file, header + -header % _ALIGNMENT + end)
    return file

"""Facts of this machine's adapters, and whether they compute what the CPU computes.

Drivers may crash or hang. So both functions are called in a process of their own, and return what
JSON carries.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.backend.cpu import CpuDevice, native_is_built
from engine.backend.device import Device
from engine.backend.segment import Segment
from engine.backend.step import Step
from engine.backend.webgpu.adapters import adapters
from engine.backend.webgpu.vulkan_memory import card_memory
from engine.commands import WeightFormat
from engine.machine.facts import WEBGPU
from engine.model.config import ModelConfig
from engine.model.families import parse_config
from engine.model.tensors import expected_tensors
from engine.model.weights.random_weights import RandomWeights
from engine.model.weights.readable import Floats

_FLOATS, _TURNED = 2e-4, 3e-2
"""Declared tolerances, of the logits' norm: with weights in floats, and where a last bit may turn
a rounding to 8 bits."""
_LLAMA: dict[str, object] = {
    "model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "vocab_size": 128,
    "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2,
    "max_position_embeddings": 512, "tie_word_embeddings": False,
}  # fmt: skip
_STATES: dict[str, object] = {
    **_LLAMA, "model_type": "qwen3_5_text", "head_dim": 64, "layer_types": ["linear_attention"],
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 128,
    "linear_value_head_dim": 64,
}  # fmt: skip
_FORMATS = {"F32": _FLOATS, "Q4_0": _TURNED, "Q8_0": _TURNED, "Q4_K": _TURNED, "Q6_K": _TURNED}
_PROMPT, _ROWS = 300, 4
"""A prompt whose keys are looked at in two parts, and rows that follow it together."""
_OF_INTEREST = ("shader-f16", "subgroup", "timestamp-query")


def adapter_facts() -> list[dict[str, object]]:
    """Return each adapter's facts, in the order of their numbers."""
    memory = card_memory()
    return [
        {
            "name": adapter.info["device"],
            "vendor_id": adapter.info["vendor_id"],
            "kind": adapter.info["adapter_type"],
            "driver": f"{adapter.info['backend_type']} {adapter.info['description']}".strip(),
            "features": [name for name in _OF_INTEREST if name in adapter.features],
            "memory": memory.get((adapter.info["vendor_id"], adapter.info["device_id"]), 0),
        }
        for adapter in adapters()
    ]


def wrong_numbers(number: int) -> str:
    """Compute small models on an adapter and on the CPU; return where the two differ, or "".

    Raises:
        Exception: the adapter cannot compute them.
    """
    from engine.backend.webgpu.device import WebGpuDevice  # wgpu: for the process that is asked

    there, here = WebGpuDevice(f"{WEBGPU}{number}"), CpuDevice(threads=1)
    formats = _FORMATS if native_is_built() else {"F32": _FLOATS}
    models = [(kind, _Model(_LLAMA, kind), tolerance) for kind, tolerance in formats.items()]
    if native_is_built():
        models.append(("states", _Model(_STATES, "F32"), _FLOATS))
    for name, model, tolerance in models:
        ours, expected = (model.logits(each, [_PROMPT, _ROWS]) for each in (there, here))
        apart = np.linalg.norm(ours - expected, axis=1) / np.linalg.norm(expected, axis=1)
        if not apart.max() <= tolerance:  # nor a number
            return f"{name}: {apart.max():.1e}"
        for steps in ([_PROMPT, *[1] * _ROWS], [_PROMPT + _ROWS]):
            if not np.array_equal(model.logits(there, steps), ours):
                return f"{name}: {steps[-1]} rows"  # a row's bits depend on those beside it
    return ""


class _Model:
    """A small model of one type of weights: one block, as each turns more roundings."""

    def __init__(self, shape: dict[str, object], kind: str) -> None:
        self._config: ModelConfig = parse_config(shape)
        matrices = (name for name, of in expected_tensors(self._config).items() if len(of) == 2)
        self._weights = RandomWeights(self._config, dict.fromkeys(matrices, kind))

    def logits(self, device: Device, steps: Sequence[int]) -> Floats:
        """Return the logits of the last rows, so many of them at once."""
        fmt = WeightFormat.STORED if native_is_built() else WeightFormat.F32
        segment: Segment = device.backend(fmt, "check").compile(
            self._config, self._weights, range(1), embed=True, head=True
        )
        cache = segment.new_cache(sum(steps))
        found, done = [], 0
        for rows in steps:
            tokens = [(7 * token) % self._config.vocab_size for token in range(done, done + rows)]
            step = Step(tokens, range(-1, rows - 1), done, logit_rows=range(rows)[-_ROWS:])
            found.append(segment.run(step, cache, None).logits)
            done += rows
        return np.concatenate([each for each in found if each is not None])[-_ROWS:]

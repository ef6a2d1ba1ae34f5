"""Models of tests that lie on a simulated accelerator, in whole or in part."""

from __future__ import annotations

from collections.abc import Sequence

from split_models import cut

from engine.backend.cpu import CpuDevice
from engine.backend.decoder import Decoder
from engine.backend.simulated.device import SimulatedDevice
from engine.backend.simulated.spec import DEVICE, SimulatedSpec
from engine.commands import KvType, WeightFormat
from engine.machine.facts import CPU
from engine.model.config import ModelConfig
from engine.model.weights.readable import Weights

MEMORY = 64 << 20


def instant(memory: int = MEMORY, runtime_bytes: int = 0) -> SimulatedSpec:
    """One whose declared times are nothing, for tests of everything else."""
    return SimulatedSpec(memory, 1e18, 1e21, 1e18, 0.0, runtime_bytes)


def on_simulated(
    config: ModelConfig,
    weights: Weights,
    device: SimulatedDevice,
    borders: Sequence[int] = (),
    fmt: WeightFormat = WeightFormat.Q8,
    threads: int = 1,
    owner: str = "target",
    kv: KvType = KvType.F16,
) -> Decoder:
    """A model cut at the borders, its parts on the CPU and on the device in turn.

    Without borders all of it is on the device; with one, the CPU has the beginning and the device
    the end; with (0, k) the CPU has the embedding and the blocks from k on.
    """
    devices = (CPU, DEVICE) if borders else (DEVICE,)
    backends = {
        CPU: CpuDevice(threads=threads).backend(fmt, owner, kv=kv),
        DEVICE: device.backend(fmt, owner, kv=kv),
    }
    return Decoder.placed(config, weights, cut(config.num_layers, borders, devices), backends)

"""A simulated accelerator that is as slow against a draft as one wishes."""

from __future__ import annotations

from dataclasses import replace

from engine.backend.decoder import Decoder
from engine.backend.simulated.device import SimulatedDevice
from engine.backend.tree import TokenTree
from engine.bench.forward import prompt
from engine.request import SamplingParams
from engine.speculative.decoding import Decoding
from engine.speculative.sampler import Sampler

FLAT_ROWS = 32
"""Rows up to which a forward is declared to take no longer than one of a single row."""
_FAST = 1e12
"""Bytes per second of memory and link at which nothing has to be waited for."""


def declare_verify(device: SimulatedDevice, target: Decoder, seconds: float, context: int) -> None:
    """Declare so slow a memory, and nothing else to wait for, that verifying takes so long.

    What is really computed has to be done by then, or the call takes longer.

    Args:
        device: holds all of the target.
        target: model.
        seconds: of a verification of up to `FLAT_ROWS` rows.
        context: committed tokens before it.
    """
    at_once = replace(device.spec, latency_s=0.0, link_bytes_per_s=_FAST)
    device.declare(at_once.reading(_FAST, FLAT_ROWS))
    tokens = prompt(target.config.vocab_size, context)
    state = target.new_state(context + 1)
    decoding = Decoding(target, state, tokens, Sampler(SamplingParams()), max_tokens=1)
    for _ in decoding.prefill():
        pass
    before = device.processor.declared_s
    decoding.verify(TokenTree.root(tokens[-1]))
    nbytes = (device.processor.declared_s - before) * _FAST
    device.declare(at_once.reading(nbytes / seconds, FLAT_ROWS))

"""Builds a model of random weights in a process of its own; prints its ledger and what that grew.

    python memory_child.py SHAPE FORMAT BLOCKS CONTEXT FILLED

BLOCKS: 0 for all of them. FILLED: tokens of the context whose keys are there in the end.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace

from engine.backend.cpu import CpuDevice
from engine.backend.decoder import Decoder
from engine.backend.native.matrix import NATIVE_KINDS
from engine.backend.round import VerifyRequest
from engine.backend.sequence import SequenceState
from engine.bench.recipes import tensor_kinds
from engine.bench.shapes import shape
from engine.commands import WeightFormat
from engine.devices.memory import MemoryWatch, give_memory_back
from engine.model.config import ModelConfig
from engine.model.weights.random_weights import RandomWeights
from engine.request import SamplingParams
from engine.speculative.sampler import Sampler

PIECE = 512
"""Tokens of a prefill's forward, as when answering."""


def built(config: ModelConfig, wanted: str, device: CpuDevice) -> Decoder:
    kinds = tensor_kinds(config, wanted)
    weights = RandomWeights(config, kinds, readable=NATIVE_KINDS)
    return Decoder.build(config, weights, device.backend(WeightFormat.STORED, "target"))


def used(decoder: Decoder, context: int, filled: int) -> SequenceState:
    """A state with so many tokens, the last of them drawn and verified as answers are."""
    state, vocab = decoder.new_state(context), decoder.config.vocab_size
    for start in range(0, filled - 1, PIECE):
        piece = [token % vocab for token in range(start, min(start + PIECE, filled - 1))]
        decoder.forward(state, piece, logit_rows=(len(piece) - 1,))
        state.commit(range(len(piece)))
    draws = Sampler(SamplingParams(temperature=0)).native(vocab)
    if draws is not None:
        tokens = [*state.tokens, 5]
        decoder.verify(state, draws, VerifyRequest([5, 6, 7], [-1, 0, 0], tokens, 1))
    return state


def main() -> None:
    name, wanted, blocks, context, filled = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
    config = shape(name)
    if blocks:
        config = replace(config, blocks=config.blocks[:blocks])
    block = replace(config.blocks[0], inner=256)
    small = replace(config, blocks=(block,), hidden_size=256, vocab_size=1024)
    used(built(small, wanted, CpuDevice()), 64, 40)  # code and libraries are there from now on
    give_memory_back()
    watch, device = MemoryWatch(), CpuDevice()
    decoder = built(config, wanted, device)
    state = used(decoder, context, filled)
    give_memory_back()
    compared = watch.compare([device.ledger])["cpu"]
    lines = [asdict(line) for line in device.ledger.lines()]
    report = {**asdict(compared), "ratio": compared.ratio, "lines": lines, "filled": len(state)}
    sys.stdout.write(json.dumps(report))


main()

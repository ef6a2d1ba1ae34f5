"""Lossless for what only some families have: windows, caps, sinks, experts."""

from __future__ import annotations

import numpy as np
import pytest
from harness import SAMPLINGS, OracleDrafter, RandomController, decode

from engine.backend.decoder import Decoder
from engine.backend.prefix_cache import PrefixCache
from engine.speculative.drafters.model import StandaloneDrafter

CONTEXT = 256


@pytest.mark.release(keep=2, reason="every family with every sampling")
@pytest.mark.parametrize("sampling", ["greedy", "sampled filtered"])
@pytest.mark.parametrize("model", ["gemma", "experts", "phi"])
def test_speculative_text_equals_plain_text(
    model: str, sampling: str, request: pytest.FixtureRequest
) -> None:
    target: Decoder = request.getfixturevalue(model)
    rng, vocab = np.random.default_rng(4), target.config.vocab_size
    prompt = rng.integers(3, vocab, 90).tolist()  # past every window
    plain = decode(target, prompt, SAMPLINGS[sampling], context=CONTEXT)
    itself = StandaloneDrafter(target, PrefixCache(target, CONTEXT, 1 << 28))
    for drafter in (OracleDrafter(plain.tokens, len(prompt), vocab, rng), itself):
        speculative = decode(
            target, prompt, SAMPLINGS[sampling],
            drafter=drafter, controller=RandomController(rng), context=CONTEXT,
        )  # fmt: skip
        assert speculative.tokens == plain.tokens
        assert len(speculative.rounds) < len(plain.rounds)

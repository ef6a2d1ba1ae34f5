"""Lossless wherever the blocks lie: a split target writes what the whole one does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from full_models import RandomWeights, full_config
from harness import SAMPLINGS, OracleDrafter, RandomController, decode
from hybrid_models import UNLIKE
from simulated_models import instant, on_simulated
from split_models import split_decoder
from tiny_models import write_model

from engine.backend.decoder import Decoder
from engine.backend.native.library import Format
from engine.backend.native.segment import NativeBackend
from engine.backend.prefix_cache import PrefixCache
from engine.backend.simulated.device import SimulatedDevice
from engine.model.config import ModelConfig
from engine.model.families import open_config
from engine.model.weights.model_weights import ModelWeights
from engine.model.weights.readable import Weights
from engine.speculative.drafters.combined import CombinedDrafter
from engine.speculative.drafters.drafter import Drafter
from engine.speculative.drafters.lookup import LookupDrafter
from engine.speculative.drafters.model import StandaloneDrafter

CONTEXT = 256
FAMILIES = ("llama", "gemma3_text", "qwen3_moe", "qwen3_5_text")


@dataclass(frozen=True, slots=True)
class Model:
    """A target to be placed, and its text from one native segment."""

    config: ModelConfig
    weights: Weights

    @property
    def whole(self) -> Decoder:
        return Decoder.build(self.config, self.weights, NativeBackend(Format.Q8))

    def placements(self) -> Iterator[tuple[str, Decoder]]:
        layers = self.config.num_layers
        yield "two on the CPU", self._split(0, 1)
        yield "many on the CPU", self._split(*range(layers + 1))
        for borders in ((0, 2), (0,), (), (1,), (0, layers)):
            device = SimulatedDevice(instant())
            yield f"{borders}", on_simulated(self.config, self.weights, device, borders)

    def _split(self, *borders: int) -> Decoder:
        return split_decoder(self.config, self.weights, borders, NativeBackend(Format.Q8))


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Model]:
    root, config = tmp_path_factory.mktemp("split"), full_config()
    found = {"every feature": Model(config, RandomWeights(config))}
    for family in FAMILIES:
        folder: Path = write_model(root / family, family, **(UNLIKE if "3_5" in family else {}))
        own = open_config(folder)
        found[family] = Model(own, ModelWeights.of_folder(own, folder))
    return found


def drafts(model: Decoder, answer: list[int], prompt: int, rng: np.random.Generator) -> Drafter:
    itself = StandaloneDrafter(model, PrefixCache(model, CONTEXT, 1 << 28))
    oracle = OracleDrafter(answer, prompt, model.config.vocab_size, rng)
    return CombinedDrafter([itself, LookupDrafter(), oracle])


@pytest.mark.release(keep=2, reason="every family in every placement")
@pytest.mark.parametrize("sampling", ["greedy", "sampled filtered"])
@pytest.mark.parametrize(
    "name", ["llama", "gemma3_text", "qwen3_moe", "qwen3_5_text", "every feature"]
)
def test_every_placement_writes_the_same_text(
    name: str, sampling: str, models: dict[str, Model]
) -> None:
    model, rng = models[name], np.random.default_rng(5)
    prompt = rng.integers(3, model.config.vocab_size, 80).tolist()
    prompt += prompt[-12:]
    params = SAMPLINGS[sampling]
    plain = decode(model.whole, prompt, params, context=CONTEXT)
    for place, target in model.placements():
        assert decode(target, prompt, params, context=CONTEXT).tokens == plain.tokens, place
        drafter = drafts(target, plain.tokens, len(prompt), rng)
        speculative = decode(
            target, prompt, params,
            drafter=drafter, controller=RandomController(rng), context=CONTEXT,
        )  # fmt: skip
        assert speculative.tokens == plain.tokens, place
        assert len(speculative.rounds) < len(plain.rounds)
        # Half of the text again in the same state, which goes back to the prompt's beginning.
        shorter = [*prompt[:40], *plain.tokens[:9]]
        again = decode(target, shorter, params, state=speculative.state, context=CONTEXT)
        fresh = decode(model.whole, shorter, params, context=CONTEXT)
        assert again.tokens == fresh.tokens, place


@pytest.mark.parametrize("sampling", ["greedy", "sampled"])
def test_drafting_on_the_device_for_a_split_target(sampling: str, models: dict[str, Model]) -> None:
    """The device drafts in one call, and the target's blocks lie there as well."""
    model, device = models["llama"], SimulatedDevice(instant())
    target = on_simulated(model.config, model.weights, device, (0, 2))
    draft = on_simulated(model.config, model.weights, device, owner="draft")
    assert draft.drafts_trees
    rng = np.random.default_rng(6)
    prompt = rng.integers(3, model.config.vocab_size, 70).tolist()
    plain = decode(model.whole, prompt, SAMPLINGS[sampling], context=CONTEXT)
    drafter = StandaloneDrafter(draft, PrefixCache(draft, CONTEXT, 1 << 28))
    found = decode(target, prompt, SAMPLINGS[sampling], drafter=drafter, context=CONTEXT)
    assert found.tokens == plain.tokens
    assert len(found.rounds) < len(plain.rounds) * 0.8

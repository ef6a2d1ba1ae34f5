"""Lossless over recurrent states on a WebGPU adapter: every loop gives the target's own text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from harness import SAMPLINGS, OracleDrafter, RandomController, decode
from hybrid_models import EXPERTS, head_of, with_mtp, write_hybrid
from native_models import native_decoder
from on_adapter import NAME, shared_device
from parallel_runs import RandomPace, lane_of, run
from scripted_lanes import script_the_draft, script_time

from engine.backend.decoder import Decoder
from engine.backend.ledger import unlimited
from engine.backend.native.library import Format
from engine.backend.native.segment import NativeBackend
from engine.backend.prefix_cache import PrefixCache
from engine.backend.segment import Share
from engine.commands import WeightFormat
from engine.machine.facts import CPU
from engine.model.families import open_config
from engine.model.weights.model_weights import ModelWeights
from engine.speculative.drafters.combined import CombinedDrafter
from engine.speculative.drafters.drafter import Drafter
from engine.speculative.drafters.lookup import LookupDrafter
from engine.speculative.drafters.model import HeadDrafter

CONTEXT = 256
PLACES = {
    "whole": [Share(NAME, range(5), embeds=True, heads=True)],
    "first blocks": [Share(NAME, range(2), embeds=True), Share(CPU, range(2, 5), heads=True)],
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("recurrent")
    dense = with_mtp(write_hybrid(root / "without"), root / "dense")
    return {"dense": dense, "mixture": write_hybrid(root / "mixture", **EXPERTS)}


def placed(folder: Path, place: str) -> Decoder:
    config = open_config(folder)
    card = shared_device().backend(WeightFormat.Q8, "target")
    backends = {NAME: card, CPU: NativeBackend(Format.Q8)}
    weights = ModelWeights.of_folder(config, folder)
    return Decoder.placed(config, weights, PLACES[place], backends)


def some_prompt() -> list[int]:
    tokens: list[int] = np.random.default_rng(5).integers(3, 320, 80).tolist()
    return tokens + tokens[-12:]


@pytest.mark.release(keep=1, reason="every placement and sampling")
@pytest.mark.parametrize("sampling", ["greedy", "sampled filtered"])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("model", ["dense", "mixture"])
def test_serial(model: str, place: str, sampling: str, folders: dict[str, Path]) -> None:
    """Trees that are right, wrong and half right; then half of the text again in the same state."""
    target, prompt, rng = placed(folders[model], place), some_prompt(), np.random.default_rng(2)
    params = SAMPLINGS[sampling]
    plain = decode(target, prompt, params, context=CONTEXT, max_tokens=30)
    drafter: Drafter = OracleDrafter(plain.tokens, len(prompt), 320, rng)
    found = decode(
        target, prompt, params, drafter=CombinedDrafter([LookupDrafter(), drafter]),
        controller=RandomController(rng), context=CONTEXT, max_tokens=30,
    )  # fmt: skip
    assert found.tokens == plain.tokens
    assert len(found.rounds) < len(plain.rounds)
    shorter = [*prompt[:40], *plain.tokens[:9]]
    again = decode(target, shorter, params, state=found.state, context=CONTEXT, max_tokens=9)
    assert again.tokens == decode(target, shorter, params, context=CONTEXT, max_tokens=9).tokens


@pytest.mark.release(reason="a thread that drafts beside a slow adapter")
@pytest.mark.parametrize("sampling", ["greedy", "sampled"])
def test_parallel(sampling: str, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """The target on the device, its draft on the CPU."""
    script_the_draft(monkeypatch)
    script_time(monkeypatch)
    target, prompt, accepted = placed(folders["dense"], "whole"), some_prompt(), 0
    lane = lane_of(native_decoder(folders["dense"], Format.F16), others=[LookupDrafter()])
    plain = decode(target, prompt, SAMPLINGS[sampling], max_tokens=30)
    for seed in range(2):
        controller = RandomPace(np.random.default_rng(seed), waits=(0.8, 1.0)[seed])
        found = run(target, lane, prompt, SAMPLINGS[sampling], controller=controller, max_tokens=30)
        assert found.tokens == plain.tokens
        accepted += found.accepted
    assert accepted > 5


@pytest.mark.release(reason="every placement")
@pytest.mark.parametrize("there", [False, True], ids=["on the CPU", "on the device"])
@pytest.mark.parametrize("place", PLACES)
def test_drafts_of_the_models_own_head(place: str, there: bool, folders: dict[str, Path]) -> None:
    """It takes what the final norm gives, on whatever device that is computed."""
    target, prompt = placed(folders["dense"], place), some_prompt()
    plain = decode(target, prompt, SAMPLINGS["greedy"], context=CONTEXT, max_tokens=30)
    card = shared_device().backend(WeightFormat.F32, "draft")
    head = head_of(folders["dense"], card if there else NativeBackend(Format.F32))
    assert head.config.fusion is not None
    target.feed(head.config.fusion, unlimited())
    drafter = HeadDrafter(head, PrefixCache(head, CONTEXT, 1 << 28))
    found = decode(
        target, prompt, SAMPLINGS["greedy"], drafter=drafter,
        controller=RandomController(np.random.default_rng(1)), context=CONTEXT, max_tokens=30,
    )  # fmt: skip
    assert found.tokens == plain.tokens
    assert sum(done.drafted for done in found.rounds) > 30

"""While the target verifies, the draft computes: what the rounds tell of both lanes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter, sleep

import pytest

from engine.backend.decoder import Decoder
from engine.backend.native.cancel import CancelFlag
from engine.backend.round import Candidates, Ranking
from engine.backend.sequence import SequenceState
from engine.backend.simulated.device import SimulatedDevice
from engine.backend.simulated.spec import SimulatedSpec
from engine.bench.declaring import declare_verify
from engine.bench.duo_answers import DuoAnswers, DuoWay, DuoWishes
from engine.bench.lane_script import LaneDraft
from engine.bench.random_model import RandomModel
from engine.bench.shapes import draft_shape, shape
from engine.bench.subject import random_subject
from engine.commands import WeightFormat

VERIFY_S, STEP_S = 0.05, 0.005
PROMPT = [token % 97 for token in range(24)]
SLOWER = (1, 1, 1, 2, 4, 8)
"""How much longer all of it takes, attempt by attempt: the same shares, of a coarser clock."""


class Paced(LaneDraft):
    """A draft whose steps take a told time."""

    seconds = STEP_S

    def expand(
        self,
        state: SequenceState,
        tokens: Sequence[int],
        parents: Sequence[int],
        wanted: Sequence[int],
        ranking: Ranking,
        width: int,
        cancel: CancelFlag | None = None,
    ) -> list[Candidates] | None:
        end = perf_counter() + self.seconds
        found = super().expand(state, tokens, parents, wanted, ranking, width, cancel)
        sleep(max(end - perf_counter(), 0.0))
        return found


Slowed = Callable[[int], None]


@pytest.fixture
def both() -> tuple[DuoAnswers, Slowed]:
    """A target that verifies in 50 ms, a draft whose steps take 5; what makes both slower."""
    model = RandomModel("target", draft_shape(shape("llama2-7b"), 64, 2), "q4_0")
    device = SimulatedDevice(SimulatedSpec.of(1 << 27))
    backend = device.backend(WeightFormat.STORED, "target")
    target = Decoder.build(model.config, model.weights(), backend)
    draft = Paced(random_subject(model.config, "q4_0", threads=1, seed=1).decoder)
    wishes = DuoWishes(tokens=16, runs=1, acceptance=0.8, ways=(DuoWay.PARALLEL,))
    found = DuoAnswers(target, draft, None, [PROMPT], wishes)

    def slowed(times: int) -> None:
        draft.seconds = times * STEP_S
        declare_verify(device, target, times * VERIFY_S, len(PROMPT))

    return found, slowed


def test_the_draft_computes_while_the_target_verifies(both: tuple[DuoAnswers, Slowed]) -> None:
    """At least four fifths of the time; a machine that has no time for us gets more chances."""
    answers, slowed = both
    overlaps = []
    for attempt, times in enumerate(SLOWER):
        slowed(times)
        answers.heard[DuoWay.PARALLEL].answers.clear()
        answers.run(attempt)
        shares = answers.heard[DuoWay.PARALLEL].shares
        assert shares is not None
        overlaps.append(shares.overlap)
        assert shares.useful + shares.wasted <= 1 + 1e-9
        if shares.overlap >= 0.8:
            break
    assert answers.exact
    assert max(overlaps) >= 0.8

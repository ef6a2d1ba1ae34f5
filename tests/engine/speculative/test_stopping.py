"""A stop ends the forward under way: in the prompt, in a verification, on every segment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from full_models import RandomWeights, full_config
from split_models import cut

from engine.backend.decoder import Decoder
from engine.backend.native.library import Format
from engine.backend.native.pool import CancelFlag
from engine.backend.native.segment import NativeBackend
from engine.backend.tree import TokenTree, chain
from engine.errors import Cancelled
from engine.machine.facts import CPU
from engine.request import SamplingParams
from engine.speculative.decoding import Decoding
from engine.speculative.sampler import Sampler

PROMPT = list(range(3, 40))
SAMPLING = SamplingParams(temperature=0.8, seed=5)


class _Impatient:
    """A segment during whose forward the user presses Stop."""

    def __init__(self, segment: Any, flag: CancelFlag) -> None:
        self._segment, self._flag, self.armed = segment, flag, False

    def __getattr__(self, name: str) -> object:
        return getattr(self._segment, name)

    def run(self, *arguments: object) -> object:
        return self._stopped("run", *arguments)

    def verify(self, *arguments: object, **named: object) -> object:
        return self._stopped("verify", *arguments, **named)

    def _stopped(self, name: str, *arguments: object, **named: object) -> object:
        if self.armed:
            self._flag.set()
        return getattr(self._segment, name)(*arguments, **named)


def impatient(flag: CancelFlag, borders: Sequence[int], index: int) -> tuple[Decoder, _Impatient]:
    config = full_config()
    shares = cut(config.num_layers, borders, "a" * (len(borders) + 1))
    backends = {"a": NativeBackend(Format.Q4), CPU: NativeBackend(Format.Q4)}
    decoder = Decoder.placed(config, RandomWeights(config), shares, backends)
    segment = _Impatient(decoder.segments[index], flag)
    decoder.segments = tuple(
        segment if place == index else each  # type: ignore[misc]
        for place, each in enumerate(decoder.segments)
    )
    decoder._last = decoder.segments[-1]
    return decoder, segment


PLACES = [((), 0), ((2,), 0), ((2,), 1)]


@pytest.mark.parametrize(("borders", "index"), PLACES)
@pytest.mark.parametrize("native", [True, False])
def test_a_stop_ends_a_forward_and_commits_nothing_of_it(
    borders: Sequence[int], index: int, native: bool
) -> None:
    flag = CancelFlag()
    decoder, segment = impatient(flag, borders, index)
    state = decoder.new_state(128)

    def decoding() -> Decoding:
        sampler = Sampler(SAMPLING, len(PROMPT), native=native)
        return Decoding(decoder, state, PROMPT, sampler, max_tokens=8, cancelled=flag)

    first = decoding()
    list(first.prefill())
    expected = first.verify(TokenTree.root(PROMPT[-1])).verified.tokens[0]

    state.crop(0)
    second, segment.armed = decoding(), True
    with pytest.raises(Cancelled):
        list(second.prefill())
    assert len(state) == 0, "the piece under way is not kept"

    segment.armed = False
    flag.clear()
    third = decoding()
    list(third.prefill())
    segment.armed = True
    tree = chain(PROMPT[-1], [expected, 7, 8], [0.0] * 3)
    with pytest.raises(Cancelled):
        third.verify(tree)
    assert third.committed == 0
    assert list(state.tokens) == PROMPT[:-1]

    segment.armed = False
    flag.clear()
    again = decoding()
    assert again.reused == len(PROMPT) - 1
    assert again.verify(tree).verified.tokens[0] == expected

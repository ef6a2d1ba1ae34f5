"""Variation: another answer where the same settings would give the same text again."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter

from app.history import AnswerState, ChatSetup, StoredMessage
from app.settings.presets import BALANCED
from engine.request import SamplingParams

_ASKED = attrgetter(
    "system_prompt", "thinking", "thought_tokens", "max_tokens", "seen_after", "tools"
)
_AGAINST_LOOPS = 1.1
"""Repetition penalty with which the starter model gets into no loop in 20 open questions. As a
default it would be too much: what a text has to repeat, such as code, suffers."""
_CUT_SHORT = {AnswerState.FAILED, AnswerState.INTERRUPTED}


def asks_the_same(one: ChatSetup, other: ChatSetup) -> bool:
    """Return whether two setups ask a model the same; how it is drawn does not matter."""
    same: bool = _ASKED(one) == _ASKED(other)
    return same


def draws_the_same(
    answer: StoredMessage, sampling: SamplingParams, model: str, signature: str
) -> bool:
    """Return whether the same question would get this answer again.

    False for an answer that broke off: nobody has seen how it ends.

    Args:
        answer: a version that there is.
        sampling: how the next one would be drawn.
        model: which would write it.
        signature: its numeric signature.
    """
    same = (answer.model, answer.signature) == (model, signature)
    made, wanted = _effective(answer.sampling), _effective(sampling)
    return same and made == wanted and answer.state not in _CUT_SHORT


def varied(sampling: SamplingParams, seed: int, *, stronger: bool) -> SamplingParams:
    """Return sampling that gives another text.

    Args:
        sampling: what would give the same one.
        seed: the new one.
        stronger: whether more than another seed is called for, because the answer repeats itself.
    """
    if not (sampling.greedy or stronger):
        return replace(sampling, seed=seed)
    usual = BALANCED.setup
    penalty = _AGAINST_LOOPS if stronger else usual.repetition_penalty
    return replace(
        sampling,
        seed=seed,
        temperature=max(sampling.temperature, usual.temperature),
        top_p=min(sampling.top_p, usual.top_p),
        repetition_penalty=max(sampling.repetition_penalty, penalty),
    )


def _effective(sampling: SamplingParams) -> SamplingParams:
    """Only what has a say: greedy decoding knows neither seed nor filters."""
    if not sampling.greedy:
        return sampling
    return replace(sampling, seed=0, top_k=0, top_p=1.0, min_p=0.0)

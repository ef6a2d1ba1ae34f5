"""The sandbox: limits, stops and crashes end a question, and the next one is answered."""

from __future__ import annotations

import builtins
import operator
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from engine.machine.sandbox import LimitExceeded, QuestionFailed, Sandbox
from engine.machine.sandbox_process import Limit, SandboxLimits

_LIMITS = SandboxLimits(characters=1000)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with closing(Sandbox()) as sandbox:
        yield sandbox


@pytest.mark.parametrize(
    ("function", "args", "limits", "limit"),
    [
        (os.abort, (), _LIMITS, Limit.CRASH),
        (time.sleep, (60,), SandboxLimits(seconds=0.01), Limit.TIME),
        (operator.pow, (9, 9**9), SandboxLimits(seconds=0.1), Limit.TIME),
        (operator.mul, ("a", 1 << 34), _LIMITS, Limit.MEMORY),
        (operator.mul, ("a", 1001), _LIMITS, Limit.LENGTH),
    ],
    ids=["crash", "wall time", "CPU time", "memory", "length"],
)
def test_what_breaks_a_limit_ends(
    function: Callable[..., object],
    args: tuple[object, ...],
    limits: SandboxLimits,
    limit: Limit,
    sandbox: Sandbox,
) -> None:
    with pytest.raises(LimitExceeded) as broken:
        sandbox.ask(function, *args, limits=limits)
    assert broken.value.limit is limit
    assert sandbox.ask(operator.add, 1, 2, limits=_LIMITS) == 3


def test_a_question_can_be_stopped_and_the_process_is_kept_otherwise(sandbox: Sandbox) -> None:
    first = sandbox.ask(os.getpid, limits=_LIMITS)
    assert sandbox.ask(builtins.print, "not an answer", limits=_LIMITS) is None
    for failing in (sys.exit, operator.add):
        with pytest.raises(QuestionFailed):
            sandbox.ask(failing, limits=_LIMITS)
    assert sandbox.ask(os.getpid, limits=_LIMITS) == first
    with pytest.raises(LimitExceeded, match="stopped"):
        sandbox.ask(time.sleep, 60, limits=_LIMITS, stopped=lambda: True)
    assert sandbox.ask(os.getpid, limits=_LIMITS) != first

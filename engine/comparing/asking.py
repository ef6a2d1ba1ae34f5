"""One mode answers one question, with a pair that others may be using as well."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import perf_counter

from engine.backend.state_pool import StatePool
from engine.commands import Mode
from engine.comparing.candidates import ModeCandidate
from engine.comparing.questions import Question
from engine.errors import Cancelled, OutOfMemory
from engine.events import AnswerStats, Event, Finished
from engine.loading.load import LoadedPair
from engine.request import ChatRequest
from engine.session.answer import Answer
from engine.speculative.loops import Loop, Parallel, Plain, Serial
from engine.speculative.parallel_controller import ParallelController
from engine.speculative.serial_controller import SerialController


def own_states(pair: LoadedPair) -> StatePool:
    """Room for a sequence beside those of chats, which give way only where there is not enough."""
    own = StatePool(pair.target, pair.states.context)
    try:
        own.take([0])
    except OutOfMemory:
        pair.states.clear()
        own.take([0])
    return own


def borrowed(pair: LoadedPair, candidate: ModeCandidate, states: StatePool) -> LoadedPair:
    """The pair as a mode would run it, with `own_states` and experience of its own.

    So nothing of what is asked here is found in what is kept of chats, or in what was learnt in
    them.
    """
    return replace(
        pair,
        states=states,
        loop=_afresh(pair.loop, candidate),
        plan=candidate.plan,
        summary=replace(candidate.checked.summary, signature=pair.target.signature),
    )


def _afresh(loop: Loop, candidate: ModeCandidate) -> Loop:
    """The loop as if it had decoded nothing yet."""
    plan, command = candidate.plan, candidate.checked.inspection.command
    forced = command.forces_drafting
    if plan.draft_device is None:
        return Plain()
    if isinstance(loop, Serial):
        return replace(loop, controller=SerialController(plan.expected, forced=forced))
    if isinstance(loop, Parallel):
        ahead = command.mode is Mode.DUO
        return replace(
            loop, controller=ParallelController(plan.expected, forced=forced, ahead=ahead)
        )
    return loop


def ask(
    pair: LoadedPair, question: Question, tokens: int, cancelled: Callable[[], bool]
) -> AnswerStats:
    """Have one answer written, greedily, all of its question read anew.

    Raises:
        Cancelled: the user wants something else.
        UserFixable: it cannot be answered.
    """
    pair.states.empty()
    ended: list[Finished] = []

    def listen(event: Event) -> None:
        if isinstance(event, Finished):
            ended.append(event)

    request = ChatRequest(
        "compare", question.messages, max_tokens=tokens, clicked_at=perf_counter(), thinking=False
    )
    Answer(pair, request, listen, cancelled).write()
    if cancelled():
        raise Cancelled
    return ended[0].stats

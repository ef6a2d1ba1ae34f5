"""The state of the composer: what it allows, and why not more."""

from __future__ import annotations

from dataclasses import dataclass

from app.engine_link.status import EngineStatus, Phase
from engine.language import tr


@dataclass(frozen=True, slots=True)
class ComposerState:
    """State of the composer; `reason` says in words why not, or what will happen."""

    can_send: bool
    can_stop: bool
    reason: str = ""
    queues: bool = False
    """True if what is sent waits for the end of an answer."""


def composer_state(
    status: EngineStatus, *, answering: bool, elsewhere: str = "", waits: bool = False
) -> ComposerState:
    """Return what the composer allows now.

    Args:
        status: the engine's.
        answering: whether an answer is being written in any conversation.
        elsewhere: title of the other conversation it is written in, or "".
        waits: whether a message waits for a model that says whether it fits.
    """
    if answering and elsewhere:
        reason = tr("An answer is being written in \u201c{title}\u201d").format(title=elsewhere)
        return ComposerState(False, True, reason, queues=True)
    if answering:
        return ComposerState(False, status.phase is not Phase.STOPPING, queues=True)
    match status.phase:
        case Phase.BROKEN:
            reason = tr("The engine did not start, so nothing can answer")
            return ComposerState(False, False, reason)
        case Phase.NO_MODEL:
            return ComposerState(False, False, tr("No model is loaded, so nothing can answer"))
        case Phase.PREPARING | Phase.LOADING if waits:
            reason = tr("Sent once the model is ready, if it fits")
            return ComposerState(True, False, reason)
        case Phase.PREPARING | Phase.LOADING:
            reason = tr("The answer begins as soon as the model is ready")
            return ComposerState(True, False, reason)
    return ComposerState(True, False)

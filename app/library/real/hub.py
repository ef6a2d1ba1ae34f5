"""All of it put together; imported when somebody looks for models, in a thread of its own."""

from __future__ import annotations

from app.library.hub import Hub, Listener
from app.library.real.advice import RealAdvice
from app.library.real.shelf import RealShelf
from app.library.real.surroundings import Surroundings
from app.library.real.token import RealTokens
from engine.hub.download.queue import Downloads
from engine.hub.questions import HubQuestions


def real_hub(around: Surroundings, listener: Listener) -> Hub:
    """The hub of a window."""
    around.data.mkdir(parents=True, exist_ok=True)
    return Hub(
        HubQuestions(listener),
        Downloads(around.data, listener),
        RealShelf(around),
        RealAdvice(around),
        RealTokens(around),
    )

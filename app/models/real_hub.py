"""All of it put together; imported when somebody looks for models, in a thread of its own."""

from __future__ import annotations

from app.models.disk_advice import RealAdvice
from app.models.disk_shelf import RealShelf
from app.models.hub import Hub, Listener
from app.models.kept_token import RealTokens
from app.models.surroundings import Surroundings
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

"""The request for a completion, in whatever dialect, and the model that is loaded."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace

from engine.events import PlanSummary
from engine.request import ChatRequest, SamplingParams
from engine.server.members import Members

ID_PREFIX = "server-"
"""First characters of the ids of all answers that a server requests."""
MOST_ALTERNATIVES = 20
"""Most alternatives that may be asked for at each token."""
_MOST_TOKENS = 2**31 - 1
_MOST_STOPS = 64
_USUAL = SamplingParams(temperature=0.8, top_k=40, top_p=0.95, min_p=0.05)
"""Sampling of requests that say nothing, for a model that recommends nothing: as other local
servers have it. At OpenAI's temperature of 1 small models write garbled text."""
_REPETITION = 1e-3, 100.0
_NO_SEED = -1  # llama.cpp's and others' word for "any"
_FIELDS = (
    ("temperature", 0.0, 100.0),
    ("top_p", 1e-6, 1.0),
    ("min_p", 0.0, 1.0),
    ("presence_penalty", -2.0, 2.0),
    ("frequency_penalty", -2.0, 2.0),
    ("repetition_penalty", *_REPETITION),
)

_NEUTRAL: dict[str, tuple[object, ...]] = {
    "chat_template": (),
    "dry_multiplier": (0,),
    "dynatemp_range": (0,),
    "ignore_eos": (False,),
    "logit_bias": ({}, []),
    "min_tokens": (0,),
    "mirostat": (0,),
    "mirostat_mode": (0,),
    "tfs": (1,),
    "tfs_z": (1,),
    "top_a": (0,),
    "top_n_sigma": (0, -1),
    "typical_p": (1,),
    "use_beam_search": (False,),
    "xtc_probability": (0,),
}
"""Members of other programs' interfaces that would change an answer, except with these values."""


@dataclass(frozen=True, slots=True)
class ServedModel:
    """The loaded model, as clients see it: a name and never a path."""

    name: str
    plan: PlanSummary
    since: int
    """Unix time at which it was loaded."""


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """The completion that a client requests.

    Attributes:
        chat: the request for the engine.
        stream: whether it is wanted piece by piece.
        usage: whether a stream ends with a count of tokens, where that is a matter of choice.
        progress: whether it tells its counts while it is being written, too.
        logprobs: whether to tell the probabilities of tokens.
    """

    chat: ChatRequest
    stream: bool
    usage: bool = False
    progress: bool = False
    logprobs: bool = False

    @property
    def id(self) -> str:
        """The part of the id that the dialects' own prefixes stand before."""
        return self.chat.id.removeprefix(ID_PREFIX)


def new_id() -> str:
    """Return the id of a new request."""
    return ID_PREFIX + secrets.token_hex(12)


def sampling(members: Members, recommended: SamplingParams | None) -> SamplingParams:
    """Return the sampling that a request asks for.

    What it leaves open is as the model's own files recommend, else as usual. Without a
    seed there is a new one, which the response tells.

    Raises:
        ApiError: a value is out of its range, or of a kind of sampling that there is not.
    """
    for name, values in _NEUTRAL.items():
        members.only(name, *values)
    said: dict[str, float] = {}
    if (repeat := members.number("repeat_penalty", *_REPETITION)) is not None:  # llama.cpp's name
        said["repetition_penalty"] = repeat
    for name, low, high in _FIELDS:
        value = members.number(name, low, high)
        if value is not None:
            said[name] = value
    top_k = members.whole("top_k", -1, _MOST_TOKENS)
    seed = members.whole("seed", -(2**63), 2**64 - 1)
    base = recommended or _USUAL
    return replace(
        base,
        **said,
        top_k=base.top_k if top_k is None else max(top_k, 0),
        seed=secrets.randbits(32) if seed is None or seed == _NO_SEED else seed % 2**64,
    )


def length(members: Members, *names: str, default: int | None = None) -> int | None:
    """Return the most tokens that are wanted; None: as many as there is room for (-1 says so).

    Args:
        members: of the request.
        names: of the member; the first one that is there counts.
        default: where none is.

    Raises:
        ApiError: it is no number of tokens.
    """
    for name in names:
        found = members.whole(name, -1, _MOST_TOKENS)
        if found == 0:
            raise members.wrong(name, "a whole number of 1 or more")
        if found is not None:
            return None if found < 0 else found
    return default


def stops(members: Members, name: str) -> tuple[str, ...]:
    """Return the texts at which an answer ends.

    Raises:
        ApiError: they are none, or too many.
    """
    return members.texts(name, _MOST_STOPS)

"""The request for a completion, in whatever dialect."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass, replace

from engine.request import Bias, ChatRequest, SamplingParams
from engine.server.dispatcher import ID_PREFIX
from engine.server.members import Members

MOST_ALTERNATIVES = 20
"""Most alternatives that may be asked for at each token."""
MOST_COMPLETIONS = 256
"""Most completions of one request."""
_MOST_TOKENS = 2**31 - 1
_MOST_STOPS = 64
_USUAL = SamplingParams(temperature=0.8, top_k=40, top_p=0.95, min_p=0.05)
"""Sampling of requests that say nothing, for a model that recommends nothing: as other local
servers have it. At OpenAI's temperature of 1 small models write garbled text."""
_MOST_BIASED, _MOST_BIAS = 1024, 1e6
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
class CompletionRequest:
    """Request of a client: one completion, or several.

    Attributes:
        chats: the requests for the engine, one for each completion; none: the model is wanted only.
        stream: whether it is wanted piece by piece.
        usage: whether a stream ends with a count of tokens, where that is a matter of choice.
        progress: whether it tells its counts while it is being written, too.
        logprobs: whether to tell the probabilities of tokens.
        echo: whether each completion begins with its prompt.
        packed: whether embeddings are wanted as base64.
        n: completions of each prompt, one after the other in `chats`.
    """

    chats: tuple[ChatRequest, ...]
    stream: bool
    usage: bool = False
    progress: bool = False
    logprobs: bool = False
    echo: bool = False
    packed: bool = False
    n: int = 1

    @property
    def chat(self) -> ChatRequest:
        """The first request."""
        return self.chats[0]


def several(chats: Iterable[ChatRequest], n: int = 1) -> tuple[ChatRequest, ...]:
    """Return requests with ids of their own, each so many times with seeds that follow each other.

    Args:
        chats: requests, all with the id of the whole.
        n: completions of each.
    """
    own = [
        replace(chat, sampling=replace(chat.sampling, seed=(chat.sampling.seed + i) % 2**64))
        for chat in chats
        for i in range(n)
    ]
    return tuple(replace(each, id=f"{each.id}-{i}") if i else each for i, each in enumerate(own))


def bias(members: Members) -> Bias:
    """Return the `logit_bias` of a request: an object of ids, or llama-server's list of pairs.

    Raises:
        ApiError: it is neither, or there is too much of it.
    """
    name, value = "logit_bias", members.raw("logit_bias")
    wrong = members.wrong(name, f"an object of at most {_MOST_BIASED} token ids and numbers")
    pairs = list(value.items()) if isinstance(value, dict) else value or []
    if not isinstance(pairs, list) or len(pairs) > _MOST_BIASED:
        raise wrong
    found: dict[int, float] = {}
    for pair in pairs:
        match pair:
            case [str() | int() as token, int() | float() as number] if str(token).isdecimal():
                never = number is False
            case _:
                raise wrong
        if not -_MOST_BIAS <= number <= _MOST_BIAS or number is True or int(token) >= 2**31:
            raise wrong
        found[int(token)] = -_MOST_BIAS if never else float(number)
    return tuple(found.items())


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


def length(members: Members, *names: str, default: int | None = None, least: int = 1) -> int | None:
    """Return the most tokens that are wanted; None: as many as there is room for (-1 says so).

    Args:
        members: of the request.
        names: of the member; the first one that is there counts.
        default: where none is.
        least: 0 where the prompt alone may be wanted.

    Raises:
        ApiError: it is no number of tokens.
    """
    for name in names:
        found = members.whole(name, -1, _MOST_TOKENS)
        if found is not None and 0 <= found < least:
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

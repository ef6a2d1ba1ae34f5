"""OpenAI's embeddings: of the loaded model, the mean of its last hidden states, of length 1."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import hypot

from engine.request import ChatRequest, PromptDetail, SamplingParams
from engine.server.api_error import ApiError
from engine.server.completion_request import CompletionRequest, several
from engine.server.dialects.dialect import Dialect, Json
from engine.server.generation import Completion
from engine.server.members import Members
from engine.server.prompts import prompts
from engine.server.reasoning import CompletionDelta

_MOST_INPUTS = 2048


@dataclass(frozen=True, slots=True)
class Vectors:
    """The embeddings of a request, each of length 1.

    Attributes:
        model: that gave them.
        each: in the order of the texts.
        tokens: that were read.
        seconds: that it took.
    """

    model: str
    each: Sequence[Sequence[float]]
    tokens: int
    seconds: float


class Embeddings(Dialect):
    """`/v1/embeddings`; never streamed."""

    _member = "input"
    """Name of the member with the texts."""

    @classmethod
    def parse(
        cls, body: Members, request_id: str, recommended: SamplingParams | None
    ) -> CompletionRequest:
        """Return what a body asks for."""
        del recommended
        chats = (
            ChatRequest(request_id, (), max_tokens=0, raw=prompt, detail=PromptDetail.EMBEDDING)
            for prompt in prompts(body, cls._member, most=_MOST_INPUTS)
        )
        return CompletionRequest(several(chats), stream=False, packed=cls._packs(body))

    @staticmethod
    def _packs(body: Members) -> bool:
        """Return whether vectors are wanted as base64."""
        body.only("dimensions")
        form = body.text("encoding_format") or "float"
        if form not in ("float", "base64"):
            raise body.unsupported("encoding_format")
        return form == "base64"

    @classmethod
    def texts(cls, body: Members) -> tuple[str, ...]:
        """Return the texts of a request: an embedding model of its own has tokens of its own.

        Raises:
            ApiError: there are none, or tokens.
        """
        found = prompts(body, cls._member, most=_MOST_INPUTS)
        if any(each.ids is not None for each in found):
            raise body.wrong(cls._member, "a text or a list of texts")
        cls._packs(body)
        return tuple(each.text for each in found)

    @classmethod
    def whole(cls, vectors: Vectors, body: Members) -> Json:
        """Return the response to a request that an embedding model has answered."""
        return cls._told(vectors, packed=cls._packs(body))

    def response(self, completion: Completion) -> Json:
        """Return one embedding."""
        return self.joined([completion])

    def joined(self, completions: Sequence[Completion]) -> Json:
        """Return all embeddings of the request."""
        stats = [each.finished.stats for each in completions]
        vectors = Vectors(
            self._model,
            [embedding(each) for each in completions],
            sum(each.prompt_tokens for each in stats),
            sum(each.seconds for each in stats),
        )
        return self._told(vectors, packed=self._request.packed)

    @classmethod
    def _told(cls, vectors: Vectors, *, packed: bool) -> Json:
        return {
            "object": "list",
            "model": vectors.model,
            "data": [
                {
                    "object": "embedding",
                    "index": index,
                    "embedding": _packed(vector) if packed else list(vector),
                }
                for index, vector in enumerate(vectors.each)
            ],
            "usage": {"prompt_tokens": vectors.tokens, "total_tokens": vectors.tokens},
        }

    def delta(self, delta: CompletionDelta) -> Iterator[bytes]:
        """Yield nothing: nothing is written."""
        del delta
        yield from ()

    def end(self, completion: Completion) -> Iterator[bytes]:
        """Yield nothing."""
        del completion
        yield from ()


class OllamaEmbed(Embeddings):
    """Ollama's `/api/embed`."""

    @staticmethod
    def error(error: ApiError) -> Json:
        """Return the body of an error."""
        return error.to_ollama()

    @classmethod
    def _told(cls, vectors: Vectors, *, packed: bool) -> Json:
        del packed
        return {
            "model": vectors.model,
            "embeddings": [list(each) for each in vectors.each],
            "total_duration": round(1e9 * vectors.seconds),
            "load_duration": 0,
            "prompt_eval_count": vectors.tokens,
        }


class OllamaEmbedding(OllamaEmbed):
    """Ollama's older `/api/embeddings`, of one prompt."""

    _member = "prompt"

    @classmethod
    def _told(cls, vectors: Vectors, *, packed: bool) -> Json:
        del packed
        return {"embedding": list(vectors.each[0])}


def embedding(completion: Completion) -> list[float]:
    """Return what a prompt means to the model, as a vector of length 1."""
    told = () if completion.prompt is None else completion.prompt.embedding
    length = hypot(*told) or 1.0
    return [value / length for value in told]


def _packed(vector: Sequence[float]) -> str:
    """Return a vector as OpenAI's client asks for it: base64 of fp32, the lowest byte first."""
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()

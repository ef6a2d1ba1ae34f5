"""OpenAI's embeddings: of the loaded model, the mean of its last hidden states, of length 1."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator, Sequence
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
        body.only("dimensions")
        form = body.text("encoding_format") or "float"
        if form not in ("float", "base64"):
            raise body.unsupported("encoding_format")
        chats = (
            ChatRequest(request_id, (), max_tokens=0, raw=prompt, detail=PromptDetail.EMBEDDING)
            for prompt in prompts(body, cls._member, most=_MOST_INPUTS)
        )
        return CompletionRequest(several(chats), stream=False, packed=form == "base64")

    def response(self, completion: Completion) -> Json:
        """Return one embedding."""
        return self.joined([completion])

    def joined(self, completions: Sequence[Completion]) -> Json:
        """Return all embeddings of the request."""
        read = _read(completions)
        vectors = [embedding(each) for each in completions]
        return {
            "object": "list",
            "model": self._model,
            "data": [
                {
                    "object": "embedding",
                    "index": index,
                    "embedding": _packed(vector) if self._request.packed else vector,
                }
                for index, vector in enumerate(vectors)
            ],
            "usage": {"prompt_tokens": read, "total_tokens": read},
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

    def joined(self, completions: Sequence[Completion]) -> Json:
        """Return all embeddings of the request."""
        return {
            "model": self._model,
            "embeddings": [embedding(each) for each in completions],
            "total_duration": round(1e9 * sum(each.finished.stats.seconds for each in completions)),
            "load_duration": 0,
            "prompt_eval_count": _read(completions),
        }


class OllamaEmbedding(OllamaEmbed):
    """Ollama's older `/api/embeddings`, of one prompt."""

    _member = "prompt"

    def joined(self, completions: Sequence[Completion]) -> Json:
        """Return the embedding."""
        return {"embedding": embedding(completions[0])}


def embedding(completion: Completion) -> list[float]:
    """Return what a prompt means to the model, as a vector of length 1."""
    told = () if completion.prompt is None else completion.prompt.embedding
    length = hypot(*told) or 1.0
    return [value / length for value in told]


def _read(completions: Sequence[Completion]) -> int:
    return sum(each.finished.stats.prompt_tokens for each in completions)


def _packed(vector: Sequence[float]) -> str:
    """Return a vector as OpenAI's client asks for it: base64 of fp32, the lowest byte first."""
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()

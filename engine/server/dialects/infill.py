"""llama-server's `/infill` and `/completion`, as editors ask for them."""

from __future__ import annotations

from collections.abc import Iterator

from engine.events import FinishReason
from engine.request import ChatRequest, RawPrompt, SamplingParams
from engine.server.completion_request import CompletionRequest, bias, length, sampling, stops
from engine.server.dialects.dialect import Dialect, Json, sse
from engine.server.dialects.usage import provenance, speculation
from engine.server.generation import Completion
from engine.server.members import Members
from engine.server.reasoning import CompletionDelta
from engine.server.structured import wanted_grammar


class Infill(Dialect):
    """`/infill`: what stands between two texts."""

    @classmethod
    def parse(
        cls, body: Members, request_id: str, recommended: SamplingParams | None
    ) -> CompletionRequest:
        """Return what a body asks for."""
        chat = ChatRequest(
            request_id,
            (),
            sampling(body, recommended),
            length(body, "n_predict", "max_tokens", least=0),
            stops(body, "stop"),
            raw=cls._raw(body),
            grammar=wanted_grammar(body),
            bias=bias(body),
        )
        return CompletionRequest((chat,), stream=bool(body.flag("stream")))

    @classmethod
    def _raw(cls, body: Members) -> RawPrompt:
        """Return the texts around the gap; other files of the project stand before them."""
        before = "".join(
            f"{each.text('filename') or ''}\n{each.text('text') or ''}\n\n"
            for each in body.list("input_extra")
        )
        before += (body.text("input_prefix") or "") + (body.text("prompt") or "")
        return RawPrompt(before, suffix=body.text("input_suffix") or "")

    def response(self, completion: Completion) -> Json:
        """Return a completion as one object."""
        return {"content": completion.content} | self._ended(completion)

    def delta(self, delta: CompletionDelta) -> Iterator[bytes]:
        """Yield the next stretch of the completion."""
        yield sse({"content": delta.text, "stop": False, "index": 0})

    def end(self, completion: Completion) -> Iterator[bytes]:
        """Yield how it ended."""
        yield sse({"content": ""} | self._ended(completion))

    def _ended(self, completion: Completion) -> Json:
        finished = completion.finished
        stats = finished.stats
        cut = finished.reason in (FinishReason.LENGTH, FinishReason.CONTEXT)
        kind = "limit" if cut else "word" if finished.stop else "eos"
        return {
            "index": 0,
            "stop": True,
            "stop_type": kind,
            "stopping_word": finished.stop,
            "model": self._model,
            "tokens_predicted": stats.committed,
            "tokens_evaluated": stats.prompt_tokens,
            "tokens_cached": stats.reused_tokens,
            "truncated": False,
            "timings": {"predicted_n": stats.committed, "predicted_per_second": stats.tokens_per_s},
            "speculation": speculation(finished),
        } | provenance(completion)


class LlamaCompletion(Infill):
    """`/completion`: a text that goes on as it stands."""

    @classmethod
    def _raw(cls, body: Members) -> RawPrompt:
        return RawPrompt(body.needed_text("prompt"), control_tokens=True)

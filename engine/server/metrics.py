"""Counts of a server in Prometheus' text format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from engine.events import AnswerStats

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


_COUNTERS = (
    ("prompt_tokens", "prompt_tokens", "Tokens of prompts"),
    ("reused_tokens", "reused_tokens", "Tokens of prompts that came from the prefix cache"),
    ("committed_tokens", "committed", "Tokens of answers"),
    ("drafted_tokens", "drafted", "Tokens that were drafted and verified"),
    ("accepted_tokens", "accepted", "Drafted tokens that were accepted"),
    ("rounds", "rounds", "Rounds of draft and verification"),
    ("plain_rounds", "plain_rounds", "Rounds without a draft"),
    ("decode_seconds", "decode_seconds", "Seconds from first tokens of answers to last ones"),
    ("draft_seconds", "draft_seconds", "Seconds in which the draft computed"),
    ("verify_seconds", "verify_seconds", "Seconds in which the target verified"),
)
"""Sums over all answers: name, field of `AnswerStats`, words."""


_HISTOGRAMS = {
    "queue_seconds": "Seconds that requests waited for their turn",
    "ttft_seconds": "Seconds from a request to its first token",
    "answer_seconds": "Seconds from a request to the end of its answer",
}
_BOUNDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)


class _Histogram:
    """Counts of values up to each bound, and their sum."""

    def __init__(self) -> None:
        self._counts = [0] * len(_BOUNDS)
        self._count, self._sum = 0, 0.0

    def add(self, value: float) -> None:
        self._count, self._sum = self._count + 1, self._sum + value
        for place, bound in enumerate(_BOUNDS):
            self._counts[place] += value <= bound

    def lines(self, name: str, words: str) -> Iterator[str]:
        yield from _head(name, "histogram", words)
        for bound, count in zip(_BOUNDS, self._counts, strict=True):
            yield f'{name}_bucket{{le="{bound:g}"}} {count}'
        yield f'{name}_bucket{{le="+Inf"}} {self._count}'
        yield f"{name}_sum {self._sum:.16g}"
        yield f"{name}_count {self._count}"


class ServerMetrics:
    """Sums since the start, and the figures of the last answer; used in the server's loop only."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, int]] = Counter()
        self._sums = dict.fromkeys((name for name, _, _ in _COUNTERS), 0.0)
        self._last: AnswerStats | None = None
        self._cancelled = 0
        self._histograms = {name: _Histogram() for name in _HISTOGRAMS}

    def responded(self, path: str, status: int) -> None:
        """Count a response; `path` is one that the server knows."""
        self._requests[path, status] += 1

    def waited(self, seconds: float) -> None:
        """Count how long a request has waited for its turn."""
        self._histograms["queue_seconds"].add(seconds)

    def cancelled(self, tokens: int) -> None:
        """Count an answer whose client left; `tokens`: what was written of it."""
        self._cancelled += 1
        self._sums["committed_tokens"] += tokens

    def answered(self, stats: AnswerStats) -> None:
        """Count an answer."""
        self._last = stats
        self._histograms["answer_seconds"].add(stats.seconds)
        if stats.ttft_s is not None:
            self._histograms["ttft_seconds"].add(stats.ttft_s)
        for name, field, _ in _COUNTERS:
            self._sums[name] += getattr(stats, field)

    def text(self, running: int, waiting: int) -> str:
        """Return all of it.

        Args:
            running: requests that are being answered.
            waiting: requests that wait.
        """
        return "\n".join((*self._lines(running, waiting), ""))

    def _lines(self, running: int, waiting: int) -> Iterator[str]:
        name = "duotail_requests_total"
        yield from _head(name, "counter", "Responses by path and status")
        for (path, status), count in sorted(self._requests.items()):
            yield f'{name}{{path="{path}",status="{status}"}} {count}'
        for name, _, words in _COUNTERS:
            yield from _metric(f"{name}_total", "counter", words, self._sums[name])
        words = "Answers whose client left before their end"
        yield from _metric("cancelled_total", "counter", words, self._cancelled)
        for name, words in _HISTOGRAMS.items():
            yield from self._histograms[name].lines(f"duotail_{name}", words)
        last = self._last
        yield from _metric("requests_running", "gauge", "Requests being answered", running)
        yield from _metric("requests_waiting", "gauge", "Requests waiting for their turn", waiting)
        if last is not None and last.tokens_per_s is not None:
            words = "Tokens per second of the last answer"
            yield from _metric("tokens_per_second", "gauge", words, last.tokens_per_s)
        if last is not None and last.acceptance_length is not None:
            words = "Acceptance length of the last answer"
            yield from _metric("acceptance_length", "gauge", words, last.acceptance_length)


def _metric(name: str, kind: str, words: str, value: float) -> Iterator[str]:
    yield from _head(f"duotail_{name}", kind, words)
    yield f"duotail_{name} {value:.16g}"


def _head(name: str, kind: str, words: str) -> tuple[str, str]:
    return f"# HELP {name} {words}.", f"# TYPE {name} {kind}"

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


class ServerMetrics:
    """Sums since the start, and the figures of the last answer; used in the server's loop only."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, int]] = Counter()
        self._sums = dict.fromkeys((name for name, _, _ in _COUNTERS), 0.0)
        self._last: AnswerStats | None = None

    def responded(self, path: str, status: int) -> None:
        """Count a response; `path` is one that the server knows."""
        self._requests[path, status] += 1

    def answered(self, stats: AnswerStats) -> None:
        """Count an answer."""
        self._last = stats
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

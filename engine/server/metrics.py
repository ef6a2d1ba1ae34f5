"""Counts of a server in Prometheus' text format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from engine.events import AnswerStats

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class ServerMetrics:
    """Sums since the start, and the figures of the last answer; used in the server's loop only."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, int]] = Counter()
        self._sums: Counter[str] = Counter()
        self._seconds: dict[str, float] = {"decode": 0.0, "draft": 0.0, "verify": 0.0}
        self._last: AnswerStats | None = None

    def responded(self, path: str, status: int) -> None:
        """Count a response; `path` is one that the server knows."""
        self._requests[path, status] += 1

    def answered(self, stats: AnswerStats) -> None:
        """Count an answer."""
        self._last = stats
        self._sums.update(
            prompt=stats.prompt_tokens,
            reused=stats.reused_tokens,
            committed=stats.committed,
            drafted=stats.drafted,
            accepted=stats.accepted,
            rounds=stats.rounds,
            plain=stats.plain_rounds,
        )
        self._seconds["decode"] += stats.decode_seconds
        self._seconds["draft"] += stats.draft_seconds
        self._seconds["verify"] += stats.verify_seconds

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
        sums, seconds, last = self._sums, self._seconds, self._last
        for short, words in (
            ("prompt_tokens", "Tokens of prompts"),
            ("reused_tokens", "Tokens of prompts that came from the prefix cache"),
            ("committed_tokens", "Tokens of answers"),
            ("drafted_tokens", "Tokens that were drafted and verified"),
            ("accepted_tokens", "Drafted tokens that were accepted"),
            ("rounds", "Rounds of draft and verification"),
            ("plain_rounds", "Rounds without a draft"),
        ):
            yield from _metric(f"{short}_total", "counter", words, sums[short.split("_")[0]])
        for short, words in (
            ("decode", "Seconds from first tokens of answers to last ones"),
            ("draft", "Seconds in which the draft computed"),
            ("verify", "Seconds in which the target verified"),
        ):
            yield from _metric(f"{short}_seconds_total", "counter", words, seconds[short])
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
    yield f"duotail_{name} {value:.10g}"


def _head(name: str, kind: str, words: str) -> tuple[str, str]:
    return f"# HELP {name} {words}.", f"# TYPE {name} {kind}"

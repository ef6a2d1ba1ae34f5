"""An engine that plays a script: real threads and real event types, no model."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

from engine.commands import Command, Generate, Load, Mode, Stop, Unload
from engine.events import (
    AnswerStats,
    DeviceSample,
    Event,
    Failed,
    Finished,
    FinishReason,
    Interval,
    LoadProgress,
    Origin,
    PlanReady,
    PlanSummary,
    PrefillProgress,
    RoundFinished,
    TextDelta,
    TokenSpan,
    Unloaded,
)
from engine.request import ChatRequest, Role

PLAN = PlanSummary(
    mode=Mode.CPU,
    target_device="CPU",
    draft_device="CPU",
    draft="Duotail 1M draft + lookup",
    context=1024,
    signature="bf16/f32/cpu",
    reasons=("No accelerator was found, so target and draft share the CPU.",),
    target_bytes=15_000_000,
    draft_bytes=2_000_000,
    kv_bytes=8_000_000,
)
SAMPLE = DeviceSample(0.0, 72.0, 80.0, 300_000_000, 8 * 2**30)


@dataclass
class Script:
    """What the fake engine does; a test changes it at will."""

    answer: str = "Hello! I am **Duotail**, how can I help?"
    pace_s: float = 0.0
    hold_after: int | None = None
    """Wait before this round until `gate` is set (or the answer is stopped)."""
    gate: threading.Event = field(default_factory=threading.Event)
    fail_answer: Failed | None = None
    fail_load: Failed | None = None
    reason: FinishReason = FinishReason.STOP
    requests: list[ChatRequest] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)


class FakeEngine:
    """Speaks the protocol of `engine.service.Engine`."""

    def __init__(self, emit: Callable[[Event], None], script: Script) -> None:
        self._emit = emit
        self._script = script
        self._queue: queue.SimpleQueue[Command | None] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fake-engine", daemon=True)
        self._thread.start()

    def submit(self, command: Command) -> None:
        self._script.commands.append(command)
        if isinstance(command, Stop):
            self._stop.set()
        else:
            self._queue.put(command)

    def close(self, timeout: float = 5.0) -> None:
        self._stop.set()
        self._queue.put(None)
        self._thread.join(timeout)

    def _run(self) -> None:
        self._emit(SAMPLE)
        while (command := self._queue.get()) is not None:
            match command:
                case Load(model=model):
                    self._load(model)
                case Generate(request):
                    self._stop.clear()
                    self._generate(request)
                case Unload():
                    self._emit(Unloaded(perf_counter()))

    def _load(self, model: Path) -> None:
        if self._script.fail_load is not None:
            self._emit(self._script.fail_load)
            self._emit(Unloaded(perf_counter()))
            return
        self._emit(LoadProgress(perf_counter(), "Reading weights", 0.4))
        self._emit(PlanReady(perf_counter(), model, "Duotail 7M", PLAN))

    def _generate(self, request: ChatRequest) -> None:
        script = self._script
        script.requests.append(request)
        started = perf_counter()
        if script.fail_answer is not None:
            failed = script.fail_answer
            self._emit(
                Failed(perf_counter(), request.id, failed.cause, failed.remedy, failed.details)
            )
            self._finish(request, "", 0, FinishReason.ERROR, started)
            return
        self._emit(PrefillProgress(perf_counter(), request.id, 12, 24, 0))
        words = _words(script.answer)
        if request.messages[-1].role is Role.ASSISTANT:
            words = _words(script.answer[len(request.messages[-1].text) :])
        told: list[str] = []
        reason = script.reason
        for index in range(0, len(words), 3):
            held = script.hold_after is not None and index // 3 >= script.hold_after
            while held and not script.gate.wait(0.005) and not self._stop.is_set():
                pass
            if self._stop.wait(script.pace_s):
                reason = FinishReason.STOPPED
                break
            told.extend(self._round(request, index, words[index : index + 3], told))
        self._finish(request, "".join(told), len(told), reason, started)

    def _round(
        self, request: ChatRequest, index: int, words: list[str], told: list[str]
    ) -> list[str]:
        now = perf_counter()
        offset = len("".join(told).encode("utf-16-le")) // 2
        spans = []
        for place, word in enumerate(words):
            length = len(word.encode("utf-16-le")) // 2
            origin = Origin.DRAFTED if place < len(words) - 1 else Origin.TARGET
            spans.append(TokenSpan(1000 + index + place, offset, offset + length, origin))
            offset += length
        self._emit(TextDelta(now, request.id, "".join(words), tuple(spans)))
        drafted, accepted = 4, len(words) - 1
        self._emit(
            RoundFinished(
                now,
                request.id,
                index // 3,
                Interval(now - 0.02, now - 0.012),
                Interval(now - 0.012, now),
                drafted,
                accepted,
                len(words),
                (1,) * min(accepted + 1, drafted),
                (1,) * accepted,
                24 + index,
            )
        )
        return words

    def _finish(
        self, request: ChatRequest, text: str, tokens: int, reason: FinishReason, started: float
    ) -> None:
        rounds = -(-tokens // 3)
        stats = AnswerStats(
            prompt_tokens=24,
            reused_tokens=8,
            committed=tokens,
            rounds=rounds,
            plain_rounds=0,
            drafted=rounds * 4,
            accepted=rounds * 2,
            drafted_by_depth=(rounds, rounds),
            accepted_by_depth=(rounds, rounds),
            acceptance_length=2.61 if tokens else None,
            ttft_s=0.118 if tokens else None,
            tokens_per_s=41.8 if tokens else None,
            seconds=perf_counter() - started,
        )
        self._emit(
            Finished(
                perf_counter(),
                request.id,
                reason,
                text,
                tuple(range(1000, 1000 + tokens)),
                stats,
                request.sampling.seed,
                PLAN.signature,
            )
        )


def _words(text: str) -> list[str]:
    """`text` in pieces that join to itself."""
    pieces = text.split(" ")
    return [piece + " " for piece in pieces[:-1]] + ([pieces[-1]] if pieces[-1] else [])

"""What the target writes, or makes of given answers, recorded for its drafts to learn from."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from time import monotonic

import torch

from engine.backend.sequence import SequenceState
from engine.errors import UserFixable
from engine.request import Message, Role
from engine.train.conversations import Example
from engine.train.own_answers import TargetWriter
from engine.train.recording import Recorded, RecordingWriter
from engine.train.sequences import Renderer, Sequence
from engine.train.targets import Target

_CHUNK = 512


@dataclass(frozen=True, slots=True)
class RecordingReport:
    """How far a recording is.

    Attributes:
        tokens, wanted: recorded by now, and in the end.
        nbytes: on disk in the end.
        tokens_per_s: of this sitting.
    """

    tokens: int
    wanted: int
    nbytes: int
    tokens_per_s: float


class _Enough(Exception):
    """The recording is as long as it was wanted."""


class TargetRecorder:
    """Records sequences of one target.

    Args:
        target: its decoder is used by nobody else meanwhile.
        taps: blocks whose outputs are recorded.
        longest: tokens of a sequence.
        recorder: where they go.
        wanted: tokens after which it ends.
        tell: told about once a second; it may raise to end the recording before.
    """

    def __init__(
        self,
        target: Target,
        taps: tuple[int, ...],
        longest: int,
        recorder: RecordingWriter,
        wanted: int,
        tell: Callable[[RecordingReport], None],
    ) -> None:
        self._target, self._taps, self._longest = target, taps, longest
        self._recorder, self._wanted, self._tell = recorder, wanted, tell
        self._begun = self._told = monotonic()
        self._first = recorder.tokens

    def answer(self, examples: Iterable[Example], longest_answer: int, seed: int) -> None:
        """Let the target answer what the examples ask.

        Raises:
            NotPossible: the target is not in the native backend.
        """
        target = self._target
        writer = TargetWriter(
            target.decoder,
            target.tokenizer.eos_ids,
            longest=self._longest,
            longest_answer=longest_answer,
            taps=self._taps,
            seed=seed,
        )
        self._record(lambda: writer.write(self._prompts(examples, seed), self._keep))

    def read(self, examples: Iterable[Example], renderer: Renderer) -> None:
        """Compute what the target makes of the examples' own answers."""
        state = self._target.decoder.new_state(self._longest)

        def run() -> None:
            for index, example in enumerate(examples):
                if index in self._recorder.indices:
                    continue
                if (sequence := renderer.sequence(example)) is not None:
                    self._keep(self._computed(index, sequence, state))

        self._record(run)

    def _record(self, run: Callable[[], None]) -> None:
        try:
            if self._recorder.tokens < self._wanted:
                run()
        except _Enough:
            pass
        finally:
            self._recorder.flush()

    def _keep(self, one: Recorded) -> None:
        recorder, now = self._recorder, monotonic()
        recorder.add(one)
        if now - self._told >= 1:
            self._told = now
            nbytes = self._wanted * (2 * (len(self._taps) + 1) * one.states.shape[2] + 5)
            pace = (recorder.tokens - self._first) / (now - self._begun)
            self._tell(RecordingReport(recorder.tokens, self._wanted, nbytes, pace))
        if recorder.tokens >= self._wanted:
            raise _Enough

    def _prompts(self, examples: Iterable[Example], seed: int) -> Iterator[tuple[int, list[int]]]:
        """Examples up to one of the user's turns, without those that the template refuses."""
        target = self._target
        for index, example in enumerate(examples):
            asked = [place for place, one in enumerate(example.messages) if one.role is Role.USER]
            if not asked or index in self._recorder.indices:
                continue
            rng = random.Random(f"{seed} {index}")  # noqa: S311 - a choice
            said: list[Message] = list(example.messages[: rng.choice(asked) + 1])
            try:
                prompt = target.template.prompt(said, target.tokenizer, continue_answer=False)
            except UserFixable:
                continue
            if len(prompt.ids) < self._longest // 2:
                yield index, prompt.ids

    def _computed(self, index: int, sequence: Sequence, state: SequenceState) -> Recorded:
        state.crop(0)
        tokens, parts = sequence.tokens.tolist(), []
        for start in range(0, len(tokens), _CHUNK):
            chunk = tokens[start : start + _CHUNK]
            done = self._target.decoder.forward(state, chunk, logit_rows=(), taps=self._taps)
            states = [*(done.taps[tap] for tap in self._taps), done.hidden]
            parts.append(torch.stack([torch.from_numpy(s).to(torch.bfloat16) for s in states], 1))
            state.commit(range(len(chunk)))
        return Recorded(index, sequence.tokens.astype("int32"), sequence.answers, torch.cat(parts))

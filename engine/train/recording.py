"""Recordings: sequences with what the target computed of them, kept on disk, computed once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from zlib import crc32

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from engine.errors import UserFixable
from engine.language import tr
from engine.train.whole_file import write_whole

SHARD_TOKENS = 32_768
"""Tokens of a file; what a killed process loses is less."""
HELD_OUT = 64
"""One sequence in so many is never trained on."""
_TOLD_BY = 32
"""Tokens that tell a text without a question from others."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """One sequence.

    Attributes:
        index: of the example or prompt that it came from.
        tokens: int32 [n].
        answers: bool [n]; the tokens that the target wrote, or would have to write.
        states: bf16 [n, parts, hidden]: the outputs of the tapped blocks, then the final hidden
            state, which the target's output matrix takes.
    """

    index: int
    tokens: NDArray[np.int32]
    answers: NDArray[np.bool_]
    states: Tensor


class RecordingWriter:
    """Appends sequences to a folder, in files of `SHARD_TOKENS`.

    Args:
        folder: made where it is not there yet.
        identity: of target, data and taps; files of another identity are refused.

    Raises:
        UserFixable: the folder holds something else.
    """

    def __init__(self, folder: Path, identity: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._identity = folder, identity
        self._waiting: list[Recorded] = []
        self.tokens = self.answer_tokens = 0
        self.indices: set[int] = set()
        for file in shard_files(folder):
            with _opened(file, identity) as shard:
                self.indices.update(shard.get_tensor("indices").tolist())
                self.tokens += len(shard.get_tensor("tokens"))
                self.answer_tokens += int(shard.get_tensor("answers").sum())
        self._shards = len(shard_files(folder))

    def add(self, one: Recorded) -> None:
        """Keep a sequence; it is on disk once enough others are there, or after `flush`.

        Raises:
            UserFixable: the disk is full.
        """
        self._waiting.append(one)
        self.indices.add(one.index)
        self.tokens += len(one.tokens)
        self.answer_tokens += int(one.answers.sum())
        if sum(len(each.tokens) for each in self._waiting) >= SHARD_TOKENS:
            self.flush()

    def flush(self) -> None:
        """Write what waits."""
        if not self._waiting:
            return
        every, self._waiting = self._waiting, []
        tensors = {
            "indices": torch.tensor([one.index for one in every]),
            "ends": torch.tensor([len(one.tokens) for one in every]).cumsum(0),
            "tokens": torch.from_numpy(np.concatenate([one.tokens for one in every])),
            "answers": torch.from_numpy(np.concatenate([one.answers for one in every])),
            "states": torch.cat([one.states for one in every]),
        }
        file = self._folder / f"{self._shards:05d}.safetensors"
        write_whole(file, save(tensors, {"identity": self._identity}))
        self._shards += 1


class Recording:
    """All sequences of a folder; token ids in memory, states read from disk when asked for.

    A context: leaving it closes the files.

    Raises:
        UserFixable: a file is damaged, or of another identity.
    """

    def __init__(self, folder: Path, identity: str | None = None) -> None:
        self._stack = ExitStack()
        self._states: list[Any] = []
        self._places: list[tuple[int, int, int]] = []
        self.tokens: list[NDArray[np.int64]] = []
        self.answers: list[NDArray[np.bool_]] = []
        self.indices: list[int] = []
        for number, file in enumerate(shard_files(folder)):
            shard = self._stack.enter_context(_opened(file, identity))
            tokens, answers = (shard.get_tensor(name).numpy() for name in ("tokens", "answers"))
            start = 0
            self.indices += shard.get_tensor("indices").tolist()
            for end in shard.get_tensor("ends").tolist():
                self._places.append((number, start, end))
                self.tokens.append(tokens[start:end].astype(np.int64))
                self.answers.append(answers[start:end])
                start = end
            self._states.append(shard.get_slice("states"))

    def __len__(self) -> int:
        return len(self._places)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def states(self, number: int) -> Tensor:
        """Of one sequence, bf16 [n, parts, hidden]."""
        shard, start, end = self._places[number]
        found: Tensor = self._states[shard][start:end]
        return found


def shard_files(folder: Path) -> Sequence[Path]:
    """The files of a recording, in their order."""
    return sorted(folder.glob("[0-9]*.safetensors"))


@contextmanager
def _opened(file: Path, identity: str | None) -> Iterator[Any]:
    """A shard, checked; safetensors gives its methods no types."""
    try:
        with safe_open(file, "pt") as shard:
            metadata = shard.metadata() or {}
            if identity is None or metadata.get("identity") == identity:
                yield shard
                return
    except (OSError, SafetensorError) as error:
        raise UserFixable(
            tr("{file} is damaged.").format(file=file),
            tr("Delete this file; what it held is computed again."),
            str(error)[:500],
        ) from error
    raise UserFixable(
        tr("{folder} was recorded with another model, other data or other settings.").format(
            folder=file.parent
        ),
        tr("Give the same ones, or choose another folder."),
    )


def held_out(tokens: NDArray[np.integer], answers: NDArray[np.bool_]) -> bool:
    """Whether a sequence serves to measure and is never trained on; told by what was asked."""
    asked = int(answers.argmax())
    return crc32(tokens[: max(asked, _TOLD_BY)].astype(np.int32).tobytes()) % HELD_OUT == 0

"""Recordings: sequences with the target's hidden states, computed once and kept on disk."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
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
from engine.model.weights.readable import Floats

SHARD_TOKENS = 32_768
"""Tokens of a file; a killed process loses fewer."""
HELD_OUT = 64
"""One sequence in so many is never trained on."""
_TAPS = "taps"
_BEGINNING = 32
"""Tokens that identify a text without a question."""


def write_whole(file: Path, content: bytes) -> None:
    """Write a file so that it is there whole, or as it was before.

    Raises:
        UserFixable: the disk is full, or cannot be written to.
    """
    new = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with new.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        new.replace(file)
    except BaseException as error:
        new.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise _unwritten(file, error) from error
        raise


def _unwritten(file: Path, error: OSError) -> UserFixable:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        cause = tr("The disk is full: {file} was not written.")
        remedy = tr("Free some space, then continue with --resume.")
    else:
        cause = tr("{file} cannot be written.")
        remedy = tr("Choose a folder that you may write to.")
    return UserFixable(cause.format(file=file), remedy, str(error))


@dataclass(frozen=True, slots=True)
class Recorded:
    """One sequence with the target's hidden states.

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


def stacked_states(hidden: Floats, tapped: Mapping[int, Floats], taps: tuple[int, ...]) -> Tensor:
    """Stack hidden states as recordings keep them, bf16 [n, parts, hidden].

    Args:
        hidden: fp32 [n, hidden], the final states.
        tapped: block -> its outputs, fp32 [n, hidden].
        taps: blocks to take, in order, before the final states.
    """
    parts = [*(tapped[tap] for tap in taps), hidden]
    return torch.stack([torch.from_numpy(part).to(torch.bfloat16) for part in parts], 1)


class RecordingWriter:
    """Appends sequences to a folder, in files of `SHARD_TOKENS`.

    Args:
        folder: created if it is missing.
        identity: of target and data; files of another identity are refused.
        taps: blocks whose outputs the sequences have.

    Attributes:
        tokens: recorded so far, in all runs.
        indices: of the examples that are recorded.

    Raises:
        UserFixable: the folder holds another recording, or one of other blocks.
    """

    def __init__(self, folder: Path, identity: str, taps: tuple[int, ...] = ()) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._identity, self._taps = folder, identity, taps
        self._waiting: list[Recorded] = []
        self.tokens = 0
        self.indices: set[int] = set()
        for file in shard_files(folder):
            with _opened(file, identity) as shard:
                _parts(folder, shard, taps)
                self.indices.update(shard.get_tensor("indices").tolist())
                self.tokens += len(shard.get_tensor("tokens"))
        self._shards = len(shard_files(folder))

    def add(self, one: Recorded) -> None:
        """Keep a sequence; it is on disk once enough others are there, or after `flush`.

        Raises:
            UserFixable: the disk is full.
        """
        self._waiting.append(one)
        self.indices.add(one.index)
        self.tokens += len(one.tokens)
        if sum(len(each.tokens) for each in self._waiting) >= SHARD_TOKENS:
            self.flush()

    def flush(self) -> None:
        """Write the sequences that wait."""
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
        write_whole(file, save(tensors, self._described()))
        self._shards += 1

    def _described(self) -> dict[str, str]:
        return {"identity": self._identity, _TAPS: " ".join(map(str, self._taps))}


@dataclass(frozen=True, slots=True)
class RecordingReport:
    """Progress of a recording.

    Attributes:
        tokens, wanted: recorded by now, and in the end.
        nbytes: on disk in the end.
        tokens_per_s: of this run.
    """

    tokens: int
    wanted: int
    nbytes: int
    tokens_per_s: float


def record(
    sequences: Iterable[Recorded],
    writer: RecordingWriter,
    wanted: int,
    tell: Callable[[RecordingReport], None],
) -> None:
    """Write sequences until there are enough tokens.

    Args:
        sequences: computed one by one, as they are asked for.
        writer: where they go.
        wanted: tokens after which it ends; those that are recorded already count.
        tell: told about once a second; it may raise to end the recording before.
    """
    begun = told = monotonic()
    first = writer.tokens
    if first >= wanted:
        return
    try:
        for one in sequences:
            writer.add(one)
            now = monotonic()
            if now - told >= 1:
                told = now
                _, parts, hidden = one.states.shape
                nbytes = wanted * (2 * parts * hidden + 5)
                pace = (writer.tokens - first) / (now - begun)
                tell(RecordingReport(writer.tokens, wanted, nbytes, pace))
            if writer.tokens >= wanted:
                return
    finally:
        writer.flush()


class Recording:
    """All sequences of a folder; token ids in memory, states read from disk when asked for.

    A context: leaving it closes the files.

    Args:
        folder: of the files.
        identity: that they must have.
        taps: blocks whose outputs are wanted; the files may hold more.

    Attributes:
        tokens: int64 [n] of each sequence.
        answers: bool [n] of each sequence, see `Recorded`.

    Raises:
        UserFixable: a file is damaged, of another identity, or without such a block.
    """

    def __init__(self, folder: Path, identity: str, taps: tuple[int, ...] = ()) -> None:
        self._stack = ExitStack()
        self._states: list[tuple[Any, list[int]]] = []
        self._places: list[tuple[int, int, int]] = []
        self.tokens: list[NDArray[np.int64]] = []
        self.answers: list[NDArray[np.bool_]] = []
        for number, file in enumerate(shard_files(folder)):
            shard = self._stack.enter_context(_opened(file, identity))
            tokens, answers = (shard.get_tensor(name).numpy() for name in ("tokens", "answers"))
            start = 0
            for end in shard.get_tensor("ends").tolist():
                self._places.append((number, start, end))
                self.tokens.append(tokens[start:end].astype(np.int64))
                self.answers.append(answers[start:end])
                start = end
            self._states.append((shard.get_slice("states"), _parts(folder, shard, taps)))

    def __len__(self) -> int:
        return len(self._places)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def states(self, number: int) -> Tensor:
        """Read the states of one sequence: of the wanted blocks, and the final ones.

        Returns:
            bf16 [n, parts, hidden].
        """
        shard, start, end = self._places[number]
        states, parts = self._states[shard]
        first = min(parts)
        found: Tensor = states[start:end, first:]
        return found[:, [part - first for part in parts]]

    def frequent_tokens(
        self, count: int, vocab_size: int, usual: NDArray[np.int64]
    ) -> tuple[Tensor, float]:
        """Choose the tokens that the answers have most often.

        Args:
            count: how many.
            vocab_size: tokens there are.
            usual: those that come first of all that no answer has.

        Returns:
            int64 [count], ascending, and the share of the answers' tokens that they cover.
        """
        written = np.concatenate(
            [tokens[marks] for tokens, marks in zip(self.tokens, self.answers, strict=True)]
        )
        counts = torch.bincount(torch.from_numpy(written), minlength=vocab_size)
        order = 2 * counts
        order[torch.from_numpy(usual)] += 1
        ids = order.argsort(descending=True, stable=True)[:count].sort().values
        return ids, float(counts[ids].sum() / counts.sum())


def recorded_texts(
    folder: Path,
) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.bool_]]]:
    """Yield index, tokens and answers of every sequence of a folder, whatever its identity is."""
    for file in shard_files(folder):
        with safe_open(file, "pt") as shard:
            parts = (shard.get_tensor(name) for name in ("indices", "ends", "tokens", "answers"))
            indices, ends, tokens, answers = (part.numpy() for part in parts)
        start = 0
        for index, end in zip(indices.tolist(), ends.tolist(), strict=True):
            yield index, tokens[start:end].astype(np.int64), answers[start:end]
            start = end


def shard_files(folder: Path) -> Sequence[Path]:
    """Return the files of a recording, in their order."""
    return sorted(folder.glob("[0-9]*.safetensors"))


def _parts(folder: Path, shard: Any, taps: tuple[int, ...]) -> list[int]:  # noqa: ANN401 - untyped
    """Return where a file's states hold the outputs of these blocks and the final states.

    Raises:
        UserFixable: it lacks one of the blocks.
    """
    held = [int(tap) for tap in shard.metadata()[_TAPS].split()]
    if not set(taps) <= set(held):
        raise _of_others(folder)
    return [*(held.index(tap) for tap in taps), len(held)]


@contextmanager
def _opened(file: Path, identity: str) -> Iterator[Any]:
    """Open a file of this identity; safetensors gives its methods no types."""
    try:
        with safe_open(file, "pt") as shard:
            if (shard.metadata() or {}).get("identity") == identity:
                yield shard
                return
    except (OSError, SafetensorError) as error:
        raise UserFixable(
            tr("{file} is damaged.").format(file=file),
            tr("Delete this file; what it held is computed again."),
            str(error)[:500],
        ) from error
    raise _of_others(file.parent)


def _of_others(folder: Path) -> UserFixable:
    return UserFixable(
        tr("{folder} was recorded with another model, other data or other settings.").format(
            folder=folder
        ),
        tr("Give the same ones, or choose another folder."),
    )


def held_out(tokens: NDArray[np.integer], answers: NDArray[np.bool_]) -> bool:
    """Tell whether a sequence is never trained on but measured with; its question decides."""
    asked = int(answers.argmax())
    return crc32(tokens[: max(asked, _BEGINNING)].astype(np.int32).tobytes()) % HELD_OUT == 0

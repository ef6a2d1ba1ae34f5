"""llama.cpp as a side of a comparison and as a writer of answers, with our very weights."""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
from platformdirs import user_cache_path

from engine.bench.forward import CONTEXT, MOST_ROWS, next_tokens, prompt, stored_subject
from engine.bench.harness import BenchAnswer
from engine.bench.pair_writer import PairWriter
from engine.bench.peer.export import export
from engine.bench.peer.process import DRAFTING, PLAIN, Binding, PeerProcess, find_interpreter
from engine.errors import UserFixable
from engine.language import tr
from engine.loading.load import LoadedPair
from engine.machine.cores import default_threads
from engine.model.config import ModelConfig
from engine.model.local_model import LocalModel
from engine.model.weights.readable import Floats, Readable
from engine.request import ChatRequest, SamplingParams
from engine.session.answer import read
from engine.session.tally import Tally

TRIALS = 12
"""Forwards that decide on flash attention."""


@dataclass(frozen=True, slots=True)
class PeerSettings:
    """Versions and settings of the peer, for the record.

    Attributes:
        version: llama.cpp's own, with `commit` of its ggml.
        package: version of llama-cpp-python.
        system: instruction sets and options it was built with, in its own words.
        buffers: where it put the weights: AMX, repacked, mapped.
        kv: type of keys and values.
        flash_attention: which of the two was used: the one with the faster plain decoding.
        ms_without_flash_attention, ms_with_flash_attention: a forward of one token.
    """

    name: str
    version: str
    commit: str
    package: str
    system: str
    buffers: tuple[str, ...]
    threads: int
    kv: str
    flash_attention: bool
    ms_without_flash_attention: float
    ms_with_flash_attention: float

    def __str__(self) -> str:
        attention = "with" if self.flash_attention else "without"
        return (
            f"{self.name} {self.version} ({self.commit}), {self.threads} threads, "
            f"{attention} flash attention; {'; '.join(self.buffers)}"
        )


class LlamaCppSide:
    """llama.cpp as a `engine.bench.forward.Side`.

    Args:
        process: awake only while it is asked.
        path: of a GGUF file.
        vocab: its number of tokens.
        threads: that it may use.
        context: tokens of the longest answer with its prompt.
        length: tokens of the prompt that is timed, and the context of timed forwards.
    """

    def __init__(
        self,
        process: PeerProcess,
        path: Path,
        vocab: int,
        threads: int,
        context: int = 0,
        length: int = CONTEXT,
    ) -> None:
        self._process, self._vocab, self._threads = process, vocab, threads
        self._size = max(context, length + MOST_ROWS, CONTEXT + MOST_ROWS)
        self._length, self._held = CONTEXT, 0
        with process.awake():
            facts = process.ask("load", path=str(path))
            off, on = (self._try(flash) for flash in (False, True))
            if off < on:
                self._open(flash_attention=False)
        self._length = length
        self.settings = PeerSettings(
            name="llama.cpp",
            version=facts["version"],
            commit=facts["commit"],
            package=facts["package"],
            system=facts["system"],
            buffers=tuple(facts["buffers"]),
            threads=threads,
            kv="f16",
            flash_attention=on <= off,
            ms_without_flash_attention=1e3 * off,
            ms_with_flash_attention=1e3 * on,
        )

    def _open(self, *, flash_attention: bool) -> None:
        self._process.ask(
            "context",
            threads=self._threads,
            size=self._size,
            rows=MOST_ROWS,
            flash_attention=flash_attention,
        )
        self.prefills(1)

    def _try(self, flash_attention: bool) -> float:
        self._open(flash_attention=flash_attention)
        self.forwards((1,), 2)
        return median(self.forwards((1,), TRIALS)[0])

    def awake(self) -> AbstractContextManager[None]:
        """Outside of this the process is stopped."""
        return self._process.awake()

    def forwards(self, counts: Sequence[int], runs: int) -> list[list[float]]:
        """See `Side`; the context is the prompt of the last prefill."""
        if self._held != self._length:
            self.prefills(1)
        tokens = next_tokens(self._vocab, max(counts))
        answer = self._process.ask(
            "forward", tokens=tokens, start=self._length, counts=list(counts), runs=runs
        )
        seconds: list[list[float]] = answer["seconds"]
        return seconds

    def prefills(self, runs: int) -> list[float]:
        """See `Side`."""
        tokens = prompt(self._vocab, self._length)
        answer = self._process.ask("prefill", tokens=tokens, runs=runs)
        self._held = self._length
        seconds: list[float] = answer["seconds"]
        return seconds

    def answer(
        self, tokens: Sequence[int], count: int, sampling: SamplingParams
    ) -> tuple[list[int], float]:
        """Write `count` tokens behind a prompt; with the seconds from the first to the last.

        Tokens are drawn at the temperature, without filters and penalties.
        """
        with self.awake():
            answer = self._process.ask(
                "answer",
                tokens=list(tokens),
                count=count,
                temperature=sampling.temperature,
                seed=sampling.seed,
            )
        return answer["tokens"], answer["seconds"]

    def logits(self, tokens: Sequence[int]) -> Floats:
        """fp32 [tokens, vocabulary] of a text of at most MOST_ROWS tokens; the context is gone."""
        with self.awake():
            answer = self._process.ask("logits", tokens=list(tokens))
        raw = np.frombuffer(base64.b64decode(answer["logits"]), dtype="<f4")
        return raw.reshape(len(tokens), self._vocab)


@contextmanager
def llama_cpp(
    config: ModelConfig,
    weights: Readable,
    threads: int | None = None,
    context: int = 0,
    length: int = CONTEXT,
) -> Iterator[LlamaCppSide]:
    """llama.cpp with these very weights, asleep; ended and cleaned up on leaving.

    Args:
        config: of the model.
        weights: as our decoder holds them.
        threads: as many as ours has, unless told.
        context, length: see `LlamaCppSide`.

    Raises:
        Absent: it is not installed.
        UserFixable: it cannot have the same model, or it fails.
    """
    exported = export(config, weights)
    with _process() as process:
        cache = user_cache_path("Duotail", appauthor=False, ensure_exists=True)
        with tempfile.TemporaryDirectory(
            prefix="peer-", dir=cache, ignore_cleanup_errors=True
        ) as folder:
            path = Path(folder) / "model.gguf"
            with process.awake():
                process.write(path, exported)
            side = LlamaCppSide(
                process, path, config.vocab_size, threads or default_threads(), context, length
            )
            # Loaded is mapped: the file may go, and nothing is left behind by a crash.
        yield side


@contextmanager
def llama_cpp_of_file(path: Path, vocab: int, context: int) -> Iterator[LlamaCppSide]:
    """llama.cpp with a GGUF file as it is; else see `llama_cpp`."""
    with _process() as process:
        yield LlamaCppSide(process, path, vocab, default_threads(), context)


@contextmanager
def _process(binding: Binding = PLAIN) -> Iterator[PeerProcess]:
    process = PeerProcess(find_interpreter(binding), binding)
    try:
        yield process
    finally:
        process.close()


@dataclass(frozen=True, slots=True)
class DraftingSettings:
    """Version and settings of a peer that drafts; `depth` tokens at most before a verification."""

    name: str
    package: str
    threads: int
    depth: int

    def __str__(self) -> str:
        return f"{self.name} {self.package}, {self.threads} threads, depth {self.depth}"


class DraftingSide:
    """llama.cpp that drafts, with the settings that it has by itself.

    Args:
        process: awake only while it is asked.
        target, draft: GGUF files.
        context: tokens of the longest answer with its prompt.
    """

    def __init__(self, process: PeerProcess, target: Path, draft: Path, context: int) -> None:
        self._process, threads = process, default_threads()
        with process.awake():
            facts = process.ask(
                "load", target=str(target), draft=str(draft), threads=threads, context=context
            )
        self.settings = DraftingSettings(
            "llama.cpp, xllamacpp", facts["package"], threads, facts["depth"]
        )

    def answer(
        self, tokens: Sequence[int], count: int, sampling: SamplingParams
    ) -> tuple[None, float]:
        """See `LlamaCppSide.answer`; which tokens it wrote is not known."""
        with self._process.awake():
            answer = self._process.ask(
                "answer",
                tokens=list(tokens),
                count=count,
                temperature=sampling.temperature,
                seed=sampling.seed,
            )
        return None, answer["seconds"]


class PeerWriter:
    """llama.cpp as a `engine.bench.harness.Writer`.

    It has the prompt's token ids from us, and goes on for as many tokens as our plain answer had.

    Args:
        side: the peer.
        plain: the same model decoding plainly, which answers first.
    """

    def __init__(self, side: LlamaCppSide | DraftingSide, plain: PairWriter) -> None:
        self._side, self._plain = side, plain

    @property
    def settings(self) -> PeerSettings | DraftingSettings:
        """Versions and settings that it was measured with."""
        return self._side.settings

    def write(self, request: ChatRequest) -> BenchAnswer:
        """See `Writer`."""
        pair, count = self._plain.pair, self._plain.tokens
        prompt = read(request, pair.template, pair.tokenizer)
        written, seconds = self._side.answer(prompt.ids, count + 1, request.sampling)
        tokens = None if written is None else tuple(written)
        tally = Tally(
            committed=count + 1, first_at=0.0, last_at=seconds, rounds=count, plain_rounds=count
        )
        return BenchAnswer(tally.stats(0.0, None), tokens, ended=False)


@contextmanager
def peer_writer(plain: PairWriter) -> Iterator[PeerWriter]:
    """llama.cpp with the file of the pair's target; weights in safetensors are written as GGUF.

    Raises:
        Absent: it is not installed.
        UserFixable: it cannot have the same model, or it fails.
    """
    with _side(plain.pair) as side:
        yield PeerWriter(side, plain)


@contextmanager
def drafting_peer_writer(plain: PairWriter, draft: Path) -> Iterator[PeerWriter]:
    """llama.cpp with the file of the pair's target and a draft's, drafting.

    Raises:
        Absent: it is not installed.
        UserFixable: one of the two is no GGUF file, or it fails.
    """
    target, small = (LocalModel.inspect(path).gguf for path in (plain.pair.path, draft))
    if target is None or small is None:
        raise UserFixable(
            tr("llama.cpp drafts with two GGUF files only."),
            tr("Choose a model and a draft that are GGUF files, or leave out --peer."),
        )
    with _process(DRAFTING) as process:
        yield PeerWriter(
            DraftingSide(process, target.files[0], small.files[0], plain.pair.plan.context), plain
        )


@contextmanager
def _side(pair: LoadedPair) -> Iterator[LlamaCppSide]:
    gguf = LocalModel.inspect(pair.path).gguf
    context, vocab = pair.plan.context, pair.target.config.vocab_size
    if gguf is not None:
        with llama_cpp_of_file(gguf.files[0], vocab, context) as side:
            yield side
    else:
        subject = stored_subject(pair.path, pair.command.weights)
        with llama_cpp(subject.config, subject.weights, context=context) as side:
            yield side
